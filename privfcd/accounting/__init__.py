"""What a release costs, and what costs add up to."""

from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    NoOpDpEvent,
    ZCDpEvent,
)

from privfcd.accounting.accountants import PureDPAccountant, ZCDPAccountant
from privfcd.accounting.budget import Budget
from privfcd.accounting.calibration import NoisePlan, calibrate, delta_of, epsilon_of
from privfcd.accounting.conversions import (
    advanced_composition,
    bounded_range_rho,
    epsilon_to_zcdp,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    gdp_to_delta,
    gdp_to_epsilon,
    laplace_rho,
    pure_rho,
    zcdp_to_delta,
    zcdp_to_epsilon,
)
from privfcd.accounting.events import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
    PrivacyLossDpEvent,
    compose,
    gaussian_event,
    laplace_event,
    leaves,
    selection_event,
)
from privfcd.accounting.group_privacy import group_event
from privfcd.accounting.laplace_dp import laplace_epsilon
from privfcd.accounting.tight import TightAccountant, exponential_epsilon, tight_epsilon
from privfcd.accounting.tradeoff import gaussian_mu, tradeoff, true_positive_rate

__all__ = [
    "ADD_OR_REMOVE_ONE",
    "REPLACE_ONE",
    "BoundedRangeDpEvent",
    "Budget",
    "DpEvent",
    "EpsilonDeltaDpEvent",
    "GaussianDpEvent",
    "LaplaceDpEvent",
    "NeighboringRelation",
    "NoOpDpEvent",
    "NoisePlan",
    "NonPrivateDpEvent",
    "PrivacyLossDpEvent",
    "PureDPAccountant",
    "TightAccountant",
    "ZCDPAccountant",
    "ZCDpEvent",
    "advanced_composition",
    "bounded_range_rho",
    "calibrate",
    "compose",
    "delta_of",
    "epsilon_of",
    "epsilon_to_zcdp",
    "exponential_epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_event",
    "gaussian_mu",
    "gaussian_sigma",
    "gdp_to_delta",
    "gdp_to_epsilon",
    "group_event",
    "laplace_epsilon",
    "laplace_event",
    "laplace_rho",
    "leaves",
    "pure_rho",
    "selection_event",
    "tight_epsilon",
    "tradeoff",
    "true_positive_rate",
    "zcdp_to_delta",
    "zcdp_to_epsilon",
]
