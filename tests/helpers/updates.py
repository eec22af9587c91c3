"""A few updates of every algorithm on a tiny task, as one program of two numbers."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp

from purerl import make_trainer
from purerl.algos.lpg import LPGConfig, lpg
from purerl.catalog.algorithms import ALGORITHMS
from purerl.extensions.groups.joint import multi_agent, policies_for
from purerl.functional.update_rules import LPG
from purerl.networks.disco_rule import DiscoRule
from purerl.networks.meta_network import MetaSizes
from purerl.spaces import Box, Dict, Discrete, Stacked
from purerl.types import Environment, TimeStep, number, pytree, static
from tests.helpers.disco_inputs import SMALL
from tests.helpers.small import set_tiny, tiny

NUM_UPDATES = 3
CASES = {  # name -> (algorithm, changes of its tiny settings, kind of actions or None for its first)
    **{name: (name, {}, None) for name in ALGORITHMS},
    "ppo continuous": ("ppo", {"normalize_observation": True, "normalize_reward": True}, "continuous"),
    "ppo rnd": ("ppo", {"curiosity": "rnd"}, None),
    "ppo icm": ("ppo", {"curiosity": "icm", "target_kl": 0.01}, None),
    "ppo gru": ("ppo", {"rnn": "gru", "num_epochs": 3, "learning_rate": 0.05, "clip_epsilon": 0.05}, None),
    "disco masked": ("disco", {"rnn": "gru"}, "masked"),
    "dqn masked": ("dqn", {}, "masked"),
    "dqn of three steps": ("dqn", {"n_step": 3, "normalize_observation": True}, None),
    "sac discrete": ("sac", {}, "discrete"),
    "td3 late": ("td3", {"policy_period": 2, "num_gradient_steps": 2}, None),
    "redq late": ("redq", {"policy_period": 2, "num_gradient_steps": 2}, None),
    "mpo continuous": ("mpo", {}, "continuous"),
    "vmpo continuous": ("vmpo", {}, "continuous"),
    "lpg": ("lpg", {}, "discrete"),
    "alphazero continuous": ("alphazero", {}, "continuous"),
}


@pytree
class Walk(Environment):
    """A walk in the plane, three steps long. The final observation is a parameter, and so is what it follows."""

    terminates: bool = number()
    final: float = number()
    continuous: bool = static(default=False)
    masked: bool = static(default=False)
    team: bool = static(default=False)

    def reset(self, key):
        place = jax.random.uniform(key, (2,), jnp.float32, -1.0, 1.0)
        return (jnp.int32(0), place), self._seen(place)

    def step(self, key, state, action):
        time, place = state
        push = action["team"].sum() if self.team else action
        push = push.reshape(()).astype(jnp.float32) - 0.4
        place = 0.8 * place + push * jnp.array([0.5, -0.3], jnp.float32) + 0.2 * jnp.sin(time.astype(jnp.float32))
        reward = place[0] - 0.5 * place[1] ** 2
        over = time == 2
        seen = jnp.where(over, self.final * jnp.array([0.3, -0.5], jnp.float32), place)
        step = TimeStep.transition(
            self._seen(seen),
            {"team": jnp.stack([reward, reward])} if self.team else reward,
            terminated=over & self.terminates,
            time_up=over,
        )
        return (time + 1, place), step

    def _seen(self, place):
        if self.masked:
            return {"place": place, "action_mask": jnp.stack([place[0] > 0.0, jnp.bool_(True)])}
        return {"team": jnp.stack([place, 0.5 * place]), "global_state": place} if self.team else place

    @property
    def observation_space(self):
        box = Box(low=-9.0, high=9.0, shape=(2,))
        if self.masked:
            return Dict(spaces={"place": box, "action_mask": Box(low=0, high=1, shape=(2,), dtype=jnp.bool_)})
        return Dict(spaces={"team": Stacked(space=box, n=2), "global_state": box}) if self.team else box

    @property
    def action_space(self):
        one = Box(low=-1.0, high=1.0, shape=(1,)) if self.continuous else Discrete(n=2)
        return Dict(spaces={"team": Stacked(space=one, n=2)}) if self.team else one


@pytree
class MindsPredictions:
    """LPG whose predictions, initially almost uniform, appear far from uniform."""

    inner: LPG

    @property
    def categories(self):
        return self.inner.categories

    def initial_carry(self):
        return self.inner.initial_carry()

    def __call__(self, state, inputs):
        clear = lambda y: 500.0 * (y - 1.0 / self.categories)
        shown = {"prediction": clear(inputs.prediction), "next_prediction": clear(inputs.next_prediction)}
        return self.inner(state, inputs._replace(**shown))


def updates(case):
    """Return a compiled function (terminates, final) -> {name: f32[...]}: what an agent is after some updates.

    Its parameters are left out: Adam makes steps of one size of gradients that only rounding made.
    """
    name, changes, kind = CASES[case]
    if name == "lpg":  # its rule is an argument
        rule = MindsPredictions(inner=LPG.create(jax.random.key(1), 5, units=8))
        factory, config = partial(lpg, rule=rule), set_tiny(name, LPGConfig)
    elif name == "disco":
        factory, config = tiny(name)
        factory = partial(factory, rule=DiscoRule.create(jax.random.key(1), MetaSizes(**SMALL)))
    else:
        factory, config = tiny(name)
    config = dataclasses.replace(config, **changes)
    teams = name in ALGORITHMS and ALGORITHMS[name].teams
    continuous = (ALGORITHMS[name].actions[0] if kind is None else kind) == "continuous"

    def run(terminates, final):
        env = Walk(terminates=terminates, final=final, continuous=continuous, masked=kind == "masked", team=teams)
        if teams:
            trainer = make_trainer(multi_agent, env, policies_for(env, factory, config))
        else:
            trainer = make_trainer(factory, env, config)
        state = trainer.init(jax.random.key(0))
        step = jax.jit(trainer.step, inline=True)
        none = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(step, state)[1])
        state, metrics = jax.lax.fori_loop(0, NUM_UPDATES, lambda _, now: step(now[0]), (state, none))
        agents = state.agent.values() if teams else [state.agent]
        without = {"params": (), "target_params": (), "rule": ()}
        left = [agent._replace(**{name: x for name, x in without.items() if hasattr(agent, name)}) for agent in agents]
        player, agent = trainer.player(state.agent)
        play = lambda seed: player.act(agent, state.carry, jax.random.key(seed), state.observation, False)[0]
        greedy = jax.tree.map(lambda actions: actions.astype(jnp.float32), jax.lax.map(play, jnp.arange(8)))
        leaves = jax.tree.leaves_with_path((left, metrics.algorithm, {"greedy": greedy}))
        return {jax.tree_util.keystr(path): x for path, x in leaves if jnp.issubdtype(x.dtype, jnp.floating)}

    return jax.jit(run)
