"""Algorithms: four pure functions each, one per file."""

if __name__ != "purerl.algos":
    raise ImportError("import purerl.algos, not algos")
