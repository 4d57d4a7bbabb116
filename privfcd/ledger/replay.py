"""Recompute a ledger from its entries alone, and say what does not fit.

After something wrong the replay goes on from what the entry says, so that one edit is reported once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from privfcd.accounting.units import units_text
from privfcd.errors import LedgerCorrupt
from privfcd.ledger.hash_chain import Record, entry_hash, genesis
from privfcd.ledger.journal_rows import Rows

CHUNK = 1000


@dataclass
class Scope:
    """What one data set's entries add up to."""

    sequence: int = -1
    last: str = ""
    balances: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    open_reservations: dict[int, Record] = field(default_factory=dict)
    paid_requests: dict[str, Record] = field(default_factory=dict)
    answers: dict[str, Record] = field(default_factory=dict)


class Replay:
    """Takes records in the order of their numbers.

    Parameters
    ----------
    ledger : str
        The ledger's id.
    head : str, optional
        A head that was kept elsewhere, to be looked for.
    restored : int
        Number of the last entry that came from an export, in which the answers themselves are not.

    Attributes
    ----------
    problems : list of str
        What is wrong.
    scopes : dict of str to Scope
        What the entries add up to.
    number, hash
        Of the last record.
    clock : list of Record
        Those whose clock was behind that of the entry before: one of the two times is wrong.
    """

    def __init__(self, ledger: str, head: str | None = None, restored: int = 0) -> None:
        self.number = 0
        self.hash = genesis(ledger)
        self.problems: list[str] = []
        self.scopes: dict[str, Scope] = {}
        self.clock: list[Record] = []
        self._restored = restored
        self._time = ""
        self._head = head
        self._head_found = head in (None, self.head)

    @property
    def head(self) -> str:
        """Number and hash of the last record."""
        return f"{self.number}:{self.hash}"

    def add(self, record: Record) -> None:
        """Take the next record."""
        self._check_chain(record)
        scope = self.scopes.setdefault(record.scope, Scope())
        self._check_order(scope, record)
        self._check_kind(scope, record)
        self._check_amounts(scope, record)
        scope.sequence, scope.last, scope.balances = record.sequence, record.head(), dict(record.balances)
        if record.kind == "reserve":
            scope.open_reservations[record.sequence] = record
        elif record.kind == "close":
            scope.open_reservations.pop(record.reference, None)
        if record.kind == "answer":
            if record.request in scope.answers and scope.answers[record.request].number > self._restored:
                self._say(record, f"answers request {record.request!r} a second time")
            scope.answers[record.request] = record
            scope.paid_requests.pop(record.request, None)
        elif record.request and record.request not in scope.answers:
            scope.paid_requests[record.request] = record

    def add_all(self, rows: Rows, most: int | None = None) -> bool:
        """Take what follows from a ledger's rows, up to `most`; return whether that was all."""
        taken = 0
        while most is None or taken < most:
            chunk = rows.after(self.number, CHUNK)
            for record in chunk:
                self.add(record)
            taken += len(chunk)
            if len(chunk) < CHUNK:
                return True
        return False

    def compare(self, rows: Rows) -> None:
        """Say where the tables of balances and answers differ from what the entries give."""
        known = [name for (name,) in rows.connection.execute("SELECT DISTINCT scope FROM accounts")]
        for name in sorted({*known, *self.scopes}):
            stored = rows.balance(name)
            given = self.scopes[name].balances if name in self.scopes else {}
            for account in sorted(stored.keys() | given.keys()):
                if stored.get(account) != given.get(account):
                    self.problems.append(
                        f"the balance of {account!r} of {name!r} is {_balance_text(stored.get(account))}, "
                        f"its entries give {_balance_text(given.get(account))}"
                    )
        answered = rows.connection.execute("SELECT scope, request FROM answers ORDER BY scope, request").fetchall()
        for name, request in answered:
            try:
                rows.answer(name, request)
            except LedgerCorrupt as error:
                self.problems.append(str(error))
        given_answers = {
            (name, request)
            for name, scope in self.scopes.items()
            for request, record in scope.answers.items()
            if record.number > self._restored
        }
        for name, request in sorted(given_answers - set(answered)):
            self.problems.append(f"the answer to request {request!r} of {name!r} is missing")

    def finish(self) -> None:
        """Say what only the end shows."""
        if not self._head_found:
            self.problems.append(
                f"the head {self._head} that was kept elsewhere is not in the chain, which ends at {self.head}: "
                "entries were cut off or rewritten, or an old copy was put back"
            )

    def unfinished(self) -> int:
        """Return how many reservations and requests were paid for and not finished."""
        return sum(len(scope.open_reservations) + len(scope.paid_requests) for scope in self.scopes.values())

    def notes(self) -> list[str]:
        """Return what is not wrong, but is to be known: what was paid for and not finished."""
        lines = [
            f"entry {record.number} ({record.scope!r} {record.sequence}) has the time {record.time}, before that of "
            "the entry before it: the clock was wrong at one of them"
            for record in self.clock
        ]
        for name, scope in sorted(self.scopes.items()):
            for record in scope.open_reservations.values():
                took = ", ".join(f"{account} {units_text(units)}" for account, units in record.spent.items())
                lines.append(
                    f"entry {record.number} ({name!r} {record.sequence}): {record.label!r} of {record.time} was "
                    f"reserved, never closed: it still runs, or it crashed; {took or 'nothing'} stays spent"
                )
            for request, record in scope.paid_requests.items():
                lines.append(
                    f"entry {record.number} ({name!r} {record.sequence}): request {request!r} of {record.time} was paid, "
                    "never answered: it is being answered, or it crashed; the cost stays spent"
                )
        return lines

    def _check_chain(self, record: Record) -> None:
        if record.number != self.number + 1:
            gap = f"{self.number + 1} to {record.number - 1}"
            ahead = record.number > self.number
            self.problems.append(f"entries {gap} are missing" if ahead else f"entry {record.number} is out of order")
        elif entry_hash(self.hash, record) != record.hash:
            self._say(record, "does not have the hash of its content: it was changed, or the hash before it")
        self.number, self.hash = record.number, record.hash
        if self.head == self._head:
            self._head_found = True
        if record.time < self._time:
            self.clock.append(record)
        self._time = record.time

    def _check_order(self, scope: Scope, record: Record) -> None:
        if record.sequence != scope.sequence + 1:
            self._say(record, f"should be number {scope.sequence + 1} of its data set")
        if (record.kind == "open") != (record.sequence == 0):
            self._say(record, f"is of kind {record.kind!r}: number 0 of a data set opens it, and no other")

    def _check_kind(self, scope: Scope, record: Record) -> None:
        if record.kind == "close":
            reservation = scope.open_reservations.get(record.reference)
            if reservation is None:
                self._say(record, f"closes {record.reference}, which is not an open reservation")
                return
            for account, units in record.spent.items():
                if not 0 <= -units <= reservation.spent.get(account, 0):
                    self._say(record, f"gives back {units_text(-units)} of {account}, not what its reservation took")
        elif any(units < 0 for units in record.spent.values()):
            self._say(record, "gives something back, which only the close of a reservation may")

    def _check_amounts(self, scope: Scope, record: Record) -> None:
        before = scope.balances
        for account in sorted(before.keys() | record.balances.keys() | record.spent.keys()):
            if account not in record.balances:
                self._say(record, f"has lost the account {account!r}")
                continue
            total, cap = record.balances[account]
            was, old_cap = before.get(account, (0, cap))
            if cap != old_cap:
                self._say(record, f"changes the cap of {account!r}")
            if total != was + record.spent.get(account, 0):
                expected = units_text(was + record.spent.get(account, 0))
                self._say(record, f"leaves {units_text(total)} of {account!r} spent where its amounts give {expected}")
            if cap is not None and total > cap:
                self._say(record, f"leaves {units_text(total)} of {account!r} spent, above the cap {units_text(cap)}")

    def _say(self, record: Record, what: str) -> None:
        self.problems.append(f"entry {record.number} ({record.scope!r} {record.sequence}, {record.label!r}) {what}")


def _balance_text(balance: tuple[int, int | None] | None) -> str:
    if balance is None:
        return "missing"
    spent, cap = balance
    return f"{units_text(spent)} of {'no cap' if cap is None else units_text(cap)}"
