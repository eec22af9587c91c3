"""What `python -m benchmarks` measures: a file per group of figures, and what they share."""
