"""Order search under equal error variances, from second moments."""

from privfcd.algorithms.equal_variance.diagnostics import EqualVarianceTest
from privfcd.algorithms.equal_variance.estimator import EqualVarianceSearch, EqualVarianceWarning
from privfcd.algorithms.equal_variance.search import SearchResult, order_search

__all__ = ["EqualVarianceSearch", "EqualVarianceTest", "EqualVarianceWarning", "SearchResult", "order_search"]
