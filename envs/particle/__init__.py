"""Discs that push themselves around a plane: cooperative and competitive tasks."""
