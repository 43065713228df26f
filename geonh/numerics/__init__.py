"""What the other rooms compute with: double precision, tiny linear systems, Newton's method, scalar evaluation."""
