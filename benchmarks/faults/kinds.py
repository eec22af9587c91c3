"""The kinds of jobs that a campaign disturbs, with settings as small as they have."""

from typing import NamedTuple

SMALL = "--num-envs 2 --hidden-sizes 4 --plain --no-cache"
OFTEN = "--evaluations 2 --eval-episodes 2 --checkpoint-interval 0"
EACH = f"{SMALL} {OFTEN} --log-interval 2"
REPLAY = "--rollout-length 2 --replay-capacity 64 --learning-starts 8 --batch-size 4"
HOST = f"{EACH} --rollout-length 4 --total-timesteps 80 --num-minibatches 1 --num-epochs 1"
SWEEP = f"sweep a2c Catch {SMALL} --rollout-length 4 --seeds 1 --points 4 --over learning_rate=1e-3:1e-2"


class Kind(NamedTuple):
    """A job by its command."""

    words: str
    exact: bool = True  # it resumes to the same bits; environments of other libraries begin new episodes


KINDS = {
    "ppo": Kind(f"train ppo Catch {EACH} --rollout-length 4 --total-timesteps 80 --seeds 2 --keep-best"),
    "ppo, video, tensorboard": Kind(
        f"train ppo Catch {EACH} --rollout-length 4 --total-timesteps 80 --keep-best --video-interval 4 --tensorboard"
    ),
    "dqn": Kind(f"train dqn Catch {EACH} {REPLAY} --total-timesteps 40 --keep-best"),
    "sac": Kind(f"train sac Pendulum-v1 {EACH} {REPLAY} --total-timesteps 40"),
    "r2d2": Kind(
        f"train r2d2 Catch {EACH} --rollout-length 4 --replay-capacity 64 --learning-starts 16 --batch-size 2 "
        "--burn-in 0 --sequence-length 4 --rnn-size 4 --total-timesteps 80"
    ),
    "alphazero": Kind(f"train alphazero Catch {EACH} --rollout-length 4 --num-simulations 2 --total-timesteps 80"),
    "mappo": Kind(f"train mappo Spread {EACH} --rollout-length 4 --num-minibatches 1 --total-timesteps 80"),
    "levels": Kind(
        f"train ppo GridWorld {EACH} --levels accel --levels-capacity 4 --env.time_limit 4 --rollout-length 4 "
        "--num-minibatches 1 --total-timesteps 80"
    ),
    "self-play": Kind(
        f"train ppo CoinGame {EACH} --num-envs 4 --self-play 2 --env.time_limit 4 --rollout-length 4 "
        "--num-minibatches 1 --total-timesteps 160"
    ),
    "sweep, random": Kind(f"{SWEEP} --trials 3 --chunk 1 --total-timesteps 80"),
    "sweep, grid": Kind(f"{SWEEP} --method grid --trials 3 --chunk 1 --total-timesteps 80"),
    "sweep, qmc": Kind(f"{SWEEP} --method qmc --trials 4 --chunk 2 --total-timesteps 80"),
    "sweep, halving": Kind(
        f"{SWEEP} --method halving --trials 3 --rungs 2 --checkpoint-interval 0 --total-timesteps 80"
    ),
    "sweep, pbt": Kind(f"{SWEEP} --method pbt --trials 4 --generations 4 --checkpoint-interval 0 --total-timesteps 80"),
    "evolve": Kind(
        f"evolve ppo --tasks Catch {SMALL} --rollout-length 8 --num-minibatches 1 --num-epochs 1 --population 2 "
        "--generations 4 --checkpoint-generations 1 --frames 2 --total-timesteps 64"
    ),
    "host, serial": Kind(f"train ppo gymnasium/CartPole-v1 {HOST} --sampler serial", exact=False),
    "host, batched": Kind(f"train ppo gymnasium/CartPole-v1 {HOST} --sampler batched", exact=False),
    "host, alternating": Kind(f"train ppo gymnasium/CartPole-v1 {HOST} --sampler alternating", exact=False),
    "host, async": Kind(f"train ppo gymnasium/CartPole-v1 {HOST} --sampler async", exact=False),
    "host, inside": Kind(f"train ppo gymnasium/CartPole-v1 {HOST} --sampler inside", exact=False),
}
