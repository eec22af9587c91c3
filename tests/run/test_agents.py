"""An agent in a file is the agent of the run: it plays, acts and is started from, and is held to its settings."""

import jax
import numpy as np
import pytest

import purerl
from purerl.errors import InputError
from purerl.run import agents, export
from purerl.settings import agent_file

pytestmark = pytest.mark.long

SMALL = {"num_envs": 2, "hidden_sizes": (4,), "eval_episodes": 6, "evaluations": 1, "seeds": 2}
KINDS = {
    "statistics": ("a2c", "Pendulum-v1", {"normalize_observation": True, "env": {"time_limit": 20}}),
    "replay": ("dqn", "Catch", {"replay_capacity": 64, "batch_size": 4, "learning_starts": 8}),
    "recurrent": ("a2c", "RepeatPrevious", {"rnn": "gru", "rnn_size": 4}),
    "groups": ("a2c", "CoinGame", {}),
}


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """A run of two seeds, and the agent of the second as a file."""
    algorithm, environment, more = KINDS[request.param]
    folder = tmp_path_factory.mktemp("agents")
    run = purerl.train(algorithm, environment, out=folder / "run", display="none", total_timesteps=200, **SMALL, **more)
    export.save(run, folder / "one.safetensors", seed=1)
    return run, folder / "one.safetensors"


def test_it_plays_as_in_the_run(pair):
    run, path = pair
    alone = purerl.load_run(path)
    assert alone.settings.options.seeds == 1 and int(alone.state.num_updates) == int(run.state.num_updates)
    one, both = alone.evaluate(6, seed=3), run.evaluate(6, seed=3)
    np.testing.assert_array_equal(one.episode_return[0], both.episode_return[1])


def test_nothing_that_only_training_needs_is_in_it(pair):
    run, path = pair
    names = agent_file.arrays(path)
    assert any("params" in name for name in names)
    assert not [name for name in names if "opt_state" in name or "replay" in name]
    assert path.stat().st_size < sum(x.nbytes for x in jax.tree.leaves(run.agent(1)) if hasattr(x, "nbytes")) + 8_000


@pytest.mark.parametrize("pair", ["replay"], indirect=True)
def test_a_target_network_can_be_left_out(pair, tmp_path):
    """Then it is the network itself; an agent plays as before, and a file without a network is refused as before."""
    run, path = pair
    small, whole = tmp_path / "small.safetensors", agent_file.arrays(path)
    small.write_bytes(agents.content(run, run.agent(1), seed=1, target=False))
    names = agent_file.arrays(small).keys()
    assert names == {name for name in whole if "target_params" not in name} != whole.keys()
    found, wanted = purerl.load_run(small), run.agent(1)
    for field in ("params", "target_params"):
        jax.tree.map(np.testing.assert_array_equal, getattr(found.agent(), field), wanted.params)
    played = [of.evaluate(6, seed=3).episode_return[0] for of in (found, purerl.load_run(path))]
    np.testing.assert_array_equal(*played)
    lost = {name: x for name, x in whole.items() if name != min(names)}
    small.write_bytes(agent_file.pack(lost, agent_file.about(path)))
    with pytest.raises(InputError, match=f"{min(names)} is not in it"):
        purerl.load_run(small)


def test_of_self_play_the_learner_is_kept(tmp_path):
    """Each earlier self of the file is the learner."""
    small = SMALL | {"self_play": 2, "num_envs": 4, "display": "none", "total_timesteps": 200}
    run = purerl.train("a2c", "MatrixGame", out=tmp_path / "run", **small)
    export.save(run, tmp_path / "one.safetensors", seed=1)
    assert all(name.startswith("learner/") for name in agent_file.arrays(tmp_path / "one.safetensors"))
    wanted, found = run.agent(1), purerl.load_run(tmp_path / "one.safetensors").agent()
    jax.tree.map(np.testing.assert_array_equal, found.learner["self"].params, wanted.learner["self"].params)
    twice = jax.tree.map(lambda x: np.stack([x, x]), wanted.learner["self"].params)
    jax.tree.map(np.testing.assert_array_equal, found.pool["self"].params, twice)


@pytest.mark.parametrize("pair", ["statistics", "groups"], indirect=True)
def test_a_run_starts_from_it(pair, tmp_path):
    run, path = pair
    of = run.settings
    began = []
    purerl.train(
        of.algorithm,
        of.environment,
        of.config,
        total_timesteps=of.config.steps_per_update,
        start=str(path),
        out=tmp_path / "next",
        display="none",
        evaluations=0,
        env=of.parameters,
        callbacks=[lambda update, metrics, view: began.append(update)],
    )
    assert began == [1]


def test_it_is_held_to_its_settings(pair):
    _, path = pair
    arrays, about = agent_file.arrays(path), agent_file.about(path)
    name = next(name for name, array in arrays.items() if array.ndim == 2 and "params" in name)
    for changed, why in (
        (arrays | {name: arrays[name][:, 1:]}, rf"does not fit its settings: {name} is \["),
        (arrays | {name: arrays[name].astype(np.float64)}, f"does not fit its settings: {name} is float64"),
        ({key: array for key, array in arrays.items() if key != name}, f"{name} is not in it"),
        (arrays | {"params/zzz": arrays[name]}, "params/zzz is in it"),
    ):
        path.with_name("bad.safetensors").write_bytes(agent_file.pack(changed, about))
        with pytest.raises(InputError, match=why):
            purerl.load_run(path.with_name("bad.safetensors"))
    path.with_name("bad.safetensors").write_bytes(agent_file.pack(arrays, about | {"update": "-1"}))
    with pytest.raises(InputError, match="its update is '-1'"):
        purerl.load_run(path.with_name("bad.safetensors"))


def test_it_is_no_run_to_resume(pair):
    with pytest.raises(
        InputError, match="is an exported agent, not a run to resume; to start a new run from it, use --start"
    ):
        purerl.resume(pair[1])
