"""Sweeps: many trials times many seeds, by design, by successive halving or as a population."""
