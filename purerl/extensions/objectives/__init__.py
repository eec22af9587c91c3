"""Training with a discovered objective."""
