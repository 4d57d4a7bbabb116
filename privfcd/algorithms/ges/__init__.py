"""Greedy equivalence search."""

from privfcd.algorithms.ges.search import SearchResult, greedy_search

__all__ = ["SearchResult", "greedy_search"]
