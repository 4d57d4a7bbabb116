"""Private federated causal discovery: accounting, mechanisms, audits, and graph learning paid from a ledger.

Names are loaded when they are first used, so that importing the package stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "accounting": ["Budget", "calibrate", "epsilon_of"],
    "ledger": ["Ledger"],
    "mechanisms": ["Gaussian", "SecureNoise", "SimulatedNoise"],
    "data": ["Column", "PrivateTable", "Schema", "table_moments"],
    "moments": ["Moments", "load_moments", "save_moments"],
    "algorithms": [
        "BOSS",
        "EqualVarianceSearch",
        "FedACD",
        "FedBNSL",
        "FedSparseBNSL",
        "GES",
        "IPERI",
        "NOTEARS",
        "PC",
        "PERI",
        "release_moments",
    ],
    "graphs": ["read_graph", "write_graph"],
    "runs": ["RunPlan", "forecast", "learn", "plan_run"],
    "drawing": ["draw_graph"],
    "reports": ["write_report"],
    "audits": ["Claim", "audit", "audit_algorithm"],
    "errors": [
        "BudgetExceeded",
        "ConvergenceFailure",
        "InvalidParameter",
        "InvalidTable",
        "LedgerCorrupt",
        "PartyFailed",
        "PrivfcdError",
    ],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
_ROOMS = (
    *("accounting", "algorithms", "audits", "data", "datasets", "drawing", "errors", "graphs", "ledger", "mechanisms"),
    *("moments", "reports", "runs"),
)
"""Sub-packages that can be named without an import of their own: `privfcd.audits.check_sampler`."""
_MODULES = {"metrics": "privfcd.graphs.metrics", "simulate": "privfcd.datasets.simulate"}

__all__ = ["__version__", *sorted([*_HOME_OF, *_MODULES])]

if TYPE_CHECKING:
    from privfcd.accounting import Budget as Budget
    from privfcd.accounting import calibrate as calibrate
    from privfcd.accounting import epsilon_of as epsilon_of
    from privfcd.algorithms import BOSS as BOSS
    from privfcd.algorithms import GES as GES
    from privfcd.algorithms import IPERI as IPERI
    from privfcd.algorithms import NOTEARS as NOTEARS
    from privfcd.algorithms import PC as PC
    from privfcd.algorithms import PERI as PERI
    from privfcd.algorithms import EqualVarianceSearch as EqualVarianceSearch
    from privfcd.algorithms import FedACD as FedACD
    from privfcd.algorithms import FedBNSL as FedBNSL
    from privfcd.algorithms import FedSparseBNSL as FedSparseBNSL
    from privfcd.algorithms import release_moments as release_moments
    from privfcd.audits import Claim as Claim
    from privfcd.audits import audit as audit
    from privfcd.audits import audit_algorithm as audit_algorithm
    from privfcd.data import Column as Column
    from privfcd.data import PrivateTable as PrivateTable
    from privfcd.data import Schema as Schema
    from privfcd.data import table_moments as table_moments
    from privfcd.datasets import simulate as simulate
    from privfcd.drawing import draw_graph as draw_graph
    from privfcd.errors import BudgetExceeded as BudgetExceeded
    from privfcd.errors import ConvergenceFailure as ConvergenceFailure
    from privfcd.errors import InvalidParameter as InvalidParameter
    from privfcd.errors import InvalidTable as InvalidTable
    from privfcd.errors import LedgerCorrupt as LedgerCorrupt
    from privfcd.errors import PartyFailed as PartyFailed
    from privfcd.errors import PrivfcdError as PrivfcdError
    from privfcd.graphs import metrics as metrics
    from privfcd.graphs import read_graph as read_graph
    from privfcd.graphs import write_graph as write_graph
    from privfcd.ledger import Ledger as Ledger
    from privfcd.mechanisms import Gaussian as Gaussian
    from privfcd.mechanisms import SecureNoise as SecureNoise
    from privfcd.mechanisms import SimulatedNoise as SimulatedNoise
    from privfcd.moments import Moments as Moments
    from privfcd.moments import load_moments as load_moments
    from privfcd.moments import save_moments as save_moments
    from privfcd.reports import write_report as write_report
    from privfcd.runs import RunPlan as RunPlan
    from privfcd.runs import forecast as forecast
    from privfcd.runs import learn as learn
    from privfcd.runs import plan_run as plan_run


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(_MODULES[name])
    elif name in _ROOMS:
        value = import_module(f"privfcd.{name}")
    elif name in _HOME_OF:
        value = getattr(import_module(f"privfcd.{_HOME_OF[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
