"""Evolution of objectives: strategies, lifetimes as fitness, and what was found, drawn and compared."""
