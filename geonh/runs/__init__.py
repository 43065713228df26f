"""Runs: ``solve``, ``resume`` and ``integrate``, their starts, and the loops over steps."""
