"""Settings of MCTS, which AlphaZero and MuZero share."""

from typing import ClassVar

from purerl.networks.encoder import NetworkConfig
from purerl.networks.torsos import ACTIVATIONS
from purerl.optim.schedules import Schedule, schedule
from purerl.types import number, pytree, static


@pytree
class SearchConfig(NetworkConfig):
    """Settings of an algorithm that plans by MCTS."""

    num_envs: int = static(default=64, doc="environments stepped in parallel, each with its own tree", at_least=1)
    rollout_length: int = static(default=32, doc="steps of each environment per update", at_least=1)
    num_simulations: int = static(
        default=32, doc="simulations before each action; each adds a node to the tree", at_least=1
    )
    max_depth: int | None = static(default=None, doc="largest depth of a tree, in actions; none: unlimited", at_least=1)
    search: str = static(
        default="gumbel",
        doc="action selection in a tree: gumbel (sequential halving at the root) or puct",
        choices=("gumbel", "puct"),
    )
    num_sampled_actions: int = static(
        default=16, doc="actions sampled from the policy at each node, if the action space is not discrete", at_least=2
    )
    max_considered_actions: int = static(default=16, doc="gumbel: actions considered at the root", at_least=1)
    gumbel_scale: float = number(default=1.0, doc="gumbel: scale of the exploration noise at the root", at_least=0)
    value_scale: float = number(default=0.1, doc="gumbel: weight of Q values relative to the prior logits", above=0)
    normalize_search_value: bool = static(
        default=True,
        doc="gumbel: divide the Q values at each node by their range if it is above 1",
    )
    dirichlet_fraction: float = number(
        default=0.25, doc="puct: fraction of Dirichlet noise in the root's prior", at_least=0, at_most=1
    )
    dirichlet_alpha: float = number(default=0.3, doc="puct: concentration of the Dirichlet noise", above=0)
    puct_constant: float = number(default=1.25, doc="puct: exploration constant", above=0)
    temperature: float = number(
        default=1.0, doc="puct: temperature of sampling actions by visit counts; 0: the most visited action", at_least=0
    )
    epsilon: float = number(
        default=0.05, doc="fraction of training actions sampled uniformly from the whole space", at_least=0, at_most=1
    )
    discount: float = number(default=0.997, doc="discount of future rewards, per step", at_least=0, at_most=1)
    td_lambda: float = number(
        default=1.0, doc="lambda of the value targets; 1: full returns, 0: one step", at_least=0, at_most=1
    )
    num_epochs: int = static(default=2, doc="passes over each rollout", at_least=1)
    num_minibatches: int = static(default=4, doc="gradient steps per pass", at_least=1)
    learning_rate: float = number(default=1e-3, doc="learning rate of the optimizer", above=0)
    learning_rate_schedule: Schedule = schedule()
    max_grad_norm: float = number(default=1.0, doc="global norm that gradients are clipped to", above=0)
    value_coefficient: float = number(default=1.0, doc="weight of the value loss", at_least=0)
    entropy_coefficient: float = number(
        default=0.0, doc="weight of the entropy bonus, which keeps sampled actions diverse", at_least=0
    )
    normalize_observation: bool = static(
        default=False, doc="standardize float and byte observations by running statistics"
    )
    rescale_value: bool = static(
        default=True, doc="predict values on a compressed scale; false suits returns between -1 and 1"
    )
    activation: str = static(default="relu", doc="hidden layers' activation", choices=tuple(ACTIVATIONS))
    hidden_sizes: tuple[int, ...] = static(default=(128, 128), doc="units of the hidden layers", at_least=1)
    rnn: ClassVar[str] = "none"
    rnn_size: ClassVar[int] = 1
    head_sizes: ClassVar[tuple[int, ...]] = ()
    share_body: ClassVar[bool] = True  # one pass through the network per node

    @property
    def samples_per_gradient(self) -> int:
        """The environment steps in a minibatch."""
        return self.steps_per_update // self.num_minibatches
