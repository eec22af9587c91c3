"""Fault injection, and whether purerl survives it: `python -m benchmarks faults --minutes 30`."""
