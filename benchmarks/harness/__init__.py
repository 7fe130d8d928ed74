"""The comparison of penstock with its peers: see benchmarks/README.md for the method."""
