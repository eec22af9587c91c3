"""Turns against a loop over every agent's own moves, whatever the length of a rollout."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.a2c import A2CConfig, a2c
from purerl.algos.dqn import DQNConfig, dqn
from purerl.algos.ppo import PPOConfig, ppo
from purerl.algos.r2d2 import R2D2Config, r2d2
from purerl.errors import InputError
from purerl.extensions.groups.joint import OPEN_TURNS, Policy, multi_agent, policies_for
from purerl.extensions.groups.turn_based import OpenTurn, TurnCarry, turns_only
from purerl.functional.distributions import action_head
from purerl.loop.train import collect, make_trainer
from purerl.networks.actor_critic import actor_critic
from purerl.replay.uniform import GOING, TERMINATED, gather
from purerl.types import Rollout
from tests.helpers.nim import Nim

T, B = 24, 40


def played():
    """Return (rollout, turn, following): random turns, rewards and endings; observations are the numbers of steps.

    The carry of a step is how many turns came before it.
    """
    rng = np.random.default_rng(0)
    turn = rng.random((T + 1, B)) < np.linspace(0.1, 1, B)
    mask, ending = rng.random((T, B)) < 0.95, rng.random((T, B))
    counts = turn[:-1] & mask
    step = np.broadcast_to(np.arange(T, dtype=np.float32)[:, None], (T, B))
    rollout = Rollout(
        observation={"step": step},
        action=step[..., None],
        reward=rng.integers(-3, 4, (T, B)).astype(np.float32),
        terminated=ending < 0.1,
        truncated=(ending > 0.9) & mask,
        next_observation={"step": step + 0.5},
        extras={"raw_action": step},
        carry=(np.cumsum(counts, axis=0) - counts).astype(np.float32),
        mask=mask,
    )
    return rollout, turn[:-1], turn[1:]


def by_hand(rollout, turn, following, b):
    """Return (step of the turn, step of its outcome, reward, terminated, truncated) of every turn that counts."""
    found = []
    for t in np.flatnonzero(turn[:, b] & rollout.mask[:, b]):
        total = 0.0
        for s in range(t, T):
            total += rollout.reward[s, b]
            if rollout.terminated[s, b] or rollout.truncated[s, b] or following[s, b]:
                found.append((t, s, total, rollout.terminated[s, b], rollout.truncated[s, b]))
                break
    return found


@pytest.mark.parametrize("length", [1, 2, 3, 8, 24])
def test_every_turn_is_in_one_rollout(length):
    rollout, turn, following = played()
    struct = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), rollout)
    opened, split = OpenTurn.none(struct.observation, struct.action, struct.extras), jax.jit(turns_only)
    found = [[] for _ in range(B)]
    cuts = 0
    for begin in range(0, T, length):
        here = slice(begin, begin + length)
        before = rollout.carry[begin]
        part = jax.tree.map(lambda x, here=here: x[here], rollout._replace(carry=()))
        part = part._replace(carry=TurnCarry(now=before, before=before - 1))
        own, opened = split(part, turn[here], following[here], opened)
        own = jax.tree.map(np.asarray, own)
        for b in range(B):
            n = own.mask[:, b].sum()
            assert own.mask[:n, b].all(), "turns come first"
            rows = [(own.observation["step"][k, b], own.next_observation["step"][k, b] - 0.5) for k in range(n)]
            rest = zip(own.reward[:n, b], own.terminated[:n, b], own.truncated[:n, b] & ~own.cut[:n, b], strict=True)
            found[b] += [(*row, *more) for row, more in zip(rows, rest, strict=True)]
            for k, (t, _) in enumerate(rows):
                assert own.action[k, b, 0] == t == own.extras["raw_action"][k, b]
            ended = n and (own.terminated | own.truncated)[n - 1, b]
            assert n in (0, length) or ended, "nothing flows back from the steps that do not count"
            assert not own.done[n:, b].any() and not own.cut[n:, b].any() and not own.cut[: max(n - 1, 0), b].any()
            cuts += own.cut[:, b].sum()
            if n:
                assert own.carry[b] == rollout.carry[int(rows[0][0]), b]
    expected = [by_hand(rollout, turn, following, b) for b in range(B)]
    assert found == expected
    assert cuts > 5 or length == 1
    assert sum(map(len, expected)) + np.asarray(opened.exists).sum() == (turn & rollout.mask).sum()


def test_an_open_turn_of_an_episode_that_was_cut_off_is_given_up():
    """The first step restarts the second environment; the turn that was open there is in no transition."""
    rollout, *_ = played()
    part = jax.tree.map(lambda x: jnp.asarray(x[:3, :2]), rollout._replace(carry=(), mask=np.ones((T, B), bool)))
    part = part._replace(terminated=jnp.zeros((3, 2), bool), truncated=jnp.zeros((3, 2), bool).at[0, 1].set(True))
    part = part._replace(mask=part.mask.at[0, 1].set(False), carry=TurnCarry(now=(), before=()))
    last = jax.tree.map(lambda x: x[0], (part.observation, part.action, part.extras))
    there = jnp.ones(2, bool)
    opened = OpenTurn(exists=there, observation=last[0], action=last[1], extras=last[2], reward=jnp.full(2, 100.0))
    turn = jnp.array([[False, True, True]] * 2).T
    own, after = turns_only(part, turn, jnp.ones((3, 2), bool), opened)
    assert own.mask.T.tolist() == [[True, True, True], [False, True, True]]
    assert own.truncated.T.tolist() == [[False] * 3, [True, False, False]] and not own.cut.any()
    assert own.reward[0, 0] == 100 + part.reward[0, 0] and not after.exists.any()
    assert own.observation["step"][1:, 1].tolist() == [1, 2]


@pytest.mark.long
def test_always_ones_turn_changes_nothing():
    rollout, _, _ = played()
    always = jnp.ones((T, B), jnp.bool_)
    rollout = rollout._replace(mask=None, carry=TurnCarry(now=(), before=()))
    struct = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), rollout)
    none = OpenTurn.none(struct.observation, struct.action, struct.extras)
    own, opened = turns_only(rollout, always, always, none)
    assert np.asarray(own.mask).all() and not own.cut.any() and not opened.exists.any()
    jax.tree.map(np.testing.assert_array_equal, own._replace(mask=None, cut=None), rollout._replace(carry=()))


def play(factory, config, length, steps=32):
    """Play Nim by an agent that stays as it is, in rollouts of a length.

    Returns (trainer, the state before, the rollouts [P, T, B, ...], the same as one [P x T, B, ...]).
    """
    config = dataclasses.replace(config, rollout_length=length)
    trainer = make_trainer(multi_agent, Nim(), policies_for(Nim(), factory, config))

    @jax.jit
    def run(key):
        state = trainer.init(key)
        keys = jax.random.split(key, steps // length)
        advance = lambda state, key: collect(trainer.algorithm, trainer.vector, state, key, length)
        return state, jax.lax.scan(advance, state, keys)[1]

    state, parts = run(jax.random.key(0))
    whole = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), parts._replace(carry=()))
    return trainer, state, parts, whole


def moves(whole, player, env):
    """Return a player's moves by hand: (step, pile, action, reward, whether the game ended, the pile at the next move).

    Those whose outcome is not known yet are left out.
    """
    pile = lambda seen: seen[player]["observation"][:, env, 0].argmax(-1)
    before, after, over = pile(whole.observation), pile(whole.next_observation), whole.terminated[:, env]
    turn, reward = whole.observation["turn"][player][:, env, 0], whole.reward[player][:, env, 0]
    found = []
    for t in np.flatnonzero(turn):
        end = t if over[t] else t + 1  # with the other's reply
        if end < len(over):
            following = None if over[end] else int(after[end])
            action = int(whole.action[player][t, env, 0])
            found.append((t, int(before[t]), action, float(reward[t : end + 1].sum()), bool(over[end]), following))
    return found


@pytest.mark.long
@pytest.mark.parametrize("length", [1, 2, 4, 16])
def test_a_replay_holds_every_move_once(length):
    """The moves of both players, whatever the rollout length; windows of three moves continue across rollouts."""
    config = DQNConfig(num_envs=6, learning_starts=10**6, batch_size=8, replay_capacity=600, hidden_sizes=(4,))
    trainer, state, parts, whole = play(dqn, config, length)
    update = lambda agent, part: (trainer.algorithm.update(agent, jax.random.key(0), part)[0], None)
    agent = jax.jit(lambda agent, parts: jax.lax.scan(update, agent, parts)[0])(state.agent, parts)
    for player in ("first", "second"):
        replay = jax.tree.map(np.asarray, agent[player].replay)
        for env in range(6):
            expected = moves(whole, player, env)
            n = len(expected)
            assert n > 8 and replay.head[env] == n
            held = replay.observation["observation"][: n + 1, env].argmax(-1)
            for k, (_, pile, action, reward, over, following) in enumerate(expected):
                assert (held[k], replay.action[k, env], replay.reward[k, env]) == (pile, action, reward)
                assert replay.flag[k, env] == (TERMINATED if over else GOING)
                assert over or held[k + 1] == following
            several = gather(agent[player].replay, jnp.arange(n) * 6 + env, 1.0, 0.5, 3)
            for k in range(n):
                last = next((m for m in range(k, min(k + 3, n)) if expected[m][4]), k + 2)
                assert float(several.weight[k]) == (last < n), "the newest windows are still to come"
                if last < n:
                    rewards = [expected[m][3] for m in range(k, last + 1)]
                    assert float(several.reward[k]) == sum(0.5**m * reward for m, reward in enumerate(rewards))
                    assert float(several.discount[k]) == (0.0 if expected[last][4] else 0.5 ** len(rewards))


@pytest.mark.long
@pytest.mark.parametrize("length", [1, 2, 16])
def test_a_recurrent_policy_learns_every_move_once_with_the_memory_it_had(length):
    """The log-probability of an unchanged policy is that of acting."""
    config = PPOConfig(num_envs=6, num_minibatches=1, hidden_sizes=(4,), rnn="gru", rnn_size=4)
    network = {}

    def recording(spec, config):
        """PPO's policy, whose update returns what there is to learn from as its metrics."""
        algorithm = ppo(spec, config)
        network["net"] = actor_critic(spec.observation_space, action_head(spec.action_space), config)

        def update(agent, key, rollout):
            policy, *_ = network["net"].unroll(agent.params, rollout.carry, rollout.observation, rollout.done)
            return agent, {"rollout": rollout, "log_prob": policy.log_prob(rollout.extras["raw_action"])}

        return algorithm._replace(update=update)

    trainer, state, parts, whole = play(recording, config, length)
    update = lambda agent, part: trainer.algorithm.update(agent, jax.random.key(0), part)
    _, learned = jax.jit(lambda agent, parts: jax.lax.scan(update, agent, parts))(state.agent, parts)
    for player in ("first", "second"):
        rollout = jax.tree.map(np.asarray, learned[f"{player}/rollout"])
        error = np.abs(learned[f"{player}/log_prob"] - rollout.extras["log_prob"])
        assert error[rollout.mask].max() < 1e-5
        for env in range(6):
            expected = moves(whole, player, env)
            counts = rollout.mask[:, :, env]
            pile = rollout.observation["observation"][:, :, env].argmax(-1)[counts]
            assert pile.tolist() == [move[1] for move in expected]
            assert rollout.action[:, :, env][counts].tolist() == [move[2] for move in expected]
            assert rollout.reward[:, :, env][counts].tolist() == [move[3] for move in expected]
            assert rollout.terminated[:, :, env][counts].tolist() == [move[4] for move in expected]
            part = np.nonzero(counts)[0]  # each is learned in the rollout in which the reply was seen
            assert part.tolist() == [(t + (not whole.terminated[t, env])) // length for t, *_ in expected]


@pytest.mark.long
@pytest.mark.parametrize("length", [1, 4])
def test_the_scale_of_rewards_is_that_of_one_long_rollout(length):
    scales = {}
    config = A2CConfig(num_envs=6, hidden_sizes=(4,), normalize_reward=True, discount=0.9)
    trainer, state, parts, whole = play(a2c, config, length)
    longer = make_trainer(multi_agent, Nim(), policies_for(Nim(), a2c, dataclasses.replace(config, rollout_length=32)))
    carry = jax.tree.map(lambda x: x[0], parts.carry)
    one = jax.tree.map(lambda x: jnp.asarray(x)[None], whole)._replace(carry=jax.tree.map(lambda x: x[None], carry))
    for name, algorithm, given in (("short", trainer.algorithm, parts), ("long", longer.algorithm, one)):
        update = lambda agent, part, algorithm=algorithm: (algorithm.update(agent, jax.random.key(0), part)[0], None)
        agent = jax.jit(lambda parts, update=update: jax.lax.scan(update, state.agent, parts)[0])(given)
        scales[name] = [agent[player].return_scale for player in ("first", "second")]
    assert float(scales["long"][0].statistics.samples) > 60
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), scales["short"], scales["long"])


def test_what_cannot_take_turns():
    sequences = R2D2Config(num_envs=2, rollout_length=4, burn_in=0, sequence_length=4, learning_starts=2000)
    with pytest.raises(InputError, match="cannot be trained from sequences of steps, as in r2d2"):
        make_trainer(multi_agent, Nim(), policies_for(Nim(), r2d2, sequences))


@pytest.mark.long
def test_open_turns_are_of_the_policies_that_learn():
    """A frozen policy has none, and the trainer's evaluation takes the policies alone."""
    config = DQNConfig(num_envs=6, learning_starts=16, batch_size=8, replay_capacity=600, hidden_sizes=(4,))
    frozen = Policy(algorithm=dqn, config=config, groups=("second",), frozen=True)
    trainer = make_trainer(multi_agent, Nim(), policies_for(Nim(), dqn, config, second=frozen))
    state, _ = jax.jit(trainer.step)(trainer.init(jax.random.key(0)))
    assert set(state.agent[OPEN_TURNS]) == {"first"}
    policies = {name: state.agent[name] for name in ("first", "second")}
    assert trainer.evaluate(policies, jax.random.key(1), 4, 100, False).episode_length.max() <= 7
