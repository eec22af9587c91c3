"""Numbers of the config that an agent tunes itself, by meta-gradients, while it learns."""
