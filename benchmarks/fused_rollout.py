"""A rollout as one kernel: acting, stepping, resets and statistics of all its steps, in Pallas.

XLA makes twelve kernels of one step of PPO on CartPole, and on a GPU each takes longer to start than to compute. Here a
core of a GPU keeps a block of environments in its registers for a whole rollout, and writes only what is learned from.
Nothing of the environment is written again: its step, its resets and its statistics are the loop's own, as operations
on vectors (`lanes`). Tests show that states, actions and rewards are those of the usual rollout, in Pallas'
interpreter, and that the kernel compiles for an H200. `gpu.fused` measures its speed.

It needs a policy of dense layers whose widths are powers of two, one discrete action, and an environment whose steps
draw no random numbers.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

import purerl
from benchmarks import lanes, tables
from benchmarks.groups import Request
from benchmarks.tables import Table
from benchmarks.timing import seconds_of, spread
from purerl import prng
from purerl.algos.ppo import PPOConfig, ppo
from purerl.errors import InputError
from purerl.loop.train import CompiledTrainer
from purerl.loop.trainer import TrainState
from purerl.networks.torsos import ACTIVATIONS
from purerl.prng import convert
from purerl.training import make_trainer
from purerl.types import Array, Key, PyTree, Rollout
from purerl.xla import backend

BLOCK = 16  # environments that a core keeps: 128 blocks of 2,048 for the 132 cores of an H200
PARAMETERS = triton.CompilerParams(num_warps=4, num_stages=1)
WIDE = {"num_envs": 2048, "rollout_length": 128, "reset_policy": "always"}
TINY = {"num_envs": 32, "rollout_length": 8, "reset_policy": "always", "hidden_sizes": (16, 16)}
COLUMNS = tables.columns(
    "rollouts: text; of a rollout, steps/s: rate; of an update, steps/s: rate; compile: seconds; equal actions: share"
)


def measure(request: Request) -> list[Table]:
    """Return the speed of PPO on CartPole with the usual rollouts and with those of one kernel."""
    title = "PPO, 2048 x 128, CartPole-v1, rollouts of one kernel"
    if jax.default_backend() != "gpu" and not request.tiny:
        return [Table(title=title, columns=[("not measured", "text")], rows=[["no GPU here"]])]
    config = PPOConfig(**(TINY if request.tiny else WIDE))
    usual: Any = make_trainer(ppo, purerl.make("CartPole-v1"), config)
    rows, actions = [], None
    for name, trainer in (("usual", usual), ("one kernel", FusedTrainer.of(usual, interpret=request.tiny))):
        state, key = jax.jit(trainer.init)(jax.random.key(0)), convert(jax.random.key(1), config.prng)
        began = time.perf_counter()
        collect = backend.jit(trainer.collect, graphs=True).lower(state, key).compile()
        update = backend.jit(trainer.step, graphs=True).lower(state).compile()
        compiling = time.perf_counter() - began
        given = np.asarray(collect(state, key)[1].action)
        actions = given if actions is None else actions
        calls = functools.partial(collect, state, key), functools.partial(update, state)
        times = [[seconds_of(call) for _ in range(request.runs + 2)][2:] for call in calls]
        speeds = [spread([config.steps_per_update / seconds for seconds in each]) for each in times]
        rows.append([name, *speeds, compiling, float(np.mean(given == actions))])
    return [Table(title=title, columns=COLUMNS, rows=rows)]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class FusedTrainer(CompiledTrainer):
    """A trainer of PPO that differs from `CompiledTrainer` only in how it computes rollouts."""

    interpret: bool = False  # in Pallas' interpreter, on any device

    @classmethod
    def of(cls, trainer: Any, interpret: bool = False) -> "FusedTrainer":
        """Return the fused form of a trainer.

        Raises:
          InputError: for settings that the kernel does not have.
        """
        config = trainer.config
        wanted = {"reset_policy": "always", "rnn": "none", "head_sizes": (), "layer_norm": False}
        wanted |= {"normalize_observation": False, "prng": "fast"}
        for name, value in wanted.items():
            if getattr(config, name) != value:
                raise InputError(f"{name} is {getattr(config, name)}; for rollouts of one kernel it must be {value}")
        if config.num_envs % BLOCK:
            raise InputError(
                f"num_envs is {config.num_envs}; for rollouts of one kernel it must be a multiple of {BLOCK}"
            )
        fields = {field.name: getattr(trainer, field.name) for field in dataclasses.fields(CompiledTrainer)}
        return cls(**fields, interpret=interpret)

    def collect(self, state: TrainState, key: Key) -> tuple[TrainState, Rollout]:
        """Return (the state after a rollout, with the statistics of only its episodes; the rollout [T, B])."""
        size, length = self.config.num_envs, self.config.rollout_length
        state = state._replace(vector=state.vector._replace(statistics=state.vector.statistics.clear(size)))
        words = jax.random.key_data(jax.random.split(key, (length, 2))[:, 0])  # those for acting
        begin = (state.vector, state.observation)
        kernel = Kernel(self, begin)
        begun = columns(begin)
        layers = jax.tree.leaves(state.agent.params["body"]) + jax.tree.leaves(state.agent.params["actor"])
        block = lambda shape: pl.BlockSpec((BLOCK, *shape[1:]), lambda i: (i, *[0] * (len(shape) - 1)))
        turns = lambda shape: pl.BlockSpec((length, BLOCK, *shape[2:]), lambda i: (0, i, *[0] * (len(shape) - 2)))
        whole = lambda shape: pl.BlockSpec(shape, lambda i: (0,) * len(shape))
        record = [jax.ShapeDtypeStruct((length, size, *shape), dtype) for shape, dtype in kernel.record]
        results = pl.pallas_call(
            kernel,
            grid=(size // BLOCK,),
            in_specs=[*(whole(x.shape) for x in (words, *layers)), *(block(x.shape) for x in begun)],
            out_specs=[*(turns(x.shape) for x in record), *(block(x.shape) for x in begun)],
            out_shape=[*record, *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in begun)],
            interpret=self.interpret,
            compiler_params=PARAMETERS,
            name="rollout",
        )(words, *layers, *begun)
        observation, action, log_prob, reward, terminated, truncated, final = results[: len(record)]
        vector, last = joined(iter(results[len(record) :]), begin)
        rollout = Rollout(
            observation=jnp.concatenate([state.observation[None], observation[:-1]]),
            action=action,
            reward=reward,
            terminated=terminated != 0,
            truncated=truncated != 0,
            next_observation=final,
            extras={"raw_action": action, "log_prob": log_prob},
            carry=state.carry,
        )
        return state._replace(vector=vector, observation=last), rollout


class Kernel:
    """The rollout of a block of environments."""

    def __init__(self, trainer: CompiledTrainer, begin: PyTree):
        """Trace a step of one environment; `begin` is (the vector's state, observations), [B, ...]."""
        config: Any = trainer.config
        self.length, self.activation = config.rollout_length, ACTIVATIONS[config.activation]
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype), begin)
        self.leaves = jax.tree.leaves(one)
        key, action = jax.eval_shape(lambda: prng.fast(jax.random.key(0))), jax.ShapeDtypeStruct((1,), jnp.int32)
        self.step = lanes.Function(dataclasses.replace(trainer.vector, num_envs=1).step, key, one[0], action)
        if self.step.used[0]:
            raise InputError(f"a step of {type(trainer.environment).__name__} draws random numbers")
        observed, number, flag = (one[1].shape[1:], jnp.float32), ((), jnp.float32), ((), jnp.int8)
        self.record = [observed, ((), jnp.int32), number, number, flag, flag, observed]

    def __call__(self, words: Any, *refs: Any) -> None:
        """Compute the rollout of a block.

        Args:
          words: u32[T, 2], of the keys for acting.
          refs: bias and kernel of each layer, the state's columns [BLOCK], the record [T, BLOCK, ...], the columns
            after the rollout.
        """
        count = sum(2 * x.size if prng.is_key(x) else x.size for x in self.leaves)
        layers, refs = refs[: -2 * count - len(self.record)], refs[-2 * count - len(self.record) :]
        before, record, after = refs[:count], refs[count:-count], refs[-count:]
        number = (pl.program_id(0) * BLOCK + jnp.arange(BLOCK)).astype(jnp.uint32)

        def turn(t: Array, vectors: list[Array]) -> list[Array]:
            given = iter(vectors)
            *state, seen = [lanes.from_vectors(given, x.shape, prng.is_key(x)) for x in self.leaves]
            logits = self.logits(layers, list(seen.reshape(-1)))
            chosen = choose(logits, (words[t, 0], words[t, 1]), number)
            action, log_prob = (lanes.from_vectors(iter([x]), (1,), False) for x in chosen)
            state, seen, step = self.step(None, *state, action)
            told = (seen, action, log_prob, step.reward, step.terminated, step.truncated, step.observation)
            for ref, (shape, dtype), value in zip(record, self.record, told, strict=True):
                for index, vector in enumerate(lanes.to_vectors(value, dtype, BLOCK)):
                    ref[(t, slice(None), *np.unravel_index(index, shape))] = vector
            together = zip(self.leaves, jax.tree.leaves((state, seen)), strict=True)
            return [vector for leaf, value in together for vector in lanes.to_vectors(value, leaf.dtype, BLOCK)]

        vectors = jax.lax.fori_loop(0, self.length, turn, [ref[:] for ref in before])
        for ref, vector in zip(after, vectors, strict=True):
            ref[:] = vector

    def logits(self, layers: tuple[Any, ...], observation: list[Array]) -> list[Array]:
        """Return the policy's logits f32[BLOCK] for each action; narrow layers are computed without matrix products."""
        (bias, kernel), *hidden, (last_bias, last) = zip(layers[::2], layers[1::2], strict=True)
        first: Any = sum(x[:, None] * kernel[i][None] for i, x in enumerate(observation))
        x = self.activation(first + bias[:][None])
        for bias, kernel in hidden:
            x = self.activation(x @ kernel[:] + bias[:][None])
        return [jnp.sum(x * last[:, i][None], axis=1) + last_bias[i] for i in range(last.shape[1])]


def choose(logits: list[Array], words: Any, number: Array) -> tuple[Array, Array]:
    """Return (actions i32[L], their log-probabilities f32[L]), as `Categorical` samples them for all environments.

    Args:
      logits: f32[L] for each action.
      words: u32[] each, of the key for all environments.
      number: u32[L], of the environments.
    """
    count = np.uint32(len(logits))
    noise = [gumbel(prng._words(words, number * count + np.uint32(i), np.uint32(0))) for i in range(len(logits))]
    best, action = logits[0] + noise[0], jnp.zeros(number.shape, jnp.int32)
    for i in range(1, len(logits)):
        value = logits[i] + noise[i]
        action = jnp.where(value > best, i, action)
        best = jnp.maximum(value, best)
    most = functools.reduce(jnp.maximum, logits)
    total = sum(jnp.exp(x - most) for x in logits)
    chosen = sum(jnp.where(action == i, x, 0.0) for i, x in enumerate(logits))
    return action, chosen - most - jnp.log(total)


def gumbel(bits: Array) -> Array:
    """Return Gumbel noise of random words, as `jax.random.gumbel` makes it."""
    fraction = jax.lax.bitcast_convert_type((bits >> np.uint32(9)) | np.uint32(0x3F800000), jnp.float32) - 1.0
    tiny = np.finfo(np.float32).tiny
    return -jnp.log(-jnp.log(jnp.maximum(tiny, fraction * (1.0 - tiny) + tiny)))


def columns(tree: PyTree) -> list[Array]:
    """Return each number of the arrays [B, ...] of a tree, and each word of its keys, as a column [B]."""
    arrays = [jax.random.key_data(x) if prng.is_key(x) else x for x in jax.tree.leaves(tree)]
    return [column for x in arrays for column in x.reshape(x.shape[0], -1).T]


def joined(given: Iterator[Array], like: PyTree) -> PyTree:
    """Return the tree of some columns; the inverse of `columns`."""

    def join(leaf: Array) -> Array:
        shape = jax.eval_shape(jax.random.key_data, leaf).shape if prng.is_key(leaf) else leaf.shape
        array = jnp.stack([next(given) for _ in range(math.prod(shape[1:]))], axis=1).reshape(shape)
        return prng.typed(array, leaf) if prng.is_key(leaf) else array

    return jax.tree.map(join, like)
