"""Structure learning: what parties and coordinators say to each other, and one folder a method.

Names are loaded when they are first used: a run of one learner loads no other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privfcd.algorithms.boss import BOSS as BOSS
    from privfcd.algorithms.constraint import PC as PC
    from privfcd.algorithms.equal_variance import EqualVarianceSearch as EqualVarianceSearch
    from privfcd.algorithms.equal_variance import order_search as order_search
    from privfcd.algorithms.fed_bnsl import FedBNSL as FedBNSL
    from privfcd.algorithms.fed_sparse import FedSparseBNSL as FedSparseBNSL
    from privfcd.algorithms.fed_sparse import GreedyDescent as GreedyDescent
    from privfcd.algorithms.fed_sparse import GreedyScores as GreedyScores
    from privfcd.algorithms.fed_sparse import HuberLoss as HuberLoss
    from privfcd.algorithms.fed_sparse import Loss as Loss
    from privfcd.algorithms.fed_sparse import SquaredLoss as SquaredLoss
    from privfcd.algorithms.fed_sparse import SupportGradient as SupportGradient
    from privfcd.algorithms.fedacd import FedACD as FedACD
    from privfcd.algorithms.ges import GES as GES
    from privfcd.algorithms.local import LocalFederation as LocalFederation
    from privfcd.algorithms.notears import NOTEARS as NOTEARS
    from privfcd.algorithms.peri import IPERI as IPERI
    from privfcd.algorithms.peri import PERI as PERI
    from privfcd.algorithms.peri import UnfinishedWarning as UnfinishedWarning
    from privfcd.algorithms.personalisation import PersonalWeights as PersonalWeights
    from privfcd.algorithms.personalisation import personalise as personalise
    from privfcd.algorithms.personalisation import personalise_for_owner as personalise_for_owner
    from privfcd.algorithms.protocol import Empty as Empty
    from privfcd.algorithms.protocol import Federation as Federation
    from privfcd.algorithms.protocol import Message as Message
    from privfcd.algorithms.protocol import Party as Party
    from privfcd.algorithms.protocol import SparseMatrix as SparseMatrix
    from privfcd.algorithms.protocol import index_bytes as index_bytes
    from privfcd.algorithms.recorded import RecordedFederation as RecordedFederation
    from privfcd.algorithms.release import MomentsRelease as MomentsRelease
    from privfcd.algorithms.release import MomentsWarning as MomentsWarning
    from privfcd.algorithms.release import release_moments as release_moments
    from privfcd.algorithms.stability import EdgeStability as EdgeStability
    from privfcd.algorithms.stability import edge_stability as edge_stability

_HOMES = {
    "protocol": ["Empty", "Federation", "Message", "Party", "SparseMatrix", "index_bytes"],
    "local": ["LocalFederation"],
    "recorded": ["RecordedFederation"],
    "boss": ["BOSS"],
    "constraint": ["PC"],
    "equal_variance": ["EqualVarianceSearch", "order_search"],
    "fed_bnsl": ["FedBNSL"],
    "fed_sparse": [
        "FedSparseBNSL",
        "GreedyDescent",
        "GreedyScores",
        "HuberLoss",
        "Loss",
        "SquaredLoss",
        "SupportGradient",
    ],
    "fedacd": ["FedACD"],
    "ges": ["GES"],
    "notears": ["NOTEARS"],
    "peri": ["IPERI", "PERI", "UnfinishedWarning"],
    "personalisation": ["PersonalWeights", "personalise", "personalise_for_owner"],
    "release": ["MomentsRelease", "MomentsWarning", "release_moments"],
    "stability": ["EdgeStability", "edge_stability"],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"privfcd.algorithms.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
