"""Every agent plays as well as it did when its curve was published; the package holds small ones only."""

import importlib.util
import re

import numpy as np
import pytest

import purerl
from purerl import zoo
from purerl.catalog.environments import SUITES
from purerl.errors import InputError
from purerl.extensions.self_play import match
from purerl.extensions.self_play.sides import both_sides
from purerl.extensions.self_play.tournament import references
from purerl.settings import agent_file, toml

pytestmark = pytest.mark.publish

NEEDED = {"gymnasium": ("mujoco", "imageio")}  # what a suite's tasks need that comes without the suite


SELDOM = re.compile(
    r"(alphazero|crossq|muzero|redq|spo|tqc)-.*|.*-(brax|craftax|gymnasium|jaxmarl|jumanji)-.*|.*-MinAtar"
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if SELDOM.fullmatch(name) else name for name in zoo.names()],
)
def test_an_agent_reaches_its_published_return(name):
    path = zoo.path_of(name)
    assert path.stat().st_size < 1_000_000
    suite, slash, _ = str(toml.read(path)["environment"]).partition("/")
    for package in (SUITES[suite].package, *NEEDED.get(suite, ())) if slash else ():
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    run, about = purerl.load_run(f"zoo/{name}"), agent_file.about(path)
    if "return" not in about:  # a game in turns
        opponents = [name.removeprefix("lost_") for name in about if name.startswith("lost_")]
        assert set(references(both_sides(run.plan.env))) <= set(opponents) <= set(match.PLAYERS)
        for opponent in opponents:
            rows = match.compare(run, run.plan, opponent, 100)[run.settings.options.seed]
            share = float(about[f"lost_{opponent}"])
            error = (max(share, 0.01) * (1 - share) / 200) ** 0.5
            assert sum(row.lost for row in rows) / 2 <= share + 4 * error
        return
    played = run.evaluate(64)
    returns = np.asarray(played.episode_return[0], np.float64)
    assert played.finished.all()
    error = np.std(returns) / len(returns) ** 0.5
    assert returns.mean() >= float(about["return"]) - 4 * error - 1e-3


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [name for name in zoo.names() if re.fullmatch("(ppo|dqn)-[A-Za-z]+-MinAtar", name)])
def test_an_agent_of_minatar_plays_as_well_in_the_original(name):
    minatar = pytest.importorskip("minatar", reason="the original is not installed: pip install minatar==1.0.15")
    run = purerl.load_run(f"zoo/{name}")
    policy, total = run.policy(), np.zeros(16)
    game = name.split("-")[1]
    original = "space_invaders" if game == "SpaceInvaders" else game.lower()
    originals = [minatar.Environment(original, sticky_action_prob=0.1) for _ in total]
    for lane, env in enumerate(originals):
        env.random = env.env.random = np.random.RandomState(lane)
        env.reset()
    going = np.ones(len(total), bool)
    observation = np.stack([env.state() for env in originals])
    while going.any():
        action = np.asarray(policy(observation))
        for lane in np.flatnonzero(going):
            reward, ended = originals[lane].act(int(action[lane]))
            total[lane] += reward
            observation[lane], going[lane] = originals[lane].state(), not ended
    ours = np.asarray(run.evaluate(64).episode_return[0], np.float64)
    error = np.hypot(np.std(total) / len(total) ** 0.5, np.std(ours) / len(ours) ** 0.5)
    assert abs(total.mean() - ours.mean()) < 4 * error + 1e-3


def test_small_agents_of_many_algorithms_ship():
    shipped = list(zoo.PACKAGE.glob("*.safetensors"))
    assert zoo.PACKAGE / "ppo-CartPole-v1.safetensors" in shipped
    assert sum(path.stat().st_size for path in shipped) < 1_600_000
    algorithm = lambda path: toml.read(path)["algorithm"]
    small = {algorithm(path) for path in zoo.CLONE.glob("*.safetensors") if path.stat().st_size < 200_000}
    assert small <= set(map(algorithm, shipped))


def test_the_package_lists_the_agents_of_the_clone():
    stems = lambda folder: {path.stem for path in folder.glob("*.safetensors")}
    assert set(zoo.NAMES.read_text().split()) == stems(zoo.CLONE)
    assert not stems(zoo.CLONE) & stems(zoo.PACKAGE)
    assert zoo.here() == zoo.names()


def test_an_installed_package_names_the_place_of_other_agents(tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "CLONE", tmp_path / "zoo")
    assert "dqn-Asterix-MinAtar" in zoo.names() and "dqn-Asterix-MinAtar" not in zoo.here()
    with pytest.raises(InputError, match="its file is in the zoo/ folder of purerl's repository"):
        purerl.load_run("zoo/dqn-Asterix-MinAtar")
    with pytest.raises(InputError, match="did you mean 'dqn-Asterix-MinAtar'"):
        purerl.load_run("zoo/dqn-Asterics-MinAtar")
