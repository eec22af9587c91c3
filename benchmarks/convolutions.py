"""Networks for images: samples per second, forward and trained, compared with PyTorch's same layers, in turn."""

import contextlib
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks import tables
from benchmarks.contest import Failed, FrameworkProcess, Problem
from benchmarks.groups import Request
from benchmarks.tables import FAILED, Table
from benchmarks.timing import in_turn, progress, ratios, spread
from purerl.networks.cnn import CNNS
from purerl.networks.torsos import MLP
from purerl.optim.optimizers import GradientPlan, adam_by_plan, apply_gradients
from purerl.profiling.explain import matmul_peak
from purerl.profiling.flops import products
from purerl.xla import backend
from purerl.xla.accumulation import minibatch_gradient

COLUMNS = tables.columns(
    "network: text; samples at once: count; work: text; by: text; samples/s: rate; purerl against it: ratio; "
    "share of matmul peak: share"
)
OUTPUTS = 6  # outputs of the last layer
LEARNING_RATE = 1e-4


class Network(NamedTuple):
    """Convolutions, a layer of `units`, and one of `OUTPUTS`."""

    name: str
    kind: str  # kind of its convolutions, a key of `CNNS`
    shape: tuple[int, int, int]  # shape of a sample; bytes, as frames are stored
    units: int
    samples: int  # samples per timed run


NETWORKS = {
    Network(name="Nature", kind="nature", shape=(84, 84, 4), units=512, samples=2048): (8, 32, 256),
    Network(name="MinAtar", kind="minatar", shape=(10, 10, 4), units=128, samples=65536): (64, 1024),
}


def measure(request: Request) -> list[Table]:
    """Return the speed of each network for a few sizes of batches."""
    others = [opponent for opponent in request.trainers if opponent.name == "torch"]
    rows = []
    for network, batches in NETWORKS.items():
        for batch in batches:
            for work in ("forward", "trained"):
                count = max(1, int(network.samples * request.size) // batch)
                rows += _rows(network, batch, count, work, others, request.runs)
    return [Table(title="Networks for images, Adam where they are trained", columns=COLUMNS, rows=rows)]


def _rows(network: Network, batch: int, count: int, work: str, others: Any, runs: int) -> list[list[Any]]:
    convolutions: Any = CNNS[network.kind](layer_norm=False, dtype=jnp.float32, initializer="normal")
    settings = {"layers": convolutions.layers, "shape": network.shape, "units": network.units, "outputs": OUTPUTS}
    settings |= {"batch": batch, "learning_rate": LEARNING_RATE}
    problem = Problem(name=network.name, algorithm=work, environment="", steps=count, settings=settings)
    ours, operations = program(network, batch, count, work)
    told = [network.name, batch, work]
    with contextlib.ExitStack() as stack:
        calls, names, failed = [ours], ["purerl"], []
        for opponent in others:
            try:
                worker = stack.enter_context(FrameworkProcess(problem, opponent))
                calls.append(lambda worker=worker: worker.train(0).seconds)
                names.append(opponent.name)
            except Failed as failure:
                failed.append([*told, opponent.name, FAILED + str(failure), None, None])
        peak = matmul_peak()
        timed = in_turn(calls, runs)
    rows = []
    for name, seconds in zip(names, timed, strict=True):
        rates = [count * batch / one for one in seconds]
        against = ratios(seconds, timed[0]) if seconds is not timed[0] else None
        share = operations * count / peak / statistics.median(seconds) if against is None else None
        rows.append([*told, name, spread(rates), against, share])
        progress(f"{network.name}, {batch} samples, {work}, {name}: {statistics.median(rates):,.0f} samples/s")
    return rows + failed


def program(network: Network, batch: int, count: int, work: str) -> tuple[Callable[[], Any], float]:
    """Return (a call that passes or trains `count` batches one after the other, operations of products in one)."""
    convolutions = CNNS[network.kind](layer_norm=False, dtype=jnp.float32, initializer="normal")
    dense = MLP((network.units,), "relu", initializer="normal")
    key = jax.random.key(0)
    samples = jax.random.randint(key, (batch, *network.shape), 0, 256, jnp.uint8)
    features = lambda params, x: convolutions.apply(params, x.astype(jnp.float32) / 255.0)
    first = convolutions.init(key, samples.astype(jnp.float32))
    flat = features(first, samples)
    params: Any = (first, dense.init(key, flat), 0.02 * jax.random.normal(key, (network.units, OUTPUTS)))
    plan = GradientPlan(learning_rate=LEARNING_RATE, max_grad_norm=None, num_steps=1.0, steps_per_update=1)
    optimizer = adam_by_plan(plan)

    def forward(params: Any, x: Any) -> Any:
        return dense.apply(params[1], features(params[0], x)) @ params[2]

    def learn(carry: Any, x: Any) -> Any:
        params, state = carry
        loss = lambda params, x: (jnp.mean(forward(params, x) ** 2), {})
        gradient, _ = minibatch_gradient(loss, params, x, None)
        return apply_gradients(optimizer, gradient, state, params)

    if work == "forward":
        act, operations = backend.jit(forward), products(forward, params, samples)
        return lambda: [jax.block_until_ready(act(params, samples)) for _ in range(count)], operations
    carry = (params, optimizer.init(params))
    several = jnp.broadcast_to(samples, (count, *samples.shape))
    run = backend.jit(lambda carry, several: jax.lax.scan(lambda c, x: (learn(c, x), None), carry, several)[0])
    return lambda: run(carry, several), products(learn, carry, samples)
