"""What several algorithms share: agents, minibatches, optimizers, exploration, update rules."""
