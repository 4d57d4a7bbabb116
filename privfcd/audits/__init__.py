"""Audits: lower bounds on privacy loss next to what is claimed, so that nobody has to take the claim on trust."""

from privfcd.audits.claims import Claim
from privfcd.audits.estimators import (
    Bound,
    clopper_pearson_lower,
    clopper_pearson_upper,
    curve_test,
    epsilon_bound,
    mu_bound,
)
from privfcd.audits.mechanisms import audit
from privfcd.audits.regimes import Regime, RegimeRow, compare_regimes
from privfcd.audits.report import AuditReport, Witness
from privfcd.audits.sampler import SamplerReport, check_sampler
from privfcd.audits.sensitivity import SensitivityReport, search_sensitivity

__all__ = [
    "AuditReport",
    "Bound",
    "Claim",
    "Regime",
    "RegimeRow",
    "SamplerReport",
    "SensitivityReport",
    "Witness",
    "audit",
    "check_sampler",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "compare_regimes",
    "curve_test",
    "epsilon_bound",
    "mu_bound",
    "search_sensitivity",
]
