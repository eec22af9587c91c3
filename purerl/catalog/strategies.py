"""The evolution strategies that `purerl evolve --strategy` accepts by name."""

OWN = ("openes", "snes")

EVOSAX = {  # name -> class of evosax.algorithms: those that adapt a distribution and need no file of learned weights
    "ars": "ARS",
    "asebo": "ASEBO",
    "cma_es": "CMA_ES",
    "cr_fm_nes": "CR_FM_NES",
    "esmc": "ESMC",
    "guided_es": "GuidedES",
    "hill_climbing": "HillClimbing",
    "iamalgam_full": "iAMaLGaM_Full",
    "iamalgam_univariate": "iAMaLGaM_Univariate",
    "ma_es": "MA_ES",
    "open_es": "Open_ES",
    "pgpe": "PGPE",
    "rm_es": "Rm_ES",
    "sep_cma_es": "Sep_CMA_ES",
    "simple_es": "SimpleES",
    "simulated_annealing": "SimulatedAnnealing",
    "snes": "SNES",
    "xnes": "xNES",
}

STRATEGIES = tuple(dict.fromkeys((*OWN, *EVOSAX)))
