"""What there is: environments and algorithms by name. One row each; nothing is imported until it is asked for."""

import importlib
import importlib.util
from typing import Any, NamedTuple

from purerl.errors import InputError, unknown

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
    "ale": Suite("purerl.envs.adapters.ale", "ale_py", "atari", "ale/Pong-v5"),
    "brax": Suite("purerl.envs.adapters.brax", "brax", None, "brax/ant"),
    "craftax": Suite("purerl.envs.adapters.craftax", "craftax", "craftax", "craftax/Craftax-Symbolic-v1"),
    "envpool": Suite("purerl.envs.adapters.envpool", "envpool", "envpool", "envpool/Pong-v5"),
    "gymnasium": Suite("purerl.envs.adapters.gymnasium", "gymnasium", "gymnasium", "gymnasium/LunarLander-v3"),
    "gymnax": Suite("purerl.envs.adapters.gymnax", "gymnax", None, "gymnax/Breakout-MinAtar"),
    "jaxmarl": Suite("purerl.envs.adapters.jaxmarl", "jaxmarl", "jaxmarl", "jaxmarl/MPE_simple_spread_v3"),
    "jumanji": Suite("purerl.envs.adapters.jumanji", "jumanji", "jumanji", "jumanji/Snake-v1"),
    "navix": Suite("purerl.envs.adapters.navix", "navix", "navix", "navix/Navix-DoorKey-5x5-v0"),
    "pgx": Suite("purerl.envs.adapters.pgx", "pgx", "pgx", "pgx/connect_four"),
    "playground": Suite(
        "purerl.envs.adapters.playground", "mujoco_playground", "playground", "playground/CartpoleBalance"
    ),
}


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
        "purerl.algos.a2c:a2c",
        "purerl.algos.a2c:A2CConfig",
        "advantage actor-critic",
        "Mnih et al. 2016, arXiv:1602.01783",
        ("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "c51": AlgorithmEntry(
        "purerl.algos.c51:c51",
        "purerl.algos.c51:C51Config",
        "distribution of returns on fixed atoms",
        "Bellemare et al. 2017, arXiv:1707.06887",
        ("discrete",),
    ),
    "dqn": AlgorithmEntry(
        "purerl.algos.dqn:dqn",
        "purerl.algos.dqn:DQNConfig",
        "deep Q-learning from replay; double, dueling, n-step",
        "Mnih et al. 2015, doi:10.1038/nature14236",
        ("discrete",),
    ),
    "impala": AlgorithmEntry(
        "purerl.algos.impala:impala",
        "purerl.algos.impala:IMPALAConfig",
        "actor-critic with V-trace for stale rollouts",
        "Espeholt et al. 2018, arXiv:1802.01561",
        ("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "mappo": AlgorithmEntry(
        "purerl.algos.ppo:ppo",
        "purerl.algos.ppo:MAPPOConfig",
        "PPO whose critic sees the global state",
        "Yu et al. 2022, arXiv:2103.01955",
        ("discrete", "multi-discrete", "continuous"),
        teams=True,
    ),
    "pqn": AlgorithmEntry(
        "purerl.algos.pqn:pqn",
        "purerl.algos.pqn:PQNConfig",
        "Q(lambda) in parallel, without replay or target network",
        "Gallici et al. 2024, arXiv:2407.04811",
        ("discrete",),
    ),
    "ppo": AlgorithmEntry(
        "purerl.algos.ppo:ppo",
        "purerl.algos.ppo:PPOConfig",
        "proximal policy optimization",
        "Schulman et al. 2017, arXiv:1707.06347",
        ("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "qrdqn": AlgorithmEntry(
        "purerl.algos.qrdqn:qrdqn",
        "purerl.algos.qrdqn:QRDQNConfig",
        "distribution of returns by its quantiles",
        "Dabney et al. 2018, arXiv:1710.10044",
        ("discrete",),
    ),
    "r2d2": AlgorithmEntry(
        "purerl.algos.r2d2:r2d2",
        "purerl.algos.r2d2:R2D2Config",
        "recurrent Q-learning from replayed sequences",
        "Kapturowski et al. 2019, openreview.net/forum?id=r1lyTjAqYX",
        ("discrete",),
    ),
    "rainbow": AlgorithmEntry(
        "purerl.algos.rainbow:rainbow",
        "purerl.algos.rainbow:RainbowConfig",
        "C51, double, dueling, noisy, n-step, prioritized",
        "Hessel et al. 2018, arXiv:1710.02298",
        ("discrete",),
    ),
    "ddpg": AlgorithmEntry(
        "purerl.algos.td3:ddpg",
        "purerl.algos.td3:DDPGConfig",
        "deep deterministic policy gradient",
        "Lillicrap et al. 2016, arXiv:1509.02971",
        ("continuous",),
    ),
    "qmix": AlgorithmEntry(
        "purerl.algos.value_decomposition:qmix",
        "purerl.algos.value_decomposition:QMIXConfig",
        "a team's value mixed from its agents'",
        "Rashid et al. 2018, arXiv:1803.11485",
        ("discrete",),
        teams=True,
    ),
    "sac": AlgorithmEntry(
        "purerl.algos.sac:sac",
        "purerl.algos.sac:SACConfig",
        "soft actor-critic, learned temperature",
        "Haarnoja et al. 2018, arXiv:1812.05905",
        ("continuous", "discrete"),
    ),
    "vdn": AlgorithmEntry(
        "purerl.algos.value_decomposition:vdn",
        "purerl.algos.value_decomposition:VDNConfig",
        "a team's value as the sum of its agents'",
        "Sunehag et al. 2018, arXiv:1706.05296",
        ("discrete",),
        teams=True,
    ),
    "td3": AlgorithmEntry(
        "purerl.algos.td3:td3",
        "purerl.algos.td3:TD3Config",
        "twin delayed deterministic policy gradient",
        "Fujimoto et al. 2018, arXiv:1802.09477",
        ("continuous",),
    ),
}


FOLLOWERS: dict[str, AlgorithmEntry] = {  # learn nothing but by a rule that was evolved: not for `purerl train`
    "lpg": AlgorithmEntry(
        "purerl.algos.lpg:lpg",
        "purerl.algos.lpg:LPGConfig",
        "an agent whose update a learned rule makes; evolve the rule first",
        "Oh et al. 2020, arXiv:2007.08794",
        ("discrete", "multi-discrete", "continuous"),
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
        "purerl.evolution.candidates:lpo",
        "ppo",
        "objective",
        "a network on top of PPO's clip",
        "Lu et al. 2022, arXiv:2210.05639",
    ),
    "lpo-zero": ObjectiveEntry(
        "purerl.evolution.candidates:lpo_zero",
        "ppo",
        "objective",
        "a network from nothing",
        "Lu et al. 2022, arXiv:2210.05639",
    ),
    "valid": ObjectiveEntry(
        "purerl.evolution.candidates:valid_network",
        "ppo",
        "objective",
        "a network times r - 1 - log r",
        "this project",
    ),
    "ppo": ObjectiveEntry(
        "purerl.evolution.candidates:ppo",
        "ppo",
        "objective",
        "PPO's clip, 1 number",
        "Schulman et al. 2017, arXiv:1707.06347",
    ),
    "dpo": ObjectiveEntry(
        "purerl.evolution.candidates:dpo",
        "ppo",
        "objective",
        "LPO's closed form, 2 numbers",
        "Lu et al. 2022, arXiv:2210.05639",
    ),
    "kl": ObjectiveEntry(
        "purerl.evolution.candidates:kl",
        "ppo",
        "objective",
        "KL penalty, 1 number",
        "Schulman et al. 2017, arXiv:1707.06347",
    ),
    "spo": ObjectiveEntry(
        "purerl.evolution.candidates:spo",
        "ppo",
        "objective",
        "squared drift, 1 number",
        "Xie et al. 2024, arXiv:2401.16025",
    ),
    "actor-critic": ObjectiveEntry(
        "purerl.evolution.candidates:actor_critic",
        "ppo",
        "loss",
        "the whole loss of PPO, 3 numbers",
        "this project",
    ),
    "lpg": ObjectiveEntry(
        "purerl.evolution.candidates:lpg",
        "lpg",
        "rule",
        "a rule for rollouts",
        "Oh et al. 2020, arXiv:2007.08794",
    ),
    "ta-lpg": ObjectiveEntry(
        "purerl.evolution.candidates:ta_lpg",
        "lpg",
        "rule",
        "the same, seeing its age",
        "Jackson et al. 2024, arXiv:2402.05828",
    ),
    "open": ObjectiveEntry(
        "purerl.evolution.candidates:open_optimizer",
        "ppo",
        "optimizer",
        "an optimizer",
        "Goldie et al. 2024, arXiv:2407.07082",
    ),
}


def load(path: str) -> Any:
    """Return the object at "module:name".

    Raises:
      InputError: if there is no such module or name.
    """
    module_name, _, name = path.partition(":")
    if not name:
        raise InputError(f"'{path}' does not name an object: write module:name")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and not module_name.startswith(error.name):
            raise
        raise InputError(f"there is no module '{module_name}'") from None
    if not hasattr(module, name):
        raise unknown(f"name in {module_name}", name, [n for n in vars(module) if not n.startswith("_")])
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
      InputError: for an unknown id or parameter (naming the nearest), or a suite that is not installed.
    """
    suite, slash, name = env_id.partition("/")
    if slash:
        return _make_from_suite(suite, name, parameters)
    if env_id not in ENVIRONMENTS and ":" not in env_id:
        raise unknown("environment", env_id, [*ENVIRONMENTS, *(f"{s}/..." for s in SUITES)])
    cls = load(ENVIRONMENTS.get(env_id, env_id))
    allowed = getattr(cls, "__dataclass_fields__", {})
    for parameter in parameters:
        if parameter not in allowed:
            raise unknown(f"parameter of {env_id}", parameter, allowed)
    return cls(**parameters)


def is_own(env_id: str) -> bool:
    """Return whether an id is a class of the user's, "module:Class", rather than a name that a suite knows."""
    return ":" in env_id and env_id.partition("/")[0] not in SUITES


def names(suite: str | None = None) -> list[str]:
    """Return the ids of the native environments, or of a suite's.

    A suite has to be imported to be asked, which may take seconds and start JAX's backend.

    Raises:
      InputError: for an unknown suite, naming the nearest, or one that is not installed.
    """
    return list(ENVIRONMENTS) if suite is None else [f"{suite}/{name}" for name in _adapter(suite).names()]


def _make_from_suite(suite: str, name: str, parameters: dict[str, Any]) -> Any:
    return _adapter(suite).make(name, **parameters)


def _adapter(suite: str) -> Any:
    if suite not in SUITES:
        raise unknown("suite", suite, SUITES)
    entry = SUITES[suite]
    if not installed(suite):
        raise InputError(f"{suite} is not installed: pip install 'purerl[{entry.extra or suite}]'")
    return importlib.import_module(entry.module)


def installed(suite: str) -> bool:
    """Return whether a suite's package can be imported."""
    return importlib.util.find_spec(SUITES[suite].package) is not None


def algorithm(name: str) -> tuple[Any, Any]:
    """Return (factory, config class) of an algorithm by name.

    Raises:
      InputError: for an unknown name, naming the nearest.
    """
    known = ALGORITHMS | FOLLOWERS
    if name not in known:
        raise unknown("algorithm", name, ALGORITHMS)
    entry = known[name]
    return load(entry.factory), load(entry.config)


def objective(name: str) -> ObjectiveEntry:
    """Return what can be evolved by name; a start of your own, (key) -> objective of PPO, is "module:function".

    Raises:
      InputError: for an unknown name, naming the nearest.
    """
    if ":" in name:
        return ObjectiveEntry(name, "ppo", "objective", "", "")
    if name not in OBJECTIVES:
        raise unknown("objective", name, OBJECTIVES)
    return OBJECTIVES[name]
