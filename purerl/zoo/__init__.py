"""Trained agents that ship: `zoo/NAME` stands for NAME.safetensors here, wherever a run's folder is asked for."""
