"""Queries and algorithms that touch rows where they should not, or clip what they should not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.faults.case import Case, Finding, by_replay, by_search
from privfcd.accounting import REPLACE_ONE, Budget, NeighboringRelation, gaussian_event
from privfcd.algorithms.fed_sparse.greedy import GreedyDescent
from privfcd.audits import Claim
from privfcd.audits.independence import check_independence
from privfcd.audits.order import check_order
from privfcd.audits.subjects import Descent
from privfcd.data.private import PrivateTable
from privfcd.data.queries import ClippedGradient, ClippedMean, Kind, Norm, SecondMoments, shortened
from privfcd.errors import BudgetExceeded
from privfcd.ledger import PlanPart
from privfcd.mechanisms import Gaussian, SimulatedNoise

Array = NDArray[np.float64]

ROWS, BOUND = 20, 5.0
CANARY = ((BOUND, BOUND), (1.0, -1.0))


WEIGHTS = np.array([[0.0, 0.394, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
"""B of the clipped gradients, for up to 3 columns."""


def small_table() -> PrivateTable:
    """Return a private table whose public side the audits use."""
    return PrivateTable(np.zeros((ROWS, 2)), bounds=BOUND, budget=Budget(rho=0.5), noise=SimulatedNoise(0))


def _residuals(rows: Array) -> Array:
    d = rows.shape[1]
    return np.asarray(rows - rows @ WEIGHTS[:d, :d])


@dataclass(frozen=True)
class MeanClipped:
    """The gradient's mean clipped to C and claimed to move by 2 C / n: it moves by 2 C."""

    clip: float
    name: ClassVar[str] = "gradient, its mean clipped"
    norm: ClassVar[Norm] = "linf"
    kind: ClassVar[Kind] = "numbers"

    def check(self, d: int) -> None:
        """See `Query.check`: it fits all tables."""

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """Return the gradient at B."""
        return np.clip(-(rows.T @ _residuals(rows)) / (n or len(rows)), -self.clip, self.clip)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """Return what is claimed."""
        return 2 * self.clip / n * (1 + 1e-12)


@dataclass(frozen=True)
class RecordClipped(MeanClipped):
    """Each record's part clipped, and then the mean."""

    name: ClassVar[str] = "gradient, each record clipped"

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """Return the gradient at B."""
        terms = np.clip(-rows[:, :, None] * _residuals(rows)[:, None, :], -self.clip, self.clip)
        return np.asarray(terms.sum(axis=0) / (n or len(rows)))


@dataclass(frozen=True)
class Unclipped(SecondMoments):
    """Second moments of rows that are clipped, and then not used."""

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """Return the second moments of the wrong rows."""
        shortened(rows, self.row_norm)
        return np.asarray(rows.T @ rows / (n or len(rows)))


@dataclass(frozen=True)
class Release:
    """One Gaussian release of entry (0, 1) of a gradient; the twins of faults inherit from it."""

    z: float = 2.0

    def __call__(self, tables: list[PrivateTable]) -> Any:
        """Return what is released."""
        table = tables[0]
        clip = self.clip(table)
        query = ClippedGradient(((0.0, 0.0), (0.0, 0.0)), (clip, clip), self.offset(table))
        gradient = table.release(query, Gaussian(self.z * query.sensitivity(table.n_rows)))
        return gradient / self.smoothness(table)

    def clip(self, table: PrivateTable) -> float:
        """Return C: declared."""
        return 1.0

    def offset(self, table: PrivateTable) -> tuple[float, ...] | None:
        """Return what is taken off the rows: nothing."""
        return None

    def smoothness(self, table: PrivateTable) -> Array:
        """Return M: declared."""
        return np.full((2, 1), BOUND**2)


@dataclass(frozen=True)
class RawSmoothness(Release):
    """M from the rows."""

    def smoothness(self, table: PrivateTable) -> Array:
        """Return the mean squares of the rows, and 1 for the penalty."""
        return np.asarray((table._rows**2).mean(axis=0))[:, None] + 1


@dataclass(frozen=True)
class RawCentre(Release):
    """The mean that is taken off, from the rows; the offset is told to all."""

    def __call__(self, tables: list[PrivateTable]) -> Any:
        """Return what is released, and the offset that it is relative to."""
        return super().__call__(tables), self.offset(tables[0])

    def offset(self, table: PrivateTable) -> tuple[float, ...]:
        """Return the rows' mean."""
        return tuple(table._rows.mean(axis=0).tolist())


@dataclass(frozen=True)
class PaidCentre(Release):
    """The mean that is taken off, released at a price."""

    def __call__(self, tables: list[PrivateTable]) -> Any:
        """Return what is released, and the offset that it is relative to."""
        table = tables[0]
        query = ClippedMean((BOUND, BOUND))
        mean = query.decode(table.release(query, Gaussian(self.z * query.sensitivity(table.n_rows))))
        offset = tuple(mean.tolist())
        gradient = ClippedGradient(((0.0, 0.0), (0.0, 0.0)), (1.0, 1.0), offset)
        return table.release(gradient, Gaussian(self.z * gradient.sensitivity(table.n_rows))), offset


@dataclass(frozen=True)
class RawMaximum(Release):
    """The clip from the largest entry of the rows: noise of a scale that the canary chooses."""

    def clip(self, table: PrivateTable) -> float:
        """Return the largest square in the rows."""
        return float((table._rows**2).max())


@dataclass(frozen=True)
class MeanClippedRelease(Release):
    """The mean-clipped gradient with noise for 2 C / n."""

    query: Any = MeanClipped(0.3)

    def __call__(self, tables: list[PrivateTable]) -> Any:
        """Return the released gradient: 4 numbers, each moved by what is claimed."""
        table = tables[0]
        scale = self.z * 2 * self.query.sensitivity(table.n_rows)  # 4 entries: Euclidean norm is twice the largest
        table.ledger.charge(gaussian_event(1.0, self.z), "gradient")
        return table.noise.stream(1).gaussian(self.query.evaluate(table._rows), scale)


@dataclass(frozen=True)
class ReadFirst(Release):
    """Rows are read, and the charge comes after."""

    def __call__(self, tables: list[PrivateTable]) -> Any:
        """Return the released mean."""
        table = tables[0]
        mean = np.clip(table._rows, -BOUND, BOUND).mean(axis=0) / BOUND
        sensitivity = 2 * math.sqrt(2) / table.n_rows
        table.ledger.charge(gaussian_event(sensitivity, self.z * sensitivity), "mean")
        return table.noise.stream(1).gaussian(mean, self.z * sensitivity)


@dataclass(frozen=True)
class AnsweredAnyway(Release):
    """A refused charge is noted, and the answer given all the same."""

    def __call__(self, tables: list[PrivateTable]) -> Any:
        """Return the released gradient."""
        table = tables[0]
        query = ClippedMean((BOUND, BOUND))
        sensitivity = query.sensitivity(table.n_rows)
        try:
            table.ledger.charge(gaussian_event(sensitivity, self.z * sensitivity), "mean")
        except BudgetExceeded:
            self.note()
        return table.noise.stream(1).gaussian(query.evaluate(table._read()), self.z * sensitivity)

    def note(self) -> str:
        """Return what is written into a log that nobody reads."""
        return "over budget"


def by_order(subject: Any, runs: int, seed: int, alpha: float) -> Finding:
    """Judge the order of charges and reads; `runs`, `seed` and `alpha` make no difference."""
    report = check_order(subject, small_table())
    return Finding(not report.ok, str(report).split(": ", 1)[1])


@dataclass(frozen=True)
class TwoParties:
    """Residuals of two parties, or of two releases of one: sources with these seeds, streams with these keys."""

    seeds: tuple[int, int]
    keys: tuple[int, int]

    def residuals(self, draws: int, seed: int) -> list[Array]:
        """Return the residuals of both."""
        sources = [SimulatedNoise(seed * 100 + own) for own in self.seeds]
        values = (np.linspace(0, 1, draws), np.linspace(3, 2, draws))
        return [
            source.stream(key).gaussian(value, 2.0) - value
            for source, key, value in zip(sources, self.keys, values, strict=True)
        ]


def by_correlation(subject: Any, runs: int, seed: int, alpha: float) -> Finding:
    """Judge whether two sources share their noise, at a level of 1e-6 whatever alpha is."""
    first, second = subject.residuals(runs, seed)
    report = check_independence(first, second, level=min(alpha, 1e-6))
    return Finding(not report.independent, f"correlation {report.correlation:.3g}")


def _descent(updates: int, z: float) -> Descent:
    return Descent(GreedyDescent((1e4, 1e4), 1.0, 0.1, 1.0, z), updates, ROWS)


def _open_table() -> PrivateTable:
    return PrivateTable(np.zeros((ROWS, 2)), bounds=50.0)


FOUR_ROUNDS = _descent(16, 3.0)
ONE_ROUND = Claim.from_event(_descent(4, 3.0).event(), 1e-6)
ALL_UPDATES = _descent(8, 2.0)
UPDATES_ONLY = Claim(mu=math.sqrt(8) / 2.0, delta=1e-6)


@dataclass(frozen=True)
class Unselected:
    """The same numbers of updates, without selections: the coordinate is fixed."""

    updates: int
    z: float

    def __call__(self, tables: list[PrivateTable]) -> Any:
        """Return the released gradient entries."""
        table = tables[0]
        query = ClippedGradient(((0.0, 0.0), (0.0, 0.0)), (1.0, 1.0))
        entry = float(query.entry_sensitivity(table.n_rows)[0])
        part = PlanPart("entry", gaussian_event(1.0, self.z), self.updates)
        reservation = table.ledger.reserve([part], "updates")
        value = query.evaluate(table._read())[0, 1]
        stream = table.noise.stream(0)
        released = []
        for _ in range(self.updates):
            reservation.draw("entry")
            released.append(float(stream.gaussian(value, self.z * entry)))
        return released


DRAWS = "draws"

CASES = [
    Case(
        "mean clipped, 2C/n claimed (search)",
        MeanClipped(0.3),
        RecordClipped(0.3),
        by_search(50, 3),
        200,
        1_500,
        "pairs",
    ),
    Case(
        "mean clipped, 2C/n claimed (runs)",
        MeanClippedRelease(),
        MeanClippedRelease(query=RecordClipped(0.3)),
        by_replay(small_table),
        100,
        100,
    ),
    Case(
        "rows clipped, unclipped ones used", Unclipped(1.0), SecondMoments(1.0), by_search(20, 3), 200, 1_500, "pairs"
    ),
    Case("smoothness M from raw rows", RawSmoothness(), Release(), by_replay(small_table, canary=CANARY), 60),
    Case("centring mean from raw rows", RawCentre(), PaidCentre(), by_replay(small_table), 60),
    Case("clipping maximum from raw rows", RawMaximum(), Release(), by_replay(small_table, canary=CANARY), 60),
    Case("PGCD, 4 rounds charged as 1", FOUR_ROUNDS, _descent(4, 3.0), by_replay(_open_table, ONE_ROUND), 300, 300),
    Case(
        "PGCD, selections not charged",
        ALL_UPDATES,
        Unselected(8, 2.0),
        by_replay(_open_table, UPDATES_ONLY),
        1_000,
        1_000,
    ),
    Case(
        "one seed at every party",
        TwoParties((1, 1), (0, 0)),
        TwoParties((1, 2), (0, 0)),
        by_correlation,
        10,
        10,
        "draws",
    ),
    Case(
        "one seed for every release",
        TwoParties((1, 1), (5, 5)),
        TwoParties((1, 1), (5, 6)),
        by_correlation,
        10,
        10,
        "draws",
    ),
    Case("charge after the rows were read", ReadFirst(), Release(), by_order, 1, unit="probe"),
    Case("refused, and answered all the same", AnsweredAnyway(), Release(), by_order, 1, unit="probe"),
]
