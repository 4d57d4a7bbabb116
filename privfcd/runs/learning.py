"""The main job in one call: a causal graph from several parties' tables, paid from their budgets.

What computes is imported when it is first needed, so that a command line that only wants the methods' names starts fast.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from privfcd import checks
from privfcd.algorithms.registry import LEARNERS, learner_class
from privfcd.errors import InvalidParameter
from privfcd.runs.moments import fitted_to_moments, given_moments
from privfcd.runs.tables import by_party, private_tables

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    from numpy.typing import NDArray

    from privfcd.algorithms.base import Estimator
    from privfcd.algorithms.rounds import RoundRecord
    from privfcd.data.schema import Schema
    from privfcd.ledger import Ledger
    from privfcd.ledger.privacy_report import PrivacyReport
    from privfcd.mechanisms import NoiseSource

_OF_TABLES = ("epsilon", "delta", "bounds", "noise", "names", "ledgers", "center", "columns", "drop", "schema")
"""What says how tables are read and paid for, and has no meaning for moments that were released before."""


class Learner(Protocol):
    """What every fitted estimator shows, whichever the method.

    Attributes
    ----------
    causal_graph_ : networkx.DiGraph
        All columns as nodes.
    adjacency_matrix_ : ndarray of shape (d, d)
        Weights, or True where there is an edge.
    privacy_report_ : list of PrivacyReport or None
        One for each party.
    privacy_spent_ : tuple of float
        (epsilon, delta) that holds for every party, for what it released for this result; epsilon is inf where one has no
        privacy. Of simulated noise it is what would hold with secure noise of the same scale: see the reports. (0, 0)
        after a fit to noisy moments without reports: the fit cost nothing, and what their release promised is in its own
        reports.
    bytes_exchanged_ : int
    feature_names_in_, n_features_in_
        As in scikit-learn.
    """

    causal_graph_: nx.DiGraph[str]
    adjacency_matrix_: NDArray[Any]
    privacy_report_: list[PrivacyReport] | Any
    privacy_spent_: tuple[float, float]
    bytes_exchanged_: int
    feature_names_in_: NDArray[np.object_]
    n_features_in_: int

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""


def reports_rounds(method: str) -> bool:
    """Return whether a method calls `on_round` after each of its rounds."""
    return learner_class(method).reports_rounds


def learn(
    sources: Any,
    *,
    method: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    private: bool = True,
    bounds: float | Sequence[float] | Mapping[str, float] | None = None,
    noise: NoiseSource | None = None,
    names: Sequence[str] | None = None,
    ledgers: Sequence[Ledger | str | os.PathLike[str]] | None = None,
    on_round: Callable[[RoundRecord], None] | None = None,
    center: bool | None = None,
    log1p: bool = False,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    schema: Any = None,
    party_column: str | None = None,
    **parameters: Any,
) -> Learner:
    """Learn one causal graph from the tables of several parties, or from moments that were released before.

    Parameters
    ----------
    sources : sequence of arrays, DataFrames, paths or PrivateTable; or moments
        One for each party; or a mapping of their names to them; or, with `party_column`, one frame or file of all parties'
        rows. Tables have the same columns, in any order. Moments (`Moments`, what `release_moments` or
        `load_moments` returned, or .npz files of them) were paid for before: learning from them is charged nowhere, and the
        reports are those of their release.
    method : str
        One of `privfcd.algorithms.registry.LEARNERS`. By default `"fed-sparse"`; with a schema one that takes its columns,
        see `method_for`.
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
        Called after every round, by methods that have rounds (`reports_rounds`).
    center : bool, optional
        Whether means are taken off first, each party's own: paid for in a private run. By default they are, where the method
        has use for it; False says that they are 0.
    log1p : bool
        Whether every value is replaced by log(1 + x) first: a public transformation of each record on its own.
    columns : sequence of str, optional
        The columns to take of every source, in this order: the cells of others are not looked at. Public. For arrays, which
        have no names, these are the names of all columns.
    drop : sequence of str
        Columns to leave out of every source, such as an identifier or a date; their cells are not looked at. Public.
    schema : Schema, mapping or path, or one for each source, optional
        What is declared of the columns: kinds, ranges, levels, gaps. Instead of `bounds` and `log1p`. Parties may write
        their cells differently (units, spellings), and must agree on all else. Other columns are not looked at.
    party_column : str, optional
        The column that says whose a row is, where one frame, CSV or Parquet file holds the rows of all. Its values are the
        parties' names, in the order in which they first occur.
    **parameters
        Of the method's class. See `privfcd.runs.plan_run` for what those left out resolve to, and what a run would cost.

    Returns
    -------
    Learner
        The method's estimator, fitted.

    Raises
    ------
    InvalidTable, InvalidParameter
        What is wrong; nothing was charged.
    BudgetExceeded
        A budget does not allow the run; nothing was charged.
    LedgerUnavailable, LedgerCorrupt
        A ledger's file cannot be used.
    """
    if party_column is not None:
        sources = by_party(sources, party_column)
    if isinstance(sources, Mapping):
        if names is not None:
            raise checks.refuse("names", names, "left out: the sources' keys are the parties' names")
        names, sources = [str(name) for name in sources], list(sources.values())
        names = None if ledgers is not None else names
    declared = schema if schema is not None else _schema_of(sources)
    method = method_for(declared, columns, drop) if method is None else method
    kind = learner_class(method)
    if declared is not None:
        first = _first_schema(declared)
        add_levels(method, first.only(columns, drop=drop) if columns or drop else first, parameters)
    extra: dict[str, Any] = {}
    if on_round is not None:
        if not reports_rounds(method):
            rounds = ", ".join(name for name in LEARNERS if reports_rounds(name))
            raise InvalidParameter(f"on_round must be left out for method {method!r}: {rounds} have rounds to report")
        extra["on_round"] = on_round
    if not isinstance(private, bool):
        raise checks.refuse("private", private, "True or False")
    of_tables: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "bounds": bounds, "noise": noise, "names": names}
    of_tables.update(ledgers=ledgers, center=center, columns=columns, drop=drop or None)
    of_tables["schema"] = schema
    from privfcd.data.private import PrivateTable

    released = given_moments(sources)
    if released is not None:
        _check_parameters(method, kind, parameters)
        for name in _OF_TABLES:
            if of_tables[name] is not None:
                raise checks.refuse(name, of_tables[name], "left out for moments, which were released before")
        if not private or log1p:
            raise InvalidParameter("private and log1p must be left out for moments, which were released before")
        return fitted_to_moments(kind(**parameters), released, extra)
    if not isinstance(sources, Sequence) or isinstance(sources, str) or not len(sources):
        raise checks.refuse("sources", type(sources).__name__, "a list with one table for each party")
    _check_parameters(method, kind, parameters)
    ready = [isinstance(source, PrivateTable) for source in sources]
    if all(ready):
        of_them = (bounds, noise, names, ledgers, columns, schema)
        if any(given is not None for given in of_them) or not private or log1p or drop:
            raise InvalidParameter(
                "bounds, noise, names, ledgers, private, log1p, columns, drop and schema belong to the PrivateTables that "
                "were given"
            )
        model: Any = kind(**parameters, center=center, epsilon=epsilon, delta=delta)  # type: ignore[call-arg]
        return model.fit(list(sources), **extra)
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
        columns=columns,
        drop=drop,
        schema=schema,
    )
    if ledgers is not None:
        parameters.update(epsilon=epsilon, delta=delta)
    return kind(**parameters, center=center).fit(tables, **extra)  # type: ignore[call-arg]


def method_for(schema: Any, columns: Sequence[str] | None = None, drop: Sequence[str] = ()) -> str:
    """Return the method that is taken where none is named.

    Parameters
    ----------
    schema : Schema, mapping or path, or one for each table, or None
        Without one it is `"fed-sparse"`, for columns in one unit. With levels only it is `"fedacd"`; with numbers `"ges"`,
        which does not depend on the columns' units; else the first that takes the columns.
    columns, drop : sequence of str, optional
        As of `learn`.

    Raises
    ------
    InvalidParameter
        No learner takes these columns together.
    """
    if schema is None:
        return "fed-sparse"
    from privfcd.algorithms.declared import fits, learners_for, refuse_untaken

    declared = _first_schema(schema)
    declared = declared.only(columns, drop=drop) if columns or drop else declared
    if declared.discrete and not declared.has_gaps:
        return "fedacd"
    if fits(declared, ("numbers",)):
        return "ges"
    able = learners_for(declared)
    if not able:
        refuse_untaken(declared, ("numbers",), "ges")
    return able[0]


def _first_schema(schema: Any) -> Schema:
    from privfcd.data.schema import Schema

    several = isinstance(schema, Sequence) and not isinstance(schema, str) and len(schema)
    return Schema.of(schema[0] if several else schema)


def _schema_of(sources: Any) -> Schema | None:
    """Return the schema of the first of some tables; None where there is none."""
    first = sources[0] if isinstance(sources, Sequence) and not isinstance(sources, str) and len(sources) else None
    return getattr(first, "schema", None) if type(first).__name__ == "PrivateTable" else None


def add_levels(method: str, schema: Schema, parameters: dict[str, Any]) -> None:
    """Give a learner that has `levels` those of a schema in which all columns have some, where none are given."""
    if schema.discrete and "levels" not in parameters and "levels" in learner_class(method)().get_params():
        parameters["levels"] = schema.levels


def _check_parameters(method: str, kind: type[Estimator], parameters: Mapping[str, Any]) -> None:
    known = [name for name in kind().get_params() if name not in ("epsilon", "delta", "center")]
    for name in parameters:
        if name not in known:
            others = [other for other in LEARNERS if name in learner_class(other)().get_params()]
            hint = f" (of method {' or '.join(others)})" if others else ""
            raise checks.refuse("parameter", name + hint, f"one of {', '.join(known)} for method {method!r}")
