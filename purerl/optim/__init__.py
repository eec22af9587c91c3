"""Optimizers, schedules, minibatches and trust regions."""
