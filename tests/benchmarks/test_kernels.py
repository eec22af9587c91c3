"""Kernels and bytes of programs on an H200 per step and per minibatch, and launches per update, by its compiler.

It needs JAX's CUDA plugin and no GPU: `bash .ci/gpu-compile`.
"""

import pytest

import purerl
from benchmarks import kernels
from benchmarks.kernels import GPUProgram, Loop
from purerl import registry

pytestmark = pytest.mark.publish

# algorithm, environment, settings: kernels of a step of the rollout, of a minibatch, outside of loops, and launches.
# Measured with jax 0.10.2; the aim is 12 or 25 for a step, 40 for a minibatch, and 1 launch for an update.
TABLE = [
    ("ppo", "CartPole-v1", {"num_envs": 2048, "rollout_length": 128}, 12, 53, 81, 1),
    ("ppo", "Breakout-MinAtar", {"num_envs": 2048, "rollout_length": 128, "network": "mlp"}, 19, 60, 88, 1),
    ("dqn", "CartPole-v1", {"num_envs": 512}, None, None, 39, 5),  # a rollout of one step: no loop
]

PROGRAM = """HloModule jit_step

%fused (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %sine = f32[4]{0} sine(%p)
}

%body (state: (s32[], f32[4])) -> (s32[], f32[4]) {
  %state = (s32[], f32[4]{0}) parameter(0)
  %x = f32[4]{0} get-tuple-element(%state), index=1
  %one = f32[4]{0} fusion(%x), kind=kLoop, calls=%fused
  %two = f32[4]{0} copy(%one)
  ROOT %both = (s32[], f32[4]{0}) tuple(%x, %two)
}

%inner (state: (s32[], f32[4])) -> (s32[], f32[4]) {
  %inner_state = (s32[], f32[4]{0}) parameter(0)
  %nested = (s32[], /*index=1*/f32[4]{0}) while(%inner_state), condition=%c, body=%body
  ROOT %three = (s32[], f32[4]{0}) copy(%nested)
}

ENTRY %main (a: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  %first = (s32[], f32[4]{0}) while(%a), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"7"}}
  %second = (s32[], f32[4]{0}) while(%first), condition=%c, body=%inner, backend_config={"known_trip_count":{"n":"3"}}
  ROOT %last = f32[4]{0} fusion(%second), kind=kLoop, calls=%fused
}
"""
PLAN = """000: kCommandBuffer [source | next=001 (1)]
    001: kWhile [source | sink]
condition:
        002: kCustomKernel [source | sink] less
      body:
        003: kCustomKernel [source | sink] sine
004: kWhile [prev=000 (1) | next=008 (1)]
condition:
    005: kCustomKernel [source | sink] less
  body:
    006: kCommandBuffer [source | next=007 (1)]
        007: kCustomKernel [source | sink] sine
    008: kCustomKernel [source | sink] sine
009: kCustomKernel [prev=004 (1) | sink] sine
"""


def test_counting_in_a_program_written_by_hand():
    found = kernels.read(PROGRAM, PLAN)
    assert found.loops == (
        Loop(trips=7, kernels=2, bytes=64, depth=0),
        Loop(trips=3, kernels=1, bytes=40, depth=0),
        Loop(trips=None, kernels=2, bytes=64, depth=1),
    )
    assert (found.outside, found.outside_bytes) == (1, 36)
    assert found.kernels == 1 + 7 * 2 + 3 * (1 + 2)
    assert found.bytes == 36 + 7 * 64 + 3 * (40 + 64)
    assert found.launches == 1 + 3 * 2 + 1


def test_a_missing_compiler_is_one_line(monkeypatch):
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: None)
    assert "purerl[gpu-compile]" in str(kernels.unavailable())


def compiled(algorithm, env, settings) -> GPUProgram:
    factory, cls = registry.algorithm(algorithm)
    return kernels.compile_update(factory, purerl.make(env), cls(**settings))


@pytest.mark.gpu_compile
@pytest.mark.skipif(kernels.unavailable() is not None, reason=str(kernels.unavailable()))
@pytest.mark.parametrize(("algorithm", "env", "settings", "step", "minibatch", "outside", "launches"), TABLE)
def test_kernels_and_launches_do_not_grow(algorithm, env, settings, step, minibatch, outside, launches):
    found = compiled(algorithm, env, settings)
    assert found.outside <= outside and found.launches <= launches, found
    assert bool(found.loops) == (step is not None)
    if found.loops:
        rollout, *_, learning = (loop for loop in found.loops if loop.depth == 0)
        assert (rollout.trips, learning.trips) == (128, 16)
        assert rollout.kernels <= step and learning.kernels <= minibatch, found


# PureJaxRL's PPO with 2,048 seeds: `python -m benchmarks.kernels ppo CartPole-v1 --seeds 2048 --purejaxrl DIR`
THEIR_STEP = 103_776_364  # bytes of a step of its rollout
THEIR_GRADIENT = 2_957_987_976 + 132_251_672 // 4  # bytes of a gradient step, and of its part of an epoch's shuffle


@pytest.mark.gpu_compile
@pytest.mark.skipif(kernels.unavailable() is not None, reason=str(kernels.unavailable()))
def test_many_agents_move_no_more_than_in_purejaxrl():
    factory, cls = registry.algorithm("ppo")
    found = kernels.compile_update(factory, purerl.make("CartPole-v1"), cls(), seeds=2048)
    rollout, *_, learning = (loop for loop in found.loops if loop.depth == 0)
    assert (rollout.trips, learning.trips) == (128, 16)
    assert rollout.bytes <= 0.5 * THEIR_STEP and rollout.kernels <= 12, found
    assert learning.bytes <= THEIR_GRADIENT and learning.kernels <= 45, found
