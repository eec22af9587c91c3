"""One script per framework that can be measured; each runs in a Python of its own and imports nothing of purerl's."""
