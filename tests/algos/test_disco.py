"""Disco's agent: what it needs, that a run keeps its rule, and that it learns with the published weights."""

import jax
import numpy as np
import pytest

import purerl
from purerl import make_trainer
from purerl.algos.disco import DiscoConfig, disco
from purerl.errors import InputError
from purerl.networks import weights_file
from purerl.networks.disco_rule import DiscoRule
from purerl.networks.meta_network import MetaSizes
from purerl.run import export
from tests.helpers.disco_inputs import SMALL, WEIGHTS, small_weights
from tests.helpers.small import tiny

CATCH = purerl.make("Catch", rows=5)
RULE = DiscoRule.create(jax.random.key(0), MetaSizes(**SMALL))


def test_rollouts_are_learned_from_when_enough_are_stored():
    """The rule's state moves from then on; its moving averages count the gradient steps."""
    _, config = tiny("disco")
    trainer = make_trainer(lambda s, c: disco(s, c, rule=RULE), CATCH, config)
    state, step = jax.jit(trainer.init)(jax.random.key(0)), jax.jit(trainer.step)
    first = jax.device_get(state.agent)
    state, metrics = step(state)
    assert float(metrics.algorithm["learning"]) == 1.0
    assert float(state.agent.rule_state.advantage.unseen) == pytest.approx(0.99)
    params, target = first.params["heads"]["Dense_0"]["kernel"], state.agent.target_params["heads"]["Dense_0"]["kernel"]
    np.testing.assert_allclose(target, params, rtol=1e-6)  # toward the parameters before the step, which it equaled
    assert np.abs(state.agent.params["heads"]["Dense_0"]["kernel"] - params).max() > 1e-5
    assert state.agent.rule is None, "a rule that is an argument is not a part of the agent"


def test_one_rule_is_given():
    spec = purerl.EnvironmentSpec(observation_space=CATCH.observation_space, action_space=CATCH.action_space)
    with pytest.raises(InputError, match=r"a rule and the weights of another one, disco_103.npz: give one of them"):
        disco(spec, DiscoConfig(weights="disco_103.npz"), rule=RULE)


@pytest.mark.long
def test_a_run_resumes_without_the_file(tmp_path):
    """The rule is a part of the checkpoint: an extended run is bit-identical, and the agent acts and is exported."""
    path = tmp_path / "weights.npz"
    np.savez(path, **small_weights(weights_file.array_shapes()))
    _, config = tiny("disco")
    flags = {"weights": str(path), "evaluations": 1, "eval_episodes": 2, "log_interval": 1, "seeds": 2}
    names = ("num_envs", "rollout_length", "hidden_sizes", "batch_size", "model_size", "learning_starts")
    flags |= {name: getattr(config, name) for name in names}

    train = lambda steps, name: purerl.train(
        "disco", "Catch", env={"rows": 5}, out=tmp_path / name, display="none", total_timesteps=steps, **flags
    )
    whole, part = train(48, "whole"), train(24, "part")
    path.unlink()
    longer = purerl.resume(part.folder, display="none", total_timesteps=48)
    jax.tree.map(np.testing.assert_array_equal, whole.state.agent, longer.state.agent)
    assert float(longer.state.agent.rule_state.advantage.unseen[0]) == pytest.approx(0.99**6)
    export.save(longer, tmp_path / "agent.safetensors")
    alone = purerl.load_run(tmp_path / "agent.safetensors")
    for name in ("params", "target_params"):
        first = jax.tree.map(lambda x: x[:1], getattr(longer.state.agent, name))
        jax.tree.map(np.testing.assert_array_equal, getattr(alone.state.agent, name), first)


@pytest.mark.slow
@pytest.mark.skipif(not WEIGHTS.exists(), reason="needs .cache/disco_103.npz")
def test_it_catches_every_ball():
    """The published rule with the settings of its authors' example: 58,000 steps of a board of 8 x 8."""
    env, config = purerl.make("Catch", rows=8, columns=8), DiscoConfig(weights=str(WEIGHTS), learning_rate=1e-2)
    _, metrics = jax.jit(purerl.make_train(disco, env, config, total_timesteps=58_000))(jax.random.key(0))
    assert np.mean(metrics.episodes["episode_return"][-50:]) > 0.99
