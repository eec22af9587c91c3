"""Settings: options with their help, values as text and TOML, and the complete settings of a run."""
