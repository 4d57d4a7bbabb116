"""A plan that is paid for at once and drawn down in memory."""

from __future__ import annotations

import sqlite3
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dp_accounting import DpEvent

from privfcd import checks
from privfcd.accounting.answers import answered
from privfcd.accounting.budget import Budget
from privfcd.accounting.events import compose
from privfcd.accounting.once import OneProcess
from privfcd.errors import BudgetExceeded, LedgerCorrupt
from privfcd.ledger.journal import Entry
from privfcd.ledger.journal_errors import LedgerUnavailable, NotWritten


class Keeper(Protocol):
    """What a reservation needs of the ledger that it was made on, see `privfcd.ledger.ledger.Ledger`."""

    name: str
    budget: Budget | None
    accountant: str

    @property
    def open(self) -> bool:
        """Whether there is no budget."""

    @property
    def account(self) -> tuple[object, str]:
        """What tells this ledger's account from others."""

    def left(self) -> Budget | None:
        """Return what may still be reserved."""

    def spent_units(self) -> dict[str, int]:
        """Return what is spent so far in units, by account."""

    def head(self) -> str:
        """Return what stands for the last entry and all before it."""

    def record_draws(self, label: str, counts: Mapping[str, int], *, reservation: int = 0) -> Entry:
        """Note what was drawn."""

    def stored_answer(self, request: str) -> bytes | None:
        """Return the answer stored for a request."""

    def store_answer(self, request: str, answer: bytes, label: str, *, reservation: int = 0) -> bytes:
        """Store an answer that is paid for."""

    def settle(self, reservation: Reservation, label: str) -> Entry:
        """Close a reservation."""


@dataclass(frozen=True)
class PlanPart:
    """One kind of release in a plan: its name, the event of one, how many, and a remark for the report.

    Attributes
    ----------
    label : str
        Its name; draws are made under it.
    event : dp_accounting.DpEvent
        What one release costs.
    count : int
        How many are planned.
    remark : str
        For the report.
    """

    label: str
    event: DpEvent
    count: int
    remark: str = ""


class Reservation(OneProcess):
    """A plan that is paid for, drawn down in memory.

    A draw is an integer step: no I/O and no accounting. Drawing more than was planned raises `BudgetExceeded`. Several
    threads may share one; it cannot be pickled or copied, and a forked process cannot draw from its copy (`CopiedBudget`),
    because two copies would spend the same plan twice. After a crash it cannot be taken up again: what it took stays spent.

    Parameters
    ----------
    ledger : Ledger
        What it is paid from; `Ledger.reserve` makes reservations.
    parts : sequence of PlanPart
        The plan.
    entry : Entry
        The ledger's entry of the charge.
    """

    def __init__(self, ledger: Keeper, parts: Sequence[PlanPart], entry: Entry) -> None:
        self.ledger = ledger
        self.parts = tuple(parts)
        self.entry = entry
        self._left = {part.label: part.count for part in parts}
        self._events = {part.label: part.event for part in parts}
        self._noted = dict.fromkeys(self._left, 0)
        self._noting = threading.Lock()
        self._warned = False
        self._remarks: set[str] = set()
        self._ended = False
        self._closing: Entry | None = None
        super().__init__()

    @property
    def event(self) -> DpEvent:
        """The whole plan, composed."""
        return compose((part.event, part.count) for part in self.parts)

    def event_named(self, label: str) -> DpEvent:
        """Return the event that one draw under `label` was charged as."""
        if label not in self._events:
            raise checks.refuse("label", label, "one of " + ", ".join(self._events))
        return self._events[label]

    def draw(self, label: str, count: int = 1) -> None:
        """Use up `count` of the planned releases called `label`, before the rows are read.

        Raises
        ------
        BudgetExceeded
            Fewer are left, the plan has none of that name, or the reservation is closed.
        CopiedBudget
            Another process made the reservation.
        """
        if count != 1:
            count = checks.count("count", count, least=0)
        self.check_process()
        with self._lock:
            if self._ended:
                raise BudgetExceeded(f"{label!r} on {self.ledger.name!r} was refused: the reservation is closed")
            left = self._left.get(label, 0)
            if count > left:
                raise BudgetExceeded(
                    f"{label!r} on {self.ledger.name!r} was refused: asked {count}, left {left} of the reservation"
                )
            self._left[label] = left - count

    def left(self, label: str) -> int:
        """Return how many releases called `label` are left."""
        return self._left.get(label, 0)

    def drawn(self) -> dict[str, int]:
        """Return how many releases of each name were drawn."""
        return {part.label: part.count - self._left[part.label] for part in self.parts}

    def charged(self) -> dict[str, int]:
        """Return what the run took, in units by account: what was reserved, less what went back when it was closed."""
        back = {} if self._closing is None else self._closing.spent
        return {account: units + back.get(account, 0) for account, units in self.entry.spent.items()}

    def checkpoint(self, label: str) -> None:
        """Note in the journal what was drawn since the last checkpoint: once a round, not once a draw.

        A note only: the plan is paid for. Where it cannot be written now, it is part of the next one, and the run goes on.
        """
        self.check_process()
        with self._noting:
            drawn = self.drawn()
            fresh = {name: count - self._noted[name] for name, count in drawn.items() if count > self._noted[name]}
            if fresh and self._written(lambda: self.ledger.record_draws(label, fresh, reservation=self.entry.sequence)):
                self._noted = drawn

    def remark(self, text: str) -> None:
        """Note something of the whole plan in the journal, once; not where its entry says it already."""
        if text.split()[0] not in self.entry.label and text not in self._remarks:
            self._remarks.add(text)
            self._written(lambda: self.ledger.record_draws(text, {}, reservation=self.entry.sequence))

    def _written(self, write: Callable[[], object], otherwise: str = "") -> bool:
        """Return whether something could be written that is not needed; the owner is warned once where it could not."""
        try:
            write()
        except (LedgerUnavailable, LedgerCorrupt, OSError, sqlite3.Error) as error:
            if otherwise or not self._warned:
                self._warned = True
                words = otherwise or "what is drawn from it is noted there when that can be done"
                warnings.warn(
                    f"the ledger of {self.ledger.name!r} cannot be written now ({error}); the run is paid for and goes on; "
                    f"{words}",
                    NotWritten,
                    stacklevel=4,
                )
            return False
        return True

    def answer_once(self, request: str, compute: Callable[[], bytes], label: str = "answer") -> bytes:
        """Answer a request that may arrive more than once: the same bytes each time, drawn once.

        `compute` draws, reads the rows and returns the noisy answer; what it drew is noted and the answer stored before
        it is returned.

        Parameters
        ----------
        request : str
            Its id. Used for another question, which is one of another label, it is refused (`OtherQuestion`).
        compute : callable
            Returns the noisy answer, as it will be sent.
        label : str
            What it is, for the journal.

        Returns
        -------
        bytes
            The answer.
        """

        def make() -> bytes:
            answer = bytes(compute())
            self.checkpoint(label)
            return answer

        return answered(self.ledger, request, label, make, label, reservation=self.entry.sequence)

    def close(self, label: str = "end of the run") -> Entry:
        """End the run cleanly: nothing can be drawn any more, and what was not drawn goes back where that is valid.

        Call it only when the run ended for reasons that the released answers and public facts determine, never after an
        error: that the rows made a run fail is not protected by any noise, and what goes back would tell it. Nothing
        closes a reservation by itself.

        - From a pure or zCDP budget, or from the adaptive slice, the cost of what was not drawn goes back. These are
          filters: all that counts is that the costs of what was released add up to no more than the cap, however each
          release, the stop included, was chosen (Rogers, Roth, Ullman and Vadhan 2016; Feldman and Zrnic 2021).
        - Of an (epsilon_i, delta_i) slice nothing goes back once something was drawn. Its price holds for the whole
          plan as fixed in advance; the price of the part that was drawn would be that of a stopping point chosen by
          looking at the answers, for which the tight accountant proves nothing.
        - Where nothing was drawn, all goes back in every notion: the run then is one that was never admitted, and what
          is admitted may be chosen adaptively also among runs that overlap (Haney et al. 2023).

        Where the journal cannot be written now, nothing goes back and the owner is warned: closing again tries again.

        Returns
        -------
        Entry
            The journal's, with what went back as negative amounts; the reservation's own where it could not be written.
            Closing again returns it again.
        """
        self.check_process()
        with self._lock:
            if self._closing is None:
                self._ended = True
                self._written(lambda: self._settle(label), "what was not drawn stays spent until it is closed again")
            return self.entry if self._closing is None else self._closing

    def _settle(self, label: str) -> None:
        self._closing = self.ledger.settle(self, label)
