"""The names of suites' environments, so that a wrong name is reported without importing the suite, which takes seconds.

`NAMES` is written by `python tools/suite_names.py`, and is valid for one version of each suite. The suite itself is
asked if its version differs, or if it is imported already, because names may have been registered since.
"""

import sys
from importlib import metadata
from typing import NamedTuple

from purerl.errors import InputError, unknown


class Names(NamedTuple):
    """The names of one version of a suite."""

    version: str
    names: str  # separated by spaces


LEFT_OUT = {  # what a suite has and its adapter does not offer, by how the name begins: why
    "jaxmarl": {
        "storm": "its observations and rewards are an array or a tuple of all agents, not by their names, and at its "
        "time limit it returns the first observation of the next game and a reward of 0: the final observation is lost",
        "JaxRobotarium": "it needs the simulator of the Robotarium, which no package has",
        "LearnedPolicyEnemySMAX": "its enemy is a policy that you trained: it takes one and its parameters, which no "
        "settings can name",
    }
}

NAMES = {
    "brax": Names(
        "0.14.2",
        "ant fast halfcheetah hopper humanoid humanoidstandup inverted_double_pendulum inverted_pendulum "
        "pusher reacher swimmer walker2d",
    ),
    "craftax": Names(
        "1.6.1", "Craftax-Classic-Pixels-v1 Craftax-Classic-Symbolic-v1 Craftax-Pixels-v1 Craftax-Symbolic-v1"
    ),
    "gymnax": Names(
        "1.0.1",
        "Acrobot-v1 Asterix-MinAtar BernoulliBandit-misc Breakout-MinAtar CartPole-v1 Catch-bsuite "
        "DeepSea-bsuite DiscountingChain-bsuite FourRooms-misc Freeway-MinAtar FrozenLake-misc "
        "GaussianBandit-misc MNISTBandit-bsuite MemoryChain-bsuite MetaMaze-misc MountainCar-v0 "
        "MountainCarContinuous-v0 Pendulum-v1 PointRobot-misc Pong-misc Reacher-misc Seaquest-MinAtar "
        "SimpleBandit-bsuite SpaceInvaders-MinAtar Swimmer-misc UmbrellaChain-bsuite",
    ),
    "jaxmarl": Names(
        "0.2.0",
        "HeuristicEnemySMAX MPE_simple_adversary_v3 MPE_simple_crypto_v3 MPE_simple_facmac_3a_v1 "
        "MPE_simple_facmac_6a_v1 MPE_simple_facmac_9a_v1 MPE_simple_facmac_v1 MPE_simple_push_v3 "
        "MPE_simple_reference_v3 MPE_simple_speaker_listener_v4 MPE_simple_spread_v3 MPE_simple_tag_v3 "
        "MPE_simple_v3 MPE_simple_world_comm_v3 SMAX ant_4x2 coin_game halfcheetah_6x1 hanabi hopper_3x1 "
        "humanoid_9|8 jaxnav overcooked overcooked_v2 switch_riddle walker2d_2x3",
    ),
    "jumanji": Names(
        "1.1.2",
        "BinPack-v2 CVRP-v1 Cleaner-v0 Connector-v3 FlatPack-v0 Game2048-v1 GraphColoring-v1 JobShop-v0 "
        "Knapsack-v1 LevelBasedForaging-v0 MMST-v0 Maze-v0 Minesweeper-v0 MultiCVRP-v0 PacMan-v1 "
        "RobotWarehouse-v0 RubiksCube-partly-scrambled-v0 RubiksCube-v0 SearchAndRescue-v0 "
        "SlidingTilePuzzle-v0 Snake-v1 Sokoban-v0 Sudoku-v0 Sudoku-very-easy-v0 TSP-v1 Tetris-v0",
    ),
    "navix": Names(
        "0.7.4",
        "Navix-DistShift1-v0 Navix-DistShift2-v0 Navix-DoorKey-16x16-v0 Navix-DoorKey-5x5-v0 "
        "Navix-DoorKey-6x6-v0 Navix-DoorKey-8x8-v0 Navix-DoorKey-Random-16x16-v0 Navix-DoorKey-Random-5x5-v0 "
        "Navix-DoorKey-Random-6x6-v0 Navix-DoorKey-Random-8x8-v0 Navix-Dynamic-Obstacles-16x16-v0 "
        "Navix-Dynamic-Obstacles-5x5-Random-v0 Navix-Dynamic-Obstacles-5x5-v0 "
        "Navix-Dynamic-Obstacles-6x6-Random-v0 Navix-Dynamic-Obstacles-6x6-v0 Navix-Dynamic-Obstacles-8x8-v0 "
        "Navix-Empty-16x16-v0 Navix-Empty-5x5-v0 Navix-Empty-6x6-v0 Navix-Empty-8x8-v0 "
        "Navix-Empty-Random-16x16-v0 Navix-Empty-Random-5x5-v0 Navix-Empty-Random-6x6-v0 "
        "Navix-Empty-Random-8x8-v0 Navix-FourRooms-v0 Navix-GoToDoor-5x5-v0 Navix-GoToDoor-6x6-v0 "
        "Navix-GoToDoor-8x8-v0 Navix-KeyCorridorS3R1-v0 Navix-KeyCorridorS3R2-v0 Navix-KeyCorridorS3R3-v0 "
        "Navix-KeyCorridorS4R3-v0 Navix-KeyCorridorS5R3-v0 Navix-KeyCorridorS6R3-v0 Navix-LavaGapS5-v0 "
        "Navix-LavaGapS6-v0 Navix-LavaGapS7-v0 Navix-SimpleCrossingS11N5-v0 Navix-SimpleCrossingS9N1-v0 "
        "Navix-SimpleCrossingS9N2-v0 Navix-SimpleCrossingS9N3-v0",
    ),
    "pgx": Names(
        "2.6.0",
        "2048 animal_shogi backgammon chess connect_four gardner_chess go_19x19 go_9x9 hex kuhn_poker "
        "leduc_holdem minatar-asterix minatar-breakout minatar-freeway minatar-seaquest "
        "minatar-space_invaders othello shogi sparrow_mahjong tic_tac_toe",
    ),
    "playground": Names(
        "0.2.0",
        "AcrobotSwingup AcrobotSwingupSparse AeroCubeRotateZAxis AlohaHandOver AlohaSinglePegInsertion "
        "ApolloJoystickFlatTerrain BallInCup BarkourJoystick BerkeleyHumanoidJoystickFlatTerrain "
        "BerkeleyHumanoidJoystickRoughTerrain CartpoleBalance CartpoleBalanceSparse CartpoleSwingup "
        "CartpoleSwingupSparse CheetahRun FingerSpin FingerTurnEasy FingerTurnHard FishSwim "
        "G1JoystickFlatTerrain G1JoystickRoughTerrain Go1Footstand Go1Getup Go1Handstand "
        "Go1JoystickFlatTerrain Go1JoystickRoughTerrain H1InplaceGaitTracking H1JoystickGaitTracking "
        "HopperHop HopperStand HumanoidRun HumanoidStand HumanoidWalk LeapCubeReorient LeapCubeRotateZAxis "
        "Op3Joystick PandaOpenCabinet PandaPickCube PandaPickCubeCartesian PandaPickCubeOrientation "
        "PandaRobotiqPushCube PendulumSwingup PointMass ReacherEasy ReacherHard SpotFlatTerrainJoystick "
        "SpotGetup SpotJoystickGaitTracking SwimmerSwimmer6 T1JoystickFlatTerrain T1JoystickRoughTerrain "
        "WalkerRun WalkerStand WalkerWalk",
    ),
    "xminigrid": Names(
        "0.9.3",
        "MiniGrid-BlockedUnlockPickUp MiniGrid-DoorKey-16x16 MiniGrid-DoorKey-5x5 MiniGrid-DoorKey-6x6 "
        "MiniGrid-DoorKey-8x8 MiniGrid-Empty-16x16 MiniGrid-Empty-5x5 MiniGrid-Empty-6x6 MiniGrid-Empty-8x8 "
        "MiniGrid-EmptyRandom-16x16 MiniGrid-EmptyRandom-5x5 MiniGrid-EmptyRandom-6x6 "
        "MiniGrid-EmptyRandom-8x8 MiniGrid-FourRooms MiniGrid-LockedRoom MiniGrid-MemoryS128 "
        "MiniGrid-MemoryS16 MiniGrid-MemoryS32 MiniGrid-MemoryS64 MiniGrid-MemoryS8 MiniGrid-Playground "
        "MiniGrid-Unlock MiniGrid-UnlockPickUp XLand-MiniGrid-R1-11x11 XLand-MiniGrid-R1-13x13 "
        "XLand-MiniGrid-R1-15x15 XLand-MiniGrid-R1-17x17 XLand-MiniGrid-R1-9x9 XLand-MiniGrid-R2-11x11 "
        "XLand-MiniGrid-R2-13x13 XLand-MiniGrid-R2-15x15 XLand-MiniGrid-R2-17x17 XLand-MiniGrid-R2-9x9 "
        "XLand-MiniGrid-R4-11x11 XLand-MiniGrid-R4-13x13 XLand-MiniGrid-R4-15x15 XLand-MiniGrid-R4-17x17 "
        "XLand-MiniGrid-R4-9x9 XLand-MiniGrid-R6-13x13 XLand-MiniGrid-R6-17x17 XLand-MiniGrid-R6-19x19 "
        "XLand-MiniGrid-R9-16x16 XLand-MiniGrid-R9-19x19 XLand-MiniGrid-R9-25x25",
    ),
}


def check_name(suite: str, package: str, name: str) -> None:
    """Reject a name that a suite is known not to have or not to support, without importing it.

    Args:
      suite: a name in `purerl.catalog.environments.SUITES`.
      package: what its code imports.
      name: without the suite.

    Raises:
      InputError: naming the nearest, or why it is left out.
    """
    for start, reason in LEFT_OUT.get(suite, {}).items():
        if name.startswith(start):
            raise InputError(f"{suite}/{name} is not supported: {reason}")
    known = NAMES.get(suite)
    if known is None or package in sys.modules or metadata.version(suite) != known.version:
        return
    if name not in (names := known.names.split(" ")):
        raise unknown(f"environment of {suite}", name, names)
