"""Plants faults, one line at a time, and runs the tests of that file: does any notice?

    python tests/tools/plant.py                  all of them
    python tests/tools/plant.py functional       those in files whose path holds a word

A row is (file, what stands there, the fault). The mirrored test file must fail. Prints what survives.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = [
    ("purerl/functional/returns.py", "jnp.where(terminated, 0.0, next_value) - value", "next_value - value"),
    (
        "purerl/functional/returns.py",
        "decay = jnp.where(done, 0.0, discount * gae_lambda)",
        "decay = jnp.where(terminated, 0.0, discount * gae_lambda)",
    ),
    (
        "purerl/functional/returns.py",
        "advantage = step[0] + step[1] * advantage",
        "advantage = step[0] + advantage * 0.9",
    ),
    (
        "purerl/functional/returns.py",
        "value = alone + decay * (following - next_value)",
        "value = alone + decay * following",
    ),
    (
        "purerl/functional/returns.py",
        "decay = jnp.where(done, 0.0, discount * trace_lambda)",
        "decay = discount * trace_lambda + 0.0 * reward",
    ),
    ("purerl/functional/vtrace.py", "rho = jnp.minimum(ratio, rho_clip)", "rho = jnp.minimum(ratio, c_clip)"),
    (
        "purerl/functional/vtrace.py",
        "discount * trace_lambda * jnp.minimum(ratio, c_clip))",
        "discount * trace_lambda * rho)",
    ),
    (
        "purerl/functional/vtrace.py",
        "following = jnp.concatenate([discount * target[1:]",
        "following = jnp.concatenate([target[1:]",
    ),
    ("purerl/functional/vtrace.py", "jnp.where(done, successor_value, following)", "following"),
    (
        "purerl/functional/vtrace.py",
        "successor_value = discount * jnp.where(terminated, 0.0, next_value)",
        "successor_value = discount * jnp.where(done, 0.0, next_value)",
    ),
    ("purerl/functional/distributional.py", "jnp.maximum(1.0 - distance, 0.0)", "jnp.maximum(1.0 - distance**2, 0.0)"),
    ("purerl/functional/distributional.py", "+ 0.5) / n", ") / n"),
    ("purerl/functional/distributional.py", "(u < 0.0)", "(u > 0.0)"),
    ("purerl/functional/distributional.py", "jnp.clip(support, low, support_to[-1]) - low", "support - low"),
    (
        "purerl/functional/distributional.py",
        "jnp.sum(jnp.mean(weight * huber(u, kappa) / kappa, axis=2), axis=1)",
        "jnp.mean(jnp.mean(weight * huber(u, kappa) / kappa, axis=2), axis=1)",
    ),
    ("purerl/functional/q_targets.py", "delta * (size - 0.5 * delta)", "delta * size"),
    ("purerl/functional/q_targets.py", "- 1.0) + epsilon * x", "- 1.0) - epsilon * x"),
    (
        "purerl/functional/q_targets.py",
        "a = 4.0 * epsilon * (jnp.abs(x) + 1.0 + epsilon)",
        "a = 4.0 * epsilon * (jnp.abs(x) + 1.0)",
    ),
    ("purerl/functional/masked.py", "jnp.sum(jnp.where(counts, x, 0.0), axes) / number", "jnp.sum(x, axes) / number"),
    ("purerl/functional/masked.py", "variance(target - value, mask) /", "variance(value, mask) /"),
    (
        "purerl/functional/masked.py",
        "mean((x - mean(x, mask, axes)) ** 2, mask, axes)",
        "mean((x - mean(x)) ** 2, mask, axes)",
    ),
    (
        "purerl/functional/normalize.py",
        "new = masked.variance(x, mask, axes) * added",
        "new = masked.variance(x, None, axes) * added",
    ),
    ("purerl/functional/normalize.py", "delta**2 * (self.samples * added / total)", "delta**2"),
    ("purerl/functional/normalize.py", "mean + delta * (added / total)", "mean + delta * 0.5"),
    ("purerl/functional/normalize.py", "jnp.where(at[1], 0.0, discounted), discounted", "discounted, discounted"),
    ("purerl/functional/normalize.py", "discounted = discounted * discount + at[0]", "discounted = discounted + at[0]"),
    ("purerl/functional/objectives.py", "-jnp.minimum(ratio * advantage, clipped * advantage)", "-clipped * advantage"),
    (
        "purerl/functional/objectives.py",
        "error = jnp.maximum(error, (near - samples.target) ** 2)",
        "error = (near - samples.target) ** 2",
    ),
    (
        "purerl/functional/objectives.py",
        'return terms["policy_loss"] + value - entropy',
        'return terms["policy_loss"] + value + entropy',
    ),
    (
        "purerl/functional/drifts.py",
        "(ratio_of(log_ratio) - 1.0) ** 2 / (2.0 * self.epsilon)",
        "(ratio_of(log_ratio) - 1.0) ** 2 / self.epsilon",
    ),
    (
        "purerl/functional/distributions.py",
        "self.normal.log_prob(value) - jnp.sum(_log_slope(value), axis=-1)",
        "self.normal.log_prob(value)",
    ),
    (
        "purerl/functional/distributions.py",
        "return self.normal.entropy() + jnp.sum(correction, axis=-1)",
        "return self.normal.entropy()",
    ),
    ("purerl/functional/action_masks.py", "jnp.where(mask, scores, -1e9)", "jnp.where(mask, -1e9, scores)"),
    ("purerl/optim/optimizers.py", "    if max_grad_norm is not None:", "    if False:"),
    (
        "purerl/optim/optimizers.py",
        "optax.rmsprop(plan.learning_rate, decay=0.99, eps=eps)",
        "optax.rmsprop(plan.learning_rate, decay=0.9, eps=eps)",
    ),
    ("purerl/optim/schedules.py", "jnp.maximum(1.0 - share, 0.0)", "(1.0 - share)"),
    (
        "purerl/optim/schedules.py",
        "return -(-steps // config.steps_per_update)",
        "return steps // config.steps_per_update",
    ),
    ("purerl/functional/exploration.py", "jnp.minimum(num_steps / self.steps, 1.0)", "num_steps / self.steps"),
    ("purerl/functional/exploration.py", "mask_illegal(bits[1:].T, mask)", "bits[1:].T"),
    (
        "algos/off_policy.py",
        "statistics = agent.observation_statistics.update(rollout.observation, rollout.mask)",
        "statistics = agent.observation_statistics.update(rollout.next_observation, rollout.mask)",
    ),
    (
        "algos/off_policy.py",
        "next_observation=by_statistics(batch.next_observation)",
        "next_observation=batch.next_observation",
    ),
    ("algos/policy_gradient.py", "reward = scale.normalize(reward)", "pass"),
    (
        "purerl/optim/minibatch.py",
        "orders.reshape(num_epochs * num_minibatches, size // num_minibatches)",
        "orders.reshape(num_epochs * num_minibatches, size // num_minibatches)[:, ::-1] * 0",
    ),
    ("purerl/optim/minibatch.py", "sums / orders.shape[0]", "sums"),
    (
        "purerl/functional/unit_box.py",
        "(action - self.low) * 2.0 / (self.high - self.low) - 1.0",
        "(action - self.low) / (self.high - self.low) - 1.0",
    ),
    (
        "algos/dqn.py",
        "selector = network.apply(params, batch.next_observation, noise[2]) if config.double else next_outputs",
        "selector = next_outputs",
    ),
    ("algos/dqn.py", "jnp.mean(batch.weight * huber(", "jnp.mean(huber("),
    ("purerl/replay/uniform.py", "discount=jnp.where(flag == TERMINATED, 0.0, factor)", "discount=factor"),
    ("purerl/replay/uniform.py", "factor = jnp.where(going, factor * discount, factor)", "factor = factor * discount"),
    ("purerl/replay/uniform.py", "weight=jnp.where(flag == NO_START, 0.0, weight)", "weight=weight + 0.0 * flag"),
    ("purerl/replay/uniform.py", "next_observation=seen(step(last))", "next_observation=seen(step(index))"),
    (
        "purerl/replay/prioritized.py",
        "(priority / jnp.maximum(jnp.min(priority), 1e-30)) ** -beta",
        "(priority / jnp.maximum(jnp.min(priority), 1e-30)) ** -correction",
    ),
    (
        "purerl/replay/prioritized.py",
        "priority = (jnp.abs(td_error) + floor) ** exponent",
        "priority = jnp.abs(td_error) + floor",
    ),
    ("purerl/replay/prioritized.py", "largest = jnp.maximum(state.largest, ", "largest = jnp.minimum(state.largest, "),
    (
        "purerl/replay/frames.py",
        "back = rows(age, index).astype(jnp.int32)",
        "back = rows(age, index).astype(jnp.int32) * 0 + k",
    ),
    ("purerl/replay/sequences.py", "(priority + 1e-6) ** exponent", "priority + 1e-6"),
    ("purerl/networks/encoder.py", "return cleared, (hidden, carry)", "return carry, (hidden, carry)"),
    ("purerl/networks/q_networks.py", "value + q - jnp.mean(q, axis=-2, keepdims=True)", "value + q"),
    ("purerl/networks/q_networks.py", "noise = jnp.sign(normal) * jnp.sqrt(jnp.abs(normal))", "noise = normal"),
    (
        "purerl/networks/actor_critic.py",
        "seen = without_global_state(observation)\n        features",
        "seen = observation\n        features",
    ),
    ("purerl/loop/vector.py", "episode_length=jnp.where(done, 0, episode_length)", "episode_length=episode_length"),
    (
        "purerl/loop/vector.py",
        "episode_return = state.episode_return + mean_reward(step.reward)",
        "episode_return = mean_reward(step.reward)",
    ),
    ("purerl/loop/resets.py", "episode = jnp.where(done, next_episode, resets.episode)", "episode = resets.episode"),
    ("purerl/loop/resets.py", "used=used | done)", "used=used)"),
    ("purerl/loop/evaluate.py", "total + jnp.where(running, reward, 0.0)", "total + reward"),
    (
        "purerl/loop/evaluate.py",
        "finished=result.finished | timestep.done",
        "finished=result.finished | timestep.terminated",
    ),
    ("purerl/loop/metrics.py", "length_sum=self.length_sum + length", "length_sum=self.length_sum + episode_length"),
    ("purerl/loop/metrics.py", "divisor = jnp.maximum(count, 1)", "divisor = jnp.maximum(count + 1, 1)"),
    (
        "purerl/loop/train.py",
        "carry = where(timestep.done, initial_carry, carry)",
        "carry = where(timestep.terminated, initial_carry, carry)",
    ),
    ("purerl/extensions/groups/group_policy.py", "left = mask & ~concatenate", "left = mask & concatenate"),
    (
        "purerl/extensions/self_play/self_play.py",
        "reply, selves_carry = collect(replies, first.shape[0])",
        "reply, selves_carry = collect(jax.tree.map(lambda x: x[::-1], replies), first.shape[0])",
    ),
    ("purerl/extensions/self_play/elo.py", "weight = played * expected * (1 - expected)", "weight = played * expected"),
    ("purerl/stats.py", "cut = pooled.size // 4", "cut = pooled.size // 3"),
    ("purerl/stats.py", "0.5 * (a == b).astype(jnp.float32)", "0.0 * (a == b).astype(jnp.float32)"),
    ("purerl/stats.py", "tail = 0.5 * (1.0 - confidence)", "tail = 1.0 - confidence"),
    ("purerl/stats.py", "jnp.var(b, ddof=1)", "jnp.var(a, ddof=1)"),
    (
        "purerl/reporting/summary.py",
        "counted = np.array([worst if bad else value",
        "counted = np.array([math.nan if bad else value",
    ),
    (
        "purerl/reporting/compare.py",
        "worst = min(_worst(run) for run in runs)",
        "worst = max(_worst(run) for run in runs)",
    ),
    (
        "purerl/sweeps/population.py",
        "worst, best = order[:few], order[-few:]",
        "worst, best = order[-few:], order[:few]",
    ),
    ("purerl/sweeps/population.py", "scores[donors] > scores[worst]", "scores[donors] < scores[worst]"),
    ("purerl/evolution/strategies.py", "return jnp.concatenate([half, -half])", "return jnp.concatenate([half, half])"),
    ("purerl/evolution/strategies.py", "(self.population * sigma)", "self.population"),
    (
        "purerl/evolution/strategies.py",
        "jnp.exp(0.5 * rate * (utility @ (z**2 - 1.0)))",
        "jnp.exp(rate * (utility @ (z**2 - 1.0)))",
    ),
    ("purerl/extensions/host/rollout.py", "return done if step.mask is None else done | ~step.mask", "return done"),
    (
        "purerl/extensions/host/rollout.py",
        "self._keys = keys if self._index is None else self._acting.keys_of_group(keys, self._index)",
        "self._keys = keys",
    ),
    (
        "purerl/extensions/host/learning.py",
        "total = vector.episode_return + jnp.where(mask, score, 0.0)",
        "total = vector.episode_return + score * 2.0",
    ),
    ("purerl/extensions/host/actors.py", "statistics=self._acting.statistics(part[1])", "statistics=None"),
    (
        "purerl/algos/dqn.py",
        "best = jnp.argmax(mask_illegal(selector, action_mask(batch.next_observation)), axis=-1)",
        "best = jnp.argmax(selector, axis=-1)",
    ),
    (
        "purerl/algos/dqn.py",
        "target = batch.reward + batch.discount * next_value",
        "target = batch.reward + config.discount * next_value",
    ),
    (
        "purerl/algos/ppo.py",
        "next_value = net.value(agent.params, carry, rollout.next_observation)",
        "next_value = jnp.concatenate([value[1:], value[-1:]])",
    ),
    ("purerl/algos/ppo.py", 'metrics["approx_kl"] <= config.target_kl', 'metrics["approx_kl"] >= config.target_kl'),
    (
        "purerl/algos/sac.py",
        "return value - temperature * log_prob, -log_prob",
        "return value + temperature * log_prob, -log_prob",
    ),
    (
        "purerl/algos/sac.py",
        'temperature_loss = params["log_temperature"] * entropy_gap',
        'temperature_loss = -params["log_temperature"] * entropy_gap',
    ),
    (
        "purerl/algos/td3.py",
        "due = (agent.num_gradient_steps + 1) % config.policy_period == 0",
        "due = (agent.num_gradient_steps + 1) % config.policy_period != 0",
    ),
    ("purerl/algos/td3.py", "-noise_clip, noise_clip)", "-1.0, 1.0)"),
    (
        "purerl/algos/pqn.py",
        '_, after = base.unroll(params["body"], rollout.carry, rollout.observation, rollout.done)',
        '_, after = base.unroll(params["body"], rollout.carry, rollout.observation, rollout.done & False)',
    ),
    (
        "purerl/algos/c51.py",
        'support = atoms("c51", config.num_atoms, config.v_min, config.v_max)',
        'support = atoms("c51", config.num_atoms, config.v_min, config.v_max * 2)',
    ),
]


def test_file(path: str) -> str:
    """Return the tests that mirror a file."""
    inside = Path(path).relative_to("purerl")
    return str(Path("tests") / inside.parent / f"test_{inside.name}")


def main(words: list[str]) -> int:
    """Plant each fault in a copy of the project; return how many survived."""
    chosen = [row for row in FAULTS if not words or any(word in row[0] for word in words)]
    survived, broken = [], []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        ignored = shutil.ignore_patterns(".git", ".venv", "results", "__pycache__", "runs")
        shutil.copytree(ROOT, copy, symlinks=True, ignore=ignored)
        for number, (path, right, wrong) in enumerate(chosen, 1):
            file = (copy / path).resolve()
            text = file.read_text()
            if text.count(right) != 1:
                broken.append((path, right))
                print(f"{number:3}  {path}: '{right}' stands there {text.count(right)} times")
                continue
            file.write_text(text.replace(right, wrong))
            began = time.monotonic()
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-n",
                "0",
                "--tb=no",
                "-m",
                "not slow",
                test_file(path),
            ]
            found = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
            file.write_text(text)
            killed = found.returncode == 1 or (found.returncode == 2 and re.search(r"\berror\b", found.stdout))
            if not killed:
                survived.append((path, wrong))
            seconds = time.monotonic() - began
            print(f"{number:3}  {'killed' if killed else 'SURVIVED'}  {seconds:5.1f} s  {path}: {wrong}", flush=True)
    planted = len(chosen) - len(broken)
    print(f"{planted} planted, {planted - len(survived)} killed ({1 - len(survived) / max(planted, 1):.0%})")
    for path, wrong in survived:
        print(f"survived: {path}: {wrong}")
    return len(survived) + len(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
