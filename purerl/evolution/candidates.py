"""The candidates that can be evolved by name: each function (key) -> candidate returns the start of a search."""

import jax.numpy as jnp

from purerl.functional.drifts import DPO, LPO, ClipDrift, DriftNetwork, KLPenalty, RecoveryDrift, SquaredDrift, valid
from purerl.functional.objectives import ActorCriticLoss, Drifting
from purerl.functional.update_rules import LPG
from purerl.networks.disco_rule import DiscoRule
from purerl.optim.learned_optimizer import OPEN
from purerl.types import Key


def lpo(key: Key) -> Drifting:
    """Return LPO's network on top of PPO's clip."""
    return Drifting(drift=LPO.at_ppo(key))


def lpo_zero(key: Key) -> Drifting:
    """Return LPO's network without PPO's clip; initially its drift is zero."""
    return Drifting(drift=LPO.from_nothing(key))


def valid_network(key: Key) -> Drifting:
    """Return a network made valid by `purerl.functional.drifts.valid`; initially a penalty on the KL divergence."""
    return Drifting(drift=valid(DriftNetwork.create(key)))


def ppo(key: Key) -> Drifting:
    """Return PPO's clip, which has one number."""
    return Drifting(drift=ClipDrift(epsilon=jnp.float32(0.2)))


def dpo(key: Key) -> Drifting:
    """Return DPO, which has two numbers."""
    return Drifting(drift=DPO(alpha=jnp.float32(2.0), beta=jnp.float32(0.6)))


def kl(key: Key) -> Drifting:
    """Return the penalty on the KL divergence, which has one number."""
    return Drifting(drift=KLPenalty(coefficient=jnp.float32(1.0)))


def spo(key: Key) -> Drifting:
    """Return simple policy optimization, which has one number."""
    return Drifting(drift=SquaredDrift(epsilon=jnp.float32(0.2)))


def recovery(key: Key) -> Drifting:
    """Return the closed form of what LPO found in this project, which has two numbers."""
    return Drifting(drift=RecoveryDrift(slope=jnp.float32(1.27), curvature=jnp.float32(0.0)))


def actor_critic(key: Key) -> ActorCriticLoss:
    """Return the complete loss of PPO: its clip and the weights of value and entropy."""
    return ActorCriticLoss()


def lpg(key: Key) -> LPG:
    """Return LPG's rule with random weights."""
    return LPG.create(key)


def ta_lpg(key: Key) -> LPG:
    """Return the rule that also sees the agent's age."""
    return LPG.create(key, temporal=True)


def open_optimizer(key: Key) -> OPEN:
    """Return OPEN's network, which initially makes no step."""
    return OPEN.create(key)


def disco(key: Key) -> DiscoRule:
    """Return Disco's rule with random weights."""
    return DiscoRule.create(key)
