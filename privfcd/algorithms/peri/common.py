"""Phase 1: the equivalence class with the least worst regret."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np

from privfcd.algorithms.ges.search import SearchResult, greedy_search
from privfcd.algorithms.peri import messages
from privfcd.algorithms.peri.regrets import RegretScore, minus_worst
from privfcd.algorithms.peri.settings import Settings
from privfcd.algorithms.protocol import Federation
from privfcd.algorithms.rounds import expect
from privfcd.algorithms.scores import AnswersUsedUp
from privfcd.graphs.pdag import Pdag

SOLVED = 1e-3
"""A worst regret up to this, in nats, cannot be bettered: no second start is made."""


def common_search(federation: Federation, d: int, settings: Settings) -> SearchResult:
    """Search from the empty graph; masked, and by the worst party, from a second start too unless no regret is left.

    The worst party's regret has local optima that the sum of all regrets does not have, and the other way round. So the
    second search starts where one by the sum ends, and of both classes the one with the smaller worst regret of the masked
    graph is taken, on a tie that with fewer edges.

    Where a party has no regrets left that were paid for, what was found until then is returned, with `used_up`.
    """
    search = partial(greedy_search, turning=settings.turning, max_parents=settings.max_parents)
    mask: messages.Mask = "directed" if settings.masked else "none"
    score = RegretScore(federation, d, mask, settings.worst)
    first = search(score)
    if not settings.masked or settings.worst != "party" or first.used_up is not None:
        return first
    try:
        value = graph_regret(first.cpdag, federation)
        if value <= SOLVED:
            return dataclasses.replace(first, messages=first.messages + 1)
        start = search(RegretScore(federation, d, mask, "sum"))
        second = search(score, start=start.cpdag)
        other = graph_regret(second.cpdag, federation)
    except AnswersUsedUp as error:
        return dataclasses.replace(first, used_up=error)
    better = second if (other, _edges(second.cpdag)) < (value, _edges(first.cpdag)) else first
    steps = first.steps if better is first else start.steps + second.steps
    return SearchResult(
        better.cpdag,
        better.score,
        first.messages + start.messages + second.messages + 2,
        first.families + start.families + second.families,
        steps,
        start.used_up or second.used_up,
    )


def graph_regret(graph: Pdag, federation: Federation) -> float:
    """Return the worst party's regret of a graph masked by mu, with a little of the mean."""
    answers = expect(federation, messages.AskColliders(graph, ((),)), messages.ColliderRegrets, 1)
    return -float(minus_worst(-np.array([answer.directed[0] for answer in answers])))


def _edges(graph: Pdag) -> int:
    return sum(mask.bit_count() for mask in graph.adjacent)
