"""The learners by name, each loaded when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from privfcd import checks

if TYPE_CHECKING:
    from privfcd.algorithms.learner import Learner

LEARNERS = {
    "fed-sparse": "fed_sparse:FedSparseBNSL",
    "equal-variance": "equal_variance:EqualVarianceSearch",
    "fed-bnsl": "fed_bnsl:FedBNSL",
    "notears": "notears:NOTEARS",
    "ges": "ges:GES",
    "boss": "boss:BOSS",
    "pc": "constraint:PC",
    "fedacd": "fedacd:FedACD",
    "peri": "peri:PERI",
    "iperi": "peri:IPERI",
}
"""Where each learner's class is, in `privfcd.algorithms`. A learner that stands here is on the command line, in study files,
plans, reports and in the tests that run every learner."""


def learner_class(method: str) -> type[Learner]:
    """Return the class of a learner.

    Parameters
    ----------
    method : str
        One of `LEARNERS`.

    Raises
    ------
    InvalidParameter
        There is none of that name.

    Examples
    --------
    >>> learner_class("ges").__name__
    'GES'
    """
    if not isinstance(method, str) or method not in LEARNERS:
        raise checks.refuse("method", method, "one of " + ", ".join(LEARNERS))
    module, _, name = LEARNERS[method].partition(":")
    found: type[Learner] = getattr(import_module(f"privfcd.algorithms.{module}"), name)
    return found
