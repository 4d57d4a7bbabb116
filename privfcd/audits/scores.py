"""Scores that are learnt from pilot runs: which outputs speak for one table and which for the other.

A learnt score costs nothing in validity, since the runs that it is learnt from are not the ones that evaluate it.
Outputs are made into an array whose first axis is the runs: numbers, arrays of numbers and noisy matrices as they
are, and anything else (text, tuples, None) by its printed form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.errors import InvalidParameter

Array = NDArray[np.float64]
Outputs = NDArray[Any]
Score = Callable[[Outputs], Array]

_NUMERIC = "biuf"
_PROBE = 2000
_MOST_FEATURES = 64
_BINS = 48


def has_to_be_printed(values: Any) -> bool:
    """Return whether some of the outputs are no numbers, arrays of numbers or noisy matrices."""
    if isinstance(values, np.ndarray):
        return values.dtype.kind not in _NUMERIC
    return any(np.asarray(getattr(value, "matrix", value)).dtype.kind not in _NUMERIC for value in values)


def as_outputs(values: Any, printed: bool = False) -> Outputs:
    """Return outputs as an array of numbers, or of printed forms.

    Raises
    ------
    InvalidParameter
        The outputs are not numbers of one shape, and are not `printed`.
    """
    if printed:
        return np.array([repr(value) for value in values], dtype=np.str_)
    if not isinstance(values, np.ndarray):
        values = [getattr(value, "matrix", value) for value in values]
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in _NUMERIC:
        raise InvalidParameter(
            "mechanism must return outputs of one kind, got arrays of different shapes, or something else than a "
            "number after many numbers: return text, or tuples, which are compared by their printed form"
        )
    return array


def learn_scores(outputs0: Outputs, outputs1: Outputs) -> list[Score]:
    """Return the scores that pilot outputs from world 0 and world 1 suggest.

    Outputs that repeat get the logarithm of the ratio of their frequencies in the two worlds. Numbers get the linear
    discriminant of the worlds (themselves, if there is one number in an output) and the ratio of its histograms.
    """
    numeric = outputs0.dtype.kind != "U"
    scores: list[Score] = []
    if not numeric or _repeats(outputs0):
        scores.append(_frequency_score(outputs0, outputs1))
    if numeric:
        linear = _discriminant(outputs0, outputs1)
        scores += [linear, _histogram_score(linear, outputs0, outputs1)]
    return scores


def projection(direction: Array) -> Score:
    """Return the score <output, direction>, over all axes but the first."""
    flat = np.asarray(direction, dtype=np.float64).ravel()
    return lambda outputs: _flat(outputs) @ flat


def _repeats(outputs: Outputs) -> bool:
    """Return whether values come back often enough for their frequencies to be learnt."""
    labels = _labels(outputs[:_PROBE])
    return len(np.unique(labels)) <= len(labels) // 2


def _labels(outputs: Outputs) -> Outputs:
    """Return one sortable label for each output: the bytes of one that has several numbers."""
    if outputs.ndim == 1:
        return outputs
    rows = np.ascontiguousarray(_flat(outputs) + 0.0)
    return rows.view(f"V{rows.shape[1] * rows.itemsize}").ravel()


def _frequency_score(outputs0: Outputs, outputs1: Outputs) -> Score:
    known, inverse = np.unique(np.concatenate([_labels(outputs0), _labels(outputs1)]), return_inverse=True)
    counts0, counts1 = (np.bincount(world, minlength=len(known)) + 0.5 for world in np.split(inverse, [len(outputs0)]))
    ratio = np.log(counts1 / len(outputs1)) - np.log(counts0 / len(outputs0))

    def score(outputs: Outputs) -> Array:
        labels = _labels(outputs)
        place = np.minimum(np.searchsorted(known, labels), len(known) - 1)
        return np.where(known[place] == labels, ratio[place], 0.0)

    return score


def _discriminant(outputs0: Outputs, outputs1: Outputs) -> Score:
    """Return Fisher's linear discriminant; by the variances alone where outputs have many entries."""
    rows0, rows1 = _flat(outputs0), _flat(outputs1)
    if rows0.shape[1] == 1:
        return lambda outputs: _flat(outputs)[:, 0]
    gap = rows1.mean(axis=0) - rows0.mean(axis=0)
    centred = np.concatenate([rows0 - rows0.mean(axis=0), rows1 - rows1.mean(axis=0)])
    variances = np.mean(centred**2, axis=0)
    floor = 1e-9 * float(variances.max()) + 1e-300
    if rows0.shape[1] > _MOST_FEATURES:
        return projection(gap / (variances + floor))
    covariance = centred.T @ centred / len(centred)
    return projection(np.linalg.solve(covariance + floor * np.eye(len(gap)), gap))


def _histogram_score(score: Score, outputs0: Outputs, outputs1: Outputs) -> Score:
    """Return the ratio of the two worlds' histograms of `score`, over bins of equal pooled frequency."""
    scores0, scores1 = score(outputs0), score(outputs1)
    edges = np.unique(np.quantile(np.concatenate([scores0, scores1]), np.linspace(0, 1, _BINS + 1)[1:-1]))

    def histogram(scores: Array) -> Array:
        bins = np.searchsorted(edges, scores, side="right")
        return (np.bincount(bins, minlength=len(edges) + 1) + 0.5) / len(scores)

    ratio = np.log(histogram(scores1)) - np.log(histogram(scores0))
    return lambda outputs: ratio[np.searchsorted(edges, score(outputs), side="right")]


def _flat(outputs: Outputs) -> Array:
    return np.asarray(outputs, dtype=np.float64).reshape(len(outputs), -1)
