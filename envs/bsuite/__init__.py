"""The diagnostic tasks of bsuite (Osband et al. 2020, arXiv:1908.03568)."""
