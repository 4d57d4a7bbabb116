"""The methods that studies may name."""

from __future__ import annotations

from collections.abc import Callable

from privfcd import checks
from privfcd.algorithms.registry import LEARNERS
from privfcd.engines.methods.base import Method
from privfcd.engines.methods.learnt import Learnt
from privfcd.federation.study_file import Study

METHODS: dict[str, Callable[[Study], Method]] = dict.fromkeys(LEARNERS, Learnt)
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
