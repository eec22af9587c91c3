"""Python objects instead of names: which names they get, and whether these suffice."""

from functools import partial

import numpy as np
import pytest

import purerl
from purerl import trust
from purerl.algos.mappo import MAPPOConfig
from purerl.algos.ppo import PPOConfig, ppo
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.settings import objects
from purerl.settings.runs import dump, settings
from tests.helpers import reinforce
from tests.helpers.reinforce import ReinforceConfig
from tests.helpers.walk import Walk

OWN = "tests.helpers.reinforce:reinforce"


@pytest.mark.parametrize(
    ("given", "config", "name", "cls", "suffices"),
    [
        ("ppo", None, "ppo", PPOConfig, True),
        (ppo, None, "ppo", PPOConfig, True),
        (ppo, PPOConfig(), "ppo", PPOConfig, True),
        (ppo, MAPPOConfig(), "mappo", MAPPOConfig, True),
        (partial(ppo, loss=print), None, "ppo", PPOConfig, False),
        (OWN, None, OWN, ReinforceConfig, True),
        (reinforce.reinforce, None, OWN, ReinforceConfig, True),
        ("tests.helpers.reinforce:flat", None, "tests.helpers.reinforce:flat", ReinforceConfig, True),
        (reinforce.flat, None, OWN, ReinforceConfig, False),
        (lambda spec, config: None, PPOConfig(), "tests.settings.test_objects:<lambda>", PPOConfig, False),
    ],
)
def test_algorithms(given, config, name, cls, suffices):
    found, factory, config_class, enough = objects.algorithm_of(given, config)
    assert (found, config_class, enough) == (name, cls, suffices)
    assert isinstance(given, str) or factory is given


@pytest.mark.parametrize(
    ("given", "config", "message"),
    [
        (reinforce.untold, None, "has no annotation of its config: it must be a function"),
        ("os:abort", None, "os:abort has no annotation of its config"),
        ("os:path", None, "os:path is not an algorithm"),
        (PPOConfig, None, "is not an algorithm"),
        ("ppo", PPOConfig, "the config of ppo is the class PPOConfig; it must be a PPOConfig, such as PPOConfig()"),
        (ppo, ReinforceConfig(), "the config of .*ppo is ReinforceConfig; it must be a PPOConfig"),
        ("tests.helpers.reinforce:Config", None, "is not an algorithm"),
    ],
)
def test_what_is_no_algorithm(given, config, message):
    with trust.trusting(True):
        with pytest.raises(InputError, match=message) as caught:
            objects.algorithm_of(given, config)
        assert "\n" not in str(caught.value)


def test_environments():
    assert objects.environment_of("CartPole-v1") == ("CartPole-v1", None, True)
    assert objects.environment_of(CartPole())[::2] == ("CartPole-v1", True)
    assert objects.environment_of(CartPole(gravity=np.ones(3)))[::2] == ("CartPole-v1", False)
    assert objects.environment_of(Walk())[::2] == ("tests.helpers.walk:Walk", True)
    assert not objects.environment_of(purerl.wrappers.TimeLimit(env=CartPole(), time_limit=5))[2]

    class Local(CartPole):
        pass

    assert objects.environment_of(Local())[2] is False


def test_objects_and_names_give_the_same_file():
    named = settings("ppo", "CartPole-v1", {"learning_rate": 1e-3}, {"gravity": 12})
    env = CartPole(gravity=12.0)
    handed = settings(ppo, env, {"learning_rate": 1e-3})
    assert handed.from_python == () and handed.config == named.config
    assert dump(handed, env) == dump(named, env)


@pytest.mark.long
def test_what_no_file_can_hold_is_said_there():
    env = CartPole(gravity=np.full(2, 3.0))
    run = settings(partial(ppo, loss=print), env, {}, {"force": 3})
    assert run.from_python == ("algorithm", "environment") and run.env.force == 3.0
    assert '\nfrom_python = ["algorithm", "environment"]\n' in dump(run, run.env)
    with pytest.raises(InputError, match="unknown parameter of CartPole 'gravitas': did you mean 'gravity'"):
        settings(ppo, CartPole(), {}, {"gravitas": 1})
