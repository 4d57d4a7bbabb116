"""The BDeu score of discrete variables from counts, many families at once.

Heckerman, Geiger and Chickering (1995): with equivalent sample size a, r levels and q states of the parents,
sum over states of ln G(a/q) - ln G(a/q + N_j), and over cells of ln G(a/(qr) + N_jk) - ln G(a/(qr)), G the gamma function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from privfcd import checks
from privfcd.algorithms.scores import Family
from privfcd.data.contingency import ContingencyTables, check_levels
from privfcd.graphs.pdag import bits

Array = NDArray[np.float64]


class BDeu:
    """BDeu on counts that somebody answers.

    Parameters
    ----------
    levels : tuple of int
        Declared number of levels of each variable.
    counts : callable
        Answers a `ContingencyTables` query.
    sample_size : float
        Equivalent sample size.
    """

    def __init__(
        self,
        levels: tuple[int, ...],
        counts: Callable[[ContingencyTables], Array],
        sample_size: float = 10.0,
    ) -> None:
        check_levels(levels, len(levels))
        self._levels = levels
        self._counts = counts
        self._sample_size = checks.positive("sample_size", sample_size)

    @property
    def d(self) -> int:
        """See `LocalScore.d`."""
        return len(self._levels)

    def local(self, families: Sequence[Family]) -> Array:
        """See `LocalScore.local`; one column."""
        answer = np.empty((len(families), 1))
        sizes = np.array([parents.bit_count() for _, parents in families])
        for size in np.unique(sizes).tolist():
            places = np.flatnonzero(sizes == size)
            chosen = [families[place] for place in places.tolist()]
            nodes = np.array([node for node, _ in chosen])
            parents = np.array([list(bits(mask)) for _, mask in chosen], dtype=np.int64).reshape(len(chosen), size)
            # without parents a node is crossed with itself: the diagonal holds its counts
            first = parents[:, 0] if size else nodes
            query = ContingencyTables(self._levels, first, nodes, parents[:, 1:])
            for within, table in query.split(self._counts(query)):
                if size:
                    cells = table.reshape(len(within), -1, table.shape[-1])
                else:
                    cells = np.diagonal(table[:, 0], axis1=1, axis2=2)[:, None, :]
                answer[places[within], 0] = self._score(cells)
        return answer

    def total(self, sums: Array) -> Array:
        """See `LocalScore.total`."""
        return np.asarray(sums[..., 0])

    def _score(self, cells: Array) -> Array:
        """Return the scores for counts of shape (families, states, levels)."""
        _, states, levels = cells.shape
        prior = self._sample_size / states
        of_state = gammaln(prior) - gammaln(prior + cells.sum(axis=2))
        of_cell = gammaln(prior / levels + cells) - gammaln(prior / levels)
        return np.asarray(of_state.sum(axis=1) + of_cell.sum(axis=(1, 2)))
