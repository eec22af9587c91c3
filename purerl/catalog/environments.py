"""The native environments, the suites that an adapter provides, and the names that they have in other frameworks."""

from typing import NamedTuple

ENVIRONMENTS: dict[str, str] = {  # id -> "module:Class"
    "CartPole-v1": "purerl.envs.classic.cartpole:CartPole",
    "Acrobot-v1": "purerl.envs.classic.acrobot:Acrobot",
    "MountainCar-v0": "purerl.envs.classic.mountain_car:MountainCar",
    "MountainCarContinuous-v0": "purerl.envs.classic.mountain_car_continuous:MountainCarContinuous",
    "Pendulum-v1": "purerl.envs.classic.pendulum:Pendulum",
    "Catch": "purerl.envs.bsuite.catch:Catch",
    "DeepSea": "purerl.envs.bsuite.deep_sea:DeepSea",
    "DiscountingChain": "purerl.envs.bsuite.discounting_chain:DiscountingChain",
    "MemoryChain": "purerl.envs.bsuite.memory_chain:MemoryChain",
    "SimpleBandit": "purerl.envs.bsuite.simple_bandit:SimpleBandit",
    "UmbrellaChain": "purerl.envs.bsuite.umbrella_chain:UmbrellaChain",
    "BernoulliBandit": "purerl.envs.bandit.bernoulli_bandit:BernoulliBandit",
    "GaussianBandit": "purerl.envs.bandit.gaussian_bandit:GaussianBandit",
    "FourRooms": "purerl.envs.grid.four_rooms:FourRooms",
    "FrozenLake-v1": "purerl.envs.grid.frozen_lake:FrozenLake",
    "CoinGame": "purerl.envs.games.coin_game:CoinGame",
    "MatrixGame": "purerl.envs.games.matrix_game:MatrixGame",
    "PredatorPrey": "purerl.envs.particle.predator_prey:PredatorPrey",
    "Spread": "purerl.envs.particle.spread:Spread",
    "TagContinuous": "purerl.envs.tag.continuous:TagContinuous",
    "TagGridWorld": "purerl.envs.tag.grid_world:TagGridWorld",
    "GridWorld": "purerl.envs.grid.grid_world:GridWorld",
    "Maze": "purerl.envs.grid.maze:Maze",
    "Autoencode": "purerl.envs.memory.autoencode:Autoencode",
    "PositionOnlyCartPole": "purerl.envs.memory.position_only_cartpole:PositionOnlyCartPole",
    "RepeatPrevious": "purerl.envs.memory.repeat_previous:RepeatPrevious",
    "TMaze": "purerl.envs.memory.t_maze:TMaze",
    "PointMass": "purerl.envs.control.point_mass:PointMass",
    "Reacher": "purerl.envs.control.reacher:Reacher",
    "Asterix-MinAtar": "purerl.envs.minatar.asterix:Asterix",
    "Breakout-MinAtar": "purerl.envs.minatar.breakout:Breakout",
    "Freeway-MinAtar": "purerl.envs.minatar.freeway:Freeway",
    "Seaquest-MinAtar": "purerl.envs.minatar.seaquest:Seaquest",
    "SpaceInvaders-MinAtar": "purerl.envs.minatar.space_invaders:SpaceInvaders",
}


class Suite(NamedTuple):
    """A collection of third-party environments, reached as `suite/NAME`."""

    module: str  # with make(name, **parameters) -> Environment and names() -> list of names
    package: str  # what must be importable
    extra: str | None  # the extra of purerl that installs it; None: part of the base
    example: str  # an id


SUITES: dict[str, Suite] = {
    "ale": Suite(module="purerl.envs.adapters.ale", package="ale_py", extra="atari", example="ale/Pong-v5"),
    "brax": Suite(module="purerl.envs.adapters.brax", package="brax", extra=None, example="brax/ant"),
    "craftax": Suite(
        module="purerl.envs.adapters.craftax", package="craftax", extra="craftax", example="craftax/Craftax-Symbolic-v1"
    ),
    "envpool": Suite(
        module="purerl.envs.adapters.envpool", package="envpool", extra="envpool", example="envpool/Pong-v5"
    ),
    "gymnasium": Suite(
        module="purerl.envs.adapters.gymnasium",
        package="gymnasium",
        extra="gymnasium",
        example="gymnasium/LunarLander-v3",
    ),
    "gymnax": Suite(
        module="purerl.envs.adapters.gymnax", package="gymnax", extra=None, example="gymnax/Breakout-MinAtar"
    ),
    "jaxmarl": Suite(
        module="purerl.envs.adapters.jaxmarl",
        package="jaxmarl",
        extra="jaxmarl",
        example="jaxmarl/MPE_simple_spread_v3",
    ),
    "jumanji": Suite(
        module="purerl.envs.adapters.jumanji", package="jumanji", extra="jumanji", example="jumanji/Snake-v1"
    ),
    "navix": Suite(
        module="purerl.envs.adapters.navix", package="navix", extra="navix", example="navix/Navix-DoorKey-5x5-v0"
    ),
    "pgx": Suite(module="purerl.envs.adapters.pgx", package="pgx", extra="pgx", example="pgx/connect_four"),
    "playground": Suite(
        module="purerl.envs.adapters.playground",
        package="mujoco_playground",
        extra="playground",
        example="playground/CartpoleBalance",
    ),
    "xminigrid": Suite(
        module="purerl.envs.adapters.xminigrid",
        package="xminigrid",
        extra="xminigrid",
        example="xminigrid/XLand-MiniGrid-R1-9x9",
    ),
}


FAMILIAR = {  # environments that people know by name alone, as the suites that have them write them
    "brax/*": "ant fetch grasp halfcheetah hopper humanoid humanoidstandup pusher swimmer ur5e walker2d",
    "gymnasium/*-v3": "BipedalWalker BipedalWalkerHardcore CarRacing LunarLander LunarLanderContinuous Taxi",
    "gymnasium/*-v1": "Blackjack CliffWalking",
    "gymnasium/*-v5": "Ant HalfCheetah Hopper Humanoid HumanoidStandup InvertedPendulum InvertedDoublePendulum Pusher "
    "Reacher Swimmer Walker2d",
    "envpool/*-v5": "Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider Berzerk Bowling "
    "Boxing Breakout Centipede ChopperCommand CrazyClimber Defender DemonAttack DoubleDunk Enduro FishingDerby Freeway "
    "Frostbite Gopher Gravitar Hero IceHockey Jamesbond Kangaroo Krull KungFuMaster MontezumaRevenge MsPacman "
    "NameThisGame Phoenix Pitfall Pong PrivateEye Qbert Riverraid RoadRunner Robotank Seaquest Skiing Solaris "
    "SpaceInvaders StarGunner Surround Tennis TimePilot Tutankham UpNDown Venture VideoPinball WizardOfWor YarsRevenge "
    "Zaxxon",
    "craftax/*-Symbolic-v1": "Craftax Craftax-Classic",
    "pgx/*": "chess connect_four go_9x9 go_19x19 hex othello shogi tic_tac_toe",
}
