"""The main job in one call: a causal graph from several parties' tables, paid from their budgets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import Budget
from privfcd.algorithms.fed_sparse import FedSparseBNSL, RoundRecord
from privfcd.data.private import PrivateTable
from privfcd.data.tables import Table, read_table
from privfcd.errors import InvalidParameter, InvalidTable
from privfcd.mechanisms import NoiseSource


def learn(
    sources: Sequence[Any],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    private: bool = True,
    bounds: float | Sequence[float] | Mapping[str, float] | None = None,
    noise: NoiseSource | None = None,
    names: Sequence[str] | None = None,
    on_round: Callable[[RoundRecord], None] | None = None,
    center: bool = True,
    log1p: bool = False,
    **parameters: Any,
) -> FedSparseBNSL:
    """Learn one causal graph from the tables of several parties.

    Parameters
    ----------
    sources : sequence of arrays, DataFrames, paths or PrivateTable
        One for each party. Tables have the same columns, in any order.
    epsilon : float, optional
        Each party's budget; required for a private run, unless the sources are `PrivateTable`s with budgets of
        their own.
    delta : float, optional
        1 / n² by default, n the party's own (public) number of rows.
    private : bool
        False runs without any noise or clipping: epsilon = inf.
    bounds : float, sequence or mapping, optional
        Declared public bounds on |x_j|. Without them a part of the budget pays for a histogram that supplies them.
    noise : NoiseSource, optional
        `SecureNoise()` by default.
    names : sequence of str, optional
        The parties' names; file names, or party-1, party-2, ... by default.
    on_round : callable, optional
        Called after every round.
    center : bool
        Whether means are taken off first: paid for in a private run.
    log1p : bool
        Whether every value is replaced by log(1 + x) first: a public transformation of each record on its own.
    **parameters
        Of `FedSparseBNSL`.

    Returns
    -------
    FedSparseBNSL
        Fitted.

    Raises
    ------
    InvalidTable, InvalidParameter
        What is wrong; nothing was charged.
    BudgetExceeded
        A budget does not allow the run; nothing was charged.
    """
    if not isinstance(sources, Sequence) or isinstance(sources, str) or not len(sources):
        raise checks.refuse("sources", type(sources).__name__, "a list with one table for each party")
    known = [name for name in FedSparseBNSL().get_params() if name not in ("epsilon", "delta", "center")]
    for name in parameters:
        if name not in known:
            raise checks.refuse("parameter", name, "one of " + ", ".join(known))
    if not isinstance(private, bool):
        raise checks.refuse("private", private, "True or False")
    ready = [isinstance(source, PrivateTable) for source in sources]
    if all(ready):
        if bounds is not None or noise is not None or names is not None or not private or log1p:
            raise InvalidParameter(
                "bounds, noise, names, private and log1p belong to the PrivateTables that were given"
            )
        model = FedSparseBNSL(epsilon=epsilon, delta=delta, center=center, **parameters)
        return model.fit(list(sources), on_round=on_round)
    if any(ready):
        raise InvalidParameter("sources must be all PrivateTables or none, got both")
    tables = private_tables(
        sources, epsilon=epsilon, delta=delta, private=private, bounds=bounds, noise=noise, names=names, log1p=log1p
    )
    return FedSparseBNSL(center=center, **parameters).fit(tables, on_round=on_round)


def private_tables(
    sources: Sequence[Any],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    private: bool = True,
    bounds: float | Sequence[float] | Mapping[str, float] | None = None,
    noise: NoiseSource | None = None,
    names: Sequence[str] | None = None,
    log1p: bool = False,
) -> list[PrivateTable]:
    """Return one `PrivateTable` for each source, each with a budget of its own; see `learn` for the parameters."""
    if private and epsilon is None:
        raise InvalidParameter("epsilon must be given for a private run, got None; private=False runs without privacy")
    if not private and epsilon is not None:
        raise InvalidParameter(f"epsilon must be left out with private=False, got {epsilon!r}")
    if epsilon is not None:
        checks.positive("epsilon", epsilon)
    if delta is not None:
        checks.delta("delta", delta, zero=False)
    tables = []
    for source, label in zip(sources, _names(sources, names), strict=True):
        table = read_table(source)
        budget = None if epsilon is None else Budget(epsilon, delta if delta is not None else 1 / len(table.rows) ** 2)
        rows = _log1p(table, label) if log1p else table.rows
        tables.append(PrivateTable(rows, table.columns, name=label, budget=budget, bounds=bounds, noise=noise))
    return tables


def _log1p(table: Table, label: str) -> NDArray[np.float64]:
    """Return log(1 + x); values of -1 or less are the owner's to mend."""
    for column, values in zip(table.columns, table.rows.T, strict=True):
        if (values <= -1).any():
            row = int(np.argmax(values <= -1)) + 1
            raise InvalidTable(f"table {label!r}, column {column!r}, row {row}: log1p needs values above -1")
    return np.log1p(table.rows)


def _names(sources: Sequence[Any], names: Sequence[str] | None) -> list[str]:
    if names is not None:
        if len(names) != len(sources) or len(set(names)) != len(names):
            raise checks.refuse("names", list(names), f"{len(sources)} different texts")
        return list(names)
    paths = [Path(source).resolve() for source in sources if isinstance(source, str | os.PathLike)]
    for path in paths:
        if paths.count(path) > 1:
            raise InvalidTable(f"table {str(path.name)!r} was given twice: each party has its own rows")
    labels: list[str] = []
    for index, source in enumerate(sources, start=1):
        label = Path(source).stem if isinstance(source, str | os.PathLike) else f"party-{index}"
        labels.append(label if label not in labels else f"{label}-{index}")
    return labels
