"""Benchmarks of purerl, one file per group of figures: `python -m benchmarks --help`."""
