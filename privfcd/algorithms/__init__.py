"""Structure learning: one folder a method, a party's half and a coordinator's half each."""

from privfcd.algorithms.constraint import PC
from privfcd.algorithms.equal_variance import EqualVarianceSearch, order_search
from privfcd.algorithms.fed_bnsl import FedBNSL
from privfcd.algorithms.fed_sparse import (
    FedSparseBNSL,
    GreedyDescent,
    GreedyScores,
    HuberLoss,
    Loss,
    SquaredLoss,
    SupportGradient,
)
from privfcd.algorithms.fedacd import FedACD
from privfcd.algorithms.ges import GES
from privfcd.algorithms.notears import NOTEARS
from privfcd.algorithms.peri import IPERI, PERI, UnfinishedWarning
from privfcd.algorithms.personalisation import PersonalWeights, personalise, personalise_for_owner
from privfcd.algorithms.release import MomentsRelease, MomentsWarning, release_moments
from privfcd.algorithms.stability import EdgeStability, edge_stability

__all__ = [
    "GES",
    "IPERI",
    "NOTEARS",
    "PC",
    "PERI",
    "EdgeStability",
    "EqualVarianceSearch",
    "FedACD",
    "FedBNSL",
    "FedSparseBNSL",
    "GreedyDescent",
    "GreedyScores",
    "HuberLoss",
    "Loss",
    "MomentsRelease",
    "MomentsWarning",
    "PersonalWeights",
    "SquaredLoss",
    "SupportGradient",
    "UnfinishedWarning",
    "edge_stability",
    "order_search",
    "personalise",
    "personalise_for_owner",
    "release_moments",
]
