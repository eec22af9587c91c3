"""The host loop, for environments that are not written in JAX. The algorithms are the same.

serial       act, step, learn in turn; environments one after the other, for debugging
batched      the same, environments side by side in threads or processes
alternating  two half-batches: one steps while the other acts
async        actors collect the next rollouts while the learner learns (Sebulba: Hessel et al. 2021,
             arXiv:2104.06272); each update takes one rollout of each actor, so a replay ratio is exact both ways
inside       a rollout and its update are one compiled program; environments step by their library's XLA interface, or
             by a callback to the host where there is none
"""
