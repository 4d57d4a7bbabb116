"""The sensitivity search: two neighbouring tables on which a query's answer moves by more than it says.

A greedy ascent that starts from corners. Rows are taken from the box of declared bounds, with its corners, single
coordinates, zeros and random points, and from far outside it, because clipping has to hold for any rows. From the
best start the search changes one thing at a time (a coordinate of the changed record, the whole record, the rows
around it), keeps what does not lower the distance of the two answers, and starts again where it is stuck.

What it finds is a witness: the two tables can be evaluated by anyone. What it does not find is no proof.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from privfcd import checks
from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation
from privfcd.audits.neighbours import Array, Neighbours, Rows
from privfcd.audits.report import TIGHT_ENOUGH, Verdict, jsonable
from privfcd.errors import InvalidParameter

ROUNDING = 1e-9
"""A ratio of found to claimed up to 1 + this is put down to floating point."""

_STARTS = 40
_PATIENCE = 150


class Searchable(Protocol):
    """What the search needs of a query."""

    @property
    def name(self) -> str:
        """What is asked, in words."""

    @property
    def norm(self) -> Any:
        """`"l1"`, `"l2"` or `"linf"`."""

    def evaluate(self, rows: Array) -> Array:
        """Return the exact answer on rows of shape (n, d)."""

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """Return how far one record is said to move the answer."""


@dataclass(frozen=True)
class SensitivityReport:
    """What a sensitivity search found.

    Attributes
    ----------
    query, norm, relation : str
        What was searched, in which norm answers are apart, and what neighbours are.
    n, d : int
        Shape of the tables.
    claimed, found : float
        The declared sensitivity and the largest distance of two neighbours' answers; inf where an answer is not
        finite.
    witness : (rows, neighbour)
        The two tables.
    evaluations : int
        Pairs of tables tried.
    first_violation : int or None
        After how many the claim was refuted.
    seconds : float
    """

    query: str
    norm: str
    relation: str
    n: int
    d: int
    claimed: float
    found: float
    witness: tuple[Array, Array] = field(repr=False, compare=False)
    evaluations: int
    first_violation: int | None
    seconds: float = field(compare=False)

    @property
    def ratio(self) -> float:
        """found / claimed; 0 where both are 0."""
        if self.claimed > 0:
            return self.found / self.claimed
        return math.inf if self.found > 0 else 0.0

    @property
    def verdict(self) -> Verdict:
        """`"violated"`; `"consistent"` where the search came to at least half of the claim; else `"inconclusive"`."""
        if self.ratio > 1 + ROUNDING:
            return "violated"
        return "consistent" if self.ratio >= TIGHT_ENOUGH or self.claimed == 0 else "inconclusive"

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values."""
        answer = {name: jsonable(getattr(self, name)) for name in self.__dataclass_fields__ if name != "witness"}
        answer |= {"ratio": jsonable(self.ratio), "verdict": self.verdict}
        answer["witness"] = {"rows": self.witness[0].tolist(), "neighbour": self.witness[1].tolist()}
        return answer

    def __str__(self) -> str:
        if self.verdict == "violated":
            meaning = f"the claim is false, refuted after {self.first_violation} of {self.evaluations} pairs of tables"
        else:
            meaning = f"no pair of {self.evaluations} moves the answer by more; a search proves nothing beyond that"
        return "\n".join(
            [
                f"Sensitivity of {self.query}: {self.verdict.upper()}",
                f"  claimed     {self.claimed:.6g} in {self.norm} norm; {self.relation}; tables of {self.n} x {self.d}",
                f"  found       {self.found:.6g}, {self.ratio:.6g} of the claim",
                f"  meaning     {meaning}",
                f"  seconds     {self.seconds:.2f}",
            ]
        )


def search_sensitivity(
    query: Searchable,
    n: int,
    d: int,
    *,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    bound: float | None = None,
    relation: NeighboringRelation = REPLACE_ONE,
    evaluations: int = 1500,
    seed: int = 0,
    outside: bool = True,
    removal: str | ArrayLike = "mean",
) -> SensitivityReport:
    """Search for neighbouring tables whose answers are further apart than the query's declared sensitivity.

    Parameters
    ----------
    query : Query
        Anything with `evaluate`, `sensitivity`, `norm` and `name`.
    n, d : int
        Shape of the tables; n at least 2.
    low, high : float or array of shape (d,), optional
        The box of declared values. -1 and 1 by default.
    bound : float, optional
        The same for a box from -bound to bound.
    relation : dp_accounting.NeighboringRelation
        One record replaced, or one removed (with n public).
    evaluations : int
        Pairs of tables to try.
    seed : int
        At least 0.
    outside : bool
        Whether rows far outside the box (up to 10⁶ times as large) are tried too.
    removal : `"mean"`, `"plain"` or array of shape (d,)
        What an answer without one record is, with n public. `"mean"`: answers are means over the rows, so that the
        one on n - 1 rows is multiplied by (n - 1) / n. `"plain"`: the answer on n - 1 rows, as for sums. A row: that
        row, which contributes nothing, takes the record's place; for answers that are not linear in a mean.

    Returns
    -------
    SensitivityReport
        The largest distance that was found, the pair of tables, and whether it refutes what is declared.

    Raises
    ------
    InvalidParameter
        A parameter is out of range, or the query declares an infinite sensitivity: it claims nothing.
    """
    n = checks.count("n", n, least=2)
    d = checks.count("d", d)
    evaluations = checks.count("evaluations", evaluations)
    checks.count("seed", seed, least=0)
    if relation not in (REPLACE_ONE, ADD_OR_REMOVE_ONE):
        raise checks.refuse("relation", relation, "REPLACE_ONE or ADD_OR_REMOVE_ONE")
    box = _box(d, low, high, bound)
    null = _null_row(d, relation, removal)
    if hasattr(query, "check"):
        query.check(d)
    claimed = checks.non_negative("the declared sensitivity", query.sensitivity(n, relation))
    began = time.perf_counter()
    search = _Search(query, n, Rows(*box, outside, np.random.default_rng(seed)), relation, removal, null, claimed)
    search.run(evaluations)
    return SensitivityReport(
        query=str(query.name),
        norm=str(query.norm),
        relation="one record replaced" if relation is REPLACE_ONE else "one record added or removed",
        n=n,
        d=d,
        claimed=claimed,
        found=search.found,
        witness=search.best.tables(relation, null),
        evaluations=search.tried,
        first_violation=search.first_violation,
        seconds=time.perf_counter() - began,
    )


class _Search:
    def __init__(
        self,
        query: Searchable,
        n: int,
        source: Rows,
        relation: NeighboringRelation,
        removal: str | ArrayLike,
        null: Array | None,
        claimed: float,
    ) -> None:
        self._query, self._n, self._source = query, n, source
        self._relation, self._null, self._claimed = relation, null, claimed
        self._averaged = null is None and removal == "mean"
        self.tried, self.found = 0, -1.0
        self.first_violation: int | None = None
        self.best = self._start()

    def run(self, evaluations: int) -> None:
        self._left = evaluations
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while self._left:
                self._climb(*self._best_start())

    def _start(self) -> Neighbours:
        rows = self._source.background(self._n)
        index = int(self._source.rng.integers(self._n))
        rows[index] = self._source.one()
        other = -rows[index] if self._source.rng.random() < 0.3 else self._source.one()
        return Neighbours(rows, index, other)

    def _best_start(self) -> tuple[Neighbours, float]:
        state = self._start()
        value = self._distance(state)
        for _ in range(_STARTS - 1):
            if not self._left:
                break
            another = self._start()
            distance = self._distance(another)
            if distance > value:
                state, value = another, distance
        return state, value

    def _climb(self, state: Neighbours, value: float) -> None:
        stuck = 0
        while stuck < _PATIENCE:
            before = value
            for trial in self._moves(state):
                if not self._left:
                    return
                distance = self._distance(trial)
                stuck += 1
                if distance >= value:
                    state, value = trial, distance
                if value > before:
                    stuck = 0
                    break

    def _moves(self, state: Neighbours) -> Iterator[Neighbours]:
        """Each coordinate of both records at each value of its own, mixed with new records and new rows around them."""
        rng, source = self._source.rng, self._source
        columns = [("record", j) for j in range(source.d)] + [("other", j) for j in range(source.d)]
        for place in rng.permutation(len(columns)):
            part, column = columns[place]
            now = state.rows[state.index] if part == "record" else state.other
            for value in source.values(column, float(now[column])):
                trial = state.copy()
                (trial.rows[trial.index] if part == "record" else trial.other)[column] = value
                yield trial
            yield self._larger_move(state)

    def _larger_move(self, state: Neighbours) -> Neighbours:
        rng, source = self._source.rng, self._source
        trial = state.copy()
        match int(rng.integers(6)):
            case 0:
                trial.other = source.one()
            case 1:
                trial.rows[trial.index] = source.one()
            case 2:
                trial.other = -trial.rows[trial.index]
            case 3:
                trial.other = trial.other * np.where(rng.random(source.d) < 0.5, -1.0, 1.0)
            case 4:
                trial.rows[rng.integers(self._n)] = source.one()
            case _:
                record = trial.rows[trial.index].copy()
                trial.rows = source.background(self._n)
                trial.rows[trial.index] = record
        return trial

    def _distance(self, state: Neighbours) -> float:
        self._source.keep_inside(state)
        self.tried += 1
        self._left -= 1
        rows, neighbour = state.tables(self._relation, self._null)
        first = np.asarray(self._query.evaluate(rows), dtype=np.float64).ravel()
        second = np.asarray(self._query.evaluate(neighbour), dtype=np.float64).ravel()
        if self._averaged and len(neighbour) != len(rows):
            second = second * (len(neighbour) / len(rows))
        distance = _norm(first - second, str(self._query.norm))
        if distance > self.found:
            self.found, self.best = distance, state
            if self.first_violation is None and distance > self._claimed * (1 + ROUNDING):
                self.first_violation = self.tried
        return distance


def _norm(difference: Array, norm: str) -> float:
    if not np.isfinite(difference).all():
        return math.inf
    match norm:
        case "l1":
            return float(np.abs(difference).sum())
        case "l2":
            return float(np.linalg.norm(difference))
        case "linf":
            return float(np.abs(difference).max(initial=0.0))
    raise checks.refuse("norm of the query", norm, "l1, l2 or linf")


def _null_row(d: int, relation: NeighboringRelation, removal: str | ArrayLike) -> Array | None:
    if isinstance(removal, str):
        if removal not in ("mean", "plain"):
            raise checks.refuse("removal", removal, '"mean", "plain" or a row')
        return None
    row = np.asarray(removal, dtype=np.float64)
    if row.shape != (d,) or not np.isfinite(row).all():
        raise checks.refuse("removal", removal, f'"mean", "plain" or a row of {d} finite numbers')
    return row if relation is ADD_OR_REMOVE_ONE else None


def _box(d: int, low: ArrayLike | None, high: ArrayLike | None, bound: float | None) -> tuple[Array, Array]:
    if bound is not None:
        if low is not None or high is not None:
            raise InvalidParameter(
                f"give bound or low and high, not both, got bound {bound!r}, low {low!r}, high {high!r}"
            )
        size = checks.positive("bound", bound)
        low, high = -size, size
    ends = []
    for name, value, default in (("low", low, -1.0), ("high", high, 1.0)):
        array = np.asarray(default if value is None else value, dtype=np.float64)
        if array.ndim > 1 or array.shape not in ((), (1,), (d,)) or not np.isfinite(array).all():
            raise checks.refuse(name, value, f"a finite number or {d} of them")
        ends.append(np.broadcast_to(array, (d,)).copy())
    if not (ends[0] < ends[1]).all():
        raise InvalidParameter(f"low must be below high in every column, got {low!r} and {high!r}")
    return ends[0], ends[1]
