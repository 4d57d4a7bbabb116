"""Whether a graph is more than noise: said by every learner whose moments are known, from this one place.

The null is that no two columns depend on each other. Then an entry S_ij of the covariance has mean 0 and variance
s_i² s_j² / n + Var N_ij, whatever the columns' laws: the first part is chance in the records, the second the privacy noise,
whose law is known. The largest |S_ij| in these units against the two-sided normal quantile at null_level / pairs is a test
of that null at `null_level` (Bonferroni). Where it does not reject, no edge is stated. It is one test of all pairs and no
choice of the search is in it, so that its level holds for every learner. Errors: the normal law is a limit (heavy tails and
few rows reach it late), and records that were clipped together can depend a little.

An edge stands clear where the covariance of its ends' residuals, given the other parents (and neighbours) of its effect in
the graph that was learnt, is beyond the same quantile. That the graph was chosen by the same moments is not in this second
test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privfcd.algorithms.base import NULL_LEVEL
from privfcd.algorithms.notebook import changed_parameters
from privfcd.data.encoding import CONSTANT, CONSTANT_VALUE
from privfcd.graphs.dag import project_to_dag, to_networkx
from privfcd.graphs.pdag import Pdag, pdag_to_networkx
from privfcd.moments import Moments

Array = NDArray[np.float64]

_PAIRS = 2_000

CAUTION = 2.0
"""A residual variance below this many standard deviations of its noise is not known: the edge is not clear."""


@dataclass(frozen=True)
class Judgement:
    """What can be said of a learnt graph against noise and chance.

    Attributes
    ----------
    text : str
        In a sentence or two.
    edges : tuple of (str, str)
        The stated edges that stand clear of noise and chance.
    stated : int
        How many edges are stated; an undirected one counts once.
    expected_false : float or None
        How many edges would stand clear on independent columns, at most, on average; None where nothing was tested.

    Examples
    --------
    >>> Judgement("No edge can be told from noise.", (), 0, 0.05).edges
    ()
    """

    text: str
    edges: tuple[tuple[str, str], ...]
    stated: int
    expected_false: float | None

    tested: ClassVar[tuple[str, ...]] = ("alpha", "penalty", "threshold", "l1", "quorum")
    """Parameters that decide how weak an edge may be: where a user sets one, it is obeyed."""

    def __str__(self) -> str:
        return self.text

    def as_dict(self) -> dict[str, Any]:
        """Return the judgement for JSON."""
        return {
            "text": self.text,
            "clear": [list(edge) for edge in self.edges],
            "stated": self.stated,
            "expected_false": self.expected_false,
        }


def critical_value(pairs: int, level: float = NULL_LEVEL) -> float:
    """Return the two-sided normal quantile for `pairs` tests at the family-wise level `level` (Bonferroni)."""
    return float(-ndtri(level / (2 * max(1, pairs))))


def null_statistics(moments: Moments) -> Array:
    """Return |S_ij| of each pair of variables in units of its standard deviation if all columns were independent.

    Shape (pairs,). Moments of discrete columns that were encoded by `Contrasts` hold means in the constant column: S_ij is
    then the moment minus the product of the means, and pairs of contrasts of one variable are left out.
    """
    matrix, d = moments.matrix, len(moments.columns)
    encoded = CONSTANT in moments.columns
    owners = np.array([name.rpartition(":")[0] if encoded else name for name in moments.columns], dtype=object)
    first, second = np.triu_indices(d, 1)
    apart = owners[first] != owners[second]
    if encoded:
        apart &= (owners[first] != "") & (owners[second] != "")
    first, second = first[apart], second[apart]
    if not encoded:
        sizes = np.maximum(np.diag(matrix), 0.0)
        noise = 0.0 if moments.noise_sd is None else moments.noise_sd[first, second] ** 2
        variances = sizes[first] * sizes[second] / moments.rows + noise
        values = matrix[first, second]
    else:
        at = moments.columns.index(CONSTANT)
        contrasts = np.eye(d)  # column j is e_j - m_j e_constant: u'Mv is the covariance
        contrasts[at] -= matrix[at] / CONSTANT_VALUE**2
        contrasts[at, at] = 1.0
        centred = contrasts.T @ matrix @ contrasts
        sizes = np.maximum(np.diag(centred), 0.0)
        values, variances = centred[first, second], sizes[first] * sizes[second] / moments.rows
        for start in range(0, len(first), _PAIRS):
            part = slice(start, start + _PAIRS)
            variances[part] += moments.noise_variances(contrasts[:, first[part]], contrasts[:, second[part]])
    scale = np.sqrt(variances)
    return np.asarray(np.divide(np.abs(values), scale, out=np.zeros(len(values)), where=scale > 0))


def judge(model: Any, moments: Moments | None) -> None:
    """Set `judgement_` of a fitted estimator; take its edges away where `moments` as a whole are no more than noise.

    Parameters
    ----------
    model : estimator
        Fitted; its graph, `notes_` and `null_level` are read.
    moments : Moments, optional
        All that the graph was learnt from, pooled. None where the coordinator has not seen relations between columns:
        nothing is tested then.
    """
    level, count = model.null_level, _count(model)
    if moments is None or not len(moments.columns) > 1:
        _store(model, f"{_edges(count)}. They were not tested against noise and chance.", (), None)
        return
    statistics = null_statistics(moments)
    own = NULL_LEVEL if level is None else level
    critical = critical_value(len(statistics), own)
    above = bool((statistics > critical).any())
    obeyed = _obeyed(model)
    if not above:
        if level is not None and not obeyed:
            _take_away(model)
            _store(model, "No edge can be told from noise.", (), own)
            return
        why = "null_level=None" if level is None else f"{obeyed} was obeyed"
        said = f"{_edges(count)} stated because {why}; no edge can be told from noise." if count else NOTHING
        _store(model, said, (), own)
        return
    clear = _clear(model, moments, critical)
    named = f" {obeyed} was obeyed." if obeyed else ""
    if not count:
        said = "No edge was found, although some columns depend on each other."
    elif len(clear) == count:
        said = f"{_edges(count)}; noise alone would give {own:.2g} at most."
    else:
        stand = "stands" if len(clear) == 1 else "stand"
        said = f"Only {len(clear)} of {_edges(count)} {stand} clear of noise and chance; do not rely on the others."
    _store(model, said + named, clear, own)


NOTHING = "No edge can be told from noise."


def _obeyed(model: Any) -> str:
    """Return the parameters that a user has set to other than their defaults, of those that decide what an edge needs."""
    changed: Mapping[str, Any] = changed_parameters(model)
    return ", ".join(f"{name}={changed[name]!r}" for name in Judgement.tested if name in changed)


def _count(model: Any) -> int:
    return len({frozenset(edge) for edge in model.causal_graph_.edges})


def _edges(count: int) -> str:
    return "1 edge" if count == 1 else f"{count} edges"


def _store(model: Any, text: str, clear: tuple[tuple[str, str], ...], expected: float | None) -> None:
    model.judgement_ = Judgement(text, clear, _count(model), expected)


def _clear(model: Any, moments: Moments, critical: float) -> tuple[tuple[str, str], ...]:
    """Return the edges whose partial correlation given the other parents (and neighbours) of an end is beyond the level."""
    graph, columns = model.causal_graph_, list(moments.columns)
    if not set(graph.nodes) <= set(columns):  # contrasts of discrete columns: the largest of a pair's statistics is judged
        return _clear_pairs(graph, moments, critical)
    matrix = moments.matrix if moments.exact else moments.repaired().matrix
    edges = [
        (cause, effect)
        for cause, effect, data in graph.edges(data=True)
        if not (data.get("undirected") and str(cause) > str(effect))
    ]
    one, other = np.zeros((len(columns), len(edges))), np.zeros((len(columns), len(edges)))
    for at, (cause, effect) in enumerate(edges):
        ends = [columns.index(cause), columns.index(effect)]
        given = [columns.index(node) for node in graph.predecessors(effect) if node != cause]
        slopes = np.linalg.pinv(matrix[np.ix_(given, given)], hermitian=True) @ matrix[np.ix_(given, ends)]
        one[ends[0], at] = other[ends[1], at] = 1.0  # contrasts of the two residuals
        one[given, at], other[given, at] = -slopes[:, 0], -slopes[:, 1]
    # at least squares slopes the covariance u'Mv of the residuals does not change with them in first order
    values, sizes = ((left * (matrix @ other)).sum(axis=0) for left in (one, other))
    first = (one * (matrix @ one)).sum(axis=0)
    variances = np.maximum(first, 0) * np.maximum(sizes, 0) / moments.rows + moments.noise_variances(one, other)
    known = np.ones(len(edges), dtype=np.bool_)
    for residual, size in ((one, first), (other, sizes)):
        known &= size > CAUTION * np.sqrt(moments.noise_variances(residual, residual))
    clear = known & (np.abs(values) > critical * np.sqrt(variances))
    return tuple((str(cause), str(effect)) for (cause, effect), yes in zip(edges, clear.tolist(), strict=True) if yes)


def _clear_pairs(graph: Any, moments: Moments, critical: float) -> tuple[tuple[str, str], ...]:
    owners = [name.rpartition(":")[0] for name in moments.columns]
    first, second = np.triu_indices(len(owners), 1)
    apart = [(i, j) for i, j in zip(first, second, strict=True) if owners[i] != owners[j] and owners[i] and owners[j]]
    pairs: set[frozenset[str]] = set()
    for (i, j), value in zip(apart, null_statistics(moments), strict=True):
        if value > critical:
            pairs.add(frozenset((owners[i], owners[j])))
    listed = {frozenset(edge): (str(edge[0]), str(edge[1])) for edge in graph.edges}
    return tuple(names for ends, names in listed.items() if ends in pairs)


def _take_away(model: Any) -> None:
    """Leave no edge in what a fitted estimator states; what its search found before stays in its other attributes."""
    columns = [str(name) for name in model.feature_names_in_]
    none = np.zeros_like(model.adjacency_matrix_)
    model.adjacency_matrix_ = none
    if getattr(model, "dropped_", None) is not None:
        model.dropped_ = project_to_dag(none, 0.0)
        model.causal_graph_ = to_networkx(none, columns)
        return
    model.cpdag_ = Pdag.from_matrix(none != 0)
    model.causal_graph_ = pdag_to_networkx(model.cpdag_, columns)
    kept = set(getattr(model, "_untested_notes", ()))
    model.untested_ = []
    model.notes_ = [note for note in model.notes_ if note not in kept]
