"""Greedy equivalence search."""

from privfcd.algorithms.ges.estimator import GES
from privfcd.algorithms.ges.search import SearchResult, greedy_search

__all__ = ["GES", "SearchResult", "greedy_search"]
