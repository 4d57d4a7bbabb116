"""How sure each edge is under the noise that was paid for."""

from privfcd.algorithms.stability.edges import edge_stability
from privfcd.algorithms.stability.late_rounds import LateRounds
from privfcd.algorithms.stability.result import EdgeStability

__all__ = ["EdgeStability", "LateRounds", "edge_stability"]
