"""Other suites' own environments as (reset, step), for tests that compare an adapter with them.

reset: key -> (state, observation); step: (key, state, action) -> (state, (observation, reward, terminated, truncated)).
`limit` is a time limit in steps. Packages are imported where they are asked for.
"""

import jax
import jax.numpy as jnp

from purerl.envs.adapters.common import raw_key


def gymnax(name, limit=None):
    """gymnax's own reset and automatically resetting step, which draws with the first half of its key."""
    import gymnax

    with jax.numpy_dtype_promotion("standard"):
        env, params = gymnax.make(name)
    if limit is not None:
        params = params.replace(max_steps_in_episode=limit)

    def reset(key):
        observation, state = env.reset(key, params)
        return state, observation

    def step(key, state, action):
        _, state, reward, terminated, truncated, info = env.step(key, state, action, params)
        return state, (info["final_observation"], reward, terminated, truncated)

    return reset, step


def first_half(key):
    """Return the key that gymnax's and pgx's own automatic resets step with."""
    return jax.random.split(key)[0]


def brax(name, limit, **options):
    """brax's bare environment, which has no time limit of its own."""
    from brax import envs

    env = envs.get_environment(name, **options)

    def reset(key):
        state = env.reset(key)
        return (state, 0), state.obs

    def step(key, carry, action):
        state, time = carry
        state = env.step(jax.tree.map(lambda x: x, state), action)
        return (state, time + 1), (state.obs, state.reward, state.done, time + 1 >= limit)

    return reset, step


def playground(name, limit):
    """Playground's bare environment, which has no time limit of its own."""
    from mujoco_playground import registry

    env = registry.load(name, config_overrides={"impl": "jax"})

    def reset(key):
        state = env.reset(raw_key(key))
        return (state, 0), state.obs

    def step(key, carry, action):
        state, time = carry
        state = env.step(jax.tree.map(lambda x: x, state), action)
        return (state, time + 1), (state.obs, state.reward, state.done, time + 1 >= limit)

    return reset, step


def jumanji(name, limit=None, convert=lambda action: action, **options):
    """jumanji's own environment, with its own time limit; convert: our action -> jumanji's."""
    import jumanji

    env = jumanji.make(name, **({} if limit is None else {"time_limit": limit}), **options)

    def plain(value):
        return {k: plain(v) for k, v in value._asdict().items()} if hasattr(value, "_asdict") else value

    def observed(observation):
        parts = plain(observation)
        return parts | {"action_mask": parts["action_mask"].reshape(-1)} if "action_mask" in parts else parts

    def reset(key):
        state, first = env.reset(raw_key(key))
        return (state, 0), observed(first.observation)

    def step(key, carry, action):
        state, time = carry
        state, step = env.step(state, convert(action))
        late = step.last() & (time + 1 >= limit) if limit is not None else jnp.bool_(False)
        reward = jnp.sum(step.reward)  # summed over a team
        return (state, time + 1), (observed(step.observation), reward, step.last() & ~late, late)

    return reset, step


def navix(name, limit):
    """navix's own environment; its step is the suite's public one, which only resets after an ending."""
    import navix

    with jax.numpy_dtype_promotion("standard"):
        env = navix.make(name, max_steps=limit)

    def reset(key):
        state = env.reset(raw_key(key))
        return state, state.observation.astype(jnp.int8)

    def step(key, state, action):
        state = env.step(state, action)
        return state, (state.observation.astype(jnp.int8), state.reward, state.is_termination(), state.is_truncation())

    return reset, step


def craftax(name, limit):
    """Craftax's own environment; where it ends in the last step before its limit it does not say of what."""
    from craftax.craftax_env import make_craftax_env_from_name

    game = make_craftax_env_from_name(name, auto_reset=True)
    params = game.default_params.replace(max_timesteps=limit)

    def reset(key):
        observation, state = game.reset_env(key, params)
        return state, observation

    def step(key, state, action):
        observation, state, reward, done, _ = game.step_env(key, state, action, params)
        late = state.timestep >= limit
        return state, (observation, reward, done & ~late, late)

    return reset, step


def pgx_alone(name, limit):
    """A game of pgx for one player."""
    import pgx

    with jax.numpy_dtype_promotion("standard"):
        game = pgx.make(name)
    masked = not name.startswith("minatar")

    def observed(state):
        if not masked:
            return state.observation
        return {"observation": state.observation, "action_mask": state.legal_action_mask}

    def reset(key):
        state = game.init(first_half(key))
        return (state, 0), observed(state)

    def step(key, carry, action):
        state, time = carry
        state = game.step(state, action, first_half(key))
        return (state, time + 1), (observed(state), state.rewards[0], state.terminated, time + 1 >= limit)

    return reset, step


def pgx_in_turns(name):
    """A game of pgx for several players; it only shows pgx's observation for the player whose turn it is."""
    import pgx

    with jax.numpy_dtype_promotion("standard"):
        game = pgx.make(name)

    def observed(state):
        return {"observation": state.observation, "action_mask": state.legal_action_mask, "turn": state.current_player}

    def reset(key):
        state = game.init(key)
        return state, observed(state)

    def step(key, state, action):
        state = game.step(state, jnp.concatenate(jax.tree.leaves(action))[state.current_player], key)
        return state, (observed(state), state.rewards, state.terminated, state.truncated)

    return reset, step


def xminigrid(name, limit):
    """XLand-MiniGrid's own environment; its discount distinguishes termination from truncation."""
    import xminigrid

    with jax.numpy_dtype_promotion("standard"):
        env, params = xminigrid.make(name, max_steps=limit)

    def reset(key):
        first = env.reset(params, raw_key(key))
        return first, first.observation.astype(jnp.int8)

    def step(key, before, action):
        after = env.step(params, before, action)
        ended = after.discount == 0
        after = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, before)
        return after, (after.observation.astype(jnp.int8), after.reward, ended, after.last() & ~ended)

    return reset, step
