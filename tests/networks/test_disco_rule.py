"""Disco's rule against the reference implementation's numbers, `tests/tools/golden_disco.py` records them."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos.disco import DiscoConfig, loss_terms
from purerl.functional.q_targets import at_action
from purerl.networks import weights_file
from purerl.networks.disco_rule import DiscoInputs, DiscoRule
from purerl.networks.meta_network import MetaSizes
from purerl.networks.prediction_heads import Predictions
from tests.helpers.disco_inputs import CASES, NUM_UPDATES, SMALL, WEIGHTS, batches

KNOWN = np.load(Path(__file__).parents[1] / "golden" / "disco.npz")
needs_weights = pytest.mark.skipif(not WEIGHTS.exists(), reason="needs .cache/disco_103.npz")


def inputs_of(batch, support):
    """Return our inputs of a batch: the reference has one more action and no final observations."""
    f32 = lambda x: jnp.asarray(x, jnp.float32)
    length, size = batch["reward"].shape
    heads = lambda of: Predictions(**{name: f32(x) for name, x in batch[of].items()})
    return DiscoInputs(
        action=jnp.asarray(batch["action"][:length], jnp.int32),
        reward=f32(batch["reward"]),
        terminated=jnp.asarray(batch["terminated"]),
        done=jnp.asarray(batch["terminated"]),
        mask=None,
        follows=jnp.full((1, size), length - 1, jnp.int32),
        behavior=f32(batch["behavior"][:length]),
        agent=heads("agent"),
        target=heads("target"),
        support=support,
        discount=0.997,
        trace_lambda=0.95,
    )


@pytest.mark.parametrize("case", ["small", pytest.param("disco103", marks=needs_weights)])
def test_the_rule_is_the_references(case, tmp_path):
    """Targets, moving averages and the state of the agent's life over eight updates in a row."""
    *_, size, num_atoms, most = CASES[case]
    if case == "small":
        np.savez(tmp_path / "small.npz", **{n.removeprefix("weights/"): KNOWN[n] for n in KNOWN if n.startswith("w")})
        rule = DiscoRule(weights=weights_file.read(tmp_path / "small.npz", MetaSizes(**SMALL)))
    else:
        rule = DiscoRule.load(WEIGHTS)
    support = jnp.linspace(-most, most, num_atoms)
    config, state = DiscoConfig(), rule.initial_carry()

    @jax.jit
    def apply(state, inputs):
        targets, state = rule(state, inputs)
        taken = {name: at_action(getattr(inputs.agent, name)[:-1], inputs.action) for name in ("z", "q", "next_policy")}
        now = jax.tree.map(lambda x: x[:-1], inputs.agent)._replace(**taken)
        terms = loss_terms(inputs, now, targets)
        return targets, state, sum(getattr(config, f"{name}_coefficient") * x for name, x in terms.items()), terms

    step = 50 if size > 50 else 1
    for update, batch in enumerate(batches(case)):
        targets, state, loss, terms = apply(state, inputs_of(batch, support))
        found = targets._asdict() | {"y": targets.y[..., ::step], "z": targets.z[..., ::step]}
        found |= {"lifetime/0": state.network.hidden, "lifetime/1": state.network.cell}
        found |= {"moments": jnp.stack([*state.advantage]), "loss": loss}
        found |= {f"{name}_loss": terms[name].mean() for name in ("policy", "auxiliary", "value")}
        for name, x in found.items():
            known = KNOWN[f"{case}/{update}/{name}"]
            atol = 1e-5 * max(1.0, np.abs(known).max())
            np.testing.assert_allclose(x, known, rtol=1e-5, atol=atol, err_msg=f"{name} of update {update}")
    assert update == NUM_UPDATES - 1
