"""What parameters that were left out resolve to: from public numbers only, never from rows.

The rules themselves stand where they are used. In one place, for reading:

- delta: 1 / n², n the party's number of rows (`learning.private_tables`); a run that spends a part epsilon of a budget
  gets the same part of its delta (`accounting.affordable`).
- Fed-Sparse-BNSL's rounds T, updates K, step and keep: `fed_sparse.constants`, from epsilon and the number of columns.
- Shares of the budget: `bounds_share`, `mean_share`, `smoothness_share`, `refit_share` of Fed-Sparse-BNSL; for released
  moments `release.rules`, from the numbers of rows and columns and the budgets.
- What is released: `release.release_moments` and `peri.base`; for Fed-Sparse-BNSL `fed_sparse.choice`.

Constants that come from released values (a clip, a tests' level) are not known beforehand; they are described in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from privfcd.algorithms.base import Estimator
from privfcd.algorithms.fed_bnsl import FedBNSL
from privfcd.algorithms.fed_sparse import FedSparseBNSL
from privfcd.algorithms.fed_sparse.choice import COORDINATES
from privfcd.algorithms.fedacd import FedACD
from privfcd.algorithms.fedacd.settings import EXACT_ALPHA
from privfcd.algorithms.inputs import checked_tables, moments_given
from privfcd.algorithms.local import processors
from privfcd.algorithms.peri.private_regrets import REGRETS
from privfcd.algorithms.release.plan import COVARIANCE, HISTOGRAM, ROUND
from privfcd.data.fused import kernels
from privfcd.data.private import PrivateTable
from privfcd.reports.html.left_open import (
    ALL_LEFT,
    DIRECTIONS,
    EXACT,
    IN_PROPORTION,
    LEAST_NOISE,
    MOMENTS,
    NO_BUDGET,
    NOT_CLIPPED,
    OF_BOUNDS,
    RELEASED,
)


def defaults_of(model: Estimator, tables: Any, labels: Iterable[str] | None = None) -> dict[str, Any]:
    """Return all parameters of `model`, those left out replaced by what they resolve to on these tables.

    Parameters
    ----------
    model : Estimator
        Not fitted, or fitted to something else.
    tables : sequence of PrivateTable, or moments
        What it would be fitted to; no row is read.
    labels : iterable of str, optional
        Names of the releases that the run would reserve, see `RunPlan`: they say what `release="auto"` comes to.

    Returns
    -------
    dict
        By name. Text where a value is chosen from released values, or differs between parties.
    """
    found = model.get_params()
    if moments_given(tables) is not None:
        for name in ("center", "row_norm", "epsilon", "delta"):
            found.pop(name, None)
        if found.get("release") is not None:
            found["release"] = MOMENTS
        return found
    checked = checked_tables(tables, getattr(model, "takes", ("numbers",)), getattr(model, "method", "this one"))
    opened = all(table.open for table in checked)
    known = None if labels is None else list(labels)
    if found.get("release") == "auto" and known is not None:
        found["release"] = _release(known, opened)
    if isinstance(model, FedSparseBNSL):
        found |= _fed_sparse(model, checked, opened)
    elif isinstance(model, FedBNSL):
        found["l1"] = model._settings().l1_for(len(checked))
    elif isinstance(model, FedACD):
        found |= _fedacd(model, opened)
    if "center" in found and found["center"] is None:
        found["center"] = not _without_mean(model)
    if found.get("row_norm", 0) is None:
        found["row_norm"] = _row_norm(checked, opened, known)
    if opened:
        found["epsilon"] = found["delta"] = NO_BUDGET
    if found["epsilon"] is None:
        found["epsilon"] = ALL_LEFT
    if found["delta"] is None:
        found["delta"] = IN_PROPORTION
    return found


def _fed_sparse(model: FedSparseBNSL, tables: Sequence[PrivateTable], opened: bool) -> dict[str, Any]:
    settings = model.settings_for(model.facts_of(tables))
    found: dict[str, Any] = {name: getattr(settings, name) for name in ("rounds", "updates", "step", "keep")}
    if settings.clip is None:
        found["clip"] = NOT_CLIPPED if opened else RELEASED
    if settings.smoothness is None:
        found["smoothness"] = RELEASED
    if opened:
        found["release"] = COORDINATES
    if model.workers is None:
        found["workers"] = 1 if opened else min(processors(), len(tables))
    found["fast"] = kernels(model.fast) is not None
    if settings.noise_multiplier is None:
        found["noise_multiplier"] = EXACT if opened else LEAST_NOISE
    return found


def _fedacd(model: FedACD, opened: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if model.alpha is None:
        found["alpha"] = EXACT_ALPHA if opened else RELEASED
    if model.combine == "auto":
        found["combine"] = "vote" if opened else "sum"
    return found


def _without_mean(model: Estimator) -> bool:
    """Return whether this run has no use for means: discrete columns, or regrets that take them to be 0."""
    params = model.get_params()
    return params.get("levels") is not None or params.get("privacy") == "regret"


def _release(labels: Sequence[str], opened: bool) -> str:
    """Return what is released, by the names of what is reserved."""
    if opened:
        return "exact"
    if any(label.startswith(ROUND) for label in labels):
        return "preconditioned"
    if REGRETS in labels:
        return "regrets one by one"
    return "covariance" if COVARIANCE in labels else COORDINATES


def _row_norm(tables: Sequence[PrivateTable], opened: bool, labels: Sequence[str] | None) -> str | None:
    if opened:
        return NOT_CLIPPED
    if labels is not None and COVARIANCE not in labels:
        return DIRECTIONS
    if labels is not None and HISTOGRAM in labels:
        return RELEASED
    return OF_BOUNDS if all(table.bounds is not None for table in tables) else RELEASED
