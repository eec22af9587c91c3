"""What goes wrong on purpose, and whether purerl comes through: `python -m benchmarks faults --minutes 30`."""
