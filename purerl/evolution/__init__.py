"""Evolution of objectives: strategies, lifetimes as fitness, and reports about the result."""
