"""What a record of Fed-BNSL's messages gives away: the parties' second moments in every round, and single records.

A party answers W with B = (S + rho I)^-1 (rho W - D + S), S = X'X / n, whose inversion is
`algorithms.fed_bnsl.reconstructed_moments`. It needs the party's multiplier D, which is no secret: the coordinator
received one half of what it follows from and sent the other. Neither fewer rows than columns nor later rounds protect.
(Appendix A.1 of Fassy et al. 2025 prints the inverse on the left, which agrees only while B and S commute, as they do for
W = D = 0.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.algorithms.fed_bnsl import reconstructed_moments
from privfcd.algorithms.protocol import Message
from privfcd.errors import InvalidParameter

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Exchange:
    """One round as the coordinator sees it: what it sent, and what one party answered.

    Attributes
    ----------
    number : int
        1, 2, ...
    consensus, local : ndarray of shape (d, d)
        W and B.
    """

    number: int
    consensus: Array
    local: Array


def exchanges_with(transcript: Sequence[tuple[Message, Sequence[Message]]], party: int) -> list[Exchange]:
    """Return the rounds of a recorded run as the coordinator saw them with one party.

    Parameters
    ----------
    transcript : sequence of (message, answers)
        See `RecordedFederation`. Rounds are the messages with a `number` and `weights`, which may be None for W = 0.
    party : int
        The party's position among the answers.
    """
    found = []
    for message, answers in transcript:
        number, sent = getattr(message, "number", None), getattr(message, "weights", None)
        if number is None:
            continue
        if not 0 <= checks.count("party", party, least=0) < len(answers):
            raise checks.refuse("party", party, f"a position among {len(answers)} parties")
        answer: Any = answers[party]
        local = answer.weights.dense()
        found.append(Exchange(number, np.zeros_like(local) if sent is None else sent.dense(), local))
    if not found:
        raise InvalidParameter("transcript must hold at least one round, got none")
    return found


def reconstruct(exchanges: Sequence[Exchange], rho2: float) -> list[Array]:
    """Return a party's second moments as each round gives them away, shape (d, d) each.

    They are exact where its answers are those of the closed form, in double precision; for other answers they are what an
    attacker gets who pretends so. The multiplier is 0 at first and is raised by rho2 (last round's B - this round's W).

    Parameters
    ----------
    exchanges : sequence of Exchange
        The rounds, in order.
    rho2 : float
        The penalty's factor, which the coordinator knows.

    Raises
    ------
    InvalidParameter
        B - I cannot be inverted.
    """
    dual = np.zeros_like(exchanges[0].local)
    answers = []
    for index, exchange in enumerate(exchanges):
        if index:
            dual = dual + rho2 * (exchanges[index - 1].local - exchange.consensus)
        answers.append(reconstructed_moments(exchange.local, exchange.consensus, dual, rho2))
    return answers


def added_record(before: Array, rows_before: int, after: Array, rows_after: int) -> Array:
    """Return the record by which two runs differ, up to its sign, shape (d,).

    Parameters
    ----------
    before, after : ndarray of shape (d, d)
        Second moments X'X / n of the two runs, as `reconstruct` gives them.
    rows_before, rows_after : int
        Their numbers of rows, public; one more or one less.

    Raises
    ------
    InvalidParameter
        The numbers of rows do not differ by one.

    Notes
    -----
    (n + 1) S' - n S = x x', whose leading eigenvector is x. Where one record was replaced by another the difference is
    x x' - y y', which gives x where y is known, as `replaced_record` does.
    """
    if abs(rows_after - rows_before) != 1:
        raise InvalidParameter(f"rows_after must be rows_before +- 1, got {rows_before!r} and {rows_after!r}")
    gap = (rows_after * after - rows_before * before) * (rows_after - rows_before)
    return _root(gap)


def replaced_record(before: Array, after: Array, rows: int, known: Array) -> Array:
    """Return the record that stands in the second run in the place of the record `known` of the first, up to its sign.

    Parameters
    ----------
    before, after : ndarray of shape (d, d)
        Second moments X'X / n of the two runs, as `reconstruct` gives them.
    rows : int
        n, public.
    known : ndarray of shape (d,)
        The record of the first run.
    """
    return _root(rows * (after - before) + np.outer(known, known))


def _root(outer: Array) -> Array:
    values, vectors = np.linalg.eigh((outer + outer.T) / 2)
    return np.asarray(np.sqrt(max(float(values[-1]), 0.0)) * vectors[:, -1])


def relative_error(found: Array, truth: Array) -> float:
    """Return ‖found - truth‖ / ‖truth‖ in Frobenius norm."""
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def off_diagonal_correlation(found: Array, truth: Array) -> float:
    """Return the correlation of the entries off the diagonal; 0 where one of the matrices has no spread there."""
    off = ~np.eye(len(truth), dtype=bool)
    x, y = found[off] - found[off].mean(), truth[off] - truth[off].mean()
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / size if size > 0 else 0.0
