"""One line about each native environment, which needs no import: players; observations -> actions; rewards."""

ABOUT = {
    "CartPole-v1": "1 player; float32[4] -> Discrete(2); Reward 1 per step",
    "Acrobot-v1": "1 player; float32[6] -> Discrete(3); Reward -1 per step and 0 with the last",
    "MountainCar-v0": "1 player; float32[2] -> Discrete(3); Reward -1 per step",
    "MountainCarContinuous-v0": (
        "1 player; float32[2] -> float32[1]; Reward `goal_reward` at the goal, where it ends, minus 0.1 action^2 "
        "per step"
    ),
    "Pendulum-v1": (
        "1 player; float32[3] -> float32[1]; Reward -(angle^2 + 0.1 angular_velocity^2 + 0.001 torque^2) per step"
    ),
    "Catch": (
        "1 player; float32[10,5] -> Discrete(3); Reward 1 if the paddle is under the ball when it arrives, else -1"
    ),
    "DeepSea": (
        "1 player; float32[10,10] -> Discrete(2); A diver sinks one row per step and moves one column left or right"
    ),
    "DiscountingChain": (
        "1 player; float32[2] -> Discrete(5); The first action chooses one of five chains, which pay once: after 1,"
        " 3, 10, 30 or 100 steps"
    ),
    "MemoryChain": "1 player; float32[3] -> Discrete(2); Reward 1 if the last action is the queried bit, else -1",
    "SimpleBandit": "1 player; float32[1] -> Discrete(11); One pull per episode, of an arm with a fixed reward",
    "UmbrellaChain": "1 player; float32[23] -> Discrete(2); Take an umbrella (1) or not (0) in the first step",
    "BernoulliBandit": "1 player; float32[11] -> Discrete(10); Each pull pays 1 with the arm's probability, else 0",
    "GaussianBandit": (
        "1 player; float32[11] -> Discrete(10); Each pull pays the arm's mean plus `noise` times a standard normal"
    ),
    "FourRooms": "1 player; bool[13,13,3] -> Discrete(4); Reward 1 at the goal, which ends the episode",
    "FrozenLake-v1": "1 player; Discrete(16) -> Discrete(4); Reward 1 at the goal",
    "CoinGame": (
        "2 players; blue float32[36], red float32[36] -> blue Discrete(5), red Discrete(5); A coin pays 1 to the "
        "player who steps on it"
    ),
    "MatrixGame": (
        "2 players; column float32[1], row float32[1] -> column Discrete(2), row Discrete(2); Row i against column "
        "j: the row player gets row_payoff[i][j], the column player column_payoff[i][j]"
    ),
    "PredatorPrey": (
        "4 players; global_state float32[64], predators float32[16], prey float32[16] -> predators Discrete(5), "
        "prey Discrete(5); Every touch pays all predators `touch_reward` and costs that prey the same"
    ),
    "Spread": (
        "3 players; agents float32[14], global_state float32[42] -> agents Discrete(5); All get (1 - own_share) "
        "times minus the sum over landmarks of the distance to the nearest agent"
    ),
    "TagContinuous": (
        "11 players; runners float32[15], taggers float32[15] -> runners MultiDiscrete(11, 11), taggers "
        "MultiDiscrete(11, 11); Taggers are rewarded for every runner they touch"
    ),
    "TagGridWorld": (
        "11 players; runners float32[45], taggers float32[45] -> runners Discrete(5), taggers Discrete(5); Taggers "
        "share `tag_reward` when one of them stands in the runner's cell"
    ),
    "GridWorld": "1 player; bool[9,9,3] -> Discrete(4); Walk in four directions",
    "Maze": (
        "1 player; direction Discrete(4), view bool[5,5,2] -> Discrete(3); Walk to the goal of a maze of 13 x 13 "
        "cells within walls"
    ),
    "Autoencode": "1 player; float32[5] -> Discrete(4); `length` random symbols are shown, one per step",
    "PositionOnlyCartPole": (
        "1 player; float32[2] -> Discrete(2); CartPole-v1 with hidden velocities: two observations determine them"
    ),
    "RepeatPrevious": "1 player; float32[4] -> Discrete(4); Each step shows a new random symbol",
    "TMaze": "1 player; float32[4] -> Discrete(4); Walk along a corridor and turn toward the goal",
    "PointMass": (
        "1 player; float32[4] -> float32[2]; Reward -(|position|^2 + velocity_cost |velocity|^2 + action_cost "
        "|action|^2), computed before the step"
    ),
    "Reacher": (
        "1 player; float32[10] -> float32[2]; Reward -(distance of the tip to the target + action_cost |action|^2),"
        " computed after the step"
    ),
    "Asterix-MinAtar": "1 player; bool[10,10,4] -> Discrete(6); Reward 1 per gold",
    "Breakout-MinAtar": "1 player; bool[10,10,4] -> Discrete(6); Reward 1 per brick",
    "Freeway-MinAtar": "1 player; bool[10,10,7] -> Discrete(6); Reward 1 per crossing",
    "Seaquest-MinAtar": (
        "1 player; bool[10,10,10] -> Discrete(6); Reward 1 per enemy shot, and 1 per 20 oxygen left when surfacing "
        "with six divers"
    ),
    "SpaceInvaders-MinAtar": "1 player; bool[10,10,6] -> Discrete(6); Reward 1 per alien",
}
