"""What runs give: trajectories, events, observables, tables and files."""
