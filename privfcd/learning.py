"""The main job in one call: a causal graph from several parties' tables, paid from their budgets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import Budget, Ledger
from privfcd.accounting.ledger_tools import open_ledger, show
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
    ledgers: Sequence[Ledger | str | os.PathLike[str]] | None = None,
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
        their own, or there are `ledgers`. There it is what the run may spend; all that is left by default.
    delta : float, optional
        1 / n² by default, n the party's own (public) number of rows; where the budgets are given, theirs in proportion
        to epsilon.
    private : bool
        False runs without any noise or clipping: epsilon = inf.
    bounds : float, sequence or mapping, optional
        Declared public bounds on |x_j|. Without them a part of the budget pays for a histogram that supplies them.
    noise : NoiseSource, optional
        `SecureNoise()` by default.
    names : sequence of str, optional
        The parties' names; file names, or party-1, party-2, ... by default.
    ledgers : sequence of Ledger or path, optional
        One for each party, with its name and budget: what is spent there adds up over all runs. A path is that of a
        file made by `privfcd ledger init`; it is never made here. Of a file with several data sets, the one with the
        table's file name is taken.
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
    LedgerUnavailable, LedgerCorrupt
        A ledger's file cannot be used.
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
        if any(given is not None for given in (bounds, noise, names, ledgers)) or not private or log1p:
            raise InvalidParameter(
                "bounds, noise, names, ledgers, private and log1p belong to the PrivateTables that were given"
            )
        model = FedSparseBNSL(epsilon=epsilon, delta=delta, center=center, **parameters)
        return model.fit(list(sources), on_round=on_round)
    if any(ready):
        raise InvalidParameter("sources must be all PrivateTables or none, got both")
    tables = private_tables(
        sources,
        epsilon=epsilon,
        delta=delta,
        private=private,
        bounds=bounds,
        noise=noise,
        names=names,
        ledgers=ledgers,
        log1p=log1p,
    )
    if ledgers is not None:
        parameters.update(epsilon=epsilon, delta=delta)
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
    ledgers: Sequence[Ledger | str | os.PathLike[str]] | None = None,
    log1p: bool = False,
) -> list[PrivateTable]:
    """Return one `PrivateTable` for each source, each with a budget of its own; see `learn` for the parameters.

    With `ledgers` the budgets are theirs; epsilon and delta are checked, and are the run's to keep to.
    """
    if private and epsilon is None and ledgers is None:
        raise InvalidParameter("epsilon must be given for a private run, got None; private=False runs without privacy")
    if not private and epsilon is not None:
        raise InvalidParameter(f"epsilon must be left out with private=False, got {epsilon!r}")
    if epsilon is not None:
        checks.positive("epsilon", epsilon)
    if delta is not None:
        checks.delta("delta", delta, zero=False)
    labels = _names(sources, names)
    opened = [None] * len(labels) if ledgers is None else _opened(ledgers, labels, names, private)
    tables = []
    for source, label, ledger in zip(sources, labels, opened, strict=True):
        table = read_table(source)
        if ledger is not None:
            rows = _log1p(table, ledger.name) if log1p else table.rows
            tables.append(PrivateTable(rows, table.columns, ledger=ledger, bounds=bounds, noise=noise))
            continue
        budget = None if epsilon is None else Budget(epsilon, delta if delta is not None else 1 / len(table.rows) ** 2)
        rows = _log1p(table, label) if log1p else table.rows
        tables.append(PrivateTable(rows, table.columns, name=label, budget=budget, bounds=bounds, noise=noise))
    return tables


def _opened(ledgers: Any, labels: Sequence[str], names: Any, private: bool) -> list[Ledger]:
    """Return the ledgers, one for each label, all different, with budgets exactly if the run is private."""
    if isinstance(ledgers, str) or not isinstance(ledgers, Sequence) or len(ledgers) != len(labels):
        got = len(ledgers) if isinstance(ledgers, Sequence) and not isinstance(ledgers, str) else ledgers
        raise checks.refuse("ledgers", got, f"one for each of {len(labels)} tables, in their order")
    if names is not None:
        raise InvalidParameter("give either names or ledgers, which have names, not both")
    opened: list[Ledger] = []
    accounts: list[object] = []
    for given, label in zip(ledgers, labels, strict=True):
        if not isinstance(given, Ledger | str | os.PathLike):
            raise checks.refuse("ledgers", given, "Ledgers or paths")
        ledger = given if isinstance(given, Ledger) else _stored(given, label)
        account = ledger.account if isinstance(given, Ledger) else (os.path.realpath(given), ledger.name)
        if account in accounts or ledger.name in [other.name for other in opened]:
            raise InvalidParameter(
                f"ledgers must be different ones, with different names, got {ledger.name!r} twice: parties hold different "
                "records"
            )
        if private == ledger.open:
            raise InvalidParameter(
                f"the ledger of {ledger.name!r} has "
                + ("no budget: only a run without privacy can be recorded there" if private else
                   f"the budget {ledger.budget}, from which a run without privacy cannot be paid")
            )  # fmt: skip
        opened.append(ledger)
        accounts.append(account)
    return opened


def _stored(path: str | os.PathLike[str], label: str) -> Ledger:
    """Return the ledger in a file: of its only data set, or of the one called `label`."""
    declared = list(show(path)["data_sets"])
    if len(declared) == 1:
        return open_ledger(path, declared[0])
    if label not in declared:
        raise InvalidParameter(
            f"ledger {os.fspath(path)!r} must have one data set, or one called {label!r} as the table, got {declared}"
        )
    return open_ledger(path, label)


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
