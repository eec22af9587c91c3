"""Record what the reference implementation of Disco computes on random rollouts: tests/golden/disco.npz.

  git clone https://github.com/google-deepmind/disco_rl
  uv run --no-project --with dm-haiku --with distrax --with rlax --with jmp --with immutabledict --with ml_collections \
    --with dm-env python tests/tools/golden_disco.py disco_rl

In float64: the reference's own rounding in float32 is above the tolerance. Recorded are eight updates in a row of a
small meta-network with random weights, which are recorded as well, and of the published ones.
"""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
PARTS = 50  # every PARTS-th number along the long axis of y and z is recorded


def settings(agent, sizes, atoms, most):
    """Return the reference's settings with other sizes; `sizes` None: those of Disco103."""
    chosen = agent.get_settings_disco()
    rule = chosen.update_rule
    rule.num_bins, rule.max_abs_value = atoms, most
    if sizes is not None:
        net, hidden = rule.net, sizes["hidden"]
        net.prediction_size, net.hidden_size = sizes["predictions"], sizes["units"]
        net.embedding_size, net.policy_channels, net.policy_target_channels = (hidden, 1), (hidden, 2), (hidden,)
        net.meta_rnn_kwargs.hidden_size = sizes["lifetime_units"]
        net.meta_rnn_kwargs.policy_channels = (hidden, 2)
        net.meta_rnn_kwargs.embedding_size, net.meta_rnn_kwargs.pred_embedding_size = (hidden,), (hidden, 1)
    return chosen


def nested(flat):
    """Return Haiku's parameters from {name/w or name/b: array}."""
    found = {}
    for name, array in flat.items():
        layer, _, kind = name.rpartition("/")
        found.setdefault(layer, {})[kind] = np.asarray(array, np.float64)
    return found


NAMES = {"policy": "logits", "y": "y", "z": "z", "q": "q", "next_policy": "aux_pi"}  # ours -> the reference's


def record(case, weights, batches, chosen):
    """Return {case/update/name: array} of the updates in a row."""
    import jax
    from disco_rl import types
    from disco_rl.update_rules.disco import DiscoUpdateRule

    rule, hyper = DiscoUpdateRule(**chosen.update_rule), chosen.hyper_params.to_dict()
    state = rule.init_meta_state(jax.random.PRNGKey(0), {"w": np.zeros(1)})
    found = {}
    for update, batch in enumerate(batches):
        agent, target = ({NAMES[name]: x for name, x in batch[of].items()} for of in ("agent", "target"))
        rollout = types.UpdateRuleInputs(
            observations=np.zeros(batch["action"].shape),
            actions=batch["action"].astype(np.int32),
            rewards=batch["reward"],
            is_terminal=batch["terminated"],
            behaviour_agent_out={"logits": batch["behavior"]},
            agent_out=agent,
        )
        out, state = rule.unroll_meta_net(
            weights,
            params={"w": np.ones(1)},
            state=None,
            meta_state=state,
            rollout=rollout,
            hyper_params=hyper,
            unroll_policy_fn=lambda *_, target=target: (target, None),
            rng=None,
        )
        loss, log = rule.agent_loss(rollout, out, hyper, backprop=False)
        value_loss, value_log = rule.agent_loss_no_meta(rollout, out, hyper)
        lifetime, moments = jax.tree.leaves(state["rnn_state"]), state["adv_ema_state"]
        arrays = {
            "policy": out["pi"],
            "y": out["y"],
            "z": out["z"],
            "value": out["q_target"],
            "advantage": out["adv"],
            "standardized_advantage": out["normalized_adv"],
            "loss": loss + value_loss,
            "value_loss": value_log["q_loss"],
            "auxiliary_loss": log["aux_kl_loss"],
            "policy_loss": log["pi_loss"],
            "lifetime/0": lifetime[0],
            "lifetime/1": lifetime[1],
            "moments": np.array([moments.moment1, moments.moment2, moments.decay_product]),
        }
        step = PARTS if arrays["y"].shape[-1] > PARTS else 1
        arrays |= {name: arrays[name][..., ::step] for name in ("y", "z")}
        found |= {f"{case}/{update}/{name}": np.asarray(x, np.float32) for name, x in arrays.items()}
    return found


def main():
    """Write the file."""
    import jax

    jax.config.update("jax_enable_x64", True)
    sys.path[:0] = [sys.argv[1], str(ROOT / "tests" / "helpers")]  # other packages have modules called tests
    from disco_inputs import CASES, SMALL, batches, small_weights
    from disco_rl import agent

    published = dict(np.load(Path(sys.argv[1]) / "disco_rl/update_rules/weights/disco_103.npz"))
    arrays = {}
    for case, (*_, atoms, most) in CASES.items():
        chosen = settings(agent, SMALL if case == "small" else None, atoms, most)
        weights = published
        if case == "small":
            from disco_rl.update_rules.disco import DiscoUpdateRule

            made, _ = DiscoUpdateRule(**chosen.update_rule).init_params(jax.random.PRNGKey(0))
            shapes = {f"{layer}/{kind}": made[layer][kind].shape for layer in made for kind in made[layer]}
            weights = small_weights(shapes)
            arrays |= {f"weights/{name}": array for name, array in weights.items()}
        arrays |= record(case, nested(weights), batches(case), chosen)
    np.savez_compressed(ROOT / "tests/golden/disco.npz", **arrays)


if __name__ == "__main__":
    main()
