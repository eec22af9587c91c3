"""Training on many levels of an environment: sampled, replayed, mutated."""
