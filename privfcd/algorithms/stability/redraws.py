"""Edge stability of a model that was fitted to noisy moments: the fit again, on moments with fresh noise.

Let S be the exact second moments, of which S + N was released, N with the stated Gaussian law of variance V. A rerun fits
the same learner to S + N + N*, N* a fresh draw of that law, and tells it the truth: that the noise has the variance 2 V.

What the frequency means. N + N* has, over both draws, exactly the law of noise of variance 2 V. So the expectation of an
edge's frequency over the release is the probability that this learner finds the edge under noise of twice the variance,
whatever the learner and whatever S: an unbiased estimate of it, given that the stated law is the noise's own. That of one
release of clipped moments is. That of several rounds is an approximation: it leaves correlations between entries out, and
the maps of the rows, and with them V, were made from answers whose noise is a part of N. Gaussian noise of twice the
variance is what half of the budget in zCDP terms, rho / 2, would have bought with the same maps of the rows.
For an edge that the learner finds without noise this is mostly less than its chance under the noise that was paid for; of an
edge that noise made it is no bound, and how often such edges come back is measured only. (S + N + N* and S + N - N* are
independent given S: the data are split by their noise, as in Rasines and Young 2023 and Leiner, Duan, Wasserman and Ramdas
2023.)

What it is not. As N* is symmetric, S + N + N* has the law of S + N - N*, the posterior of S under a flat prior: the same
draws under another name. Then the learner would have to be told that there is no noise, and takes what noise made for
structure. Told of V alone it is told less than the truth, and the frequency has no such meaning. These are compared, on
instances that no other figure comes from, by `python -m benchmarks stability --constructions`.

Weights. Given the release, weights vary over reruns as N* alone makes them, which is to first order how the released
weight varies around the one without noise. Their 5 % and 95 % quantiles are so to first order a 90 % interval for the
weight that the learner would find without noise: not for the population's, whose sampling error comes on top.

Noise alone. The learner is fitted to diag(S + N) + N°: columns of the released variances without any dependence, under
noise N° that has about the size of N and is told (see `privfcd.algorithms.stability.no_dependence`).
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.base import Estimator
from privfcd.algorithms.stability.no_dependence import without_dependence
from privfcd.algorithms.stability.result import EdgeStability
from privfcd.algorithms.stability.streams import stream
from privfcd.algorithms.stability.tally import Tally
from privfcd.moments import Moments

Array = NDArray[np.float64]

RELEASE_OPTIONS = ("release", "sum", "center", "row_norm", "epsilon", "delta", "value_bound")
"""Parameters of a release, which fits to moments do not take: the reruns have them at their defaults."""

FRESH, ALONE = 0, 1
"""Kinds of a draw's streams; `privfcd.algorithms.stability.simulated_runs` has the next."""


def from_moments(
    model: Estimator,
    parts: Sequence[Moments],
    columns: tuple[str, ...],
    draws: int,
    seed: int,
    on_draw: Callable[[int, int], None] | None,
    seconds: float,
) -> EdgeStability:
    """Return the stability of a model that was fitted to `parts`, noisy all of them.

    Parameters
    ----------
    model : Estimator
        Fitted; it is left as it is.
    parts : sequence of Moments
        `released_moments_`.
    columns : tuple of str
        The graph's, to which the reruns' are aligned.
    draws, seed, on_draw, seconds
        See `edge_stability`.
    """
    began = time.perf_counter()
    d = len(columns)
    runs, alone = Tally(d), Tally(d)
    levels = getattr(model, "levels", None)
    independent = [without_dependence(part, columns if levels is not None else None) for part in parts]
    for draw in range(draws):
        again = [part.redrawn(stream(seed, FRESH, draw, p)) for p, part in enumerate(parts)]
        runs.add(_graph(model, again, columns))
        nothing = [part.with_noise(stream(seed, ALONE, draw, p)) for p, part in enumerate(independent)]
        alone.add(_graph(model, nothing, columns))
        if on_draw is not None:
            on_draw(draw + 1, draws)
        if time.perf_counter() - began > seconds:
            break
    weighted = has_weights(model)
    low, high = runs.quantiles() if weighted else (np.full((d, d), np.nan),) * 2
    return EdgeStability(
        columns=columns,
        frequency=runs.frequency,
        adjacency=runs.adjacency,
        weight_low=low,
        weight_high=high,
        noise_alone=alone.frequency,
        noise_alone_edges=alone.edges,
        draws=runs.runs,
        method=_method(model, runs.runs),
        noise_alone_adjacency=alone.adjacency,
        noise_alone_weight=alone.largest() if weighted else None,
    )


def has_weights(model: Any) -> bool:
    """Return whether the entries of `adjacency_matrix_` are weights: not of a class of graphs, not counts of votes."""
    return model.adjacency_matrix_.dtype == np.float64 and not hasattr(model, "votes_")


def _graph(model: Estimator, parts: Sequence[Moments], columns: tuple[str, ...]) -> NDArray[Any]:
    """Return the adjacency matrix of a fresh fit with the model's parameters, in the order of `columns`."""
    again: Any = fresh(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the model's own assumptions: it was warned of them
        again.fit(parts)
    names = again.feature_names_in_.tolist()
    order = [names.index(column) for column in columns]
    return np.asarray(again.adjacency_matrix_[np.ix_(order, order)])


def fresh(model: Estimator) -> Estimator:
    """Return an estimator with the parameters of `model`, those of a release at their defaults, stating what it finds."""
    defaults = inspect.signature(type(model).__init__).parameters
    given = {
        name: defaults[name].default if name in RELEASE_OPTIONS else value
        for name, value in model.fitted_params().items()
    }
    if "null_level" in given:  # of the search: doubled noise would hide what is judged
        given["null_level"] = None
    return type(model)(**given)


def _method(model: Estimator, draws: int) -> str:
    return (
        f"{type(model).__name__} was run {draws} times on the released moments with fresh noise on top. The frequency of an "
        "edge is the share of these runs that find it: an estimate of the chance of finding it under noise of twice the "
        "variance, as half of the privacy budget buys (rho / 2). It speaks of the noise only: chance in the records and "
        "the method's assumptions come on top."
    )
