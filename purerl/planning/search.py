"""Search: many trees side by side, one for each environment, by Gumbel MuZero's rule or by PUCT; the trees are mctx's.

A node of a tree offers some actions: of a few discrete ones all, of others a sample of the network's policy.
Source: Danihelka et al. (2022), openreview.net/forum?id=bERaNdoegnO; Silver et al. (2018), doi:10.1126/science.aar6404;
Hubert et al. (2021), "Learning and planning in complex action spaces", arXiv:2104.06303.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import mctx

from purerl.functional.action_masks import mask_illegal, without_global_state
from purerl.functional.counters import increment
from purerl.functional.distributions import ActionHead, Categorical, action_head
from purerl.functional.normalize import RunningStatistics, normalized
from purerl.functional.q_targets import rescale, unscale
from purerl.functional.returns import decayed_sum
from purerl.networks.actor_critic import PolicyAgent, network_of
from purerl.networks.encoder import NetworkConfig
from purerl.networks.torsos import ACTIVATIONS
from purerl.optim.schedules import Schedule, schedule
from purerl.planning.simulations import in_place
from purerl.types import Array, EnvironmentSpec, Key, PyTree, Rollout, number, pytree, static


@pytree
class SearchConfig(NetworkConfig):
    """Settings of an algorithm that searches."""

    num_envs: int = static(default=64, doc="environments stepped in parallel, each with a tree of its own", at_least=1)
    rollout_length: int = static(default=32, doc="steps of each environment per update", at_least=1)
    num_simulations: int = static(default=32, doc="nodes that are added to a tree before each action", at_least=1)
    max_depth: int | None = static(default=None, doc="actions that a tree goes deep; none: unlimited", at_least=1)
    search: str = static(
        default="gumbel",
        doc="how a tree chooses: gumbel (sequential halving at the root), or puct",
        choices=("gumbel", "puct"),
    )
    num_sampled_actions: int = static(
        default=16, doc="actions that a node offers where they are not discrete, drawn from the policy", at_least=2
    )
    max_considered_actions: int = static(default=16, doc="gumbel: actions that are tried at the root", at_least=1)
    gumbel_scale: float = number(default=1.0, doc="gumbel: noise of exploration at the root", at_least=0)
    value_scale: float = number(default=0.1, doc="gumbel: weight of values against the network's policy", above=0)
    normalize_search_value: bool = static(
        default=True,
        doc="gumbel: stretch the values at each node to 0 .. 1; false suits games, whose rewards are 1 and -1",
    )
    dirichlet_fraction: float = number(
        default=0.25, doc="puct: share of noise in the root's policy", at_least=0, at_most=1
    )
    dirichlet_alpha: float = number(default=0.3, doc="puct: concentration of that noise", above=0)
    puct_constant: float = number(default=1.25, doc="puct: weight of exploration inside a tree", above=0)
    temperature: float = number(default=1.0, doc="puct: of actions drawn by visits; 0: the most visited", at_least=0)
    epsilon: float = number(default=0.05, doc="share of actions drawn uniformly, in training", at_least=0, at_most=1)
    discount: float = number(default=0.997, doc="discount of future rewards, per step", at_least=0, at_most=1)
    td_lambda: float = number(default=1.0, doc="value targets: 1: whole returns; 0: one step", at_least=0, at_most=1)
    num_epochs: int = static(default=2, doc="passes over each rollout", at_least=1)
    num_minibatches: int = static(default=4, doc="gradient steps per pass", at_least=1)
    learning_rate: float = number(default=1e-3, doc="the optimizer's step size", above=0)
    learning_rate_schedule: Schedule = schedule()
    max_grad_norm: float = number(default=1.0, doc="global norm that gradients are clipped to", above=0)
    value_coefficient: float = number(default=1.0, doc="weight of the value loss", at_least=0)
    entropy_coefficient: float = number(
        default=0.0, doc="weight of the entropy bonus, which keeps a sample of actions wide", at_least=0
    )
    normalize_observation: bool = static(default=False, doc="standardize observations by running statistics")
    rescale_value: bool = static(
        default=False, doc="learn values on a scale on which large ones are compressed: for rewards beyond some units"
    )
    activation: str = static(default="relu", doc="hidden layers' activation", choices=tuple(ACTIVATIONS))
    hidden_sizes: tuple[int, ...] = static(default=(128, 128), doc="units of the hidden layers", at_least=1)
    rnn: ClassVar[str] = "none"
    rnn_size: ClassVar[int] = 1
    head_sizes: ClassVar[tuple[int, ...]] = ()
    share_body: ClassVar[bool] = True  # of policy and value: a node of a tree is one pass through the network

    @property
    def samples_per_gradient(self) -> int:
        """Environment steps in a minibatch."""
        return self.steps_per_update // self.num_minibatches


class SearchNetwork(NamedTuple):
    """A policy and a value in one pass."""

    init: Callable[[Key], PyTree]  # key -> params
    apply: Callable[[PyTree, PyTree], tuple[Any, Array]]
    # (params, observation [..., ]) -> (policy, value f32[...] on the network's scale)


def network_for(spec: EnvironmentSpec, config: SearchConfig, network: Any) -> SearchNetwork:
    """Return the network of a search, from an actor-critic or the module below its heads."""
    seen = without_global_state(spec.observation_space)
    net = network_of(network)(seen, action_head(spec.action_space), config)  # type: ignore[arg-type]

    def apply(params: PyTree, observation: PyTree) -> tuple[Any, Array]:
        policy, value, _ = net.unroll(params, (), without_global_state(observation), jnp.zeros(0, jnp.bool_))
        return policy, value

    return SearchNetwork(init=net.init, apply=apply)


class Offer(NamedTuple):
    """The actions of B nodes, of which a tree knows the numbers."""

    draws: PyTree  # [B, K, ...], what the policy drew; (): the K discrete actions themselves
    logits: Array  # f32[B, K], of the policy; of a sample all alike, as it already follows the policy


def offer(policy: Any, key: Key, config: SearchConfig, best: bool = False) -> Offer:
    """Return what B nodes offer: every action of a categorical policy, of others a sample.

    Args:
      policy: of the nodes, a distribution.
      key: draws the sample.
      config: the settings.
      best: the policy's mode takes the place of the first of the sample.
    """
    if isinstance(policy, Categorical):
        return Offer(draws=(), logits=policy.logits)
    keys = jax.random.split(key, config.num_sampled_actions)
    draws = jax.vmap(lambda key: policy.sample(seed=key), out_axes=1)(keys)
    if best:
        draws = jax.tree.map(lambda x, mode: x.at[:, 0].set(mode), draws, policy.mode())
    return Offer(draws=draws, logits=jnp.zeros(jax.tree.leaves(draws)[0].shape[:2]))


def offered(draws: PyTree, number: Array) -> PyTree:
    """Return the actions of these numbers, i32[B]: of a sample its draws, else the numbers."""
    rows = jnp.arange(number.shape[0])
    return jax.tree.map(lambda x: x[rows, number], draws) if jax.tree.leaves(draws) else number


def log_probs(policy: Any, draws: PyTree) -> Array:
    """Return the policies' log-probabilities of what they offered, f32[..., K], with draws [..., K, ...]."""
    if isinstance(policy, Categorical):
        return jax.nn.log_softmax(policy.logits)
    axis = jax.eval_shape(policy.entropy).ndim
    return jax.vmap(policy.log_prob, in_axes=axis, out_axes=axis)(draws)


class Found(NamedTuple):
    """What B searches found."""

    action: Array  # i32[B]
    weights: Array  # f32[B, n], the policy that the search improved to: what the network learns
    value: Array  # f32[B], of the root under that policy, over the actions that were tried


def root_of(logits: Array, value: Array, node: PyTree) -> mctx.RootFnOutput:
    """Return the roots of B trees: policies' logits f32[B, n], values f32[B], and nodes [B, ...]."""
    return mctx.RootFnOutput(prior_logits=logits, value=value, embedding=node)  # type: ignore[call-arg]


def edge(reward: Array, discount: Array, logits: Array, value: Array) -> mctx.RecurrentFnOutput:
    """Return B edges: the reward, the discount and the value of where they lead, f32[B], and the logits there."""
    return mctx.RecurrentFnOutput(reward=reward, discount=discount, prior_logits=logits, value=value)  # type: ignore[call-arg]


def search(
    config: SearchConfig, key: Key, params: PyTree, root: mctx.RootFnOutput, expand: Any, legal: Array | None
) -> Found:
    """Search from B roots, with noise at the roots.

    Args:
      config: the settings.
      key: for noise and for what is random in the model.
      params: handed to `expand`.
      root: from `root_of`.
      expand: (params, key, action i32[B], node [B, ...]) -> (an `edge`, the node that it leads to).
      legal: bool[B, n], at the root; None: all actions.
    """
    with jax.numpy_dtype_promotion("standard"):  # as mctx computes
        if config.search == "gumbel":
            q = lambda *at: mctx.qtransform_completed_by_mix_value(
                *at, value_scale=config.value_scale, rescale_values=config.normalize_search_value
            )
            considered: Any = {"max_num_considered_actions": config.max_considered_actions, "qtransform": q}
            choose = partial(mctx.gumbel_muzero_interior_action_selection, qtransform=q)
            choose_at_root = partial(
                mctx.gumbel_muzero_root_action_selection, num_simulations=config.num_simulations, **considered
            )
            policy = partial(mctx.gumbel_muzero_policy, gumbel_scale=config.gumbel_scale, **considered)
        else:
            choose = partial(mctx.muzero_action_selection, pb_c_init=config.puct_constant)
            choose_at_root = partial(choose, depth=0)
            policy = partial(
                mctx.muzero_policy,
                dirichlet_fraction=jnp.float32(config.dirichlet_fraction),
                dirichlet_alpha=jnp.float32(config.dirichlet_alpha),
                pb_c_init=config.puct_constant,
                temperature=config.temperature,
            )
        output = policy(
            params,
            key,
            root,
            expand,
            config.num_simulations,
            invalid_actions=None if legal is None else (~legal).astype(jnp.float32),
            max_depth=config.max_depth,
            loop_fn=in_place(params, expand, choose_at_root, choose, config.max_depth),
        )
        found = output.search_tree.summary()
        weights = output.action_weights
        tried = jnp.where(found.visit_counts > 0, weights, 0.0)
        value = jnp.sum(tried * found.qvalues, axis=-1) / jnp.maximum(jnp.sum(tried, axis=-1), 1e-12)
    return Found(action=jnp.asarray(output.action, jnp.int32), weights=jnp.asarray(weights), value=value)


def greedy_search(
    config: SearchConfig, key: Key, params: PyTree, root: mctx.RootFnOutput, expand: Any, legal: Array | None
) -> Found:
    """Search likewise without noise: the key is for what is random in the model."""
    quiet: Any = {"gumbel_scale": 0.0, "dirichlet_fraction": 0.0, "temperature": 0.0}
    found = search(dataclasses.replace(config, **quiet), key, params, root, expand, legal)
    if config.search == "gumbel":
        return found
    return found._replace(action=jnp.argmax(found.weights, axis=-1).astype(jnp.int32))


def same_key(key: Key) -> Key:
    """Return a key of the same kind, the same whatever the key."""
    return jax.random.wrap_key_data(jnp.zeros_like(jax.random.key_data(key)), impl=jax.random.key_impl(key))


def acts(key: Key, found: Found, legal: Array | None, config: SearchConfig) -> tuple[Array, dict[str, Array]]:
    """Return (the actions of training i32[B], a share of them drawn uniformly; what is learned from them, [B, ...])."""
    key_which, key_draw = jax.random.split(key)
    drawn = jax.random.bernoulli(key_which, config.epsilon, found.action.shape)
    uniform = jax.random.categorical(key_draw, mask_illegal(jnp.zeros_like(found.weights), legal)).astype(jnp.int32)
    extras = {"weights": found.weights, "value": found.value, "drawn": drawn}
    return jnp.where(drawn, uniform, found.action), extras


def act_by_search(
    config: SearchConfig,
    head: ActionHead,
    key: Key,
    params: PyTree,
    policy: Any,
    value: Array,
    node: Callable[[PyTree], PyTree],
    expand: Any,
    legal: Array | None,
    explore: bool,
) -> tuple[PyTree, Any]:
    """Search from B roots and act by what was found.

    Args:
      config: the settings.
      head: of the actions.
      key: for noise, and for what is drawn; without exploration the same roots give the same actions, whatever the key.
      params: handed to `expand`.
      policy: of the roots.
      value: f32[B], of the roots.
      node: the draws of the roots' `Offer` -> the roots [B, ...].
      expand: as `search` takes it.
      legal: bool[B, n], at the root; None: all actions. It counts where the policy offers all of its n actions.
      explore: as in training.

    Returns:
      (the actions [B, ...], what is learned from them: that of `acts`, and the draws; () without exploration).
    """
    legal = legal if isinstance(policy, Categorical) else None  # a sample is of what the policy may choose
    key = key if explore else same_key(key)
    key_search, key_draw = jax.random.split(key)
    draws, logits = offer(policy, jax.random.fold_in(key_draw, 1), config, best=not explore)
    root = root_of(logits, value, node(draws))
    if not explore:
        number = greedy_search(config, key_search, params, root, expand, legal).action
        return head.to_action(offered(draws, number)), ()
    found = search(config, key_search, params, root, expand, legal)
    number, extras = acts(key_draw, found, legal, config)
    return head.to_action(offered(draws, number)), extras | {"draws": draws}


def search_returns(rollout: Rollout, judged: Array, discount: Array | float, td_lambda: Array | float) -> Array:
    r"""Return the lambda returns over the values that searches found, f32[T, B].

        G_t = r_t + discount_t ((1 - lambda) v_{t+1} + lambda G_{t+1})

    An action that was drawn in place of the search's says nothing of the state before it: there G is the search's v.

    Args:
      rollout: [T, B], with the extras of `acts`.
      judged: f32[T, B], the network's value of each true successor, which stands where an episode or the rollout ends.
      discount: of each step, f32[T, B] or a scalar; negative where the next value is the other side's.
      td_lambda: lambda.
    """
    found, drawn = rollout.extras["value"], rollout.extras["drawn"]
    next_value = jnp.where(rollout.done, judged, jnp.concatenate([found[1:], judged[-1:]]))
    delta = rollout.reward + discount * jnp.where(rollout.terminated, 0.0, next_value) - found
    decay = jnp.where(rollout.done | drawn, 0.0, discount * td_lambda)
    return found + decayed_sum(jnp.where(drawn, 0.0, delta), decay)


def new_agent(params: PyTree, opt_state: PyTree, statistics: RunningStatistics | None = None) -> PolicyAgent:
    """Return an agent before its first rollout; `statistics` are of no observations, where it normalizes them."""
    return PolicyAgent(
        params=params,
        opt_state=opt_state,
        num_updates=jnp.int32(0),
        observation_statistics=statistics,
        return_scale=None,
        value_statistics=None,
    )


def standardized(agent: PolicyAgent, rollout: Rollout) -> tuple[PyTree, PyTree]:
    """Return (the observations, the next ones) of a rollout by the statistics that they were acted on with."""
    acted_by = agent.observation_statistics if rollout.statistics is None else rollout.statistics
    return normalized(acted_by, rollout.observation), normalized(acted_by, rollout.next_observation)


def learned(agent: PolicyAgent, params: PyTree, opt_state: PyTree, seen: PyTree, mask: Array | None) -> PolicyAgent:
    """Return the agent after an update, with what it had seen added to its statistics."""
    statistics = agent.observation_statistics
    return agent._replace(
        params=params,
        opt_state=opt_state,
        num_updates=increment(agent.num_updates),
        observation_statistics=statistics and statistics.update(seen, mask),
    )


def to_scale(config: SearchConfig, value: Array) -> Array:
    """Return values as the network predicts them, elementwise."""
    return rescale(value) if config.rescale_value else value


def from_scale(config: SearchConfig, value: Array) -> Array:
    """Return values in units of the reward, elementwise."""
    return unscale(value) if config.rescale_value else value
