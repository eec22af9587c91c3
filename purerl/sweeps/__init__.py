"""Sweeps: many trials times many seeds, searched by design, by halving or as a population."""
