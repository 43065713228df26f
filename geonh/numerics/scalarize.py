def scalarize(f): return f
