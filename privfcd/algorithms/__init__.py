"""Structure learning: one folder a method, a party's half and a coordinator's half each."""

from privfcd.algorithms.fed_sparse import FedSparseBNSL

__all__ = ["FedSparseBNSL"]
