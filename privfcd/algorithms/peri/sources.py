"""Where a party's regrets come from: its moments, or noisy answers of its table that are paid for one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.scores import AnswersUsedUp, Family, GaussianBIC
from privfcd.data.private import PrivateTable
from privfcd.data.regression_losses import RegressionLoss
from privfcd.graphs.pdag import bits
from privfcd.ledger import Reservation
from privfcd.mechanisms import Laplace
from privfcd.moments import Moments

Array = NDArray[np.float64]


class RegretSource(Protocol):
    """Answers regrets of families against the families of a party's own graph."""

    @property
    def rows(self) -> float:
        """The number of rows that the penalty goes by."""

    def regrets(self, families: Sequence[Family], own: Sequence[int]) -> Array:
        """Return the BIC of (node, own[node]) less that of each family."""


class MomentRegrets:
    """Regrets from moments, exact or released; each family is scored once.

    Parameters
    ----------
    moments : Moments
        The party's.
    penalty : float
        Factor of the BIC's penalty.
    """

    def __init__(self, moments: Moments, penalty: float = 1.0) -> None:
        self._score = GaussianBIC(moments, penalty)
        self._known: dict[Family, float] = {}

    @property
    def rows(self) -> float:
        """See `RegretSource.rows`; the effective number, where the moments have noise."""
        return self._score.rows

    def regrets(self, families: Sequence[Family], own: Sequence[int]) -> Array:
        """See `RegretSource.regrets`."""
        bases = [(node, own[node]) for node, _ in families]
        missing = [family for family in dict.fromkeys([*families, *bases]) if family not in self._known]
        if missing:
            self._known.update(zip(missing, self._score.local(missing)[:, 0].tolist(), strict=True))
        return np.array([self._known[base] - self._known[family] for base, family in zip(bases, families, strict=True)])


class TableRegrets:
    """Regrets from a private table, each with Laplace noise of its own and paid for from a reservation.

    A regret that was answered before is answered alike and costs nothing; that of a party's own family is 0 and
    costs nothing. The party's graph must not be made from the rows outside of a charge: with the graph fixed, a
    regret is a `RegressionLoss`, whose sensitivity holds by clipping; a graph that one record can change would
    change the family that a mask leaves.

    Parameters
    ----------
    table : PrivateTable
        The party's.
    reservation : Reservation
        With a part named `label`.
    label : str
        Of that part.
    multiplier : float
        Scale of the noise in units of a regret's sensitivity; 0 on an open table.
    bounds : tuple of float
        For each column.
    radius, floor : float
        See `RegressionLoss`.
    penalty : float
        Factor of the BIC's penalty.
    """

    def __init__(
        self,
        table: PrivateTable,
        reservation: Reservation,
        label: str,
        multiplier: float,
        bounds: tuple[float, ...],
        radius: float,
        floor: float,
        penalty: float = 1.0,
    ) -> None:
        self._table = table
        self._reservation = reservation
        self._label = label
        self._multiplier = multiplier
        self._bounds = bounds
        self._radius = radius
        self._floor = floor
        self._penalty = penalty
        self._known: dict[tuple[Family, int], float] = {}

    @property
    def rows(self) -> float:
        """See `RegretSource.rows`."""
        return float(self._table.n_rows)

    def regrets(self, families: Sequence[Family], own: Sequence[int]) -> Array:
        """See `RegretSource.regrets`.

        Raises
        ------
        AnswersUsedUp
            More distinct regrets are needed than the plan has left; none of these was released. How many are needed follows
            from the party's CPDAG, which was learnt with noise that was paid for, and from earlier noisy answers: that there
            are too few is post-processing, and so is whatever is made of it.
        """
        asked = [((node, parents), own[node]) for node, parents in families]
        missing = [key for key in dict.fromkeys(asked) if key not in self._known and key[0][1] != key[1]]
        left = self._reservation.left(self._label)
        if len(missing) > left:
            raise AnswersUsedUp(
                f"regrets on {self._table.name!r} were refused: {len(missing)} new ones asked, {left} left of the plan"
            )
        for key in missing:
            self._known[key] = self._release(*key)
        return np.array([0.0 if family[1] == base else self._known[family, base] for family, base in asked])

    def _release(self, family: Family, base: int) -> float:
        node, parents = family
        query = RegressionLoss(node, tuple(bits(parents)), tuple(bits(base)), self._bounds, self._radius, self._floor)
        scale = self._multiplier * query.sensitivity(self._table.n_rows, self._table.relation) * (1 + 1e-14)
        answer = self._table.release(query, Laplace(scale), label=self._label, reservation=self._reservation)
        size = parents.bit_count() - base.bit_count()
        return float(answer[0]) + self._penalty * math.log(self._table.n_rows) / 2 * size
