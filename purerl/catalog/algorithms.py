"""The algorithms."""

from collections import ChainMap
from typing import NamedTuple


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
        summary="MCTS in the environment itself, by Gumbel or PUCT",
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
    "disco": AlgorithmEntry(
        factory="purerl.algos.disco:disco",
        config="purerl.algos.disco:DiscoConfig",
        summary="the discovered update rule Disco103, loaded from a weights file",
        source="Oh et al. 2025, doi:10.1038/s41586-025-09761-x",
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
        config="purerl.algos.mappo:MAPPOConfig",
        summary="PPO whose critic sees the global state",
        source="Yu et al. 2022, arXiv:2103.01955",
        actions=("discrete", "multi-discrete", "continuous"),
        teams=True,
    ),
    "munchausen": AlgorithmEntry(
        factory="purerl.algos.munchausen:munchausen",
        config="purerl.algos.munchausen:MunchausenConfig",
        summary="DQN with its own log-policy in the reward",
        source="Vieillard et al. 2020, arXiv:2007.14430",
        actions=("discrete",),
    ),
    "muzero": AlgorithmEntry(
        factory="purerl.algos.muzero:muzero",
        config="purerl.algos.muzero:MuZeroConfig",
        summary="MCTS in a learned model, by Gumbel or PUCT",
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
        summary="Q-learning of a team; a network mixes the agents' values",
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
        summary="Q-learning of a team; its value is the sum of the agents'",
        source="Sunehag et al. 2018, arXiv:1706.05296",
        actions=("discrete",),
        teams=True,
    ),
    "vmpo": AlgorithmEntry(
        factory="purerl.algos.vmpo:vmpo",
        config="purerl.algos.vmpo:VMPOConfig",
        summary="on-policy MPO: learns from the better half of the samples",
        source="Song et al. 2019, arXiv:1909.12238",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "spo": AlgorithmEntry(
        factory="purerl.algos.spo:spo",
        config="purerl.algos.spo:SPOConfig",
        summary="planning with particles in the environment itself",
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
        summary="regression weighted by advantages, from replay",
        source="Peng et al. 2019, arXiv:1910.00177",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "crossq": AlgorithmEntry(
        factory="purerl.algos.crossq:crossq",
        config="purerl.algos.crossq:CrossQConfig",
        summary="SAC with batch normalization instead of target networks",
        source="Bhatt et al. 2024, arXiv:1902.05605",
        actions=("continuous",),
    ),
    "d4pg": AlgorithmEntry(
        factory="purerl.algos.d4pg:d4pg",
        config="purerl.algos.d4pg:D4PGConfig",
        summary="DDPG with a distribution of n-step returns",
        source="Barth-Maron et al. 2018, arXiv:1804.08617",
        actions=("continuous",),
    ),
    "mpo": AlgorithmEntry(
        factory="purerl.algos.mpo:mpo",
        config="purerl.algos.mpo:MPOConfig",
        summary="regression on value-weighted actions, in a trust region",
        source="Abdolmaleki et al. 2018, arXiv:1806.06920",
        actions=("continuous", "discrete"),
    ),
    "ppo-penalty": AlgorithmEntry(
        factory="purerl.algos.ppo_penalty:ppo_penalty",
        config="purerl.algos.ppo_penalty:PPOPenaltyConfig",
        summary="PPO with an adaptive KL penalty instead of the clip",
        source="Schulman et al. 2017, arXiv:1707.06347",
        actions=("discrete", "multi-discrete", "continuous", "dict"),
    ),
    "redq": AlgorithmEntry(
        factory="purerl.algos.redq:redq",
        config="purerl.algos.redq:REDQConfig",
        summary="SAC with an ensemble and many gradient steps",
        source="Chen et al. 2021, arXiv:2101.05982",
        actions=("continuous",),
    ),
    "reinforce": AlgorithmEntry(
        factory="purerl.algos.a2c:reinforce",
        config="purerl.algos.a2c:ReinforceConfig",
        summary="policy gradient on complete returns, with a baseline",
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


FOLLOWERS: dict[str, AlgorithmEntry] = {  # learn only by a rule that was evolved: `--objective`
    "lpg": AlgorithmEntry(
        factory="purerl.algos.lpg:lpg",
        config="purerl.algos.lpg:LPGConfig",
        summary="an agent that a learned rule updates; evolve the rule first",
        source="Oh et al. 2020, arXiv:2007.08794",
        actions=("discrete", "multi-discrete", "continuous"),
    ),
}
WITH_FOLLOWERS = ChainMap(ALGORITHMS, FOLLOWERS)  # a view: it has what is added to either
