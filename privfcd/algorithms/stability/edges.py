"""How sure each edge is under the noise that was paid for: post-processing, free of budget.

Why it is free. What is used is the fitted model alone: its parameters, its graph, and either the noisy moments that it
was fitted to (`released_moments_`) or numbers made from the noisy weights of its rounds (`late_rounds_`). Both left the
mechanisms whose noise was paid for, and whatever is computed from a private answer, with randomness that does not depend on
the rows, has the same promise (post-processing; Dwork and Roth 2014, Proposition 2.1). A model holds no table, so none
can be touched, and no ledger is asked. Open runs leave neither attribute, which hold noisy answers only.

Two ways, each with a meaning of its own:

- Noisy moments: see `privfcd.algorithms.stability.redraws`.
- Rounds with noise of their own: see `privfcd.algorithms.stability.history`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from privfcd import checks
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.stability.history import from_rounds
from privfcd.algorithms.stability.redraws import from_moments
from privfcd.algorithms.stability.result import EdgeStability
from privfcd.algorithms.stability.simulated_runs import runs_on_noise
from privfcd.errors import InvalidParameter

OnDraw = Callable[[int, int], None]


def edge_stability(
    model: Any,
    *,
    draws: int = 100,
    seed: int = 0,
    on_draw: OnDraw | None = None,
    seconds: float | None = None,
    noise_runs: int = 0,
) -> EdgeStability:
    """Return how sure each edge of a fitted model is under the noise that was paid for; costs no budget.

    The answer is also set as `model.edge_stability_`. It is about noise only, not about the chance in the sample of records
    nor about the learner's assumptions.

    A model that was fitted to noisy moments, released from its tables or given, is fitted again `draws` times to moments
    with fresh noise, and as often to noise alone. A private run of `FedSparseBNSL` that released coordinates cannot be run
    again without rows: its own late rounds, whose noise is independent, are counted, which takes no time, and `draws` and
    `seconds` make no difference. Noise alone is then known from `noise_runs` runs on simulated rows, if any.

    Parameters
    ----------
    model : estimator
        Fitted.
    draws : int
        How often it is fitted again. The frequency of an edge that is found half of the time has a standard error of
        0.5 / sqrt(draws).
    seed : int
        Of the fresh noise; draw k depends on the seed and k only.
    on_draw : callable, optional
        Called with (done, total) after every draw, or run on simulated rows.
    seconds : float, optional
        No draw is begun after this time, but there is always one; `draws` of the result says how many there were.
        Without it the result depends on the model, `draws`, `noise_runs` and `seed` only.
    noise_runs : int
        For a release of coordinates: how often the run is done again on simulated columns without dependence, each as
        long as the run itself. 0 leaves `noise_alone` out. Other models are run on noise alone with every draw.

    Raises
    ------
    InvalidParameter
        The model is not fitted; it is of an open run, which has no noise; or what it learnt from was not kept, and why.

    Examples
    --------
    >>> import numpy as np
    >>> from privfcd import EqualVarianceSearch, Moments, NoiseTerm
    >>> moments = Moments(np.array([[1.0, 1.0], [1.0, 2.0]]), 1000, ("a", "b"), (NoiseTerm(0.05),))
    >>> model = EqualVarianceSearch().fit(moments)
    >>> edge_stability(model, draws=20).rows(model.causal_graph_)[0]["frequency"]
    1.0
    """
    draws = checks.count("draws", draws)
    seed = checks.count("seed", seed, least=0)
    noise_runs = checks.count("noise_runs", noise_runs, least=0)
    if seconds is not None:
        seconds = checks.positive("seconds", seconds)
    fitted: Any = model  # what fits set is not declared by the base class
    if not isinstance(model, Estimator):
        raise checks.refuse("model", type(model).__name__, "a fitted estimator that learns a graph")
    if not hasattr(model, "causal_graph_"):
        raise checks.refuse("model", type(model).__name__, "fitted: call fit first")
    parts = getattr(model, "released_moments_", None)
    rounds = getattr(model, "late_rounds_", None)
    columns = tuple(str(name) for name in fitted.feature_names_in_)
    if parts is not None:
        found = from_moments(model, parts, columns, draws, seed, on_draw, math.inf if seconds is None else seconds)
    elif rounds is not None:
        alone = runs_on_noise(model, rounds, columns, noise_runs, seed, on_draw) if noise_runs else None
        found = from_rounds(rounds, columns, alone)
        if on_draw is not None and not noise_runs:
            on_draw(rounds.rounds, rounds.rounds)
    else:
        raise InvalidParameter(f"model has no edge stability: {_why_not(model)}")
    fitted.edge_stability_ = found
    return found


def _why_not(model: Any) -> str:
    reports = getattr(model, "privacy_report_", None)
    if reports and all(math.isinf(report.epsilon) for report in reports):
        return "its tables are open, and exact answers have no noise"
    reason = getattr(model, "no_stability_", None)
    if reason is not None:
        return str(reason)
    return "the noisy answers that it was made from stayed with the parties, so that they cannot be noised again here"
