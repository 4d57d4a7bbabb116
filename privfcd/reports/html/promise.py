"""What each party was promised, in plain words; parties with the same promise share one paragraph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from privfcd.ledger.privacy_report import PrivacyReport, rounded_up, towards
from privfcd.reports.html.wording import printable

NEGLIGIBLE = 1e-9
"""Share of a budget below which amounts are those of rounding: sums of doubles, not of spending."""

OPEN, SIMULATED, PROMISED = "open", "simulated", "promised"
"""What a party has: no privacy; a promise that simulated noise breaks; a promise."""


@dataclass(frozen=True)
class Promise:
    """Parties that have the same promise, to the digits that are shown.

    Attributes
    ----------
    parties : sequence of str
        Their names.
    kind : str
        `OPEN`, `SIMULATED` or `PROMISED`.
    sentences : sequence of str
        The promise at the largest epsilon and delta among them, which holds for each.
    relation, noise : str
        What neighbours differ in, and where the noise came from.
    """

    parties: Sequence[str]
    kind: str
    sentences: Sequence[str]
    relation: str
    noise: str


def kind_of(report: PrivacyReport) -> str:
    """Return what a party has."""
    if math.isinf(report.epsilon) and math.isinf(report.rho):
        return OPEN
    return PROMISED if report.secure else SIMULATED


def promises(reports: Iterable[PrivacyReport]) -> list[Promise]:
    """Return the promises, each with its parties, in the order of their first."""
    groups: dict[tuple[str, ...], list[PrivacyReport]] = {}
    for report in reports:
        numbers = (rounded_up(report.epsilon, 4), rounded_up(report.delta, 2), rounded_up(report.rho, 2))
        if kind_of(report) == OPEN:
            numbers = ("", "", "")
        key = (kind_of(report), report.relation, report.change, report.noise, report.trusted, _others(report), *numbers)
        groups.setdefault(key, []).append(report)
    made = []
    for members in groups.values():
        largest = replace(
            members[0],
            epsilon=max(report.epsilon for report in members),
            delta=max(report.delta for report in members),
            rho=max(report.rho for report in members),
        )
        names = [printable(report.party) for report in members]
        made.append(Promise(names, kind_of(largest), promise(largest), largest.relation, largest.noise))
    return made


def loose_delta(parties: Iterable[tuple[str, float, object]]) -> list[str]:
    """Return a warning for parties whose delta is 1 / n or more; nothing where there is none.

    To publish one record, drawn by chance, is (0, 1 / n)-differentially private.

    Parameters
    ----------
    parties : iterable of (str, float, int)
        Name, delta and declared number of records; parties without a number are left out.
    """
    found = [(name, delta, rows) for name, delta, rows in parties if isinstance(rows, int) and delta >= 1 / rows]
    if not found:
        return []
    words = ", ".join(f"{name} (delta = {rounded_up(delta, 3)}, n = {rows:,})" for name, delta, rows in found)
    return [
        f"Delta is not below 1/n for {words}. So large a delta would allow to publish whole records, drawn by chance: "
        "take it far below 1/n."
    ]


def promise(report: PrivacyReport) -> list[str]:
    """Return what a report promises, as sentences about "this party"; every number rounded up."""
    if kind_of(report) == OPEN:
        return [
            "This party's table has no budget, so that all answers were exact. Whoever sees the messages or the result may "
            "learn anything about its records."
        ]
    differs = f"Suppose that any one of this party's records had been {report.change}."
    if math.isinf(report.epsilon):
        guess = min(1.0, (1 + math.sqrt(report.rho / 2)) / 2)  # Pinsker: total variation <= sqrt(KL / 2), and KL <= rho
        return [
            f"{differs} Then everything that left the party for this result would have been distributed almost the same: "
            f"rho = {rounded_up(report.rho)} zero-concentrated differential privacy. At delta = 0 no epsilon says so.",
            _guess(report, guess),
            _towards(report),
        ]
    delta = rounded_up(report.delta, 3)
    return [
        f"{differs} Then every set of outcomes of this run would have been at most {_factor(report.epsilon)} times as "
        f"likely, but for a probability of {delta}. This is (epsilon, delta)-differential privacy with epsilon = "
        f"{rounded_up(report.epsilon, 4)} and delta = {delta}.",
        _guess(report, _right_guess(report.epsilon, report.delta)),
        _towards(report),
    ]


def _factor(epsilon: float) -> str:
    power = f"e^{rounded_up(epsilon, 4)}"
    if epsilon >= 700:
        return power
    factor = rounded_up(math.nextafter(math.exp(epsilon), math.inf), 4)
    return f"{power} = {float(factor):,.0f}" if 1e4 <= float(factor) < 1e9 else f"{power} = {factor}"


def _right_guess(epsilon: float, delta: float) -> float:
    """Return the best chance to tell two equally likely neighbours apart: (e^epsilon + delta) / (e^epsilon + 1).

    Each test has power - e^epsilon size <= delta, and the same with the two exchanged (Kairouz, Oh and Viswanath 2015).
    """
    shrunk = math.exp(-epsilon)
    return min(1.0, math.nextafter((1 + delta * shrunk) / (1 + shrunk), math.inf))


def _guess(report: PrivacyReport, chance: float) -> str:
    question = (
        "which of two equally likely records is in the table"
        if report.change == "another one"
        else "whether a record is in the table, both being equally likely"
    )
    shown = rounded_up(chance, 4 if chance < 0.999 else 8)
    return (
        f"So someone who knows all other records, and sees the answers, guesses {question} and is right with a probability "
        f"of at most {shown}. Without them it would be 0.5: the nearer to that, the stronger the promise."
    )


def _towards(report: PrivacyReport) -> str:
    return " ".join(text for text in (towards(report, "the graph or this page"), _others(report)) if text)


def _others(report: PrivacyReport) -> str:
    """Return what is to be known where other runs took of the same budget: a promise is of one run only."""
    given = report.standing
    if not given or float(given["spent"]) - float(given["run"]) <= NEGLIGIBLE * float(given["cap"]):
        return ""
    return "Other runs on the same data have spent of the budget too: what they released adds to what is said here."
