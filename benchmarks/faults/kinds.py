"""The kinds of jobs that a campaign disturbs, with settings as small as they have."""

from typing import NamedTuple

SMALL = "--num-envs 2 --hidden-sizes 4 --plain --no-cache"
OFTEN = "--evaluations 2 --eval-episodes 2 --checkpoint-interval 0"
EACH = f"{SMALL} {OFTEN} --log-interval 2"
BOTH = f"{EACH} --seeds 2"  # settings that two devices can share
REPLAY = "--rollout-length 2 --replay-capacity 64 --learning-starts 8 --batch-size 4"
HOST = f"{EACH} --rollout-length 4 --total-timesteps 320 --num-minibatches 1 --num-epochs 1"
SWEEP = f"sweep a2c Catch {SMALL} --rollout-length 4 --seeds 1 --points 4 --over learning_rate=1e-3:1e-2"


class Kind(NamedTuple):
    """A job by its command."""

    words: str
    exact: bool = True  # it resumes to the same bits; environments of other libraries begin new episodes
    devices: bool = True  # one device gives the bits of two: not where they share the sums of one agent or candidate


KINDS = {
    "ppo": Kind(f"train ppo Catch {BOTH} --rollout-length 4 --total-timesteps 320 --keep-best"),
    "ppo, video, tensorboard": Kind(
        f"train ppo Catch {EACH} --rollout-length 4 --total-timesteps 320 --keep-best "
        "--video-interval 20 --tensorboard",
        devices=False,
    ),
    "dqn": Kind(f"train dqn Catch {BOTH} {REPLAY} --total-timesteps 160 --keep-best"),
    "sac": Kind(f"train sac Pendulum-v1 {BOTH} {REPLAY} --total-timesteps 160"),
    "r2d2": Kind(
        f"train r2d2 Catch {BOTH} --rollout-length 4 --replay-capacity 64 --learning-starts 16 --batch-size 2 "
        "--burn-in 0 --sequence-length 4 --rnn-size 4 --total-timesteps 320"
    ),
    "alphazero": Kind(f"train alphazero Catch {BOTH} --rollout-length 4 --num-simulations 2 --total-timesteps 320"),
    "mappo": Kind(f"train mappo Spread {BOTH} --rollout-length 4 --num-minibatches 1 --total-timesteps 320"),
    "levels": Kind(
        f"train ppo GridWorld {BOTH} --levels accel --levels-capacity 4 --env.time_limit 4 --rollout-length 4 "
        "--num-minibatches 1 --total-timesteps 320"
    ),
    "self-play": Kind(
        f"train ppo CoinGame {BOTH} --num-envs 4 --self-play 2 --env.time_limit 4 --rollout-length 4 "
        "--num-minibatches 1 --total-timesteps 640"
    ),
    "sweep, random": Kind(f"{SWEEP} --trials 8 --chunk 1 --total-timesteps 80"),
    "sweep, grid": Kind(f"{SWEEP} --method grid --trials 8 --chunk 1 --total-timesteps 80"),
    "sweep, qmc": Kind(f"{SWEEP} --method qmc --trials 16 --chunk 2 --total-timesteps 80"),
    "sweep, halving": Kind(
        f"{SWEEP} --method halving --trials 3 --rungs 2 --checkpoint-interval 0 --total-timesteps 320"
    ),
    "sweep, pbt": Kind(
        f"{SWEEP} --method pbt --trials 4 --generations 12 --checkpoint-interval 0 --total-timesteps 240"
    ),
    "evolve": Kind(
        f"evolve ppo --tasks Catch {SMALL} --rollout-length 8 --num-minibatches 1 --num-epochs 1 --population 2 "
        "--generations 12 --checkpoint-generations 1 --frames 2 --total-timesteps 64"
    ),
    "evolve, meta-gradient": Kind(
        f"evolve lpg --method meta-gradient --tasks Catch {SMALL} --rollout-length 8 --population 2 --inner-updates 1 "
        "--generations 12 --checkpoint-generations 1 --frames 2 --total-timesteps 64",
        devices=False,
    ),
    "host, serial": Kind(f"train ppo gymnasium/CartPole-v1 {HOST} --sampler serial", exact=False, devices=False),
    "host, batched": Kind(f"train ppo gymnasium/CartPole-v1 {HOST} --sampler batched", exact=False, devices=False),
    "host, alternating": Kind(
        f"train ppo gymnasium/CartPole-v1 {HOST} --sampler alternating", exact=False, devices=False
    ),
    "host, async": Kind(f"train ppo gymnasium/CartPole-v1 {HOST} --sampler async", exact=False, devices=False),
    "host, inside": Kind(f"train ppo gymnasium/CartPole-v1 {HOST} --sampler inside", exact=False, devices=False),
}
