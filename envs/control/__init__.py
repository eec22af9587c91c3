"""Light continuous control."""
