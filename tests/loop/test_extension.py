"""Extensions: which ones a run uses, what they exclude, and the values that a setup takes."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import purerl
from purerl.algos.a2c import A2CConfig, a2c
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import InputError
from purerl.loop.extension import Extension, Setup, in_use, may_change, with_values
from purerl.types import number, pytree, static
from purerl.wrappers import Wrapper

CONFIG = A2CConfig(num_envs=2, rollout_length=4, hidden_sizes=(4,), total_timesteps=800)
ENV = CartPole()


@pytree
class BonusOptions:
    bonus: float = number(default=0.0, doc="added to each reward", at_least=0)
    bonus_kind: str = static(default="constant", doc="how", choices=("constant", "none"))


@pytree
class Bonus(Wrapper):
    bonus: float = number(default=0.0)

    def step(self, key, state, action):
        state, step = self.env.step(key, state, action)
        return state, step._replace(reward=step.reward + self.bonus)


def _wrap(make, options):
    return lambda algorithm, env, config: make(algorithm, Bonus(env, bonus=options.bonus), config)


BONUS = Extension(name="bonus", options=BonusOptions, wrap=_wrap)
OTHER = Extension(
    name="other",
    options=dataclasses.make_dataclass("OtherOptions", []),
    wrap=lambda make, options: make,
    excludes=("bonus",),
    needed=lambda env, config: "the environment is CartPole" if isinstance(env, CartPole) else "",
)
SETUP = Setup(CONFIG, ENV, {"bonus": BonusOptions(bonus=1.0)})


def test_the_first_option_turns_an_extension_on():
    assert BONUS.switch == "bonus" and OTHER.switch is None
    assert in_use((BONUS,), {}, ENV, CONFIG) == in_use((BONUS,), {"bonus": BonusOptions()}, ENV, CONFIG) == ()
    assert in_use((BONUS,), SETUP.options, ENV, CONFIG) == (BONUS,)
    assert in_use((BONUS, OTHER), {}, ENV, CONFIG) == (OTHER,), "needed, whatever its options are"


@pytest.mark.long
def test_extensions_that_exclude_each_other():
    with pytest.raises(InputError, match=r"bonus cannot be combined with other: bonus is 1.0, and the env"):
        in_use((BONUS, OTHER), SETUP.options, ENV, CONFIG)


@pytest.mark.long
def test_values_replace_fields_of_the_config_the_environment_and_options():
    config, env, options = with_values(SETUP, {"discount": 0.5, "env.force": 3.0, "bonus": 2.0})
    assert (config.discount, env.force, options["bonus"].bonus) == (0.5, 3.0, 2.0)
    assert config.learning_rate == CONFIG.learning_rate and env.gravity == ENV.gravity
    assert with_values(SETUP, {"discount": 0.5}).env == ENV
    assert [may_change(SETUP, name) for name in ("bonus", "bonus_kind", "discount", "env.force")] == [
        True,
        False,
        True,
        True,
    ]


@pytest.mark.long
def test_an_extension_of_a_user_changes_the_rewards_and_its_numbers_may_be_traced():
    def mean_reward(bonus):
        trainer = purerl.make_trainer(a2c, ENV, CONFIG, {BONUS: BonusOptions(bonus=bonus)})
        state = trainer.init(jax.random.key(0))
        return trainer.step(state)[0].vector.episode_return.sum() / state.vector.episode_length.shape[0]

    returns = jax.jit(jax.vmap(mean_reward))(jnp.array([1.0, 2.0]))
    assert float(returns[1] / returns[0]) == pytest.approx(1.5)
