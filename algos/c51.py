"""C51: the distribution of returns on fixed atoms. `purerl train c51 CartPole-v1`.

As DQN, but Q is the mean of a learned distribution, whose target is the shifted distribution of the successor projected
back onto the atoms.
Source: Bellemare, Dabney and Munos (2017), arXiv:1707.06887. A time limit does not end the task.
"""

from purerl.algo_parts.exploration import Exploration
from purerl.algo_parts.q_learning import QConfig, atoms, categorical_agent, network_for
from purerl.networks.modules import Module
from purerl.networks.q_networks import QNetwork
from purerl.optim.optimizers import Optimizer, adam_by_plan
from purerl.replay.uniform import Replay
from purerl.types import Algorithm, EnvironmentSpec, number, pytree, static


@pytree
class C51Config(QConfig):
    """Settings of C51."""

    num_atoms: int = static(default=51, doc="atoms of the distribution of returns", at_least=2)
    v_min: float = number(default=-100.0, doc="the lowest atom")
    v_max: float = number(default=100.0, doc="the highest atom")


def c51(
    spec: EnvironmentSpec,
    config: C51Config,
    *,
    optimizer: Optimizer = adam_by_plan,
    network: QNetwork | Module | None = None,
    replay: Replay | None = None,
    exploration: Exploration | None = None,
) -> Algorithm:
    r"""Return C51 for an environment with discrete actions.

        loss = -sum_j m_j log p_j(s, a),  m = the projection of r + discount z under p'(s', argmax_b Q'(s', b))

    Args:
      spec: the environment's spaces.
      config: the settings.
      optimizer: of optax, such as `optax.lion`, behind a clip of the norm, or `GradientPlan` -> transformation; Adam if
        none is given.
      network: a module (observation [N, ...]) -> features f32[N, n] below the head, of flax linen, or of NNX; or the
        whole `QNetwork`, logits f32[..., num_actions, num_atoms]; one that fits the observations if none is given.
      replay: of transitions; as the config says if none is given.
      exploration: epsilon-greedy as the config says if none is given.

    Raises:
      InputError: if the settings contradict one another or the actions are not discrete.
    """
    logits = network_for(spec, config, "c51", network, config.num_atoms)
    support = atoms("c51", config.num_atoms, config.v_min, config.v_max)
    return categorical_agent(spec, config, logits, support, replay, exploration, optimizer)
