"""Faults for `plant.py`: mistakes that an engineer makes and that change results.

`FAULTS[path]` is a list of (code that occurs once, the fault, more test files that must notice it). The test files with
the file's own name must always notice it.
"""

LIMITS = "tests/algos/test_time_limits.py"
GAMES = (
    "tests/extensions/groups/test_joint.py",
    "tests/extensions/self_play/test_self_play.py",
    "tests/envs/adapters/test_endings.py",
    "tests/envs/adapters/test_jaxmarl.py",
)

FAULTS: dict[str, list[tuple[str, ...]]] = {
    "algos/a2c.py": [
        ("old_value = jax.lax.stop_gradient(value)", "old_value = value"),
    ],
    "algos/alphazero.py": [
        (
            "jnp.where(side == next_side, config.discount, -config.discount)",
            "jnp.where(side == next_side, config.discount, config.discount)",
        ),
        ("reward=jnp.where(terminal, 0.0, timestep.reward)", "reward=timestep.reward"),
        ("jnp.where(timestep.terminated, 0.0, discount)", "jnp.where(timestep.done, 0.0, discount)"),
    ],
    "algos/awr.py": [
        (
            "jnp.minimum(jnp.exp(advantage / config.temperature), config.max_weight)",
            "jnp.exp(advantage / config.temperature)",
        ),
        ("weights(target - target_value(batch.observation), ", "weights(target_value(batch.observation) - target, "),
        (
            "batch.discount * target_value(batch.next_observation)",
            "config.discount * target_value(batch.next_observation)",
            LIMITS,
        ),
    ],
    "algos/c51.py": [
        (
            "support = atoms(what, config.num_atoms, config.v_min, config.v_max)",
            "support = atoms(what, config.num_atoms, config.v_min, config.v_max * 2)",
        ),
        ("batch.discount[:, None] * support", "config.discount * support", LIMITS),
        ("project(shifted, jax.nn.softmax(next_best), support)", "project(shifted, next_best, support)"),
    ],
    "algos/crossq.py": [
        ("smallest(next_value) - jnp.exp(", "smallest(next_value) + jnp.exp("),
        ("warmup=config.renorm_warmup", "warmup=0"),
        ("* next_policy.log_prob(sample)", "* jnp.minimum(next_policy.log_prob(sample), 0.0)"),
        ("counted = both(batch.weight > 0, batch.weight > 0)", "counted = None"),
        (
            "target = jax.lax.stop_gradient(config.reward_scale * batch.reward + batch.discount * soft)",
            "target = config.reward_scale * batch.reward + batch.discount * soft",
        ),
        (
            "action = both(policy.box.to_unit(batch.action), jnp.tanh(sample))",
            "action = both(policy.box.to_unit(batch.action), sample)",
        ),
    ],
    "algos/curiosity.py": [
        (
            'target = jax.lax.stop_gradient(features(params["random"], rollout.next_observation))',
            'target = features(params["random"], rollout.next_observation)',
        ),
        (
            'features(params["predictor"], rollout.next_observation)',
            'features(params["predictor"], rollout.observation)',
        ),
        ("(predicted - sg(after))", "(predicted - after)"),
        ('"features": sg(before)}', '"features": before}'),
        (
            "FORWARD_SHARE * error - (1.0 - FORWARD_SHARE) * told",
            "FORWARD_SHARE * error + (1.0 - FORWARD_SHARE) * told",
        ),
        ("scale.update(bonus, jnp.zeros_like(rollout.done), DISCOUNT", "scale.update(bonus, rollout.done, DISCOUNT"),
        ("observation=statistics.normalize(seen(rollout.observation), LIMIT)", "observation=seen(rollout.observation)"),
        ("model.surprise(params, part)[1], part.mask", "model.surprise(params, part)[0], part.mask"),
        (
            "x.reshape(length // number, number, *x.shape[1:]).swapaxes(0, 1)",
            "x.reshape(number, length // number, *x.shape[1:])",
        ),
    ],
    "algos/d4pg.py": [
        ("discount[:, None] * support", "support", LIMITS),
        (
            "probability = jnp.mean(jax.nn.softmax(next_outputs), axis=0)",
            "probability = jax.nn.softmax(next_outputs)[0]",
        ),
    ],
    "algos/dqn.py": [
        (
            "selector = network.apply(params, batch.next_observation, noise[2]) if config.double else next_outputs",
            "selector = next_outputs",
        ),
        ("jnp.mean(batch.weight * huber(", "jnp.mean(huber("),
        (
            "at_best(next_outputs, q_values(selector), action_mask(batch.next_observation))",
            "at_best(next_outputs, q_values(selector))",
        ),
        (
            "target = batch.reward + batch.discount * next_value",
            "target = batch.reward + config.discount * next_value",
            LIMITS,
        ),
        ("due = (agent.num_gradient_steps + 1) % interval == 0", "due = agent.num_gradient_steps % interval == 0"),
        ("choose = explore_by if explore else greedy", "choose = explore_by"),
    ],
    "algos/impala.py": [
        ('log_prob - rollout.extras["log_prob"]', 'rollout.extras["log_prob"] - log_prob'),
        ("trace_lambda=config.gae_lambda", "trace_lambda=1.0"),
    ],
    "algos/disco.py": [
        ("jnp.where(inputs.terminated, 0.0, divergence(", "jnp.where(inputs.done, 0.0, divergence("),
        ("polyak(agent.target_params, agent.params, ", "polyak(agent.target_params, params, "),
        ("two_hot(rescale(targets.value), ", "two_hot(targets.value, ", "tests/networks/test_disco_rule.py"),
        (
            "successor=jax.tree.map(lambda x, y: x.at[-1].set(y), batch.successor, following)",
            "successor=batch.successor",
        ),
    ],
    "algos/iqn.py": [
        ("quantile_huber(quantiles, targets, config.kappa, tau)", "quantile_huber(quantiles, targets, config.kappa)"),
        ("jax.random.uniform(key_next, (", "jax.random.uniform(key_tau, ("),
        ("selector = params if config.double else target_params", "selector = target_params"),
    ],
    "algos/lpg.py": [
        ("next_prediction=jnp.exp(next_prediction)", "next_prediction=jnp.exp(prediction)"),
        ("policy_loss = -masked.mean(", "policy_loss = masked.mean("),
        ("(prediction - jnp.log(targets.prediction + 1e-8))", "(jnp.log(targets.prediction + 1e-8) - prediction)"),
    ],
    "algos/mappo.py": [
        ("2.0 * huber(", "huber("),
    ],
    "algos/mpo.py": [
        ("scores = log_share + value / temperature", "scores = value / temperature"),
        ("next_q = jnp.min(net.values(", "next_q = jnp.max(net.values("),
        ("of_spread = Normal(policy.mean, old.log_std), ", "of_spread = Normal(policy.mean, policy.log_std), "),
        ("net.candidates(old_policy, key_now)", "net.candidates(policy, key_now)"),
        (
            "-mean(fit), duals.temperature * (config.temperature_epsilon + mean(log_mean))",
            "-mean(fit), duals.temperature * (mean(log_mean) - config.temperature_epsilon)",
        ),
        ("next_value = jnp.sum(jnp.exp(log_share) * next_q, axis=0)", "next_value = jnp.mean(next_q, axis=0)"),
        (
            "critic_loss = 0.5 * mean(jnp.sum(td_error**2, axis=0))",
            "critic_loss = 0.5 * mean(jnp.mean(td_error**2, axis=0))",
        ),
    ],
    "algos/munchausen.py": [
        ("(next_q - config.temperature * log_pi)", "(next_q + config.temperature * log_pi)"),
        ("before = net.apply(target_params, ", "before = net.apply(params, "),
        ("jnp.clip(bonus, config.log_policy_clip, 0.0)", "bonus"),
    ],
    "algos/muzero.py": [
        ("weight = 1.0 if k == 0 else 1.0 / config.unroll_steps", "weight = 1.0"),
        ("discount=jnp.full_like(reward, config.discount)", "discount=jnp.ones_like(reward)"),
        ("latent = 0.5 * latent + 0.5 * jax.lax.stop_gradient(latent)", "latent = 0.5 * latent + 0.5 * latent"),
        (
            "value = net.predict(params, latent)\n            if k > 0:",
            "value = net.predict(params, (latent + jax.lax.stop_gradient(latent)) / 2)\n            if k > 0:",
        ),
        ("ongoing=now.ongoing & ~terminated[..., k] & ~last", "ongoing=now.ongoing & ~last"),
        ("(reward - batch.reward[..., k - 1])", "(reward - batch.reward[..., 0])"),
        ("where(ongoing | absorbing | bootstrap, value_error, 0.0)", "where(ongoing | bootstrap, value_error, 0.0)"),
        ("jnp.where(known.bootstrap, final_value, 0.0)", "jnp.where(known.bootstrap, later(returns), 0.0)"),
    ],
    "algos/off_policy.py": [
        (
            "statistics = agent.observation_statistics.update(rollout.observation, rollout.mask)",
            "statistics = agent.observation_statistics.update(rollout.next_observation, rollout.mask)",
        ),
        ("next_observation=by_statistics(batch.next_observation)", "next_observation=batch.next_observation"),
        ("old + tau * (new - old)", "new + tau * (old - new)"),
        ("updates_of(config, config.learning_starts) - 1", "updates_of(config, config.learning_starts)"),
    ],
    "algos/policy_gradient.py": [
        ("rollout = rollout._replace(reward=scale.normalize(rollout.reward))", "pass"),
        ("rollout.terminated | rollout.time_up, config.discount", "rollout.terminated, config.discount"),
        ("statistics.update(raw, rollout.mask)", "statistics.update(rollout.observation, rollout.mask)"),
    ],
    "algos/ppo.py": [
        ('metrics["approx_kl"] <= config.target_kl', 'metrics["approx_kl"] >= config.target_kl'),
        (
            "next_value = evaluate_successors(partial(net.value, agent.params), value, carry, rollout)",
            "next_value = jnp.concatenate([value[1:], value[-1:]])",
            LIMITS,
        ),
        ("-jnp.minimum(ratio * samples.advantage", "-jnp.maximum(ratio * samples.advantage"),
        ("+ value_loss - current.", "+ value_loss + current."),
        ("error = jnp.maximum(error, ", "error = jnp.minimum(error, "),
        ("log_ratio=log_prob - batch.log_prob", "log_ratio=batch.log_prob - log_prob"),
    ],
    "algos/ppo_penalty.py": [
        ("2.0, jnp.where(kl < target / 1.5, 0.5, 1.0)", "0.5, jnp.where(kl < target / 1.5, 2.0, 1.0)"),
    ],
    "algos/pqn.py": [
        (
            '_, after = base.unroll(params["body"], rollout.carry, rollout.observation, rollout.done)',
            '_, after = base.unroll(params["body"], rollout.carry, rollout.observation, rollout.done & False)',
        ),
        (
            "            rollout.terminated,\n            rollout.done,",
            "            rollout.done,\n            rollout.done,",
            LIMITS,
        ),
    ],
    "algos/qrdqn.py": [
        ("batch.discount[:, None] * next_best", "config.discount * next_best", LIMITS),
        ("quantile_huber(quantiles, targets, config.kappa)", "quantile_huber(targets, quantiles, config.kappa)"),
    ],
    "algos/r2d2.py": [
        ("0.1 * jnp.sum(error, axis=0) / steps", "0.1 * jnp.mean(error, axis=0)"),
        ("carry = trees.where(done[burn_in - 1], q.initial_carry(done.shape[1]), last)", "carry = last"),
        ("at_best(next_target_q, next_q)", "at_best(next_target_q, next_target_q)"),
        (
            "window.discount * unscale(at_last(next_value, window.last))",
            "window.discount * at_last(next_value, window.last)",
        ),
        (
            "config.trace_lambda * greedy.astype(jnp.float32)",
            "config.trace_lambda * jnp.ones_like(greedy, jnp.float32)",
        ),
    ],
    "algos/rainbow.py": [
        (
            "double: bool = static(default=True",
            "double: bool = static(default=False",
            "tests/catalog/test_algorithms.py",
        ),
        ("n_step: int = static(default=3", "n_step: int = static(default=1", "tests/catalog/test_algorithms.py"),
    ],
    "algos/redq.py": [
        ("values[order[:number]]", "values[:number]"),
        ("value=lambda outputs: jnp.mean(outputs, axis=0)", "value=lambda outputs: jnp.min(outputs, axis=0)"),
        (
            "due = (agent.num_gradient_steps + 1) % config.policy_period == 0",
            "due = agent.num_gradient_steps % config.policy_period == 0",
        ),
        (
            "keys = (key_critics, jax.random.fold_in(key_critics, 2))",
            "keys = (key_actor, jax.random.fold_in(key_critics, 2))",
        ),
    ],
    "algos/sac.py": [
        ("return value - temperature * log_prob, -log_prob", "return value + temperature * log_prob, -log_prob"),
        ('temperature_loss = params["log_temperature"]', 'temperature_loss = -params["log_temperature"]'),
        ("smallest = lambda outputs: jnp.min(outputs, axis=0)", "smallest = lambda outputs: jnp.max(outputs, axis=0)"),
        (
            "- (temperature * policy.log_prob(sample))[:, None]",
            "- (temperature * jnp.minimum(policy.log_prob(sample), 0.0))[:, None]",
        ),
        ("- (temperature * policy.log_prob(sample))[:, None]", "+ (temperature * policy.log_prob(sample))[:, None]"),
        ("batch.discount[:, None] * next_values", "config.discount * next_values", LIMITS),
    ],
    "algos/sac_discrete.py": [
        ("jnp.sum(jnp.exp(log_probs) * value, axis=-1), policy", "jnp.mean(value, axis=-1), policy"),
        ("axis=0) - temperature * log_probs", "axis=0) + temperature * log_probs"),
        (
            "0.9 * masked.mean(jnp.log(jnp.maximum(legal, 1.0)), counted)",
            "0.9 * jnp.log(jnp.float32(self.num_actions))",
        ),
    ],
    "algos/spo.py": [
        ("weight=jax.nn.softmax(gain[..., -1, :] /", "weight=jax.nn.softmax(gain[..., 0, :] /"),
        ("axis=-1) - jnp.log(float(config.num_particles))", "axis=-1)"),
        ("heaviest(first, jax.nn.softmax(last))", "jnp.argmax(last, axis=-1)"),
        ("value_target=value + advantage", "value_target=advantage"),
        ("kl_parts(jax.lax.stop_gradient(old_policy), policy)", "kl_parts(policy, jax.lax.stop_gradient(old_policy))"),
        ("key = key if explore else fixed_key(key)", "key = key"),
    ],
    "algos/td3.py": [
        (
            "due = (agent.num_gradient_steps + 1) % config.policy_period == 0",
            "due = (agent.num_gradient_steps + 1) % config.policy_period != 0",
        ),
        ("-noise_clip, noise_clip)", "-1.0, 1.0)"),
        ("jnp.min(next_outputs, axis=0)", "jnp.mean(next_outputs, axis=0)"),
        ("jnp.clip(action + clipped, -1.0, 1.0)", "action + clipped"),
    ],
    "algos/team_network.py": [
        ("late.mask & at_last(known, window.last)", "late.mask"),
        ("selector = q(params, batch.next_observation) if config.double else next_q", "selector = next_q"),
        ("batch.reward + batch.discount * next_value", "batch.reward + config.discount * next_value", LIMITS),
    ],
    "algos/tqc.py": [
        ("jnp.sort(pooled, axis=-1)[:, :number]", "jnp.sort(pooled, axis=-1)[:, -number:]"),
        (
            "(config.num_quantiles - config.num_dropped) * config.num_critics",
            "config.num_quantiles * config.num_critics - config.num_dropped",
        ),
        ("jnp.moveaxis(quantiles, 0, 1).reshape(", "quantiles.reshape("),
        ("loss = jnp.sum(of_critics, axis=0) / float(config.num_quantiles)", "loss = jnp.sum(of_critics, axis=0)"),
        (
            "value=lambda outputs: jnp.mean(outputs, axis=(0, -1))",
            "value=lambda outputs: jnp.mean(jnp.min(outputs, axis=0), axis=-1)",
        ),
    ],
    "algos/value_decomposition.py": [
        ('values = jnp.where(observation["active"], values, 0.0)', "values = values + 0.0"),
        ("next_value = team_value(target_params, ", "next_value = team_value(params, "),
        ("steps.next_values, steps.next_observation)", "steps.next_values, steps.observation)"),
    ],
    "algos/vmpo.py": [
        ("(advantage >= ranked[", "(advantage <= ranked["),
        ("temperature_epsilon + log_mean)", "temperature_epsilon - log_mean)"),
        ("jax.lax.stop_gradient(weight) * policy", "weight * policy"),
        ("total - jnp.log(jnp.maximum(number, 1.0))", "total"),
        ("total - jnp.log(jnp.maximum(number, 1.0))", "total"),
        (
            "duals.temperature * (now.temperature_epsilon + log_mean)",
            "duals.temperature * (now.temperature_epsilon - log_mean)",
        ),
    ],
    "envs/bandit/bernoulli_bandit.py": [
        ("jax.random.uniform(key) < probability", "jax.random.uniform(key) > probability"),
    ],
    "envs/bandit/gaussian_bandit.py": [
        ("self.noise * jax.random.normal(key)", "self.noise**2 * jax.random.normal(key)"),
    ],
    "envs/bsuite/deep_sea.py": [
        ("jax.random.uniform(key_wind) > 1 / self.size", "jax.random.uniform(key_wind) < 1 / self.size"),
    ],
    "envs/bsuite/discounting_chain.py": [
        ("(state.time == time)", "(state.time >= time)"),
    ],
    "envs/bsuite/memory_chain.py": [
        ("terminated = state.time >= self.memory_length", "terminated = state.time > self.memory_length"),
    ],
    "envs/bsuite/umbrella_chain.py": [
        ("self._observe(state, bits[1:])", "self._observe(state, bits[:-1])"),
    ],
    "envs/classic/acrobot.py": [
        ("a + 2 * b + 2 * c + d", "a + 2 * b + c + 2 * d"),
        ("jnp.where(terminated, 0.0, -1.0)", "jnp.where(terminated, -1.0, -1.0)"),
    ],
    "envs/classic/cartpole.py": [
        ("4.0 / 3.0 - self.pole_mass", "4.0 / 3.0 + self.pole_mass"),
        ("terminated=terminated, time_up=time_up", "terminated=terminated | time_up, time_up=time_up"),
    ],
    "envs/classic/mountain_car.py": [
        (
            "velocity = jnp.where((position <= self.min_position) & (velocity < 0), 0.0, velocity)",
            "velocity = velocity + 0.0",
        ),
    ],
    "envs/classic/mountain_car_continuous.py": [
        ("0.0) - 0.1 * action[0] ** 2", "0.0) - 0.01 * action[0] ** 2"),
    ],
    "envs/classic/pendulum.py": [
        (
            "wrap(state.angle + self.time_step * velocity)",
            "wrap(state.angle + self.time_step * state.angular_velocity)",
        ),
        ("cost = state.angle**2 + 0.1 *", "cost = state.angle**2 + 0.01 *"),
    ],
    "envs/control/point_mass.py": [
        ("y=state.y + self.time_step * velocity_y", "y=state.y + self.time_step * state.velocity_y"),
    ],
    "envs/control/reacher.py": [
        ("coriolis_2 = coupling", "coriolis_2 = -coupling"),
    ],
    "envs/games/coin_game.py": [
        ("== state.color) & took[::-1]", "== state.color) & took", *GAMES),
        ("place = (row % self.size) * self.size", "place = jnp.clip(row, 0, self.size - 1) * self.size", *GAMES),
    ],
    "envs/games/matrix_game.py": [
        ("jnp.float32)[row, column][None]", "jnp.float32)[column, row][None]", *GAMES),
    ],
    "envs/grid/frozen_lake.py": [
        ("drawn < 0.5 + 0.5 * self.success_rate", "drawn < 0.5"),
    ],
    "envs/grid/grid_world.py": [
        ("action + 1 + slipped.astype(jnp.int32)", "action + slipped.astype(jnp.int32)"),
    ],
    "envs/grid/maze.py": [
        ("right = np.roll(_FORWARD, -1, axis=0)", "right = np.roll(_FORWARD, 1, axis=0)"),
        ("near[..., 1]] | ~inside", "near[..., 1]]"),
        ("_cell(order[count + 1])", "_cell(order[count])"),
    ],
    "envs/memory/autoencode.py": [
        ("(index == 2 * self.length - 1 - state.time)", "(index == state.time - self.length)"),
    ],
    "envs/memory/repeat_previous.py": [
        ("jnp.where(state.time >= self.lag, reward", "jnp.where(state.time > self.lag, reward"),
    ],
    "envs/memory/t_maze.py": [
        ("state.time >= self.time_limit, reward", "state.time > self.time_limit, reward"),
    ],
    "envs/minatar/asterix.py": [
        (
            "reward = gold_before.astype(jnp.int32) + gold_after.astype(jnp.int32)",
            "reward = gold_before.astype(jnp.int32)",
        ),
        ("_MOVE_INTERVAL - game.difficulty // 2", "_MOVE_INTERVAL - game.difficulty"),
    ],
    "envs/minatar/breakout.py": [
        ("strikes = at_brick & ~game.struck", "strikes = at_brick"),
        ("direction_x = jnp.where(at_side, -game.direction_x, game.direction_x)", "direction_x = game.direction_x"),
    ],
    "envs/minatar/common.py": [
        (
            "jnp.where(draws[0] < self.sticky_action_probability, state",
            "jnp.where(draws[0] >= self.sticky_action_probability, state",
        ),
        ("state.time >= self.time_limit", "state.time > self.time_limit"),
    ],
    "envs/minatar/freeway.py": [
        ("jnp.where(crossed | hit, _BOTTOM, chicken_y)", "jnp.where(crossed, _BOTTOM, chicken_y)"),
    ],
    "envs/minatar/seaquest.py": [
        ("rescues = surfaces & (game.divers_aboard == _CREW)", "rescues = surfaces"),
        ("0, game.divers_aboard) - surfaces.astype(jnp.int32)", "0, game.divers_aboard)"),
    ],
    "envs/minatar/space_invaders.py": [
        ("jnp.where(moves & ~turns, game.block_x", "jnp.where(moves, game.block_x"),
        ("older_bullet_y=jnp.where(also_struck != 0, -1, game.older_bullet_y)", "older_bullet_y=game.older_bullet_y"),
    ],
    "envs/particle/predator_prey.py": [
        ("jnp.sum(touches, axis=1) -", "jnp.max(touches, axis=1) -"),
    ],
    "envs/particle/spread.py": [
        (
            "physics.distances(state.landmark, state.position), axis=1",
            "physics.distances(state.landmark, state.position), axis=0",
        ),
    ],
    "envs/tag/continuous.py": [
        ("terminated = ~jnp.any(runners)", "terminated = ~jnp.all(runners)"),
        ("** 2) & state.present[runners], by", "** 2), by"),
    ],
    "envs/tag/grid_world.py": [
        ("jnp.where(tagged, -self.tag_penalty, self.step_cost)", "jnp.where(tagged, self.tag_penalty, self.step_cost)"),
        ("terminated=tagged, time_up=time_up", "terminated=tagged | time_up, time_up=time_up"),
    ],
    "purerl/devices/sharding.py": [
        ("-(-count // mesh.shape[axis]) * mesh.shape[axis]", "max(count // mesh.shape[axis], 1) * mesh.shape[axis]"),
        ("dynamic_update_index_in_dim(old, x, i, 0)", "dynamic_update_index_in_dim(old, x, 0, 0)"),
    ],
    "purerl/evolution/baseline.py": [
        ("terminated=rollout.terminated", "terminated=rollout.done"),
    ],
    "purerl/evolution/distill.py": [
        ("if more.error > WORTH * best.error", "if more.error < WORTH * best.error"),
        ("x - scale * jnp.tanh(x / scale)", "x - jnp.tanh(x / scale)"),
    ],
    "purerl/evolution/inner_loop.py": [
        ("held[-max(1, returns.size // LAST) :]", "held[: max(1, returns.size // LAST)]"),
        ("jnp.repeat(candidates, keys.shape[1], axis=0)", "jnp.tile(candidates, (keys.shape[1], 1))"),
    ],
    "purerl/evolution/fitness.py": [
        ("(below - above).astype", "(above - below).astype"),
        ("below = worst - jnp.where(spread", "below = worst + jnp.where(spread"),
    ],
    "purerl/evolution/meta_gradient.py": [
        ("update_keys(train.key, train.num_updates)", "update_keys(train.key, life.train.num_updates)"),
        ("MAX_NORM / jnp.maximum(norm, MAX_NORM)", "MAX_NORM / norm"),
        ("(), 1, most + 1)", "(), 1, most)"),
    ],
    "purerl/evolution/strategies.py": [
        ("return jnp.concatenate([half, -half])", "return jnp.concatenate([half, half])"),
        ("(self.population * sigma)", "self.population"),
        ("jnp.exp(0.5 * rate * (utility @ (z**2 - 1.0)))", "jnp.exp(rate * (utility @ (z**2 - 1.0)))"),
    ],
    "purerl/extensions/groups/group_policy.py": [
        ("left = mask & ~concatenate", "left = mask & concatenate"),
        ("truncated & ~left, flatten(mask)", "truncated, flatten(mask)"),
        (
            "after = where(turn, TurnCarry(now=after, before=carry.now), carry)",
            "after = TurnCarry(now=after, before=carry.now)",
            "tests/extensions/groups/test_joint.py",
        ),
    ],
    "purerl/extensions/groups/joint.py": [
        ("config.total_timesteps * float(agents)", "config.total_timesteps"),
    ],
    "purerl/extensions/groups/turn_based.py": [
        ("rest = later._replace(reward=now.reward + later.reward)", "rest = later"),
        ("exists=before.exists & ~cut_off", "exists=before.exists"),
    ],
    "purerl/extensions/host/acting.py": [
        ("before = where(jnp.asarray(restart), algo.initial_carry(group_size), carry)", "before = carry"),
    ],
    "purerl/extensions/host/actors.py": [
        ("[version - made_by for", "[made_by - version for"),
        ("statistics=self._acting.statistics(part[1])", "statistics=None"),
    ],
    "purerl/extensions/host/jax_source.py": [
        ("next_observation=timestep.observation", "next_observation=observation"),
    ],
    "purerl/extensions/host/learning.py": [
        ("total = vector.episode_return + jnp.where(mask, score, 0.0)", "total = vector.episode_return + score * 2.0"),
        ("jnp.concatenate([xs[1:], x[None]])", "jnp.concatenate([xs[:1], xs[:-1]])"),
    ],
    "purerl/extensions/host/rollout.py": [
        ("return done if step.mask is None else done | ~step.mask", "return done"),
        (
            "self._keys = keys if self._index is None else self._acting.keys_of_group(keys, self._index)",
            "self._keys = keys",
        ),
        ("return truncated if mask is None else truncated | ~mask", "return truncated"),
    ],
    "purerl/extensions/host/xla_rollout.py": [
        ("cut_at_resets(steps.truncated, steps.mask)", "steps.truncated"),
        ("before = where(loop_carry.restart, initial_carry, loop_carry.carry)", "before = loop_carry.carry"),
    ],
    "purerl/extensions/levels/buffer.py": [
        ("jnp.where(filled, -buffer.score, jnp.inf)", "jnp.where(filled, buffer.score, jnp.inf)"),
        ("known | has_room | (score > buffer.score[place])", "known | has_room"),
        ("(1.0 - staleness) * by_score + staleness * by_age", "staleness * by_score + (1.0 - staleness) * by_age"),
        (".at[place].max(best_return)", ".at[place].set(best_return)"),
        (
            "age = jnp.where(filled, (now - buffer.played).astype(jnp.float32), 0.0)",
            "age = jnp.where(filled, buffer.played.astype(jnp.float32), 0.0)",
        ),
        ("jnp.log(rank.astype(jnp.float32)) / temperature", "jnp.log(rank.astype(jnp.float32)) * temperature"),
        ("same = filled & _equal(buffer.level, level)", "same = _equal(buffer.level, level)"),
        ("jnp.where(known, jnp.maximum(best_return, buffer.best_return[place]), best_return)", "best_return"),
        (
            "filled=buffer.filled + (~known & has_room).astype(jnp.int32)",
            "filled=buffer.filled + has_room.astype(jnp.int32)",
        ),
    ],
    "purerl/extensions/levels/held_out.py": [
        ("(self.episode_return > 0)", "(self.episode_return >= 0)"),
        ("std(ddof=1)", "std()"),
    ],
    "purerl/extensions/levels/scores.py": [
        ("jnp.mean(jnp.maximum(advantage, 0.0), axis=0)", "jnp.maximum(jnp.mean(advantage, axis=0), 0.0)"),
        ("return (jnp.where(at[1], 0.0, total), best), None", "return (total, best), None"),
    ],
    "purerl/extensions/levels/space.py": [
        ("jnp.where(step < 0, value - 1, value + 1)", "value + 1"),
    ],
    "purerl/extensions/levels/trainer.py": [
        ("truncated = rollout.truncated.at[-1].set(~rollout.terminated[-1])", "truncated = rollout.truncated"),
        (
            "kind = jnp.where(agent.kind == REPLAYED, MUTATED, kind)",
            "kind = jnp.where(kind == REPLAYED, MUTATED, kind)",
        ),
    ],
    "purerl/extensions/planning/modeling.py": [
        ("evaluation=Against(game) if players else game", "evaluation=game"),
    ],
    "purerl/extensions/self_play/elo.py": [
        ("weight = played * expected * (1 - expected)", "weight = played * expected"),
        ("prior * (1 - np.eye(n))", "0 * prior"),
    ],
    "purerl/extensions/self_play/self_play.py": [
        (
            "reply, selves_carry = collect(replies, first.shape[0])",
            "reply, selves_carry = collect(jax.tree.map(lambda x: x[::-1], replies), first.shape[0])",
        ),
        ("fill = (jnp.arange(num) >= newest)", "fill = (jnp.arange(num) == newest)"),
    ],
    "purerl/extensions/self_play/solver.py": [
        ("moves.sign * worth[following]", "worth[following]"),
        ("each = np.where(moves.legal, each, -np.inf)", "each = each + 0"),
    ],
    "purerl/extensions/self_play/tournament.py": [
        ("return won + (EPISODES - won.T)", "return won + won.T"),
        ("batch_of(situation), False)[0][0]", "batch_of(situation), True)[0][0]"),
        ("Opening(env) if players == (SELVES, SELVES) else Situations(env)", "Situations(env)"),
    ],
    "purerl/extensions/self_tuning/tuning.py": [
        ("decay * jnp.where(jnp.isfinite(z), z, 0.0)", "jnp.where(jnp.isfinite(z), z, 0.0)"),
        ("return loss - config.entropy_coefficient", "return loss + config.entropy_coefficient"),
    ],
    "purerl/functional/action_masks.py": [
        ("jnp.where(mask, scores, -1e9)", "jnp.where(mask, -1e9, scores)"),
    ],
    "purerl/functional/distributional.py": [
        ("return jnp.maximum(1.0 - distance, 0.0)", "return jnp.maximum(1.0 - distance**2, 0.0)"),
        ("probability, jnp.maximum(1.0 - distance, 0.0)", "probability, jnp.maximum(1.0 - distance**2, 0.0)"),
        ("+ 0.5) / n", ") / n"),
        ("(u < 0.0)", "(u > 0.0)"),
        ("jnp.clip(support, low, support_to[-1]) - low", "support - low"),
        (
            "jnp.sum(jnp.mean(weight * huber(u, kappa) / kappa, axis=2), axis=1)",
            "jnp.mean(jnp.mean(weight * huber(u, kappa) / kappa, axis=2), axis=1)",
        ),
    ],
    "purerl/functional/distributions.py": [
        ("self.normal.log_prob(value) - jnp.sum(_log_slope(value), axis=-1)", "self.normal.log_prob(value)"),
        ("return self.normal.entropy() + jnp.sum(correction, axis=-1)", "return self.normal.entropy()"),
        (
            "z = (other.mean - self.mean) * jnp.exp(-self.log_std)",
            "z = (other.mean - self.mean) * jnp.exp(-other.log_std)",
        ),
        ("part.sample(seed=seeds[i]) for i, part", "part.sample(seed=seed) for i, part"),
    ],
    "purerl/functional/drifts.py": [
        ("(ratio_of(log_ratio) - 1.0) ** 2 / (2.0 * self.epsilon)", "(ratio_of(log_ratio) - 1.0) ** 2 / self.epsilon"),
        ("jnp.where(advantage >= 0, good, bad)", "jnp.where(advantage >= 0, bad, good)"),
    ],
    "purerl/functional/exploration.py": [
        ("jnp.minimum(num_steps / self.steps, 1.0)", "num_steps / self.steps"),
        ("mask_illegal(bits[1:].T, mask)", "bits[1:].T"),
    ],
    "purerl/functional/masked.py": [
        ("jnp.sum(jnp.where(counts, x, 0.0), axes) / number", "jnp.sum(x, axes) / number"),
        ("variance(target - value, mask) /", "variance(value, mask) /"),
        ("mean((x - mean(x, mask, axes)) ** 2, mask, axes)", "mean((x - mean(x)) ** 2, mask, axes)"),
    ],
    "purerl/functional/moving_moments.py": [
        ("self.square / seen - mean**2", "self.square - mean**2"),
    ],
    "purerl/functional/normalize.py": [
        ("new = masked.variance(x, mask, axes) * added", "new = masked.variance(x, None, axes) * added"),
        ("delta**2 * (self.samples * added / total)", "delta**2"),
        ("mean + delta * (added / total)", "mean + delta * 0.5"),
        ("return jnp.where(done, 0.0, discounted), discounted", "return discounted, discounted"),
        ("later = discounted * discount + reward", "later = discounted + reward"),
        ("LEAST_VARIANCE)) + statistics.mean", "LEAST_VARIANCE))", "tests/algos/test_mappo.py"),
    ],
    "purerl/functional/objectives.py": [
        ("-jnp.minimum(ratio * advantage, clipped * advantage)", "-clipped * advantage"),
        ('return terms["policy_loss"] + value - entropy', 'return terms["policy_loss"] + value + entropy'),
        ("jnp.maximum(error, squared(near - samples.target))", "jnp.minimum(error, squared(near - samples.target))"),
    ],
    "purerl/functional/q_targets.py": [
        ("delta * (size - 0.5 * delta)", "delta * size"),
        ("- 1.0) + epsilon * x", "- 1.0) - epsilon * x"),
        ("a = 4.0 * epsilon * (jnp.abs(x) + 1.0 + epsilon)", "a = 4.0 * epsilon * (jnp.abs(x) + 1.0)"),
        ("jnp.minimum(time + n_step - 1, last_of_episode(done))", "jnp.minimum(time + n_step, last_of_episode(done))"),
        ("- decay * next_taken", "- decay * next_value"),
    ],
    "purerl/functional/returns.py": [
        ("jnp.where(terminated, 0.0, next_value) - value", "next_value - value"),
        ("value = alone + decay * (following - next_value)", "value = alone + decay * following"),
        ("decay = jnp.where(done, 0.0, discount * trace_lambda)", "decay = discount * trace_lambda + 0.0 * reward"),
        ("decayed_sum(delta, jnp.where(done, 0.0,", "decayed_sum(delta, jnp.where(terminated, 0.0,"),
        ("value = step[0] + step[1] * following", "value = step[1] * (step[0] + following)"),
    ],
    "purerl/functional/unit_box.py": [
        (
            "return (action - self.low) * 2.0 / width - 1.0",
            "return (action - self.low) / width - 1.0",
        ),
    ],
    "purerl/functional/update_rules.py": [
        ("(x, done), reverse=True)", "(x, done))"),
        (
            "next_embedded = (1.0 - done) * embed(inputs.next_prediction)",
            "next_embedded = embed(inputs.next_prediction)",
        ),
    ],
    "purerl/functional/vtrace.py": [
        ("rho = jnp.minimum(ratio, rho_clip)", "rho = jnp.minimum(ratio, c_clip)"),
        ("discount * trace_lambda * jnp.minimum(ratio, c_clip))", "discount * trace_lambda * rho)"),
        ("following = jnp.concatenate([discount * target[1:]", "following = jnp.concatenate([target[1:]"),
        ("jnp.where(done, successor_value, following)", "following"),
        (
            "successor_value = discount * jnp.where(terminated, 0.0, next_value)",
            "successor_value = discount * jnp.where(done, 0.0, next_value)",
        ),
    ],
    "purerl/loop/evaluate.py": [
        ("total + jnp.where(running, reward, 0.0)", "total + reward"),
        ("finished=result.finished | timestep.done", "finished=result.finished | timestep.terminated"),
        ("(time < max_steps)", "(time <= max_steps)"),
    ],
    "purerl/loop/metrics.py": [
        ("length_sum=self.length_sum + length", "length_sum=self.length_sum + episode_length"),
        ("divisor = jnp.maximum(count, 1)", "divisor = jnp.maximum(count + 1, 1)"),
        (
            "return_min=jnp.minimum(self.return_min, later.return_min)",
            "return_min=jnp.maximum(self.return_min, later.return_min)",
        ),
    ],
    "purerl/loop/population.py": [
        ('-value if metric[0] == "-" else value', "value"),
    ],
    "purerl/loop/resets.py": [
        ("episode = jnp.where(done, next_episode, resets.episode)", "episode = resets.episode"),
        ("used=used | done)", "used=used)"),
    ],
    "purerl/loop/train.py": [
        (
            "carry = where(timestep.done, initial_carry, carry)",
            "carry = where(timestep.terminated, initial_carry, carry)",
        ),
        ("np.arange(1, num_points + 1) * num_updates", "np.arange(num_points) * num_updates"),
    ],
    "purerl/loop/vector.py": [
        ("episode_length=jnp.where(done, 0, episode_length)", "episode_length=episode_length"),
        (
            "episode_return = state.episode_return + mean_reward(step.reward)",
            "episode_return = mean_reward(step.reward)",
        ),
    ],
    "purerl/networks/actor_critic.py": [
        ("config.rnn_size, sees_global_state=True)", "config.rnn_size, sees_global_state=False)"),
        ("new = old.update(target, batch.mask)", "new = old.update(target)", "tests/algos/test_mappo.py"),
    ],
    "purerl/networks/batch_norm.py": [
        ("warm = batches.value >= warmup", "warm = batches.value < warmup"),
        (
            "own_mean, own_variance = masked.mean(x, counted, (0,))",
            "own_mean, own_variance = masked.mean(x, None, (0,))",
        ),
        ("mean.value = mean.value + step * (own_mean - mean.value)", "mean.value = own_mean"),
    ],
    "purerl/networks/cnn.py": [
        ("x.astype(jnp.float32) / 255.0 if", "x.astype(jnp.float32) if"),
        ("x = x + conv(features=features)(jax", "x = conv(features=features)(jax"),
    ],
    "purerl/networks/critics.py": [
        ("one(k) for k in", "one(key) for k in"),
    ],
    "purerl/networks/disco_rule.py": [
        ("advantage = value - target_value[:length]", "advantage = value - target_value[1:]"),
        ("jnp.minimum(jnp.exp(log_ratio), 1.0)", "jnp.exp(log_ratio)"),
    ],
    "purerl/networks/encoder.py": [
        ("return cleared, (hidden, carry)", "return carry, (hidden, carry)"),
    ],
    "purerl/networks/gated_rnn.py": [
        (
            "(1.0 - update) * jnp.tanh(x[2] + reset * products[2]) + update * h",
            "update * jnp.tanh(x[2] + reset * products[2]) + (1.0 - update) * h",
        ),
        ("jax.nn.sigmoid(f) * state[0] + jax.nn.sigmoid(i)", "jax.nn.sigmoid(i) * state[0] + jax.nn.sigmoid(f)"),
    ],
    "purerl/networks/gated_transformer.py": [
        ("window[..., :STEPS, :]", "window[..., 1:, :]"),
        ("jnp.where(there[..., None, :], scores, -1e9)", "scores"),
        ("+ z_x - bias)", "+ z_x + bias)"),
    ],
    "purerl/networks/initializers.py": [
        ("scale**2", "scale"),
    ],
    "purerl/networks/latent_model.py": [
        ("unit(latent + apply(", "unit(apply("),
        (
            'return unit(base.step(params["representation"], (), observation)[0])',
            'return base.step(params["representation"], (), observation)[0]',
        ),
    ],
    "purerl/networks/linear_rnn.py": [
        ("a * b - ai * bi", "a * b + ai * bi"),
    ],
    "purerl/networks/mixer.py": [
        ('w1 = jnp.abs(layer("w1", state))', 'w1 = layer("w1", state)', "tests/algos/test_value_decomposition.py"),
        (
            'hidden * jnp.abs(layer("w2", state))',
            'hidden * layer("w2", state)',
            "tests/algos/test_value_decomposition.py",
        ),
    ],
    "purerl/networks/squashed_policy.py": [
        ("jnp.clip(log_std, -20.0, 2.0)", "log_std"),
    ],
    "purerl/replay/uniform.py": [
        ("index) != NO_START", "index) == NO_START"),
    ],
    "purerl/networks/prediction_heads.py": [
        ("jax.nn.sigmoid(keep + 1.0)", "jax.nn.sigmoid(keep)"),
    ],
    "purerl/networks/q_networks.py": [
        (
            "jnp.arange(self.embedding_size, dtype=jnp.float32)",
            "jnp.arange(1, self.embedding_size + 1, dtype=jnp.float32)",
            "tests/algos/test_iqn.py",
        ),
        ("value + q - jnp.mean(q, axis=-2, keepdims=True)", "value + q"),
        ("noise = jnp.sign(normal) * jnp.sqrt(jnp.abs(normal))", "noise = normal"),
    ],
    "purerl/optim/learned_optimizer.py": [
        ("d * x + (1.0 - d) * g", "(1.0 - d) * x + d * g"),
    ],
    "purerl/optim/minibatch.py": [
        (
            "orders.reshape(num_epochs * num_minibatches, size // num_minibatches)",
            "orders.reshape(num_epochs * num_minibatches, size // num_minibatches)[:, ::-1] * 0",
        ),
        ("sums / orders.shape[0]", "sums"),
        ("running = running & accept(metrics)", "running = accept(metrics)", "tests/algos/test_ppo.py"),
    ],
    "purerl/optim/optimizers.py": [
        ("    if max_grad_norm is not None:", "    if False:"),
        (
            "optax.rmsprop(plan.learning_rate, decay=0.99, eps=eps)",
            "optax.rmsprop(plan.learning_rate, decay=0.9, eps=eps)",
        ),
        (
            "num_steps=config.total_timesteps / float(config.steps_per_update) * steps_per_update",
            "num_steps=config.total_timesteps / float(config.steps_per_update)",
        ),
    ],
    "purerl/optim/schedules.py": [
        ("jnp.maximum(1.0 - share, 0.0)", "(1.0 - share)"),
        ("return -(-steps // config.steps_per_update)", "return steps // config.steps_per_update"),
        ("_cosine((share - WARMUP) / (1.0 - WARMUP))", "_cosine(share)"),
    ],
    "purerl/optim/trust_region.py": [
        ("(config.kl_epsilon - sg(kl))", "(sg(kl) - config.kl_epsilon)"),
        ("sg(weight) * spread_kl", "weight * spread_kl"),
        ("value + jnp.log(-jnp.expm1(-jnp.float32(value)))", "jnp.float32(value)"),
        (
            "duals.kl_weight * (config.kl_epsilon - sg(kl)) + sg(duals.kl_weight) * kl",
            "duals.kl_weight * (config.kl_epsilon - sg(kl)) + duals.kl_weight * kl",
        ),
    ],
    "purerl/planning/acting.py": [
        ("else agent_groups.draw(space, key, seen)", "else space.sample(key)"),
        ("return where(uniform, sample, action), uniform", "return where(uniform, action, action), uniform"),
    ],
    "purerl/planning/particles.py": [
        (
            "next_value = jnp.where(timestep.terminated, 0.0, value)",
            "next_value = jnp.where(timestep.done, 0.0, value)",
            "tests/algos/test_spo.py",
        ),
        ("jnp.cumsum(jax.nn.softmax(log_weight), axis=-1)", "jnp.cumsum(log_weight, axis=-1)"),
        ("jnp.where(before.done, 0.0, advantage)", "advantage"),
        ("rows = index + num * jnp.arange(", "rows = index + 0 * jnp.arange("),
        (
            "weight = particles.gain.reshape(-1, num) / temperature",
            "weight = particles.gain.reshape(-1, num) * temperature",
        ),
        ("jnp.arange(length) + k * length", "jnp.arange(length)"),
        ("jax.random.uniform(key, (batch, 1))", "jax.random.uniform(key, (batch, num))"),
        ("weight[:, None], 0.0), axis=-1)", "1.0, 0.0), axis=-1)"),
    ],
    "purerl/planning/search.py": [
        ("(~legal_actions).astype(", "legal_actions.astype("),
        (
            "value = jnp.sum(visited * summary.qvalues, axis=-1) / jnp.maximum(jnp.sum(visited, axis=-1), 1e-12)",
            "value = jnp.sum(weights * summary.qvalues, axis=-1)",
        ),
    ],
    "purerl/planning/simulations.py": [
        (
            "(node_values[rows, parent] * visits + leaf_value) / (visits + 1.0)",
            "(node_values[rows, parent] + leaf_value) / 2.0",
        ),
        ("action] + discount * leaf_value", "action] + leaf_value"),
        ("(at.depth < deepest)", "(at.depth <= deepest)"),
        (
            "write(children_visits, (rows, index, action), children_visits[rows, parent, action] + 1)",
            "write(children_visits, (rows, index, action), children_visits[rows, parent, action])",
        ),
        (
            "discount = tree.children_discounts[rows, parent, action]",
            "discount = jnp.abs(tree.children_discounts[rows, parent, action])",
        ),
        (
            "node_visits=tree.node_visits.at[rows, child].add(1, unique_indices=True)",
            "node_visits=tree.node_visits.at[rows, child].set(1, unique_indices=True)",
        ),
    ],
    "purerl/planning/value_targets.py": [
        ("jnp.where(rollout.terminated, 0.0, next_value)", "jnp.where(rollout.done, 0.0, next_value)"),
        ("jnp.where(rollout.done | uniform, 0.0,", "jnp.where(rollout.done, 0.0,"),
        (
            "next_value = jnp.where(rollout.done, next_network_value, later)",
            "next_value = jnp.where(rollout.terminated, next_network_value, later)",
        ),
        ("return unscale(value) if config.rescale_value else value", "return value"),
    ],
    "purerl/pool/base.py": [
        ("self._stepped.appendleft(", "self._stepped.append("),
    ],
    "purerl/pool/config.py": [
        ("[self.seed + i for i in range(self.num_envs)]", "[self.seed for _ in range(self.num_envs)]"),
    ],
    "purerl/pool/engine.py": [
        ("over=done,", "over=terminated,", "tests/pool/test_base.py"),
        (
            "elapsed = jnp.where(over, 0, instances.elapsed_step + 1)",
            "elapsed = instances.elapsed_step + 1",
            "tests/pool/test_base.py",
            "tests/pool/test_gymnasium_pool.py",
        ),
    ],
    "purerl/pool/gymnasium_pool.py": [
        ("[seed + i for i in range(len(self))]", "[seed for _ in range(len(self))]"),
    ],
    "purerl/pool/spaces.py": [
        ("return 0, space.n - 1", "return 0, space.n", "tests/pool/test_config.py"),
    ],
    "purerl/replay/frames.py": [
        ("back = rows(age, index).astype(jnp.int32)", "back = rows(age, index).astype(jnp.int32) * 0 + k"),
        ("jnp.minimum(back, k - 1 - i)", "jnp.minimum(back, i)"),
    ],
    "purerl/replay/prioritized.py": [
        (
            "weight = state.tree.weight(index, beta)",
            "weight = state.tree.weight(index, correction)",
        ),
        ("priority = (jnp.abs(td_error) + floor) ** exponent", "priority = jnp.abs(td_error) + floor"),
        ("largest = jnp.maximum(state.largest, ", "largest = jnp.minimum(state.largest, "),
        ("counts = batch.weight > 0.0", "counts = batch.weight >= 0.0"),
    ],
    "purerl/replay/sequence_storage.py": [
        (
            "first_steps(rollout.truncated & mask, sizes.cuts)",
            "first_steps(rollout.truncated, sizes.cuts)",
            "tests/replay/test_sequences.py",
        ),
        (
            "frames.older(depth, jax.tree.map(lambda x: x[0], ",
            "frames.older(depth, jax.tree.map(lambda x: x[-1], ",
            "tests/replay/test_sequences.py",
        ),
        (
            "head=(at + 1) % sizes.num_chunks",
            "head=jnp.minimum(at + 1, sizes.num_chunks - 1)",
            "tests/replay/test_sequences.py",
        ),
    ],
    "purerl/replay/sequences.py": [
        ("(priority + 1e-6) ** exponent", "priority + 1e-6"),
        ("start = (at - length + 1) % rows", "start = (at - length) % rows"),
        (
            "jnp.where(step < sizes.chunk, start + step, sizes.train)",
            "jnp.where(step < sizes.chunk, step, sizes.train)",
        ),
        ("index = jnp.where(batch.weight > 0.0, batch.start, NOWHERE)", "index = batch.start"),
        (
            "(row + jnp.arange(sizes.length, dtype=jnp.int32)[:, None]) % sizes.num_chunks",
            "row + jnp.arange(sizes.length, dtype=jnp.int32)[:, None]",
        ),
    ],
    "purerl/replay/storage.py": [
        (
            "written = counts.astype(jnp.int32) + final.astype(jnp.int32)",
            "written = counts.astype(jnp.int32)",
            "tests/replay/test_uniform.py",
        ),
        (
            "next_row = jnp.where(row + 1 >= rows, row + 1 - rows, row + 1)",
            "next_row = row + 1",
            "tests/replay/test_uniform.py",
        ),
        ("cut = where & (flag == GOING)", "cut = where", "tests/replay/test_uniform.py"),
    ],
    "purerl/replay/sum_tree.py": [
        ("index = index * WIDTH + jnp.minimum", "index = index + jnp.minimum"),
        ("jnp.minimum(u * most,", "jnp.minimum(u,"),
        (
            "sums = jnp.sum(self._children(levels[0], index), axis=-1)",
            "sums = jnp.max(self._children(levels[0], index), axis=-1)",
        ),
    ],
    "purerl/replay/transitions.py": [
        ("discount=jnp.where(flag == TERMINATED, 0.0, factor)", "discount=factor", "tests/replay/test_uniform.py"),
        (
            "factor = jnp.where(going, factor * discount, factor)",
            "factor = factor * discount",
            "tests/replay/test_uniform.py",
        ),
        (
            "weight=jnp.where(flag == NO_START, 0.0, weight)",
            "weight=jnp.where(flag == NO_START, weight, weight)",
            "tests/replay/test_uniform.py",
        ),
        (
            "observations(state, step(last), depth)",
            "observations(state, step(index), depth)",
            "tests/replay/test_uniform.py",
        ),
        (
            "step = lambda at: jnp.where(at >= (rows - 1) * num_envs, at - (rows - 1) * num_envs, at + num_envs)",
            "step = lambda at: at + num_envs",
            "tests/replay/test_uniform.py",
        ),
    ],
    "purerl/reporting/compare.py": [
        ("worst = min(worst_of(run) for run in runs)", "worst = max(worst_of(run) for run in runs)"),
        ("(a, b) if a.center >= b.center", "(a, b) if a.center <= b.center"),
    ],
    "purerl/reporting/intervals.py": [
        (">= ENOUGH_SEEDS", "> ENOUGH_SEEDS"),
    ],
    "purerl/reporting/metrics_csv.py": [
        ("float(row[where]) <= upto", "float(row[where]) < upto"),
        ("zlib.crc32(added, self.checksum)", "zlib.crc32(added)"),
    ],
    "purerl/reporting/summary.py": [
        ("counted = np.array([worst if bad else value", "counted = np.array([math.nan if bad else value"),
        ("best.append(float(evaluations.max())", "best.append(float(evaluations[-1])"),
    ],
    "purerl/run/callbacks.py": [
        ("if reached >= level", "if reached > level"),
        ("known = returns[np.isfinite(returns)]", "known = returns"),
    ],
    "purerl/run/checkpoint.py": [
        ("len(others) - keep + 1", "len(others) - keep"),
        ("return folder, kept[-1]", "return folder, kept[0]"),
    ],
    "purerl/run/checksums.py": [
        ("seen == array.size and len(parts) > 0", "len(parts) > 0"),
    ],
    "purerl/run/lifecycle.py": [
        ("        if self.position > saved_at:", "        if False:"),
        ('self.began = time.perf_counter() - self.metadata["wall_seconds"]', "self.began = time.perf_counter()"),
    ],
    "purerl/run/warm_start.py": [
        ("if fits and (frozen or keeps) else leaf", "if fits else leaf"),
    ],
    "purerl/settings/ranges.py": [
        ("half = 0.5 if self.whole else 0.0", "half = 0.0"),
        ("return (math.log(low), math.log(high)) if self.log else (low, high)", "return (low, high)"),
    ],
    "purerl/settings/toml.py": [
        ('if _text_of(file).rstrip().rpartition("\\n")[2] != END:', "if False:"),
        ('{f"{prefix}{name}": value}', "{name: value}"),
    ],
    "purerl/trust/names.py": [
        ("not trusted & {module, name, ALL}", "not trusted & {module, name}"),
        ("_trusted.set(_trusted.get() - ({ALL} - before))", "pass"),
    ],
    "purerl/settings/values.py": [
        ("(math.isfinite(value) and value == int(value))", "math.isfinite(value)"),
        ("for number in (int, float)", "for number in (float, int)"),
    ],
    "purerl/sweeps/chunks.py": [
        ("self.curves.failed[trials] |= ~finite", "self.curves.failed[trials] = ~finite"),
    ],
    "purerl/sweeps/design.py": [
        ("ranges <= num_trials", "ranges < num_trials"),
    ],
    "purerl/sweeps/halving.py": [
        ("np.argsort(-np.nan_to_num(", "np.argsort(np.nan_to_num("),
        ("nan=-np.inf)", "nan=np.inf)"),
        ("len(completed) // eta]", "len(completed) // eta + 1]"),
        ("len(completed) // eta]", "-(-len(completed) // eta)]"),
    ],
    "purerl/sweeps/population.py": [
        ("worst, best = order[:few], order[-few:]", "worst, best = order[-few:], order[:few]"),
        ("scores[donors] > scores[worst]", "scores[donors] < scores[worst]"),
        ("take = lambda x: x if is_key(x) else x[rows]", "take = lambda x: x[rows]"),
        ("low * (high / low) ** position if dimension.log else low", "low"),
        (
            "up, down = jnp.maximum(jnp.ceil(changed), number + 1.0), jnp.minimum(jnp.floor(changed), number - 1.0)",
            "up, down = jnp.ceil(changed), jnp.floor(changed)",
        ),
        ("jnp.where(jnp.isnan(point.episode_return), members.scores, point.episode_return)", "point.episode_return"),
        ("scores = jnp.where(point.finite, known, -jnp.inf)", "scores = known"),
        (
            "return seeds[rows % len(seeds)] + (rows // len(seeds)).astype(np.uint32) * _STRIDE",
            "return seeds[rows % len(seeds)]",
        ),
        ("few = max(1, size // SHARE)", "few = max(1, size // 2)"),
    ],
    "purerl/sweeps/plan.py": [
        (
            "row.keeps(dataclasses.replace(run.options_of(row), **{name: value}), run)",
            "row.keeps(run.options_of(row), run)",
            "tests/extensions/objectives/test_extension.py",
        ),
        ("**setup.options, **prepared", "**setup.options", "tests/extensions/objectives/test_extension.py"),
    ],
    "purerl/sweeps/result.py": [
        ("np.where(self.failed, np.nan, found)", "found"),
        ("-max(1, round(LAST * points)) :", "-max(1, round(LAST * points)) - 1 :"),
    ],
    "purerl/sweeps/search.py": [
        ("vars(self).update(tree[past])", "pass", "tests/sweeps/test_halving.py", "tests/sweeps/test_population.py"),
    ],
    "purerl/wrappers/actions.py": [
        ("where(sticky, before, action)", "where(sticky, action, before)"),
        ("return where(step.done, carry, (new_state, new_step)), None", "return (new_state, new_step), None"),
        ("(r + self.shift) * self.scale", "r * self.scale + self.shift"),
    ],
    "purerl/wrappers/episodes.py": [
        ("step.truncate(time >= self.time_limit)", "step.truncate(time > self.time_limit)"),
        ("write(xs, x, time + 1)", "write(xs, x, time)"),
        ("self._with(state.outer).step(", "self.env.step("),
    ],
    "purerl/wrappers/observations.py": [
        ("[stack[..., x.shape[-1] :], x]", "[x, stack[..., : -x.shape[-1]]]"),
        ('"action_mask": legal & before', '"action_mask": legal'),
    ],
    "purerl/wrappers/situations.py": [
        (
            "sign = jnp.where(moved.observation.side == situation.side, 1.0, -1.0)",
            "sign = jnp.where(moved.observation.side == situation.side, -1.0, 1.0)",
        ),
        ("reward=timestep.reward + carry[1].reward", "reward=timestep.reward"),
        ("state = without_future(key_state, situation.state)", "state = situation.state"),
    ],
    "purerl/xla/accumulation.py": [
        (
            "weights = jax.vmap(_samples)(parts) / jnp.maximum(_samples(rollout), 1.0)",
            "weights = jnp.full(count, 1.0 / count)",
        ),
        ("jnp.moveaxis(x, 0, 2).reshape(length, size)", "jnp.moveaxis(x, 0, 1).reshape(length, size)"),
    ],
    "purerl/xla/linear_scan.py": [
        ("follows = jnp.concatenate([jnp.zeros_like(done[:1]), done[:-1]])[..., None]", "follows = done[..., None]"),
        ("b = jnp.concatenate([b[:1] + product(a[:1], begin[None]), b[1:]])", "b = b + 0.0"),
    ],
    "purerl/xla/neighbors.py": [
        ("other = active[None, :] & (jnp", "other = (jnp"),
        (
            "(square > distance[:, None]) | ((square == distance[:, None]) & (number[None, :] > at[:, None]))",
            "square > distance[:, None]",
        ),
        ("jax.lax.cond(jnp.any(alike), settle,", "jax.lax.cond(False, settle,"),
    ],
    "purerl/xla/packing.py": [
        ("begin[width] = end", "begin[width] = 0"),
    ],
    "purerl/xla/product.py": [
        ("return gradient @ kernel.T, of_kernel", "return gradient @ kernel.T, of_kernel / rows.shape[0]"),
    ],
    "purerl/xla/recurrence.py": [
        ("_cleared(later, over)", "later"),
    ],
    "purerl/xla/reductions.py": [
        ("for index, name in enumerate(columns)", "for index, name in enumerate(sorted(columns))"),
    ],
    "purerl/agent_groups.py": [
        ("total / sum(part.shape[-1] for part in reward.values())", "total / len(reward)"),
    ],
    "purerl/fields.py": [
        ("x <= above)", "x < above)"),
        ("x > high)", "x >= high)"),
    ],
    "purerl/prng.py": [
        ("_hash(key, index, x + _LANE)", "_hash(key, index, x)"),
        ("for domain in (_HIGH, np.uint32(0))", "for domain in (np.uint32(0), np.uint32(0))"),
        ("jnp.uint32(i), _SPLIT)", "jnp.uint32(i), _FOLD)"),
        ("jax.random.split(jax.random.fold_in(key, num_updates))", "jax.random.split(key)"),
    ],
    "purerl/spaces/discrete.py": [
        ("jnp.all((value >= 0) & (value < self.n))", "jnp.all((value >= 0) & (value <= self.n))"),
    ],
    "purerl/spaces/box.py": [
        ("jnp.asarray(self.high, jnp.int32) + 1", "jnp.asarray(self.high, jnp.int32)"),
        ("(value >= low) & (value <= high)", "(value >= low) & (value < high)"),
    ],
    "purerl/functional/statistics.py": [
        ("cut = pooled.size // 4", "cut = pooled.size // 3"),
        ("0.5 * (a == b).astype(jnp.float32)", "0.0 * (a == b).astype(jnp.float32)"),
        ("tail = 0.5 * (1.0 - confidence)", "tail = 1.0 - confidence"),
        ("jnp.var(b, ddof=1)", "jnp.var(a, ddof=1)"),
        ("jax.random.split(key, len(scores))", "[key] * len(scores)"),
    ],
}
