"""Squashed policies: tanh-squashed normals over a box of actions."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from purerl.functional.distributions import Normal, SquashedNormal
from purerl.functional.unit_box import UnitBox, unit_box
from purerl.networks.encoder import Encoder, NetworkConfig, encoder
from purerl.networks.modules import Module
from purerl.networks.torsos import apply, dense
from purerl.networks.torsos import init as init_module
from purerl.types import Array, EnvironmentSpec, Key, PyTree


class SquashedPolicy(NamedTuple):
    """A policy whose mean and standard deviation both depend on the observation; `squashed_policy` makes it."""

    box: UnitBox
    base: Encoder
    head: Any  # a module, features f32[..., n] -> f32[..., 2 x size]

    def init(self, key_body: Key, key_head: Key) -> PyTree:
        """Return the parameters."""
        head = init_module(self.head, key_head, jnp.zeros(self.base.size))
        return {"body": self.base.init(key_body), "head": head}

    def distribution(self, params: PyTree, observation: PyTree) -> SquashedNormal:
        """Return the distribution [...] of actions before tanh, for observations [...]."""
        outputs = apply(self.head, params["head"], self.base.step(params["body"], (), observation)[0])
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        return SquashedNormal(Normal(mean, jnp.clip(log_std, -20.0, 2.0)))

    def act(self, params: PyTree, key: Key, observation: PyTree, explore: bool) -> Array:
        """Return actions of the box f32[B, size], sampled or, without exploration, the mode."""
        policy = self.distribution(params, observation)
        return self.box.from_unit(jnp.tanh(policy.sample(seed=key) if explore else policy.mode()))


def squashed_policy(spec: EnvironmentSpec, config: NetworkConfig, network: Module | None, what: str) -> SquashedPolicy:
    """Return a policy for an environment; it does not see the global state.

    Args:
      spec: the environment's spaces.
      config: the settings of the torso.
      network: a module that replaces the torso.
      what: the algorithm, for errors.

    Raises:
      InputError: if the actions are not a box of floats with one axis and finite bounds.
    """
    box = unit_box(spec.action_space, what)
    head = dense(2 * box.size, 0.01, initializer=config.initializer)
    return SquashedPolicy(box=box, base=encoder(spec.observation_space, config, network), head=head)
