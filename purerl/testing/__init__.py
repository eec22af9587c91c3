"""Conformance suites for environments and algorithms, your own and purerl's.

Example:
  >>> import purerl
  >>> callable(purerl.testing.check_environment)
  True
"""

from purerl.testing.algorithms import check_algorithm
from purerl.testing.environments import check_environment
from purerl.testing.report import Check, Report

__all__ = ["Check", "Report", "check_algorithm", "check_environment"]
