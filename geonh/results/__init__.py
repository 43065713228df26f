"""Results of runs: trajectories, events, observables, tables and files."""
