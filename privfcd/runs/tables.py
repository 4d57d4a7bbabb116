"""Tables with budgets or ledgers, as a whole run takes them: from arrays, frames and files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privfcd import checks
from privfcd.errors import InvalidParameter, InvalidTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from privfcd.data.private import PrivateTable
    from privfcd.data.schema import Schema
    from privfcd.data.tables import Table
    from privfcd.ledger import Ledger
    from privfcd.mechanisms import NoiseSource


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
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    schema: Any = None,
) -> list[PrivateTable]:
    """Return one `PrivateTable` for each source, each with a budget of its own; see `learn` for the parameters.

    With `ledgers` the budgets are theirs; epsilon and delta are checked, and are the run's to keep to. `columns` and `drop`
    are those of `read_table`, the same for all sources: other columns' cells are not looked at. What is wrong with
    tables for a schema is said of all of them at once.
    """
    from privfcd.accounting import Budget
    from privfcd.data.private import PrivateTable
    from privfcd.data.tables import read_table

    if private and epsilon is None and ledgers is None:
        raise InvalidParameter("epsilon must be given for a private run, got None; private=False runs without privacy")
    for name, given in (("epsilon", epsilon), ("delta", delta)):
        if not private and given is not None:
            raise InvalidParameter(f"{name} must be left out with private=False, got {given!r}")
    if not isinstance(log1p, bool):
        raise checks.refuse("log1p", log1p, "True or False")
    schemas = _schemas(schema, len(sources), bounds, log1p, columns, drop)
    if epsilon is not None:
        checks.positive("epsilon", epsilon)
    if delta is not None:
        checks.delta("delta", delta, zero=False)
    labels = _names(sources, names)
    opened = [None] * len(labels) if ledgers is None else _opened(ledgers, labels, names, private)
    if ledgers is not None:
        _check_order(sources, [ledger.name for ledger in opened if ledger is not None])
    read: list[Table] = []
    faults: list[str] = []
    for source, label, own in zip(sources, labels, schemas, strict=True):
        try:
            read.append(read_table(source, columns, drop=drop) if own is None else own.apply(source))
        except InvalidTable as error:
            # a file names itself
            faults.append(str(error) if isinstance(source, str | os.PathLike) else f"table {label!r}: {error}")
            if own is None:
                raise InvalidTable(faults[-1]) from error
    if faults:
        raise InvalidTable("\n".join(faults))
    tables = []
    for table, label, ledger in zip(read, labels, opened, strict=True):
        if log1p:
            table = replace(table, rows=log1p_rows(table, label if ledger is None else ledger.name))
        if ledger is not None:
            tables.append(PrivateTable(table, ledger=ledger, bounds=bounds, noise=noise))
            continue
        budget = None if epsilon is None else Budget(epsilon, delta if delta is not None else 1 / len(table.rows) ** 2)
        tables.append(PrivateTable(table, name=label, budget=budget, bounds=bounds, noise=noise))
    return tables


def by_party(source: Any, column: str) -> dict[str, Any]:
    """Return each party's rows of one frame, CSV or Parquet file, without the column that says whose they are.

    Raises
    ------
    InvalidTable
        There is no such column, or some rows do not say whose they are; for the owner's eyes.
    """
    import pandas as pd

    if isinstance(source, str | os.PathLike):
        path = str(source)
        if not os.path.isfile(path):
            raise InvalidTable(f"table {path!r} is no file")
        frame = pd.read_parquet(path) if path.endswith(".parquet") else pd.read_csv(path, dtype={column: str})
    else:
        frame = source.to_pandas() if hasattr(source, "to_pandas") else source
    if not isinstance(frame, pd.DataFrame):
        raise checks.refuse("sources", type(source).__name__, "one data frame or file, with party_column")
    if list(frame.columns).count(column) != 1:
        raise InvalidTable(f"party_column must be one of the columns {list(map(str, frame.columns))}, got {column!r}")
    whose = frame[column].astype("string").str.strip()
    silent = int((whose.isna() | (whose == "")).sum())
    if silent:
        raise InvalidTable(f"column {column!r} does not say whose {silent} of {len(frame)} rows are: name a party in each")
    rest = frame.drop(columns=column)
    return {str(name): rest[(whose == name).to_numpy()] for name in whose.unique()}


def _schemas(
    given: Any, number: int, bounds: Any, log1p: bool, columns: Sequence[str] | None, drop: Sequence[str]
) -> list[Schema] | list[None]:
    """Return each table's schema; None for each where there is none."""
    from privfcd.data.schema import Schema

    if given is None:
        return [None] * number
    for name, value in (("bounds", bounds), ("log1p", log1p or None)):
        if value is not None:
            raise checks.refuse(name, value, "left out with a schema, which declares ranges and maps by column")
    several = isinstance(given, Sequence) and not isinstance(given, str)
    if several and len(given) != number:
        raise checks.refuse("schema", f"{len(given)} of them", f"one, or one for each of {number} tables")
    made = [Schema.of(each) for each in (given if several else [given] * number)]
    return [each.only(columns, drop=drop) if columns or drop else each for each in made]


def _opened(ledgers: Any, labels: Sequence[str], names: Any, private: bool) -> list[Ledger]:
    """Return the ledgers, one for each label, all different, with budgets exactly if the run is private."""
    if isinstance(ledgers, str) or not isinstance(ledgers, Sequence) or len(ledgers) != len(labels):
        got = len(ledgers) if isinstance(ledgers, Sequence) and not isinstance(ledgers, str) else ledgers
        raise checks.refuse("ledgers", got, f"one for each of {len(labels)} tables, in their order")
    if names is not None:
        raise InvalidParameter("give either names or ledgers, which have names, not both")
    from privfcd.ledger import Ledger
    from privfcd.ledger.tools import open_ledger

    opened: list[Ledger] = []
    accounts: list[object] = []
    for given, label in zip(ledgers, labels, strict=True):
        if not isinstance(given, Ledger | str | os.PathLike):
            raise checks.refuse("ledgers", given, "Ledgers or paths")
        ledger = given if isinstance(given, Ledger) else open_ledger(given, data_set_of(given, label))
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


def _check_order(sources: Sequence[Any], paying: Sequence[str]) -> None:
    """Refuse ledgers in another order than the files: a file whose name is that of another file's ledger.

    Parameters
    ----------
    paying : sequence of str
        For each source the data set that pays for it.
    """
    stems = [Path(source).stem if isinstance(source, str | os.PathLike) else None for source in sources]
    for place, (stem, name) in enumerate(zip(stems, paying, strict=True)):
        other = paying.index(stem) if stem in paying else place
        if other != place and stem != name and stems[other] != stem:
            file, beside = (Path(sources[k]).name if stems[k] is not None else f"table {k + 1}" for k in (place, other))
            raise InvalidParameter(
                f"ledgers must be in the order of the files: {file} would be charged to {name!r}, while the ledger of "
                f"{stem!r} stands beside {beside}"
            )


def data_set_of(path: str | os.PathLike[str], label: str) -> str:
    """Return which data set of a ledger's file pays for the table `label`: the only one, or the one of that name."""
    from privfcd.ledger.tools import show

    declared = list(show(path)["data_sets"])
    if len(declared) == 1:
        return declared[0]
    if label not in declared:
        raise InvalidParameter(
            f"ledger {os.fspath(path)!r} must have one data set, or one called {label!r} as the table, got {declared}"
        )
    return label


def log1p_rows(table: Table, label: str) -> NDArray[np.float64]:
    """Return log(1 + x); values of -1 or less are the owner's to mend."""
    import numpy as np

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
