"""Many agents: several policies as one algorithm, turns, self-play, Elo ratings."""
