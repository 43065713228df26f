"""Small linear systems, eliminations and Newton's method, as single operations of a trace."""
