"""The learners that `privfcd learn` offers, and learning from a file of moments."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from privfcd.cli.output import say

if TYPE_CHECKING:
    from privfcd.algorithms.base import Estimator
    from privfcd.moments import StoredMoments

METHODS = {
    "fed-sparse": "FedSparseBNSL",
    "equal-variance": "EqualVarianceSearch",
    "fed-bnsl": "FedBNSL",
    "notears": "NOTEARS",
    "ges": "GES",
    "pc": "PC",
}
"""Names on the command line, and the classes of `privfcd.algorithms`."""


def made(method: str, parameters: Mapping[str, Any]) -> Estimator:
    """Return the estimator with these parameters; refuse those that it does not have."""
    import privfcd.algorithms

    kind: type[Estimator] = getattr(privfcd.algorithms, METHODS[method])
    known = kind().get_params()
    for name in parameters:
        if name not in known:
            raise click.UsageError(f"--{name.replace('_', '-')} does not belong to --method {method}")
    return kind(**parameters)


def stored_moments(files: tuple[str, ...]) -> StoredMoments:
    """Return what the one file of moments holds."""
    from privfcd.moments import load_moments

    if len(files) > 1:
        raise click.UsageError("give one .npz file of moments, or tables, not both and not several")
    return load_moments(files[0])


def fit_moments(method: str, stored: StoredMoments, parameters: Mapping[str, Any], quiet: bool) -> tuple[Any, float]:
    """Return the estimator fitted to moments, with the report of the release that paid for them, and the seconds."""
    model: Any = made(method, parameters)
    began = time.perf_counter()
    model.fit(list(stored.parts))
    seconds = time.perf_counter() - began
    reports = stored.privacy_report
    model.privacy_report_ = reports
    if reports:
        model.privacy_spent_ = max(each.epsilon for each in reports), max(each.delta for each in reports)
    if not quiet:
        say(
            "Learning from moments costs nothing: the privacy stated is that of the release that they come from",
            stderr=True,
        )
    return model, seconds
