"""Best order score search."""

from privfcd.algorithms.boss.estimator import BOSS
from privfcd.algorithms.boss.search import OrderResult, best_order_search

__all__ = ["BOSS", "OrderResult", "best_order_search"]
