"""The ledger: refuse before access, record before release.

A `Ledger` belongs to one data set. Everything that is to be learnt from its rows is charged first; a charge either is
recorded and returns, or raises `BudgetExceeded` and changes nothing. Charging costs the same however long the
history is.

A pure budget adds up epsilons, a zCDP budget rhos. An (epsilon, delta) budget is spent in slices (epsilon_i, delta_i)
that add up by basic composition, which holds for adaptively chosen slices too (Rogers, Roth, Ullman and Vadhan 2016):

- `reserve` takes a slice for a plan that is fixed in advance. The accountant says what the whole plan costs.
- `charge` is for releases that are decided as one goes. The first one turns all that is left into one slice, a rho
  by the tight zCDP conversion, from which all later releases are paid as long as the sum stays within it. Stopping
  there is valid however each release is chosen (Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting.accountants import pure_cost, zcdp_cost
from privfcd.accounting.answers import answered
from privfcd.accounting.budget import Budget
from privfcd.accounting.calibration import epsilon_of
from privfcd.accounting.costs import exact_cost
from privfcd.accounting.events import EpsilonDeltaDpEvent, compose, leaves, simple
from privfcd.accounting.registry import DEFAULT_ACCOUNTANT, accountant_named
from privfcd.accounting.units import units_to_float, units_up
from privfcd.amounts import decimal
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger.journal import Entry, Journal, OverCap
from privfcd.ledger.memory_journal import MemoryJournal
from privfcd.ledger.reservation import PlanPart, Reservation

__all__ = ["ADAPTIVE", "Ledger", "PlanPart", "Reservation", "caps_of"]

ADAPTIVE = "rho of the adaptive slice"


class Ledger:
    """Who may still spend how much, for one data set.

    Parameters
    ----------
    budget : Budget, optional
        The cap. Without one the ledger is open: it records what is charged and refuses nothing.
    name : str
        The data set's name. A budget belongs to it: everything charged under one name in one journal adds up.
    journal : Journal, optional
        Where the state is kept; in this process's memory by default.
    accountant : str
        Who prices plans under an (epsilon, delta) budget, see `epsilon_of`.

    Raises
    ------
    BudgetMismatch
        The journal knows the data set with another budget.
    """

    def __init__(
        self,
        budget: Budget | None = None,
        *,
        name: str = "table",
        journal: Journal | None = None,
        accountant: str = DEFAULT_ACCOUNTANT,
    ) -> None:
        if budget is not None and not isinstance(budget, Budget):
            raise checks.refuse("budget", budget, "a privfcd.Budget or None")
        if not isinstance(name, str) or not name:
            raise checks.refuse("name", name, "a non-empty text")
        accountant_named(accountant)
        self.budget = budget
        self.name = name
        self.accountant = accountant
        self._journal: Journal = MemoryJournal() if journal is None else journal
        self._caps = caps_of(budget)
        self._own: dict[str, int] = {}
        self._journal.open(name, self._caps)

    @property
    def open(self) -> bool:
        """Whether there is no budget, so that nothing is refused."""
        return self.budget is None

    @property
    def account(self) -> tuple[object, str]:
        """What tells this ledger's account from others: ledgers with the same one spend from the same budget."""
        return getattr(self._journal, "ledger_id", id(self._journal)), self.name

    def charge(self, event: DpEvent, label: str = "release", *, request: str = "") -> Entry:
        """Record the cost of one release, or refuse it.

        Parameters
        ----------
        event : dp_accounting.DpEvent
            Its cost under the table's neighbouring relation.
        label : str
            What it is, for the journal and the report.
        request : str
            Id of the request that it pays for.

        Returns
        -------
        Entry
            What the journal keeps.

        Raises
        ------
        BudgetExceeded
            It does not fit what is left. Nothing has changed; a smaller one may still fit.
        InvalidParameter
            The event has no cost in the budget's notion, or its parameters are not valid.
        """
        pairs = leaves(event)
        if self.budget is None:
            return self._post("charge", label, event, {}, request=request)
        if self.budget.notion == "approximate":
            if not pairs:  # it costs nothing, and must not open the adaptive slice
                return self._post("charge", label, event, {"epsilon": 0, "delta": 0}, request=request)
            if any(isinstance(leaf, EpsilonDeltaDpEvent) and leaf.delta for leaf, _ in pairs):
                return self._charge_slice(event, pairs, label, request)
            return self._charge_adaptive(event, pairs, label, request)
        account = "epsilon" if self.budget.notion == "pure" else "rho"
        return self._post("charge", label, event, {account: self._sum(pairs, account)}, request=request)

    def answer_once(self, request: str, event: DpEvent, compute: Callable[[], bytes], label: str = "release") -> bytes:
        """Answer a request that may arrive more than once: the same bytes each time, paid once.

        The charge is committed first, then `compute` reads the rows, then the answer is stored, then it is returned. An
        answer that a crash took between the charge and the store was paid and is lost; it is paid again. Threads and
        processes that ask at once wait for one of them, which pays.

        Parameters
        ----------
        request : str
            Its id. Used for another question, it is refused.
        event : dp_accounting.DpEvent
            Its cost, as for `charge`.
        compute : callable
            Returns the noisy answer, as it will be sent.
        label : str
            What it is, for the journal and the report.

        Returns
        -------
        bytes
            The answer.

        Raises
        ------
        BudgetExceeded, InvalidParameter
            As `charge` does.
        OtherQuestion
            The id was used for another question: another event, or another label.
        AnswerPending
            Another process has taken the request on, and is not known to have died: nothing was charged here.
        """

        def make() -> bytes:
            self.charge(event, label, request=request)
            return bytes(compute())

        return answered(self, request, f"{event!r} {label}", make, label)

    def reserve(
        self,
        plan: Iterable[PlanPart] | DpEvent,
        label: str = "run",
        *,
        delta: float | None = None,
    ) -> Reservation:
        """Charge a plan that is fixed in advance, at once and as a whole.

        Parameters
        ----------
        plan : iterable of PlanPart, or DpEvent
            What will be released at the most.
        label : str
            The run's name.
        delta : float, optional
            For an (epsilon, delta) budget: the slice's delta. All that is left by default.

        Returns
        -------
        Reservation
            Draws the plan down in memory. What is not drawn stays spent.

        Raises
        ------
        BudgetExceeded
            It does not fit what is left. Nothing has changed.
        """
        parts, event, spend = self._quote(plan, label, delta)
        entry = self._post("reserve", label, event, spend)
        return Reservation(self, parts, entry)

    def check(
        self, plan: Iterable[PlanPart] | DpEvent, label: str = "run", *, delta: float | None = None
    ) -> dict[str, float]:
        """Return what `reserve` would spend now, by account, or raise what it would raise. Changes nothing."""
        _, _, spend = self._quote(plan, label, delta)
        balance = self._journal.balance(self.name)
        for account, asked in spend.items():
            spent, cap = balance.get(account, (0, self._caps.get(account)))
            if cap is not None and spent + asked > cap:
                raise self._refusal(label, account, asked, spent, cap)
        return {account: units_to_float(asked) for account, asked in spend.items()}

    def left(self) -> Budget | None:
        """Return what may still be reserved; None if nothing is left. Asking changes nothing.

        Once an (epsilon, delta) budget has its adaptive slice, this is a rho: what is left of that.

        For an open ledger this is None too: there is no budget to be left.
        """
        if self.budget is None:
            return None
        balance = self._journal.balance(self.name)
        if ADAPTIVE in balance:  # it has taken all that was left then
            spent, cap = balance[ADAPTIVE]
            return None if cap is None or spent >= cap else Budget.from_units(rho_units=cap - spent)
        left = {account: cap - balance.get(account, (0, cap))[0] for account, cap in self._caps.items()}
        if not left.get("rho", left.get("epsilon", 0)) or (self.budget.delta_units and not left["delta"]):
            return None
        return Budget.from_units(left.get("epsilon", 0), left.get("delta", 0), left.get("rho", 0))

    def spent(self) -> dict[str, float]:
        """Return what is spent so far, by account (`"epsilon"`, `"delta"`, `"rho"`, the adaptive slice's rho)."""
        return {name: units_to_float(spent) for name, (spent, _) in self._journal.balance(self.name).items()}

    def own_units(self) -> dict[str, int]:
        """Return what was spent through this object, in units by account: no other run's or process's share is in it."""
        return dict(self._own)

    def _counted(self, entry: Entry) -> Entry:
        for account, units in entry.spent.items():
            self._own[account] = self._own.get(account, 0) + units
        return entry

    def spent_units(self) -> dict[str, int]:
        """Return what is spent so far in units of 10⁻²⁴, by account."""
        return {name: spent for name, (spent, _) in self._journal.balance(self.name).items()}

    def entries(self) -> Sequence[Entry]:
        """Return the data set's entries, oldest first."""
        return self._journal.entries(self.name)

    def head(self) -> str:
        """Return what stands for the data set's last entry and all before it; empty where entries are not chained."""
        return self._journal.head(self.name)

    def note_rows(self, rows: NDArray[np.float64]) -> tuple[str, ...]:
        """Warn (`SameRows`) if the journal knows these rows under other names, and return those."""
        return self._journal.note_rows(self.name, rows)

    def record_draws(self, label: str, counts: Mapping[str, int], *, reservation: int = 0) -> Entry:
        """Note what a reservation has drawn; it was paid when it was reserved."""
        note = f"{label}: " + ", ".join(f"{count} {name}" for name, count in counts.items())
        return self._post("draws", note, None, {}, reference=reservation)

    def stored_answer(self, request: str) -> bytes | None:
        """Return the answer stored for a request; None if there is none."""
        return self._journal.answer(self.name, request)

    def store_answer(self, request: str, answer: bytes, label: str, *, reservation: int = 0) -> bytes:
        """Store an answer that is paid for, and return what is to be sent: the first one stored for the request."""
        return self._journal.store(self.name, request, answer, label, reservation)

    def settle(self, reservation: Reservation, label: str) -> Entry:
        """Close a reservation; see `Reservation.close`, which calls it."""
        refund = self._undrawn(reservation)
        return self._counted(self._journal.settle(self.name, reservation.entry.sequence, label, refund))

    def _quote(
        self, plan: Iterable[PlanPart] | DpEvent, label: str, delta: float | None
    ) -> tuple[list[PlanPart], DpEvent, dict[str, int]]:
        """Return a plan's parts, its composed event and what it costs; changes nothing."""
        if not isinstance(plan, DpEvent | Iterable):
            raise checks.refuse("plan", plan, "a DpEvent, or a list of PlanParts")
        parts = [PlanPart(label, plan, 1)] if isinstance(plan, DpEvent) else list(plan)
        for part in parts:
            if not isinstance(part, PlanPart):
                raise checks.refuse("plan", part, "a DpEvent, or PlanParts")
        if len({part.label for part in parts}) != len(parts):
            raise checks.refuse("labels of the plan", [part.label for part in parts], "all different")
        event = compose((part.event, checks.count(part.label, part.count, least=0)) for part in parts)
        pairs = leaves(event)
        if delta is not None and checks.delta("delta", delta) and (self.budget is None or not self.budget.delta_units):
            raise checks.refuse("delta", delta, "left out: it belongs to (epsilon, delta) budgets")
        if self.budget is None:
            return parts, event, {}
        if self.budget.notion != "approximate":
            account = "epsilon" if self.budget.notion == "pure" else "rho"
            return parts, event, {account: self._sum(pairs, account)}
        if ADAPTIVE in self._journal.balance(self.name):
            return parts, event, {ADAPTIVE: self._sum(pairs, "rho")}
        if not pairs:
            return parts, event, {"epsilon": 0, "delta": 0}
        return parts, event, self._price(event, label, delta)

    def _charge_slice(self, event: DpEvent, pairs: Sequence[tuple[DpEvent, int]], label: str, request: str) -> Entry:
        """Spend (epsilon, delta) events as slices of their own, by basic composition."""
        if ADAPTIVE in self._journal.balance(self.name):
            raise InvalidParameter(
                f"event {event!r} is (epsilon, delta)-DP with delta > 0, which has no rho: it cannot be paid from the "
                "adaptive zCDP slice; charge it before the first adaptive release, or use another budget"
            )
        epsilon, delta = Fraction(0), Fraction(0)
        for leaf, count in pairs:
            if not isinstance(leaf, EpsilonDeltaDpEvent):
                raise InvalidParameter(
                    f"event {event!r} mixes (epsilon, delta)-DP parts with others: charge the parts on their own"
                )
            if leaf.epsilon == math.inf:
                spent = self.spent_units().get("epsilon", 0)
                raise self._refusal(label, "epsilon", None, spent, self._caps["epsilon"])
            epsilon += decimal(leaf.epsilon) * count
            delta += decimal(leaf.delta) * count
        spend = {"epsilon": units_up(epsilon), "delta": units_up(delta)}
        return self._post("charge", label, event, spend, request=request)

    def _charge_adaptive(self, event: DpEvent, pairs: Sequence[tuple[DpEvent, int]], label: str, request: str) -> Entry:
        cost = self._sum(pairs, "rho")
        while ADAPTIVE not in self._journal.balance(self.name):
            left = self.left()
            slice_units = left.zcdp_units() if left is not None else 0
            if left is None or cost > slice_units:
                if ADAPTIVE in self._journal.balance(self.name):
                    break
                raise self._refusal(label, "rho", cost, 0, slice_units)
            note = f"adaptive slice: rho = {units_to_float(slice_units):g}"
            spend = {"epsilon": left.epsilon_units, "delta": left.delta_units}
            try:
                self._counted(self._journal.post(self.name, "slice", note, "", spend, {ADAPTIVE: slice_units}))
            except OverCap:  # another process spent or opened the slice in between: look again
                continue
        return self._post("charge", label, event, {ADAPTIVE: cost}, request=request)

    def _price(self, event: DpEvent, label: str, delta: float | None) -> dict[str, int]:
        """Return what a plan costs as a slice of an (epsilon, delta) budget."""
        left = self.left()
        if delta is None:
            delta = left.delta if left is not None else 0.0
        epsilon = epsilon_of(event, delta, self.accountant)
        if epsilon == float("inf"):
            spent, cap = self._journal.balance(self.name).get("epsilon", (0, None))
            raise self._refusal(label, "epsilon", None, spent, self._caps["epsilon"] if cap is None else cap)
        return {"epsilon": units_up(decimal(epsilon)), "delta": units_up(decimal(delta))}

    def _sum(self, pairs: Iterable[tuple[DpEvent, int]], notion: str) -> int:
        """Return the exact cost of simple events in units, rounded up once; refuse what has none."""
        total = Fraction(0)
        for leaf, count in pairs:
            name = type(leaf).__name__
            if (pure_cost if notion == "epsilon" else zcdp_cost)(leaf) is None:
                kind = "a pure-DP budget" if notion == "epsilon" else "a zCDP budget"
                raise InvalidParameter(f"{name} cannot be paid from {kind} of {self.name!r}: it has no {notion}")
            cost = exact_cost(leaf, notion)
            if cost is None:
                raise BudgetExceeded(
                    f"{name} on {self.name!r} has no noise and costs an infinite {notion}: no budget pays for it"
                )
            total += cost * count
        return units_up(total)

    def _post(
        self,
        kind: str,
        label: str,
        event: DpEvent | None,
        spend: Mapping[str, int],
        *,
        request: str = "",
        reference: int = 0,
    ) -> Entry:
        text = "" if event is None else repr(simple(event))
        try:
            return self._counted(
                self._journal.post(self.name, kind, label, text, spend, request=request, reference=reference)
            )
        except OverCap as over:
            raise self._refusal(label, over.account, over.asked, over.spent, over.cap) from None

    def _undrawn(self, reservation: Reservation) -> dict[str, int]:
        """Return what may go back of a reservation: see `Reservation.close` for why."""
        drawn, taken = reservation.drawn(), reservation.entry.spent
        if not any(drawn.values()):
            return dict(taken)
        if self.budget is None or "delta" in taken:
            return {}
        ((account, units),) = taken.items()
        event = compose((part.event, drawn[part.label]) for part in reservation.parts)
        return {account: units - self._sum(leaves(event), "epsilon" if account == "epsilon" else "rho")}

    def _refusal(self, label: str, account: str, asked: int | None, spent: int, cap: int) -> BudgetExceeded:
        wanted = "inf" if asked is None else f"{units_to_float(asked):.9g}"
        return BudgetExceeded(
            f"{label!r} on {self.name!r} was refused: asked {account} {wanted}, spent {units_to_float(spent):.9g}, "
            f"left {units_to_float(cap - spent):.9g} of {units_to_float(cap):.9g}"
        )


def caps_of(budget: Budget | None) -> dict[str, int]:
    """Return the caps of a budget's accounts, in units; none without a budget."""
    if budget is None:
        return {}
    match budget.notion:
        case "zcdp":
            return {"rho": budget.rho_units}
        case "pure":
            return {"epsilon": budget.epsilon_units}
    return {"epsilon": budget.epsilon_units, "delta": budget.delta_units}
