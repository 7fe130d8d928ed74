"""`penstock load`: seeded sessions of players against an HTTP server, and a report about them.

Python reads the scenario, decides the verdict and writes the report; the sessions run in Rust (`rust/load`).
"""
