"""VDN and QMIX: a team's common value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.value_decomposition import QMIXConfig, VDNConfig, mixer, qmix, vdn
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.games.matrix_game import MatrixGame
from purerl.envs.particle.spread import Spread
from purerl.errors import InputError
from purerl.loop.train import make_train, make_trainer
from purerl.multi_agent.joint import Policy, multi_agent, policies_for
from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import EnvironmentSpec

WITH_STATE = Dict(spaces={name: Box(low=-1, high=1, shape=(4,)) for name in ("observation", "global_state")})


def run(factory, env, config, updates=3):
    trainer = make_trainer(factory, env, config)
    state, step = jax.jit(trainer.init)(jax.random.key(0)), jax.jit(trainer.step)
    for _ in range(updates):
        state, metrics = step(state)
    return state, metrics


def test_a_team_learns_what_is_best_together():
    """VDN on a game that pays both for meeting at 1, and less for meeting at 0."""
    env = MatrixGame(row_payoff=((0.5, 0.0), (0.0, 1.0)), column_payoff=((0.5, 0.0), (0.0, 1.0)))
    replayed = {"learning_starts": 64, "batch_size": 32, "replay_capacity": 1024, "hidden_sizes": (8,)}
    base = VDNConfig(num_envs=8, rollout_length=8, learning_rate=1e-2, total_timesteps=64 * 80, **replayed)
    team = Policy(algorithm=vdn, config=base, groups=("row", "column"))
    config = policies_for(env, vdn, base, team=team)
    _, metrics = jax.jit(make_train(multi_agent, env, config))(jax.random.key(0))
    assert (
        metrics.episodes["info/row_last"][-10:].mean() > 0.8 and metrics.episodes["episode_return"][-10:].mean() > 0.8
    )
    mixed = QMIXConfig(num_envs=4, **replayed | {"learning_starts": 8, "batch_size": 4})
    state, metrics = run(multi_agent, Spread(), policies_for(Spread(), qmix, mixed))
    assert jnp.isfinite(metrics.algorithm["loss"]) and int(state.agent["agents"].num_gradient_steps) == 2
    with pytest.raises(InputError, match="this one offers none"):
        make_trainer(multi_agent, env, policies_for(env, qmix, mixed))
    with pytest.raises(InputError, match="no groups of agents"):
        make_trainer(vdn, CartPole(), base)


def test_a_mixed_value_never_falls_in_an_agents():
    spec = EnvironmentSpec(Stacked(space=WITH_STATE, n=3), Stacked(space=Discrete(n=2), n=3))
    mix = mixer(spec, QMIXConfig())
    params, rng = mix.init(jax.random.key(0)), np.random.default_rng(0)
    values, state = rng.normal(size=(64, 3)).astype(np.float32), rng.normal(size=(64, 3, 4)).astype(np.float32)
    slope = jax.grad(lambda q: mix.apply(params, q, {"global_state": state}).sum())(values)
    assert slope.shape == (64, 3) and (slope >= 0).all() and (slope > 0).mean() > 0.9
