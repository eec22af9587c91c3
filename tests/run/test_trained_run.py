"""Agents from a run's folder: their policy, their episodes, and what cannot be loaded."""

import dataclasses
import shutil
import threading

import jax
import numpy as np
import pytest

from purerl import evaluate, load_run, make_trainer, train
from purerl.algos.a2c import a2c
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.reporting import render, summary
from purerl.run import export, trained_run
from purerl.run.plan import make_plan
from purerl.run.program import EVALUATION_BATCH, evaluation_key
from purerl.settings.runs import settings


@pytest.fixture(scope="module")
def loaded(run_folder):
    return load_run(run_folder)


@pytest.mark.long
def test_what_a_run_holds(loaded):
    assert int(loaded.state.num_updates) == 10 and loaded.failed.tolist() == [False, False]
    weights = [jax.tree.leaves(loaded.agent(i).params)[1] for i in (0, 1)]
    assert weights[0].shape == weights[1].shape and (weights[0] != weights[1]).any()


@pytest.mark.long
def test_episodes_are_those_of_the_final_evaluation(loaded, run_folder):
    played = trained_run.play(loaded, 8)
    assert played.episode_return.shape == (2, 8) and played.finished.all()
    final = summary.read(run_folder / "summary.json")["final_return"]["per_seed"]
    np.testing.assert_allclose(played.episode_return.mean(axis=1), final, rtol=1e-6)
    more = trained_run.play(loaded, 40)  # two batches of 32
    np.testing.assert_array_equal(more.episode_return[:, :8], played.episode_return)
    for wrong, words in ((0, "episodes is 0; it must be at least 1"), (2.5, "episodes is 2.5; it must be a whole")):
        with pytest.raises(InputError, match=words):
            loaded.evaluate(wrong)


@pytest.mark.long
def test_policies_by_name(run_folder, key):
    env, policy = trained_run.find_policy(str(run_folder), "Catch")
    assert env.rows == 5, "the run's own parameters"
    assert len(render.play(env, policy, key, 20).reward) == 4
    env, _ = trained_run.find_policy("random", "Catch")
    assert env.rows == 10
    for name, message in (
        (
            "nothing",
            "there is no policy 'nothing'; allowed: random, a run's folder, an agent's file, zoo/NAME, module:function",
        ),
        (str(run_folder), "was trained on Catch, which has different spaces"),
    ):
        with pytest.raises(InputError, match=message):
            trained_run.find_policy(name, "CartPole-v1")


def test_a_run_without_a_checkpoint(run_folder, tmp_path):
    shutil.copy(run_folder / "config.toml", tmp_path)
    with pytest.raises(InputError, match="has no checkpoint yet"):
        load_run(tmp_path)


def test_a_run_is_a_thing(loaded, run_folder, tmp_path):
    assert repr(loaded) == "TrainedRun(a2c on Catch, 2 seeds, update 10)"
    np.testing.assert_array_equal(
        loaded.evaluate(8).episode_return, trained_run.play(loaded, 8).episode_return, "the run's own starts"
    )
    table = loaded.metrics
    assert list(table["update"][:4]) == [2, 2, 4, 4] and table["seed"].dtype == np.int64
    assert loaded.plot(tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="seed is -1; it must be an integer from 0 to 4294967295"):
        loaded.evaluate(4, seed=-1)
    with pytest.raises(InputError, match="no agent 5: the run has 2 seeds"):
        loaded.agent(5)
    with pytest.raises(InputError, match=r"no seed 7; its seeds are 0 \.\. 1"):
        loaded.policy(7)


@pytest.mark.long
def test_episodes_where_it_was_not_trained(tmp_path):
    """Another gravity by name and as an object: episodes as `purerl.evaluate` plays them there from the same key."""
    flags = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (4,), "total_timesteps": 80, "eval_episodes": 4}
    run = train("a2c", "CartPole-v1", out=tmp_path / "run", display="none", seeds=2, evaluations=0, **flags)
    found = run.evaluate(8, seed=5, gravity=30.0)
    handed = run.evaluate(8, env=CartPole(gravity=30.0), seed=5)
    np.testing.assert_array_equal(found.episode_return, handed.episode_return)
    assert (found.episode_return != run.evaluate(8, seed=5).episode_return).any()
    trainer = make_trainer(a2c, CartPole(gravity=30.0), run.settings.config)
    for i in (0, 1):
        alone = evaluate(trainer, run.agent(i), evaluation_key(np.uint32(5), 10, 0), EVALUATION_BATCH)
        np.testing.assert_array_equal(found.episode_return[i], np.asarray(alone.episode_return)[:8])
    for call, message in (
        (lambda: run.evaluate(8, gravitas=1.0), "unknown parameter of CartPole-v1 'gravitas': did you mean 'gravity'"),
        (lambda: run.evaluate(8, env="Catch"), "was trained on CartPole-v1, which has different spaces"),
        (lambda: run.evaluate(8, env=CartPole(), gravitas=1.0), "did you mean 'gravity'"),
    ):
        with pytest.raises(InputError, match=message):
            call()


@pytest.mark.long
def test_an_agent_starts_from_a_trained_one(tmp_path, run_folder):
    """Parameters as they were and the settings of the networks; all else, the optimizer too, is the new run's."""
    source = tmp_path / "source"
    shutil.copytree(run_folder, source)
    options = {"total_timesteps": 80, "eval_episodes": 4, "evaluations": 0, "display": "none", "env": {"rows": 5}}
    assert (usual := settings("a2c", "Catch", {})).config.num_envs != load_run(source).settings.config.num_envs
    found = settings("a2c", "Catch", {"start": str(source)})
    assert found.config == dataclasses.replace(usual.config, hidden_sizes=(4,))
    options |= {"num_envs": 2, "rollout_length": 4}
    planned = make_plan(settings("a2c", "Catch", {"start": str(source), "total_timesteps": 80}, {"rows": 5}))
    begun = planned.trainer.init(jax.random.key(9)).agent
    before = load_run(source).agent(0)
    jax.tree.map(np.testing.assert_array_equal, begun.params, before.params)
    counts = [x for x in jax.tree.leaves(begun) if x.shape == () and x.dtype == np.int32]
    assert counts and not any(map(int, counts)), "counters begin at 0"
    run = train("a2c", "Catch", out=tmp_path / "run", start=str(source), **options)
    shutil.rmtree(source)
    again = load_run(tmp_path / "run")
    assert jax.tree.all(jax.tree.map(np.array_equal, again.agent(0), run.agent(0)))
    with pytest.raises(InputError, match="does not fit the given agent"):
        make_plan(settings("a2c", "Catch", {"start": str(run_folder), "hidden_sizes": (8,)}, {"rows": 5}))
    with pytest.raises(InputError, match="there is no run in"):
        settings("a2c", "Catch", {"start": str(tmp_path / "nowhere")})


@pytest.mark.long
def test_environments_on_the_host_are_closed_after_an_evaluation(tmp_path):
    few = {"num_envs": 2, "rollout_length": 4, "total_timesteps": 32, "evaluations": 0, "eval_episodes": 4}
    run = train("a2c", "CartPole-v1", out=tmp_path / "run", sampler="serial", display="none", **few)
    before = threading.active_count()
    for _ in range(2):
        assert run.evaluate(4).episode_return.shape == (1, 4)
    assert threading.active_count() == before


@pytest.mark.long
def test_the_first_seed_that_did_not_fail(loaded):
    one = loaded._replace(failed=np.array([True, False]))
    jax.tree.map(np.testing.assert_array_equal, one.agent_of(), loaded.agent(1))
    assert (one.first_seed, loaded.first_seed) == (1, 0)


@pytest.mark.long
def test_what_learned_by_self_play_acts_on_both_sides(tmp_path):
    """Its past policies are opponents only in training."""
    flags = {"num_envs": 8, "rollout_length": 4, "hidden_sizes": 8, "total_timesteps": 64, "self_play": 2}
    run = train("a2c", "MatrixGame", out=tmp_path / "run", display="none", evaluations=0, eval_episodes=4, **flags)
    agent, env = run.agent(0), run.plan.env
    always = jax.tree.map(lambda x: 0 * x, agent.learner["self"].params)
    actor = always["actor"] | {"bias": 9.0 * np.eye(2, dtype=np.float32)[1]}
    learner = agent.learner["self"]._replace(params=always | {"actor": actor})
    algorithm, acts = run.trainer.player(agent._replace(learner={"self": learner}))
    observation, _ = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 5))[::-1]
    action = algorithm.act(acts, algorithm.initial_carry(5), jax.random.key(1), observation, False)[0]
    assert set(action) == {"row", "column"} and all(np.all(np.asarray(x) == 1) for x in action.values())
    single = run.policy()(jax.tree.map(lambda x: x[0], observation))
    assert {name: x.shape for name, x in single.items()} == {name: x.shape[1:] for name, x in action.items()}
    run_again = load_run(tmp_path / "run")
    function, arguments = export.acting(run_again, run_again.agent(0))
    (batch,) = jax.export.symbolic_shape("batch")
    some = [jax.ShapeDtypeStruct((batch, *x.shape), x.dtype) for x in arguments]
    assert len(jax.export.export(jax.jit(function))(*some).out_avals) == 2
