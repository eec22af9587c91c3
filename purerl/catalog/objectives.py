"""The objectives, rules and optimizers that can be evolved."""

from typing import NamedTuple


class ObjectiveEntry(NamedTuple):
    """A starting point of `purerl evolve`."""

    start: str  # "module:function", (key) -> candidate
    algorithm: str  # the algorithm that it is a part of
    argument: str  # the argument of the algorithm that accepts it
    summary: str
    source: str
    unused: tuple[str, ...] = ()  # settings of the algorithm that then have no effect


CLIP = ("clip_epsilon", "clip_epsilon_schedule")
LOSS = (*CLIP, "value_coefficient", "entropy_coefficient", "entropy_coefficient_schedule")
LOSS += ("value_clip", "value_huber_delta")
STEP = ("learning_rate", "learning_rate_schedule", "max_grad_norm")

OBJECTIVES: dict[str, ObjectiveEntry] = {
    "lpo": ObjectiveEntry(
        start="purerl.evolution.candidates:lpo",
        algorithm="ppo",
        argument="objective",
        summary="a network on top of PPO's clip",
        source="Lu et al. 2022, arXiv:2210.05639",
        unused=CLIP,
    ),
    "lpo-zero": ObjectiveEntry(
        start="purerl.evolution.candidates:lpo_zero",
        algorithm="ppo",
        argument="objective",
        summary="a network that starts without a drift",
        source="Lu et al. 2022, arXiv:2210.05639",
        unused=CLIP,
    ),
    "valid": ObjectiveEntry(
        start="purerl.evolution.candidates:valid_network",
        algorithm="ppo",
        argument="objective",
        summary="a network times r - 1 - log r",
        source="this project",
        unused=CLIP,
    ),
    "ppo": ObjectiveEntry(
        start="purerl.evolution.candidates:ppo",
        algorithm="ppo",
        argument="objective",
        summary="PPO's clip, 1 number",
        source="Schulman et al. 2017, arXiv:1707.06347",
        unused=CLIP,
    ),
    "dpo": ObjectiveEntry(
        start="purerl.evolution.candidates:dpo",
        algorithm="ppo",
        argument="objective",
        summary="LPO's closed form, 2 numbers",
        source="Lu et al. 2022, arXiv:2210.05639",
        unused=CLIP,
    ),
    "kl": ObjectiveEntry(
        start="purerl.evolution.candidates:kl",
        algorithm="ppo",
        argument="objective",
        summary="KL penalty, 1 number",
        source="Schulman et al. 2017, arXiv:1707.06347",
        unused=CLIP,
    ),
    "spo": ObjectiveEntry(
        start="purerl.evolution.candidates:spo",
        algorithm="ppo",
        argument="objective",
        summary="squared drift, 1 number",
        source="Xie et al. 2024, arXiv:2401.16025",
        unused=CLIP,
    ),
    "recovery": ObjectiveEntry(
        start="purerl.evolution.candidates:recovery",
        algorithm="ppo",
        argument="objective",
        summary="good actions recover faster, 2 numbers",
        source="this project",
        unused=CLIP,
    ),
    "actor-critic": ObjectiveEntry(
        start="purerl.evolution.candidates:actor_critic",
        algorithm="ppo",
        argument="loss",
        summary="the complete loss of PPO, 3 numbers",
        source="this project",
        unused=LOSS,
    ),
    "lpg": ObjectiveEntry(
        start="purerl.evolution.candidates:lpg",
        algorithm="lpg",
        argument="rule",
        summary="a rule for rollouts",
        source="Oh et al. 2020, arXiv:2007.08794",
    ),
    "ta-lpg": ObjectiveEntry(
        start="purerl.evolution.candidates:ta_lpg",
        algorithm="lpg",
        argument="rule",
        summary="the same, with the agent's age as an input",
        source="Jackson et al. 2024, arXiv:2402.05828",
    ),
    "disco": ObjectiveEntry(
        start="purerl.evolution.candidates:disco",
        algorithm="disco",
        argument="rule",
        summary="a rule for rollouts, 754,778 numbers",
        source="Oh et al. 2025, doi:10.1038/s41586-025-09761-x",
    ),
    "open": ObjectiveEntry(
        start="purerl.evolution.candidates:open_optimizer",
        algorithm="ppo",
        argument="optimizer",
        summary="an optimizer",
        source="Goldie et al. 2024, arXiv:2407.07082",
        unused=STEP,
    ),
}
