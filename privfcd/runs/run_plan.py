"""A plan of a run: what it says, as text and for JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from privfcd.ledger.privacy_report import rounded_up
from privfcd.markup import bullets, card, folded, preformatted, table, writable
from privfcd.reports.html.wording import rounded_down

_KINDS = {"GaussianDpEvent": "Gaussian", "LaplaceDpEvent": "Laplace", "BoundedRangeDpEvent": "exponential mechanism"}


@dataclass(frozen=True)
class PlannedRelease:
    """One kind of release in a plan.

    Attributes
    ----------
    label : str
        What is released.
    event : str
        The cost of one, as in `PrivacyReport.parts`.
    count : int
        How many are paid for.
    noise_multiplier : float or None
        The noise's scale in units of the sensitivity; of a selection that of its Gumbel noise; 0 for exact answers, None
        where the event does not say.
    share : float or None
        Of all `count` together in the run's zCDP; None where it has none.
    remark : str
    """

    label: str
    event: str
    count: int
    noise_multiplier: float | None
    share: float | None = None
    remark: str = ""

    @property
    def noise(self) -> str:
        """In words."""
        if self.noise_multiplier is None:
            return self.event
        if self.noise_multiplier == 0:
            return "none: exact"
        kind = next((words for name, words in _KINDS.items() if self.event.startswith(name)), "noise")
        return f"{kind}, {rounded_down(self.noise_multiplier, 4)} x sensitivity"


@dataclass(frozen=True)
class PartyPlan:
    """What a run would cost one party.

    Attributes
    ----------
    party : str
        The data set's name.
    rows : int
        Public number of records.
    epsilon, delta, rho : float
        As in the `PrivacyReport` of the run: epsilon at delta by the ledger's accountant, rho under zCDP; inf where there
        is none.
    budget : str
        Of the data set.
    left_before, left_after : str
        What may still be spent. After: once the run is charged; what is not drawn from a rho goes back at its end.
    spend : dict of str to float
        What the ledger would record as spent, by account.
    parts : list of PlannedRelease
        All releases of the run.
    standing : dict
        The budget in numbers after the charge, see `PrivacyReport.standing`.
    noise : str
        The source of the noise.
    secure : bool
        Whether it protects anything.
    source : str
        What the table was read from and what pays for it, if it was said.
    """

    party: str
    rows: int
    epsilon: float
    delta: float
    rho: float
    budget: str
    left_before: str
    left_after: str
    spend: Mapping[str, float]
    parts: Sequence[PlannedRelease]
    standing: Mapping[str, Any] = field(default_factory=dict)
    noise: str = ""
    secure: bool = True
    source: str = ""


@dataclass(frozen=True)
class RunPlan:
    """What a run would release and cost.

    Attributes
    ----------
    method : str
        The estimator's class.
    parties : list of PartyPlan
        One for each table; empty for moments.
    rounds, updates : int or None
        T, and K a round and party, where the method has them.
    bytes : int or None
        Size of all messages of the rehearsal, by the rule of `bytes_exchanged_`; None without one.
    seconds : float or None
        Time of the rehearsal in this process, extended to the whole run; None without one.
    parameters : dict
        All parameters of the estimator, those left out replaced by what they resolve to (see `defaults_of`).
    notes : list of str
        How bytes and time were estimated, and what else should be known before the run.
    most_bytes : int or None
        Bound on the size of all messages where it depends on what is learnt; None where no bound is needed, or known. Where
        none is worth stating, `notes` say why. See `privfcd.runs.most_bytes`.
    """

    method: str
    parties: Sequence[PartyPlan]
    rounds: int | None
    updates: int | None
    bytes: int | None
    seconds: float | None
    parameters: Mapping[str, Any]
    notes: Sequence[str]
    most_bytes: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the plan for JSON; infinities become the text "inf"."""
        return {
            "method": self.method,
            "parties": [
                {**_plain(vars(party)), "parts": [_plain(vars(part)) for part in party.parts]} for party in self.parties
            ],
            "rounds": self.rounds,
            "updates": self.updates,
            "bytes": self.bytes,
            "most_bytes": self.most_bytes,
            "seconds": self.seconds,
            "parameters": _plain(self.parameters),
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        head, *rest = str(self).splitlines()
        costs = [
            (
                party.party,
                party.rows,
                rounded_up(party.epsilon),
                rounded_up(party.delta),
                rounded_up(party.rho),
                party.budget,
                party.left_before,
                party.left_after,
            )
            for party in self.parties
        ]
        header = ("party", "rows", "epsilon", "delta", "rho", "budget", "left before", "left after")
        return card(
            head,
            table(costs, header) if costs else "",
            bullets(self.notes),
            folded("What would be released, and all parameters", preformatted("\n".join(rest).strip())),
        )

    def __str__(self) -> str:
        lines = [f"Plan of a run of {self.method}: nothing was charged, and it depends on no record.", ""]
        listed: list[PartyPlan] = []
        for party in self.parties:
            same = next((other for other in listed if other.parts == party.parts), None)
            lines += [*_party_lines(party, same), ""]
            listed += [party] * (same is None)
        if self.rounds is not None:
            lines.append(
                f"Rounds: {self.rounds}" + ("" if self.updates is None else f", of {self.updates} updates each")
            )
        if self.bytes is not None and self.seconds is not None:
            lines += _wrapped("Messages: ", f"{self._messages(self.bytes)}.")
            lines.append(f"Time: {time_text(self.seconds)} by a rehearsal; the run itself may take longer.")
        words = "; ".join(f"{name} = {value}" for name, value in self.parameters.items())
        lines += _wrapped("Parameters: ", words)
        for note in self.notes:
            lines += _wrapped("Note: ", note)
        return "\n".join(map(writable, lines))  # names come from others

    def _messages(self, rehearsed: int) -> str:
        if self.most_bytes is None:
            return f"about {size_text(rehearsed)}"
        return (
            f"at most {size_text(self.most_bytes)}, and mostly less: it depends on what is learnt "
            f"({size_text(rehearsed)} on synthetic rows)"
        )


def size_text(size: int) -> str:
    """Return a number of bytes for reading."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"


def time_text(seconds: float) -> str:
    """Return a duration for reading."""
    if seconds < 1:
        return "less than a second"
    if seconds < 100:
        return f"about {seconds:.2g} s"
    return f"about {seconds / 60:.2g} min" if seconds < 6000 else f"about {seconds / 3600:.2g} h"


def _party_lines(party: PartyPlan, same: PartyPlan | None) -> list[str]:
    """Return one party's part of the text; releases that are those of `same` are not listed again."""
    if math.isinf(party.epsilon) and math.isinf(party.rho):
        cost = "epsilon = inf: exact answers"
    else:
        cost = (
            f"epsilon = {rounded_up(party.epsilon)} at delta = {rounded_up(party.delta)}; rho = {rounded_up(party.rho)}"
        )
    lines = [
        f"{party.party}, {party.rows} rows: {cost}",
        f"  budget {party.budget}; left before: {party.left_before}; after: {party.left_after}",
    ]
    if party.source:
        lines.insert(1, f"  table -> ledger: {party.source}")
    if same is not None:
        return [*lines, f"  releases: as those of {same.party}"]
    width = max(len(part.label) for part in party.parts)
    lines.append(f"  {'times':>6}  {'release':<{width}}  {'share':>6}  noise")
    for part in party.parts:
        share = "-" if part.share is None else f"{part.share:.1%}"
        lines.append(f"  {part.count:>6}  {part.label:<{width}}  {share:>6}  {part.noise}")
    return lines


def _wrapped(title: str, text: str) -> list[str]:
    return textwrap.wrap(title + text, 110, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _plain(values: Any) -> Any:
    """Return values as JSON holds them; infinities and what has no other form become text."""
    if isinstance(values, Mapping):
        return {str(key): _plain(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_plain(value) for value in values]
    if isinstance(values, float) and not math.isfinite(values):
        return str(values)
    return values if values is None or isinstance(values, str | int | float | bool) else str(values)
