"""What there is by name, one row each: environments, algorithms and objectives. Nothing is imported for a row."""
