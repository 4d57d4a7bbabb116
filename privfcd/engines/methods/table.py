"""The methods that studies may name."""

from __future__ import annotations

from collections.abc import Callable

from privfcd import checks
from privfcd.algorithms import GES, IPERI, NOTEARS, PC, PERI, EqualVarianceSearch
from privfcd.algorithms.fed_bnsl import FedBNSL
from privfcd.algorithms.fedacd import FedACD
from privfcd.engines.methods.base import Method
from privfcd.engines.methods.first_stages import OneCovariance, OwnRounds
from privfcd.engines.methods.kept import FedBNSLStage, Kept, PERIStage
from privfcd.engines.methods.released import Released
from privfcd.engines.methods.sparse import FedSparse
from privfcd.federation.study_file import Study


def _regrets(study: Study, kind: type[PERI] | type[IPERI]) -> Method:
    """Moments stay at the parties, by rounds of their own where the budget pays for them, as the estimators have it."""
    release, row_norm = study.parameters.get("release", "auto"), study.parameters.get("row_norm")
    if release == "preconditioned" or (release == "auto" and study.private and row_norm is None):
        return Kept(study, OwnRounds(study, kind), PERIStage(study, kind))
    return Kept(study, OneCovariance(study, kind), PERIStage(study, kind))


METHODS: dict[str, Callable[[Study], Method]] = {
    "fed-sparse": FedSparse,
    "equal-variance": lambda study: Released(study, EqualVarianceSearch),
    "notears": lambda study: Released(study, NOTEARS),
    "pc": lambda study: Released(study, PC),
    "ges": lambda study: Released(study, GES),
    "fedacd": lambda study: Released(study, FedACD),
    "fed-bnsl": lambda study: Kept(study, OneCovariance(study, FedBNSL), FedBNSLStage(study)),
    "peri": lambda study: _regrets(study, PERI),
    "i-peri": lambda study: _regrets(study, IPERI),
}
"""By name, what makes a study's method."""


def method_of(study: Study) -> Method:
    """Return the study's method.

    Raises
    ------
    InvalidParameter
        There is none of that name, or it does not take the parameters.
    """
    if study.method not in METHODS:
        raise checks.refuse("method", study.method, "one of " + ", ".join(METHODS))
    return METHODS[study.method](study)
