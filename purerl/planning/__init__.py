"""Planning: trees of simulations, and particles."""
