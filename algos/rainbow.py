"""Rainbow: C51 with six of DQN's extensions at once. `purerl train rainbow CartPole-v1`.

Double, dueling and noisy networks, n-step returns and prioritized replay, priorities from the loss.
Source: Hessel et al. (2018), arXiv:1710.02298. A time limit does not end the task.
"""

from purerl.algos.c51 import C51Config, categorical_agent
from purerl.functional.exploration import Exploration
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork
from purerl.optim.optimizers import Optimizer, adam_by_plan
from purerl.replay.uniform import Replay
from purerl.types import Algorithm, EnvironmentSpec, number, pytree, static


@pytree
class RainbowConfig(C51Config):
    """Settings of Rainbow: C51 with every extension switched on."""

    double: bool = static(default=True, doc="choose the target's action by the online network")
    dueling: bool = static(default=True, doc="value and advantage streams")
    noisy: bool = static(default=True, doc="explore by noisy weights in the head instead of epsilon")
    n_step: int = static(default=3, doc="steps of reward before bootstrapping", at_least=1)
    priority_exponent: float | None = number(
        default=0.5, doc="exponent of the priorities; none: uniform replay", at_least=0
    )


def rainbow(
    spec: EnvironmentSpec,
    config: RainbowConfig,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: QNetwork | Module | None = None,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
) -> Algorithm:
    r"""Return Rainbow for an environment with discrete actions.

        loss = -w sum_j m_j log p_j(s, a),  m = the projection of r^(n) + discount^n z under p'(s_n, argmax_b Q(s_n, b))

    with w the importance weight of the sample; priorities are the KL divergence of p from m.

    Args:
      spec, config, optimizer, replay: as for `dqn`.
      exploration: by default the network's noise, or epsilon-greedy without noise.
      network: as for `dqn`; a complete `QNetwork` returns logits f32[..., num_actions, num_atoms].

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    return categorical_agent(
        spec, config, optimizer=optimizer, network=network, replay=replay, exploration=exploration, what="rainbow"
    )
