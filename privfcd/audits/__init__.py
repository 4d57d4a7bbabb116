"""Audits: lower bounds on privacy loss next to what is claimed, so that nobody has to take the claim on trust."""

from privfcd.audits.algorithm import AlgorithmReport, audit_algorithm, replay_scores
from privfcd.audits.all_thresholds import curve_test_all, epsilon_bound_all, mu_bound_all
from privfcd.audits.attack import AttackReport, attack_covariance
from privfcd.audits.claims import Claim
from privfcd.audits.estimators import (
    Bound,
    clopper_pearson_lower,
    clopper_pearson_upper,
    curve_test,
    epsilon_bound,
    mu_bound,
)
from privfcd.audits.independence import IndependenceReport, check_independence
from privfcd.audits.mechanisms import audit
from privfcd.audits.membership import MembershipReport, membership_test
from privfcd.audits.one_release import OneRunReport, audit_one_run
from privfcd.audits.one_run import OneRunBound, one_run_bound, one_run_epsilon, one_run_mu, one_run_p_value
from privfcd.audits.order import OrderReport, check_order
from privfcd.audits.reconstruction import added_record, reconstruct, replaced_record
from privfcd.audits.regimes import Regime, RegimeFactor, RegimeRow, compare_regimes, regime_factors
from privfcd.audits.report import AuditReport, Witness
from privfcd.audits.sampler import SamplerReport, check_sampler, lowest_bits
from privfcd.audits.sensitivity import SensitivityReport, search_sensitivity
from privfcd.audits.subjects import Descent
from privfcd.audits.user_code import audit_function
from privfcd.audits.zcdp_bound import RenyiBound, zcdp_bound

__all__ = [
    "AlgorithmReport",
    "AttackReport",
    "AuditReport",
    "Bound",
    "Claim",
    "Descent",
    "IndependenceReport",
    "MembershipReport",
    "OneRunBound",
    "OneRunReport",
    "OrderReport",
    "Regime",
    "RegimeFactor",
    "RegimeRow",
    "RenyiBound",
    "SamplerReport",
    "SensitivityReport",
    "Witness",
    "added_record",
    "attack_covariance",
    "audit",
    "audit_algorithm",
    "audit_function",
    "audit_one_run",
    "check_independence",
    "check_order",
    "check_sampler",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "compare_regimes",
    "curve_test",
    "curve_test_all",
    "epsilon_bound",
    "epsilon_bound_all",
    "lowest_bits",
    "membership_test",
    "mu_bound",
    "mu_bound_all",
    "one_run_bound",
    "one_run_epsilon",
    "one_run_mu",
    "one_run_p_value",
    "reconstruct",
    "regime_factors",
    "replaced_record",
    "replay_scores",
    "search_sensitivity",
    "zcdp_bound",
]
