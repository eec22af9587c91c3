"""What `purerl benchmark` measures: a file per group of figures, and what they share."""
