"""Levels are data: training on many levels of an environment, drawn, replayed and mutated by what there is to learn."""
