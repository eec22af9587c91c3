"""The meanings of the columns of metrics.csv, one line each: the first words of their rows in docs/metrics.md."""

MEANINGS = {
    "episodes": "number of episodes that ended",
    "episode_return": "mean undiscounted return",
    "episode_length": "mean number of steps",
    "policy_loss": "loss of the policy, without the entropy bonus",
    "value_loss": "loss of the value function, before it is multiplied by its coefficient",
    "entropy": "entropy of the policy in nats",
    "explained_variance": "how much of the variance of the targets the value function explains",
    "approx_kl": "estimated KL divergence of the new policy from the policy that collected the rollout",
    "clip_fraction": "fraction of samples whose probability ratio is outside of 1 ± clip_epsilon",
    "kl_weight": "weight of the KL penalty",
    "kl": "KL divergence from the previous policy or the target policy",
    "spread_kl": "part of the KL divergence that is due to the standard deviations of continuous actions",
    "mean_rho": "mean importance weight of V-trace, truncated at rho_clip",
    "weight": "mean weight of the samples in the regression",
    "reward_loss": "loss of the reward prediction",
    "prediction_loss": "KL divergence of the predicted vector from its target",
    "q_value": "mean Q value of the sampled state-action pairs",
    "td_error": "mean absolute TD error",
    "loss": "loss of the Q network",
    "log_policy_reward": "mean bonus for the log-probability of the action",
    "actor_loss": "negative mean of the critic's value of the policy's actions",
    "critic_loss": "sum of the losses of the critics",
    "temperature": "SAC, TQC, REDQ, CrossQ: learned weight of the entropy. MPO, V-MPO and SPO: temperature of the "
    "sample weights",
    "learning": "fraction of the updates in the interval that took gradient steps",
    "y_loss": "mean KL divergence between the rule's target and the prediction y(s)",
    "z_loss": "mean KL divergence between the rule's target and the prediction z(s, a)",
    "auxiliary_loss": "mean KL divergence between the policy in the next state and the prediction of it",
}
OF_EPISODES = {  # two names share a row of the page
    "episode_return_min": "lowest return",
    "episode_return_max": "highest return",
    "episode_length_min": "shortest episode",
    "episode_length_max": "longest episode",
}


def meaning(name: str) -> str:
    """Return the meaning of a metric, or of a policy's POLICY/NAME; "" for one of a user's own."""
    known = MEANINGS | OF_EPISODES
    return known.get(name) or known.get(name.rpartition("/")[2], "")
