"""What there is: environments and algorithms by name. One row each; nothing is imported until it is asked for."""

import dataclasses
import importlib
import importlib.util
import inspect
import pathlib
import re
import sys
import typing
from functools import partial
from typing import Any, NamedTuple

from purerl.errors import InputError, told, unknown

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
    """A collection of environments made elsewhere, reached as `suite/NAME`."""

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
KNOWN = "purerl.envs.adapters.known"  # has check_name(suite, package, name), and imports nothing


class AlgorithmEntry(NamedTuple):
    """A row of the table of algorithms."""

    factory: str  # "module:function", (spec, config) -> Algorithm
    config: str  # "module:Class"
    summary: str
    source: str
    actions: tuple[str, ...]  # the action spaces it takes
    teams: bool = False  # made for groups of agents


ALGORITHMS: dict[str, AlgorithmEntry] = {
    "a2c": AlgorithmEntry(
        factory="purerl.algos.a2c:a2c",
        config="purerl.algos.a2c:A2CConfig",
        summary="advantage actor-critic",
        source="Mnih et al. 2016, arXiv:1602.01783",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "alphazero": AlgorithmEntry(
        factory="purerl.algos.alphazero:alphazero",
        config="purerl.algos.alphazero:AlphaZeroConfig",
        summary="search in the environment itself, by Gumbel or PUCT",
        source="Silver et al. 2018, doi:10.1126/science.aar6404",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "c51": AlgorithmEntry(
        factory="purerl.algos.c51:c51",
        config="purerl.algos.c51:C51Config",
        summary="distribution of returns on fixed atoms",
        source="Bellemare et al. 2017, arXiv:1707.06887",
        actions=("discrete",),
    ),
    "dqn": AlgorithmEntry(
        factory="purerl.algos.dqn:dqn",
        config="purerl.algos.dqn:DQNConfig",
        summary="deep Q-learning from replay; double, dueling, n-step",
        source="Mnih et al. 2015, doi:10.1038/nature14236",
        actions=("discrete",),
    ),
    "impala": AlgorithmEntry(
        factory="purerl.algos.impala:impala",
        config="purerl.algos.impala:IMPALAConfig",
        summary="actor-critic with V-trace for stale rollouts",
        source="Espeholt et al. 2018, arXiv:1802.01561",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "iqn": AlgorithmEntry(
        factory="purerl.algos.iqn:iqn",
        config="purerl.algos.iqn:IQNConfig",
        summary="distribution of returns by quantiles at any level",
        source="Dabney et al. 2018, arXiv:1806.06923",
        actions=("discrete",),
    ),
    "mappo": AlgorithmEntry(
        factory="purerl.algos.ppo:ppo",
        config="purerl.algos.ppo:MAPPOConfig",
        summary="PPO whose critic sees the global state",
        source="Yu et al. 2022, arXiv:2103.01955",
        actions=("discrete", "multi-discrete", "continuous"),
        teams=True,
    ),
    "munchausen": AlgorithmEntry(
        factory="purerl.algos.munchausen:munchausen",
        config="purerl.algos.munchausen:MunchausenConfig",
        summary="DQN that rewards its own log-policy",
        source="Vieillard et al. 2020, arXiv:2007.14430",
        actions=("discrete",),
    ),
    "muzero": AlgorithmEntry(
        factory="purerl.algos.muzero:muzero",
        config="purerl.algos.muzero:MuZeroConfig",
        summary="search in a learned model, by Gumbel or PUCT",
        source="Schrittwieser et al. 2020, arXiv:1911.08265",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "pqn": AlgorithmEntry(
        factory="purerl.algos.pqn:pqn",
        config="purerl.algos.pqn:PQNConfig",
        summary="Q(lambda) in parallel, without replay or target network",
        source="Gallici et al. 2024, arXiv:2407.04811",
        actions=("discrete",),
    ),
    "ppo": AlgorithmEntry(
        factory="purerl.algos.ppo:ppo",
        config="purerl.algos.ppo:PPOConfig",
        summary="proximal policy optimization",
        source="Schulman et al. 2017, arXiv:1707.06347",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "qrdqn": AlgorithmEntry(
        factory="purerl.algos.qrdqn:qrdqn",
        config="purerl.algos.qrdqn:QRDQNConfig",
        summary="distribution of returns by its quantiles",
        source="Dabney et al. 2018, arXiv:1710.10044",
        actions=("discrete",),
    ),
    "r2d2": AlgorithmEntry(
        factory="purerl.algos.r2d2:r2d2",
        config="purerl.algos.r2d2:R2D2Config",
        summary="recurrent Q-learning from replayed sequences",
        source="Kapturowski et al. 2019, openreview.net/forum?id=r1lyTjAqYX",
        actions=("discrete",),
    ),
    "rainbow": AlgorithmEntry(
        factory="purerl.algos.rainbow:rainbow",
        config="purerl.algos.rainbow:RainbowConfig",
        summary="C51, double, dueling, noisy, n-step, prioritized",
        source="Hessel et al. 2018, arXiv:1710.02298",
        actions=("discrete",),
    ),
    "ddpg": AlgorithmEntry(
        factory="purerl.algos.td3:ddpg",
        config="purerl.algos.td3:DDPGConfig",
        summary="deep deterministic policy gradient",
        source="Lillicrap et al. 2016, arXiv:1509.02971",
        actions=("continuous",),
    ),
    "qmix": AlgorithmEntry(
        factory="purerl.algos.value_decomposition:qmix",
        config="purerl.algos.value_decomposition:QMIXConfig",
        summary="a team's value mixed from its agents'",
        source="Rashid et al. 2018, arXiv:1803.11485",
        actions=("discrete",),
        teams=True,
    ),
    "sac": AlgorithmEntry(
        factory="purerl.algos.sac:sac",
        config="purerl.algos.sac:SACConfig",
        summary="soft actor-critic, learned temperature",
        source="Haarnoja et al. 2018, arXiv:1812.05905",
        actions=("continuous", "discrete"),
    ),
    "vdn": AlgorithmEntry(
        factory="purerl.algos.value_decomposition:vdn",
        config="purerl.algos.value_decomposition:VDNConfig",
        summary="a team's value as the sum of its agents'",
        source="Sunehag et al. 2018, arXiv:1706.05296",
        actions=("discrete",),
        teams=True,
    ),
    "vmpo": AlgorithmEntry(
        factory="purerl.algos.vmpo:vmpo",
        config="purerl.algos.vmpo:VMPOConfig",
        summary="on-policy MPO: the better half, weighed, in a trust region",
        source="Song et al. 2019, arXiv:1909.12238",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "spo": AlgorithmEntry(
        factory="purerl.algos.spo:spo",
        config="purerl.algos.spo:SPOConfig",
        summary="particles planned ahead in the environment itself, in a trust region",
        source="Macfarlane et al. 2024, arXiv:2402.07963",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "td3": AlgorithmEntry(
        factory="purerl.algos.td3:td3",
        config="purerl.algos.td3:TD3Config",
        summary="twin delayed deterministic policy gradient",
        source="Fujimoto et al. 2018, arXiv:1802.09477",
        actions=("continuous",),
    ),
    "awr": AlgorithmEntry(
        factory="purerl.algos.awr:awr",
        config="purerl.algos.awr:AWRConfig",
        summary="regression weighed by advantages, from replay",
        source="Peng et al. 2019, arXiv:1910.00177",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "crossq": AlgorithmEntry(
        factory="purerl.algos.crossq:crossq",
        config="purerl.algos.crossq:CrossQConfig",
        summary="SAC with batch normalization for target networks",
        source="Bhatt et al. 2024, arXiv:1902.05605",
        actions=("continuous",),
    ),
    "d4pg": AlgorithmEntry(
        factory="purerl.algos.d4pg:d4pg",
        config="purerl.algos.d4pg:D4PGConfig",
        summary="DDPG with a distribution of returns and n steps",
        source="Barth-Maron et al. 2018, arXiv:1804.08617",
        actions=("continuous",),
    ),
    "mpo": AlgorithmEntry(
        factory="purerl.algos.mpo:mpo",
        config="purerl.algos.mpo:MPOConfig",
        summary="actions weighed by their values, in a trust region",
        source="Abdolmaleki et al. 2018, arXiv:1806.06920",
        actions=("continuous", "discrete"),
    ),
    "ppo-penalty": AlgorithmEntry(
        factory="purerl.algos.ppo_penalty:ppo_penalty",
        config="purerl.algos.ppo_penalty:PPOPenaltyConfig",
        summary="PPO with an adaptive KL penalty for the clip",
        source="Schulman et al. 2017, arXiv:1707.06347",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "redq": AlgorithmEntry(
        factory="purerl.algos.redq:redq",
        config="purerl.algos.redq:REDQConfig",
        summary="SAC with an ensemble, many gradient steps per step",
        source="Chen et al. 2021, arXiv:2101.05982",
        actions=("continuous",),
    ),
    "reinforce": AlgorithmEntry(
        factory="purerl.algos.a2c:reinforce",
        config="purerl.algos.a2c:ReinforceConfig",
        summary="policy gradient on whole returns, with a baseline",
        source="Williams 1992, doi:10.1007/BF00992696",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "tqc": AlgorithmEntry(
        factory="purerl.algos.tqc:tqc",
        config="purerl.algos.tqc:TQCConfig",
        summary="SAC with truncated quantile critics",
        source="Kuznetsov et al. 2020, arXiv:2005.04269",
        actions=("continuous",),
    ),
}


FOLLOWERS: dict[str, AlgorithmEntry] = {  # learn nothing but by a rule that was evolved: not for `purerl train`
    "lpg": AlgorithmEntry(
        factory="purerl.algos.lpg:lpg",
        config="purerl.algos.lpg:LPGConfig",
        summary="an agent whose update a learned rule makes; evolve the rule first",
        source="Oh et al. 2020, arXiv:2007.08794",
        actions=("discrete", "multi-discrete", "continuous"),
    ),
}


class ObjectiveEntry(NamedTuple):
    """What `purerl evolve` starts from."""

    start: str  # "module:function", (key) -> candidate
    algorithm: str  # that it is a part of
    argument: str  # of the algorithm
    summary: str
    source: str


OBJECTIVES: dict[str, ObjectiveEntry] = {
    "lpo": ObjectiveEntry(
        start="purerl.evolution.candidates:lpo",
        algorithm="ppo",
        argument="objective",
        summary="a network on top of PPO's clip",
        source="Lu et al. 2022, arXiv:2210.05639",
    ),
    "lpo-zero": ObjectiveEntry(
        start="purerl.evolution.candidates:lpo_zero",
        algorithm="ppo",
        argument="objective",
        summary="a network from nothing",
        source="Lu et al. 2022, arXiv:2210.05639",
    ),
    "valid": ObjectiveEntry(
        start="purerl.evolution.candidates:valid_network",
        algorithm="ppo",
        argument="objective",
        summary="a network times r - 1 - log r",
        source="this project",
    ),
    "ppo": ObjectiveEntry(
        start="purerl.evolution.candidates:ppo",
        algorithm="ppo",
        argument="objective",
        summary="PPO's clip, 1 number",
        source="Schulman et al. 2017, arXiv:1707.06347",
    ),
    "dpo": ObjectiveEntry(
        start="purerl.evolution.candidates:dpo",
        algorithm="ppo",
        argument="objective",
        summary="LPO's closed form, 2 numbers",
        source="Lu et al. 2022, arXiv:2210.05639",
    ),
    "kl": ObjectiveEntry(
        start="purerl.evolution.candidates:kl",
        algorithm="ppo",
        argument="objective",
        summary="KL penalty, 1 number",
        source="Schulman et al. 2017, arXiv:1707.06347",
    ),
    "spo": ObjectiveEntry(
        start="purerl.evolution.candidates:spo",
        algorithm="ppo",
        argument="objective",
        summary="squared drift, 1 number",
        source="Xie et al. 2024, arXiv:2401.16025",
    ),
    "actor-critic": ObjectiveEntry(
        start="purerl.evolution.candidates:actor_critic",
        algorithm="ppo",
        argument="loss",
        summary="the whole loss of PPO, 3 numbers",
        source="this project",
    ),
    "lpg": ObjectiveEntry(
        start="purerl.evolution.candidates:lpg",
        algorithm="lpg",
        argument="rule",
        summary="a rule for rollouts",
        source="Oh et al. 2020, arXiv:2007.08794",
    ),
    "ta-lpg": ObjectiveEntry(
        start="purerl.evolution.candidates:ta_lpg",
        algorithm="lpg",
        argument="rule",
        summary="the same, seeing its age",
        source="Jackson et al. 2024, arXiv:2402.05828",
    ),
    "open": ObjectiveEntry(
        start="purerl.evolution.candidates:open_optimizer",
        algorithm="ppo",
        argument="optimizer",
        summary="an optimizer",
        source="Goldie et al. 2024, arXiv:2407.07082",
    ),
}


FAMILIAR = {  # environments that people know by name alone, as the suites that have them write them
    "brax/*": "ant fetch grasp halfcheetah hopper humanoid humanoidstandup pusher swimmer ur5e walker2d",
    "gymnasium/*-v3": "BipedalWalker BipedalWalkerHardcore CarRacing LunarLander LunarLanderContinuous Taxi",
    "gymnasium/*-v1": "Blackjack CliffWalking",
    "gymnasium/*-v5": "InvertedPendulum InvertedDoublePendulum",
    "envpool/*-v5": "Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider Berzerk Bowling "
    "Boxing Breakout Centipede ChopperCommand CrazyClimber Defender DemonAttack DoubleDunk Enduro FishingDerby Freeway "
    "Frostbite Gopher Gravitar Hero IceHockey Jamesbond Kangaroo Krull KungFuMaster MontezumaRevenge MsPacman "
    "NameThisGame Phoenix Pitfall Pong PrivateEye Qbert Riverraid RoadRunner Robotank Seaquest Skiing Solaris "
    "SpaceInvaders StarGunner Surround Tennis TimePilot Tutankham UpNDown Venture VideoPinball WizardOfWor YarsRevenge "
    "Zaxxon",
    "craftax/*-Symbolic-v1": "Craftax Craftax-Classic",
    "pgx/*": "chess connect_four go_9x9 go_19x19 hex othello shogi tic_tac_toe",
}


def unknown_environment(name: str) -> InputError:
    """Return the error for an environment that does not exist: it says where a familiar name, or a file of it, is."""
    plain = lambda text: re.sub(r"(NoFrameskip)?(-v\d+)?$", "", text).replace("-", "").replace("_", "").casefold()
    for pattern, known in FAMILIAR.items():
        meant = next((other for other in known.split() if plain(other) == plain(name)), None)
        if meant is not None:
            return InputError(f"unknown environment '{name}': did you mean '{pattern.replace('*', meant)}'?")
    module = name.removesuffix(".py").removeprefix("./").replace("/", ".")
    if module and pathlib.Path(f"{module.replace('.', '/')}.py").is_file():
        return InputError(f"unknown environment '{name}': one of your own is module:Class, such as {module}:MyClass")
    return unknown("environment", name, [*ENVIRONMENTS, *(f"{s}/..." for s in SUITES)])


def load(path: str) -> Any:
    """Return the object at "module:name".

    Raises:
      InputError: if there is no such module or name.
    """
    module_name, _, name = path.partition(":")
    if not name:
        raise InputError(f"'{path}' does not name an object: write module:name")
    if module_name.endswith(".py") or "/" in module_name:
        module = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise InputError(f"'{path}' names a file: write {module}:{name}")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise InputError(f"'{path}' does not name an object: write module:name")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and not module_name.startswith(error.name):
            raise
        raise InputError(f"there is no module '{module_name}'") from None
    if not hasattr(module, name):
        own = [n for n, x in vars(module).items() if getattr(x, "__module__", None) == module_name and n[0] != "_"]
        raise unknown(f"name in {module_name}", name, own)
    return getattr(module, name)


def path_of(thing: Any) -> str:
    """Return the "module:name" of a class or function."""
    return f"{getattr(thing, '__module__', '?')}:{getattr(thing, '__qualname__', type(thing).__name__)}"


def make(env_id: str, **parameters: Any) -> Any:
    """Return an environment by id.

    Args:
      env_id: a native id such as "CartPole-v1", an adapter's "suite/NAME", or a class of your own as "module:Class".
      **parameters: fields of the environment, such as gravity=12.0; they may be traced.

    Raises:
      InputError: for an unknown id or parameter (naming the nearest), a suite that is not installed, or a
        "module:name" that is no class of environments.
    """
    if not isinstance(env_id, str):
        what = f"the class {env_id.__name__}" if isinstance(env_id, type) else f"a {type(env_id).__name__}"
        raise InputError(f"make takes the id of an environment, such as make('CartPole-v1'); this is {what}")
    check_id(env_id)
    suite, slash, name = env_id.partition("/")
    if slash and (suite in SUITES or not is_own(env_id)):
        return _adapter(suite).make(name, **parameters)
    cls = environment_class(env_id)
    allowed = getattr(cls, "__dataclass_fields__", {})
    for parameter in parameters:
        if parameter not in allowed:
            raise unknown(f"parameter of {env_id}", parameter, allowed)
    made = cls(**parameters)
    if allowed:
        from purerl.fields import validate

        validate(made, env_id)
    return made


def check_id(env_id: str) -> None:
    """Refuse an id that can be told to be wrong at once: nothing is imported, and an id that passes may still be wrong.

    Raises:
      InputError: for an unknown suite, one that is not installed, or an unknown name, naming the nearest.
    """
    suite, slash, name = env_id.partition("/")
    if slash and (suite in SUITES or not is_own(env_id)):
        importlib.import_module(KNOWN).check_name(suite, _entry(suite).package, name)
    elif env_id not in ENVIRONMENTS and ":" not in env_id:
        raise unknown_environment(env_id)


def environment_class(env_id: str) -> type:
    """Return the class of a native id or of "module:Class"; nothing but a class of environments is ever called.

    Raises:
      InputError: if there is none, or it is something else.
    """
    from purerl.host_environment import HostSource
    from purerl.types import Environment

    if env_id not in ENVIRONMENTS and ":" not in env_id:
        raise unknown_environment(env_id)
    found = load(ENVIRONMENTS.get(env_id, env_id))
    if not (isinstance(found, type) and issubclass(found, Environment | HostSource)):
        raise InputError(f"{env_id} is no environment: it must be a subclass of purerl.Environment")
    return found


def is_own(env_id: str) -> bool:
    """Return whether an id is a class of the user's, "module:Class", rather than a name that a suite knows."""
    return ":" in env_id and env_id.partition("/")[0] not in SUITES


def module_of(name: str) -> str:
    """Return the module that a name is looked up in, "a.b" of "a.b:C" and of "gymnasium/a.b:C"; "" for other names."""
    suite, _, rest = name.partition("/")
    path = rest if suite in SUITES else name
    return path.partition(":")[0] if ":" in path else ""


def check_environment(env: Any) -> None:
    """Raise an `InputError` unless something is an environment, in JAX or on the host."""
    from purerl.host_environment import HostSource
    from purerl.types import Environment

    if isinstance(env, Environment | HostSource):
        return
    if isinstance(env, type):
        raise InputError(f"environment is the class {env.__name__}; give one made of it, such as {env.__name__}()")
    if isinstance(env, str):
        raise InputError(f"environment is the text '{env}'; make it first: purerl.make('{env}')")
    package = type(env).__module__.partition(".")[0]
    suite = next((suite for suite, entry in SUITES.items() if package in (suite, entry.package)), None)
    suite = "gymnasium" if package == "gym" else suite
    if suite is not None:
        raise InputError(
            f"environment is a {type(env).__name__} of {package}; make it by its adapter: purerl.make('{suite}/NAME')"
        )
    methods = all(callable(getattr(type(env), name, None)) for name in ("reset", "step"))
    if not methods or not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        raise InputError(f"environment is {told(env)}; it must be from purerl.make, or a purerl.Environment of yours")


def names(suite: str | None = None) -> list[str]:
    """Return the ids of the native environments, or of a suite's.

    A suite has to be imported to be asked, which may take seconds and start JAX's backend.

    Raises:
      InputError: for an unknown suite, naming the nearest, or one that is not installed.
    """
    return list(ENVIRONMENTS) if suite is None else [f"{suite}/{name}" for name in _adapter(suite).names()]


def _adapter(suite: str) -> Any:
    return importlib.import_module(_entry(suite).module)


def _entry(suite: str) -> Suite:
    if suite not in SUITES:
        raise unknown("suite", suite, SUITES)
    entry = SUITES[suite]
    if not installed(suite):
        raise InputError(f"{suite} is not installed: pip install 'purerl[{entry.extra or suite}]'")
    return entry


def installed(suite: str) -> bool:
    """Return whether a suite's package can be imported."""
    return importlib.util.find_spec(SUITES[suite].package) is not None


def algorithm(name: str) -> tuple[Any, Any]:
    """Return (factory, config class) of an algorithm by name; nothing of a "module:function" is called.

    Args:
      name: of the table, or your own (spec, config) -> Algorithm as "module:function".

    Raises:
      InputError: for an unknown name, naming the nearest, or something that is no algorithm.
    """
    known = ALGORITHMS | FOLLOWERS
    if name not in known and ":" in name:
        factory = load(name)
        return factory, config_class(factory, name)
    if name not in known:
        raise unknown("algorithm", name, ALGORITHMS)
    entry = known[name]
    return load(entry.factory), load(entry.config)


def config_class(factory: Any, name: str) -> type:
    """Return the class of an algorithm's config, which the annotation of its second parameter names.

    Args:
      factory: (spec, config) -> Algorithm, or a `functools.partial` of one.
      name: for messages.

    Raises:
      InputError: if it is no such function, or does not say it.
    """
    from purerl.types import Config

    function = factory
    while isinstance(function, partial):
        function = function.func
    wanted = "it must be a function (spec, config: MyConfig) -> Algorithm, whose MyConfig is a subclass of Config"
    if isinstance(factory, type) or not callable(factory):
        raise InputError(f"{name} is no algorithm: {wanted}")
    try:
        parameters = list(inspect.signature(factory).parameters.values())
        annotations = typing.get_type_hints(function)
    except (TypeError, ValueError, NameError) as error:
        raise InputError(f"{name} is no algorithm that can be read ({error}): {wanted}") from None
    found = annotations.get(parameters[1].name) if len(parameters) > 1 else None
    if not (isinstance(found, type) and issubclass(found, Config) and dataclasses.is_dataclass(found)):
        raise InputError(f"{name} does not say which config it takes: {wanted}")
    return found


def imported(path: str) -> Any:
    """Return the object at "module:name", None where there is none; its module must have been imported already."""
    module, _, name = path.partition(":")
    return getattr(sys.modules.get(module), name, None)


def objective(name: str) -> ObjectiveEntry:
    """Return what can be evolved by name; a start of your own, (key) -> objective of PPO, is "module:function".

    Raises:
      InputError: for an unknown name, naming the nearest.
    """
    if ":" in name:
        return ObjectiveEntry(start=name, algorithm="ppo", argument="objective", summary="", source="")
    if name not in OBJECTIVES:
        raise unknown("objective", name, OBJECTIVES)
    return OBJECTIVES[name]
