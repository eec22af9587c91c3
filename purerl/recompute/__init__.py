"""Rollouts that hold states instead of observations, which are computed again when the agent learns."""
