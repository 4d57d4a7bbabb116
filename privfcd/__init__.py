"""Private federated causal discovery: accounting, mechanisms, audits, and graph learning paid from a ledger.

Names are loaded when they are first used, so that importing the package stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "accounting": [
        "BoundedRangeDpEvent",
        "Budget",
        "EpsilonDeltaDpEvent",
        "NoisePlan",
        "PureDPAccountant",
        "TightAccountant",
        "ZCDPAccountant",
        "calibrate",
        "delta_of",
        "epsilon_of",
    ],
    "ledger": ["Ledger", "Reservation", "SqliteJournal"],
    "mechanisms": [
        "AnalyticGaussian",
        "Gaussian",
        "GaussianVector",
        "GumbelMax",
        "Laplace",
        "LaplaceNoisyMax",
        "LaplaceVector",
        "PermuteAndFlip",
        "SecureNoise",
        "SimulatedNoise",
        "TopM",
    ],
    "data": [
        "Column",
        "PrivateTable",
        "Schema",
        "quantiles",
        "table_moments",
    ],
    "datasets": ["load_network"],
    "moments": [
        "Moments",
        "NoiseTerm",
        "load_moments",
        "pooled",
        "save_moments",
    ],
    "algorithms": [
        "EdgeStability",
        "EqualVarianceSearch",
        "FedACD",
        "FedBNSL",
        "FedSparseBNSL",
        "GES",
        "HuberLoss",
        "IPERI",
        "NOTEARS",
        "PC",
        "PERI",
        "PersonalWeights",
        "edge_stability",
        "order_search",
        "personalise",
        "personalise_for_owner",
        "release_moments",
    ],
    "graphs": [
        "from_causal_learn",
        "from_pgmpy",
        "read_graph",
        "to_causal_learn",
        "to_pgmpy",
        "write_graph",
    ],
    "runs": ["RunPlan", "learn", "plan_run"],
    "drawing": ["draw_graph", "graph_svg"],
    "reports": ["report_html", "write_report"],
    "audits": [
        "AuditReport",
        "Claim",
        "attack_covariance",
        "audit",
        "audit_algorithm",
        "audit_function",
        "audit_one_run",
        "check_sampler",
        "compare_regimes",
        "search_sensitivity",
    ],
    "errors": [
        "BudgetExceeded",
        "ConvergenceFailure",
        "CopiedBudget",
        "InvalidParameter",
        "InvalidTable",
        "LedgerCorrupt",
        "PartyFailed",
        "PrivfcdError",
    ],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = {"metrics": "privfcd.graphs.metrics", "simulate": "privfcd.datasets.simulate"}

__all__ = ["__version__", *sorted([*_HOME_OF, *_MODULES])]

if TYPE_CHECKING:
    from privfcd.accounting import BoundedRangeDpEvent as BoundedRangeDpEvent
    from privfcd.accounting import Budget as Budget
    from privfcd.accounting import EpsilonDeltaDpEvent as EpsilonDeltaDpEvent
    from privfcd.accounting import NoisePlan as NoisePlan
    from privfcd.accounting import PureDPAccountant as PureDPAccountant
    from privfcd.accounting import TightAccountant as TightAccountant
    from privfcd.accounting import ZCDPAccountant as ZCDPAccountant
    from privfcd.accounting import calibrate as calibrate
    from privfcd.accounting import delta_of as delta_of
    from privfcd.accounting import epsilon_of as epsilon_of
    from privfcd.algorithms import GES as GES
    from privfcd.algorithms import IPERI as IPERI
    from privfcd.algorithms import NOTEARS as NOTEARS
    from privfcd.algorithms import PC as PC
    from privfcd.algorithms import PERI as PERI
    from privfcd.algorithms import EdgeStability as EdgeStability
    from privfcd.algorithms import EqualVarianceSearch as EqualVarianceSearch
    from privfcd.algorithms import FedACD as FedACD
    from privfcd.algorithms import FedBNSL as FedBNSL
    from privfcd.algorithms import FedSparseBNSL as FedSparseBNSL
    from privfcd.algorithms import HuberLoss as HuberLoss
    from privfcd.algorithms import PersonalWeights as PersonalWeights
    from privfcd.algorithms import edge_stability as edge_stability
    from privfcd.algorithms import order_search as order_search
    from privfcd.algorithms import personalise as personalise
    from privfcd.algorithms import personalise_for_owner as personalise_for_owner
    from privfcd.algorithms import release_moments as release_moments
    from privfcd.audits import AuditReport as AuditReport
    from privfcd.audits import Claim as Claim
    from privfcd.audits import attack_covariance as attack_covariance
    from privfcd.audits import audit as audit
    from privfcd.audits import audit_algorithm as audit_algorithm
    from privfcd.audits import audit_function as audit_function
    from privfcd.audits import audit_one_run as audit_one_run
    from privfcd.audits import check_sampler as check_sampler
    from privfcd.audits import compare_regimes as compare_regimes
    from privfcd.audits import search_sensitivity as search_sensitivity
    from privfcd.data import Column as Column
    from privfcd.data import PrivateTable as PrivateTable
    from privfcd.data import Schema as Schema
    from privfcd.data import quantiles as quantiles
    from privfcd.data import table_moments as table_moments
    from privfcd.datasets import load_network as load_network
    from privfcd.datasets import simulate as simulate
    from privfcd.drawing import draw_graph as draw_graph
    from privfcd.drawing import graph_svg as graph_svg
    from privfcd.errors import BudgetExceeded as BudgetExceeded
    from privfcd.errors import ConvergenceFailure as ConvergenceFailure
    from privfcd.errors import CopiedBudget as CopiedBudget
    from privfcd.errors import InvalidParameter as InvalidParameter
    from privfcd.errors import InvalidTable as InvalidTable
    from privfcd.errors import LedgerCorrupt as LedgerCorrupt
    from privfcd.errors import PartyFailed as PartyFailed
    from privfcd.errors import PrivfcdError as PrivfcdError
    from privfcd.graphs import from_causal_learn as from_causal_learn
    from privfcd.graphs import from_pgmpy as from_pgmpy
    from privfcd.graphs import metrics as metrics
    from privfcd.graphs import read_graph as read_graph
    from privfcd.graphs import to_causal_learn as to_causal_learn
    from privfcd.graphs import to_pgmpy as to_pgmpy
    from privfcd.graphs import write_graph as write_graph
    from privfcd.ledger import Ledger as Ledger
    from privfcd.ledger import Reservation as Reservation
    from privfcd.ledger import SqliteJournal as SqliteJournal
    from privfcd.mechanisms import AnalyticGaussian as AnalyticGaussian
    from privfcd.mechanisms import Gaussian as Gaussian
    from privfcd.mechanisms import GaussianVector as GaussianVector
    from privfcd.mechanisms import GumbelMax as GumbelMax
    from privfcd.mechanisms import Laplace as Laplace
    from privfcd.mechanisms import LaplaceNoisyMax as LaplaceNoisyMax
    from privfcd.mechanisms import LaplaceVector as LaplaceVector
    from privfcd.mechanisms import PermuteAndFlip as PermuteAndFlip
    from privfcd.mechanisms import SecureNoise as SecureNoise
    from privfcd.mechanisms import SimulatedNoise as SimulatedNoise
    from privfcd.mechanisms import TopM as TopM
    from privfcd.moments import Moments as Moments
    from privfcd.moments import NoiseTerm as NoiseTerm
    from privfcd.moments import load_moments as load_moments
    from privfcd.moments import pooled as pooled
    from privfcd.moments import save_moments as save_moments
    from privfcd.reports import report_html as report_html
    from privfcd.reports import write_report as write_report
    from privfcd.runs import RunPlan as RunPlan
    from privfcd.runs import learn as learn
    from privfcd.runs import plan_run as plan_run


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(_MODULES[name])
    elif name in _HOME_OF:
        value = getattr(import_module(f"privfcd.{_HOME_OF[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
