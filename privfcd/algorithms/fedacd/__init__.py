"""FedACD: federated causal discovery by votes on the edges that each party can judge."""

from privfcd.algorithms.fedacd.estimator import FedACD

__all__ = ["FedACD"]
