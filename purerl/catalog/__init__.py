"""The registry tables, one row per name: environments, algorithms and objectives. A row imports nothing."""
