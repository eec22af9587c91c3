"""Rainbow: C51 with six of DQN's extensions at once. `purerl train rainbow CartPole-v1`.

Double, dueling and noisy networks, n-step returns and prioritized replay, priorities from the loss.
Source: Hessel et al. (2018), arXiv:1710.02298. A time limit does not end the task.
"""

from purerl.algo_parts.exploration import Exploration
from purerl.algo_parts.q_learning import QConfig, atoms, categorical_agent, network_for
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork
from purerl.optim.optimizers import Optimizer, adam_by_plan
from purerl.replay.uniform import Replay
from purerl.types import Algorithm, EnvironmentSpec, number, pytree, static


@pytree
class RainbowConfig(QConfig):
    """Settings of Rainbow: those of C51 with everything switched on."""

    num_atoms: int = static(default=51, doc="atoms of the distribution of returns", at_least=2)
    v_min: float = number(default=-100.0, doc="the lowest atom")
    v_max: float = number(default=100.0, doc="the highest atom")

    double: bool = static(default=True, doc="choose the target's action by the online network")
    dueling: bool = static(default=True, doc="value and advantage streams")
    noisy: bool = static(default=True, doc="explore by noise in the weights of the head instead of epsilon")
    n_step: int = static(default=3, doc="steps of reward before bootstrapping", at_least=1)
    priority_exponent: float | None = number(
        default=0.5, doc="how strongly large errors are replayed; none: uniformly", at_least=0
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

    with w the importance weight of the draw; priorities are the KL divergence of p from m.

    Args:
      spec: the environment's spaces.
      config: the settings.
      optimizer: of optax, such as `optax.lion`, behind a clip of the norm, or `GradientPlan` -> transformation; Adam if
        none is given.
      network: a module (observation [N, ...]) -> features f32[N, n] below the head, of flax linen, or of NNX; or the
        whole `QNetwork`, logits f32[..., num_actions, num_atoms]; one that fits the observations if none is given.
      replay: of transitions; as the config says if none is given.
      exploration: by the network's own noise if none is given, or epsilon-greedily if it has none.

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    logits = network_for(spec, config, "rainbow", network, config.num_atoms)
    support = atoms("rainbow", config.num_atoms, config.v_min, config.v_max)
    return categorical_agent(spec, config, logits, support, replay, exploration, optimizer)
