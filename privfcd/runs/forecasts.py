"""What a run can find, before anything is paid: from public numbers alone.

The default release of moments is rehearsed on made-up rows: independent columns of unit variance, as many as the parties
declare, with the budget that they would spend. What is read off is the law of its noise: the standard deviation s of the
noise in a pooled correlation. No table is read and nothing is charged.

A correlation r, alone or given the other causes of its effect, is then seen with variance (1 - r²)² / n + s², and its null
law has variance 1 / n + s². It stands clear of noise and chance where it is beyond the critical value that the judgement
after the run uses (`privfcd.algorithms.judgement`): so with probability 1/2 at r = critical sqrt(1 / n + s²). Noise falls as
1 / (n mu), from which follows what more rows or a larger epsilon would do.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from privfcd import checks
from privfcd.accounting import Budget, gaussian_mu, gdp_to_epsilon
from privfcd.algorithms.base import NULL_LEVEL
from privfcd.algorithms.judgement import critical_value
from privfcd.algorithms.release.release import release_moments
from privfcd.data.private import PrivateTable
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import BudgetExceeded
from privfcd.mechanisms import SimulatedNoise
from privfcd.moments.dependence import in_use

Array = NDArray[np.float64]

HOPELESS = 0.9
"""Where only correlations above this are found as often as not, nothing can be found."""
MOST_CELLS = 2 * 10**5
"""Of the rehearsal's rows; beyond, fewer rows are made, and a larger budget is rehearsed."""
GRAPHS = 10


@dataclass(frozen=True)
class Forecast:
    """What a run can find.

    Attributes
    ----------
    half, most : float
        The partial correlation that stands clear of noise with probability 1/2, and with probability 0.9; 1 where none does.
    noise_sd : float
        Standard deviation of the noise in a pooled correlation; inf where nothing would be known of the columns.
    found : dict of int to (float, float)
        By the edges a column that a typical graph has, 1 and 2: how many edges are expected to be found, and of how many.
    false_edges : float
        At most so many edges are expected on independent columns.
    more : dict of str to float
        `half` with more epsilon or more rows: "epsilon x 3", "rows x 2" and so on.
    text : str
        All of it in words.
    """

    half: float
    most: float
    noise_sd: float
    found: dict[int, tuple[float, float]]
    false_edges: float
    more: dict[str, float]
    text: str

    @property
    def possible(self) -> bool:
        """Whether any edge can be found."""
        return self.half <= HOPELESS

    def as_dict(self) -> dict[str, Any]:
        """Return the forecast for JSON."""
        found = {str(edges): list(pair) for edges, pair in self.found.items()}
        noise = self.noise_sd if math.isfinite(self.noise_sd) else "inf"
        return {**vars(self), "noise_sd": noise, "found": found, "possible": self.possible}

    def __str__(self) -> str:
        return self.text


def forecast(
    rows: Sequence[int],
    columns: int,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    sum: str = "per-party",
    colluders: int = 1,
    dropouts: int = 0,
    null_level: float = NULL_LEVEL,
) -> Forecast:
    """Forecast which partial correlations a run can find, from public numbers alone.

    It is of learners that begin with the default release of moments (`GES`, `BOSS`, `PC`, `EqualVarianceSearch`,
    `NOTEARS`), on continuous columns, under replaced records.

    Parameters
    ----------
    rows : sequence of int
        The number of rows of each party.
    columns : int
        How many columns; at least 2.
    epsilon, delta : float, optional
        What each party pays. Without an epsilon tables are open. delta is 1 / n² by default, n the party's own rows.
    sum, colluders, dropouts : optional
        As of `release_moments`.
    null_level : float
        The family-wise level at which edges are told from noise.

    Returns
    -------
    Forecast

    Raises
    ------
    InvalidParameter
        A number is outside what is accepted.

    Examples
    --------
    >>> import privfcd as pf
    >>> pf.forecast(rows=[144, 144, 144], columns=9, epsilon=1).possible
    False
    """
    sizes = _checked(rows)
    d = checks.count("columns", columns, least=2, most=2000)
    level = checks.fraction("null_level", null_level)
    critical = critical_value(d * (d - 1) // 2, level)
    how = {"sum": sum, "colluders": colluders, "dropouts": dropouts}
    noise = _noise(sizes, d, epsilon, delta, how)
    n = math.fsum(sizes)

    def half(times_rows: float, noise: float) -> float:
        return min(1.0, critical * math.hypot(1 / math.sqrt(n * times_rows), noise))

    def most(share: float) -> float:
        def missing(r: float) -> float:
            return share - float(_power(np.array([r]), n, noise, critical)[0])

        return 1.0 if missing(1 - 1e-9) > 0 else float(brentq(missing, 0.0, 1 - 1e-9))

    def other(epsilon_factor: float, rows_factor: int) -> float:
        if epsilon is None:
            return 0.0
        if math.isfinite(noise):  # noise falls as 1 / (n mu)
            least = 1 / max(sizes) ** 2 if delta is None else delta
            return noise * gaussian_mu(epsilon, least) / gaussian_mu(epsilon * epsilon_factor, least) / rows_factor
        return _noise([size * rows_factor for size in sizes], d, epsilon * epsilon_factor, delta, how)

    more = {} if epsilon is None else {f"epsilon x {factor}": half(1, other(factor, 1)) for factor in (3, 10)}
    more |= {f"rows x {factor}": half(factor, other(1.0, factor)) for factor in (2, 10)}
    found = {edges: _typical(d, edges, n, noise, critical) for edges in (1, 2)}
    made = Forecast(half(1, noise), most(0.9), noise, found, level, more, "")
    return Forecast(made.half, made.most, noise, found, level, more, _text(made, epsilon))


def _checked(rows: Any) -> list[int]:
    if isinstance(rows, str) or not np.iterable(rows) or not len(list(rows)):
        raise checks.refuse("rows", rows, "the number of rows of each party, as [144, 144]")
    return [checks.count("rows", each, least=2) for each in rows]


def _noise(sizes: Sequence[int], d: int, epsilon: float | None, delta: float | None, how: dict[str, Any]) -> float:
    """Return the standard deviation of the noise in a pooled correlation, off the diagonal; inf where nothing is known."""
    if epsilon is None:
        return 0.0
    share = min(1.0, MOST_CELLS / (d * math.fsum(sizes)))  # fewer rows with as much less noise: n mu is what counts
    random, source = np.random.default_rng(0), SimulatedNoise(0)
    names = tuple(f"x{j}" for j in range(d))
    tables = []
    for index, size in enumerate(sizes):
        made = max(2, round(size * share))
        least = 1 / size**2 if delta is None else checks.delta("delta", delta, zero=False)
        mu = gaussian_mu(epsilon, least) * size / made
        paid = Budget(epsilon=epsilon if made == size else gdp_to_epsilon(mu, least), delta=least)
        rows = random.standard_normal((made, d))
        tables.append(PrivateTable(rows, names, name=f"p{index}", budget=paid, noise=source))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            moments = release_moments(tables, **how).moments
        except BudgetExceeded:  # too little to find the columns' sizes with: a run is refused
            return math.inf
    known = in_use(moments)
    if moments.noise_sd is None:
        return 0.0
    if known.sum() < 2:
        return math.inf
    values = np.sqrt(np.maximum(np.diag(moments.matrix), 1e-3))  # about 1, for columns of unit variance
    upper = np.triu_indices(d, 1)
    used = (known[:, None] & known[None, :])[upper]
    sds = (moments.noise_sd / np.outer(values, values))[upper][used]
    return float(np.median(sds))


def _power(correlations: Array, n: float, noise: float, critical: float) -> Array:
    """Return with which probability correlations stand clear."""
    if not math.isfinite(noise):
        return np.zeros(len(correlations))
    line = critical * math.hypot(1 / math.sqrt(n), noise)
    spread = np.sqrt((1 - correlations**2) ** 2 / n + noise**2)
    return np.asarray(ndtr((np.abs(correlations) - line) / spread))


def _typical(d: int, edges: int, n: float, noise: float, critical: float) -> tuple[float, float]:
    """Return how many edges of a typical graph are expected to be found, and how many it has, on average."""
    found = total = 0.0
    for seed in range(GRAPHS):
        most = min(edges * d, d * (d - 1) // 2)
        weights = linear_gaussian(d, parties=1, rows=1, seed=seed, edges=most).weights
        inverse = np.linalg.inv(np.eye(d) - weights)
        covariance = inverse.T @ inverse
        partial = [_partial(covariance, i, j, np.flatnonzero(weights[:, j])) for i, j in np.argwhere(weights != 0)]
        found += float(_power(np.array(partial), n, noise, critical).sum())
        total += len(partial)
    return found / GRAPHS, total / GRAPHS


def _partial(covariance: Array, cause: int, effect: int, parents: NDArray[np.int64]) -> float:
    """Return the correlation of cause and effect given the effect's other parents."""
    block = np.linalg.inv(covariance[np.ix_(order := [cause, effect, *(k for k in parents if k != cause)], order)])
    return float(-block[0, 1] / math.sqrt(block[0, 0] * block[1, 1]))


def _text(made: Forecast, epsilon: float | None) -> str:
    lines = []
    if not made.possible:
        lines.append("NO EDGE CAN BE FOUND with these rows and this budget: the noise hides every relation.")
    else:
        lines.append(
            f"An edge is found with probability 1/2 at a partial correlation of {made.half:.2g}, and with probability 0.9 "
            f"at {made.most:.2g}. Weaker ones will mostly be missed."
        )
    graphs = "; ".join(
        f"{found:.1f} of {total:.0f} edges with {edges} a column" for edges, (found, total) in made.found.items()
    )
    lines.append(f"Expected on typical graphs: {graphs}. On independent columns: at most {made.false_edges:g} false edges.")
    better = "; ".join(
        f"{name}: {'none' if value > HOPELESS else f'{value:.2g}'}" for name, value in made.more.items()
    )
    lines.append(f"The partial correlation that is found with probability 1/2, with {better}.")
    if epsilon is None:
        lines.append("Tables without a budget: no privacy (epsilon = inf).")
    return "\n".join(lines)
