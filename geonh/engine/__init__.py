"""Native compilation of traced functions, loops over steps, and their derivatives."""
