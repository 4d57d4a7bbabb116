"""Faults that a stored ledger must outlive: forks, links, power cuts, failing disks, damaged bytes.

Each function tries one fault many times and returns a `Row`: how often, how many charges were granted in all, and what must
be 0: charges that were granted and are not recorded, budget spent above its cap, and errors that are not privfcd's own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from privfcd.accounting.budget import Budget
from privfcd.errors import PrivfcdError
from privfcd.ledger.journal_schema import PAGE_SIZE
from privfcd.ledger.ledger import Ledger
from privfcd.ledger.memory_journal import MemoryJournal
from privfcd.ledger.reservation import PlanPart
from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import export, init_ledger, open_ledger, show, verify

NAME = "patients"
SECTOR = 512
RECORD = PAGE_SIZE + 8  # of a journal: the page's number, the page as it was, a checksum
FILES = ("", "-head", "-journal")
_MAGIC = bytes.fromhex("d9d505f920a163d7")  # how a journal begins that counts
_NEWPID = 0x20000000


@dataclass(frozen=True)
class Row:
    """What came of one fault."""

    fault: str
    tried: int
    granted: int
    unpaid: int = 0
    overspent: int = 0
    tracebacks: int = 0
    refused: int = 0

    def holds(self) -> bool:
        """Whether nothing was lost."""
        return not (self.unpaid or self.overspent or self.tracebacks)


class Tally:
    """Counts what one fault did."""

    def __init__(self, fault: str) -> None:
        self.row = Row(fault, 0, 0)

    def count(self, **more: int) -> None:
        """Add to the counts."""
        self.row = replace(self.row, **{name: getattr(self.row, name) + number for name, number in more.items()})

    def attempt(self, act: Callable[[], object]) -> bool:
        """Return whether `act` was done; count what it raises."""
        try:
            act()
        except PrivfcdError:
            self.count(refused=1)
            return False
        except Exception:
            self.count(tracebacks=1)
            return False
        return True

    def compare(self, path: Path, granted: int, cap: int) -> None:
        """Count what the ledger does not record of `granted` charges of one unit, if it says anything at all."""

        def look() -> None:
            found, spent = verify(path), show(path)["data_sets"][NAME]["accounts"]["rho"]
            units = round(float(spent["spent_exact"]) * 10**24)
            if found.ok:
                self.count(unpaid=max(granted - units, 0), overspent=max(units - cap, 0))

        self.attempt(look)


class Copying(SqliteJournal):
    """Keeps the files' contents as they are before and after each commit."""

    before: dict[str, bytes]

    def _commit(self, connection: Any) -> None:
        self.before = contents(self.path)
        super()._commit(connection)


class Hasty(SqliteJournal):
    """Does not wait for the disk."""

    _synchronous = "OFF"


def contents(path: Path) -> dict[str, bytes]:
    """Return what a ledger's files hold."""
    places = {suffix: Path(f"{path}{suffix}") for suffix in FILES}
    return {suffix: place.read_bytes() for suffix, place in places.items() if place.exists()}


def put(path: Path, held: dict[str, bytes]) -> None:
    """Write a ledger's files, and no others."""
    for suffix in FILES:
        place = Path(f"{path}{suffix}")
        if suffix in held:
            place.write_bytes(held[suffix])
        else:
            place.unlink(missing_ok=True)


def made(path: Path, charges: int, cap: int = 10**6) -> Path:
    """Make a ledger with so many charges of one unit, and a stored answer."""
    init_ledger(path, NAME, Budget.from_units(rho_units=cap))
    with Hasty(path) as journal:
        for number in range(charges):
            journal.post(NAME, "charge", f"charge {number}", "E()", {"rho": 1})
        journal.store(NAME, "question", b"answer")
    return path


# --- forks --------------------------------------------------------------------------------------------------------


def forks(folder: Path, times: int) -> list[Row]:
    """Fork with a budget in memory, a reservation and a stored ledger; parent first, child first, and as pid 1 twice."""
    rows = []
    for name, child_first in (("fork, parent ends first", False), ("fork, child ends first", True)):
        tally, path = Tally(f"{name}: stored"), folder / f"fork {child_first}.db"
        init_ledger(path, NAME, Budget.from_units(rho_units=10**6))
        for _ in range(times):
            tally.count(tried=1, granted=7)
            if _run(lambda path=path, first=child_first: _fork_and_charge(path, first)):  # type: ignore[misc]
                tally.count(tracebacks=1)
        tally.compare(path, tally.row.granted, 10**6)
        rows.append(tally.row)
    tally = Tally("fork: in memory, and reservations")
    for _ in range(times):
        tally.count(tried=1, granted=1)
        tally.count(overspent=_run(_spend_as_child))
    rows.append(tally.row)
    if _run(lambda: int(_unshare() != 0)) == 0:
        tally = Tally("fork into a process namespace, pid 1 twice")
        for _ in range(times):
            tally.count(tried=1, granted=1)
            tally.count(overspent=_run(lambda: _as_first_process(lambda: _as_first_process(None))))
        rows.append(tally.row)
    return rows


def _run(act: Callable[[], int]) -> int:
    """Return what `act` returns in a forked child of this process."""
    child = os.fork()
    if child == 0:
        code = 99
        with contextlib.suppress(BaseException):
            code = act()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _fork_and_charge(path: Path, child_first: bool) -> int:
    """Charge 5 here, 1 in a child and 1 more here; the first to end leaves before the other charges."""
    journal = Hasty(path)
    for _ in range(5):
        journal.post(NAME, "charge", "before", "", {"rho": 1})
    reading, writing = os.pipe()
    child = os.fork()
    here = child != 0
    if here != child_first:  # this side ends first
        journal.post(NAME, "charge", "first", "", {"rho": 1})
        os.close(writing)
        return 0 if here is False else _left(child, reading)
    os.close(writing)
    os.read(reading, 1)
    journal.post(NAME, "charge", "last", "", {"rho": 1})
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if here else 0


def _left(child: int, reading: int) -> int:
    """End as the parent, once the child has charged."""
    os.close(reading)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _spend_as_child() -> int:
    """Return how many spends a forked child is granted of a budget in memory, of 4."""
    ledger = Ledger(Budget.from_units(rho_units=10**6), journal=MemoryJournal())
    run = ledger.reserve([PlanPart("step", _unit(), 9)])
    spends: list[Callable[[], object]] = [
        lambda: ledger.charge(_unit()),
        lambda: ledger.reserve(_unit()),
        lambda: run.draw("step"),
        lambda: run.close(),
    ]

    def granted() -> int:
        number = 0
        for spend in spends:
            with contextlib.suppress(PrivfcdError):
                spend()
                number += 1
        return number

    return _run(granted)


def _as_first_process(then: Callable[[], int] | None) -> int:
    """Fork into a new namespace of processes; there go on, or spend what the process before made."""
    if then is None:
        ledger = Ledger(Budget.from_units(rho_units=10**6))
        run = ledger.reserve([PlanPart("step", _unit(), 9)])

        def granted() -> int:
            number = 0 if os.getpid() == 1 else 50
            for spend in (lambda: ledger.charge(_unit()), lambda: run.draw("step")):
                with contextlib.suppress(PrivfcdError):
                    spend()
                    number += 1
            return number

        then = granted
    if _unshare():
        return 98
    return _run(then)


def _unshare() -> int:
    return ctypes.CDLL(None).unshare(_NEWPID) if sys.platform == "linux" else 1


def _unit() -> Any:
    from dp_accounting import ZCDpEvent

    return ZCDpEvent(1e-24)


# --- names --------------------------------------------------------------------------------------------------------


def links(folder: Path, times: int) -> Row:
    """Charge a ledger under a hard link, a symbolic link, a bind mount of the file, and after a kill and a move."""
    tally = Tally("hard link, symbolic link, bind mount, move after a kill")
    for number in range(times):
        path, cap = made(folder / f"links {number}.db", 8, cap=10), 10
        second = folder / f"second {number}.db"
        how = number % 4
        granted = 8
        if how == 0:
            os.link(path, second)
        elif how == 1:
            second.symlink_to(path)
        elif how == 2:
            second.touch()
            if subprocess.run(["mount", "--bind", path, second], capture_output=True).returncode:
                continue
        else:
            with Copying(path) as journal:
                journal.post(NAME, "charge", "killed", "", {"rho": 1})
                torn = journal.before
            put(path, torn)
            os.rename(path, second)
        tally.count(tried=1)
        for place in (path, second) * 2:
            if how == 3 and place == path:
                continue

            def charge(place: Path = place) -> None:
                open_ledger(place, NAME).charge(_unit())

            granted += tally.attempt(charge)
        tally.count(granted=granted, overspent=max(granted - cap, 0))
        if how == 0:
            second.unlink()
        if how == 2:
            subprocess.run(["umount", second], check=True)
        tally.compare(second if how == 3 else path, granted, cap)
    return tally.row


# --- power cuts ---------------------------------------------------------------------------------------------------


def power_cuts(folder: Path, cuts: int, seed: int = 1) -> Row:
    """Put together what a power cut may leave of a commit, open it, and look for every charge that was granted before.

    The order that SQLite keeps by waiting for the disk: the journal's pages, then its header with their number, then the
    ledger's pages, then the journal's header zeroed. Between two waits any of the sectors that were written may be there.
    The file beside that names the last entry is never waited for: each of its slots may be as old as it likes.
    """
    random, tally = np.random.default_rng(seed), Tally("power cut, write log replayed")
    path, cut = folder / "power.db", folder / "cut.db"
    init_ledger(path, NAME, Budget.from_units(rho_units=10**6))
    heads = [contents(path)["-head"]]
    granted, last = 0, b""
    with Copying(path) as journal:
        for _ in range(-(-cuts // 4)):
            journal.post(NAME, "charge", "x" * int(random.integers(1, 9000)), "E()", {"rho": 1})
            before, after = journal.before, contents(path)
            full = whole_journal(before["-journal"], after["-journal"])
            for stage in range(4):
                held = cut_state(stage, before[""], after[""], full, after["-journal"], last, random)
                slots = [heads[int(random.integers(len(heads)))] for _ in range(2)]
                held["-head"] = slots[0][:SECTOR].ljust(SECTOR, b"\0") + slots[1][SECTOR:]
                put(cut, held)
                known = granted + (stage == 3)
                tally.count(tried=1, granted=known)

                def go_on(known: int = known) -> None:
                    with Hasty(cut, create=False) as again:
                        recorded = again.balance(NAME)["rho"][0]
                        tally.count(unpaid=max(known - recorded, 0), overspent=max(recorded - known - 1, 0))
                        again.post(NAME, "charge", "after", "", {"rho": 1})
                    if not verify(cut).ok:
                        raise AssertionError(verify(cut))

                if not tally.attempt(go_on):
                    tally.count(tracebacks=1)  # a power cut must lock nobody out either
            granted, last = granted + 1, after["-journal"]
            heads.append(after["-head"])
    return replace(tally.row, refused=0)


def whole_journal(before: bytes, after: bytes) -> bytes:
    """Return a journal as it is on disk before the ledger is written: `after` has all pages, `before` has the header."""
    nonce = int.from_bytes(before[12:16], "big")
    pages = 0
    while True:
        record = after[SECTOR + pages * RECORD : SECTOR + (pages + 1) * RECORD]
        if len(record) < RECORD:
            break
        sample = sum(record[4 + place] for place in range(PAGE_SIZE - 200, 0, -200))
        if (nonce + sample) % 2**32 != int.from_bytes(record[-4:], "big"):
            break
        pages += 1
    return _MAGIC + pages.to_bytes(4, "big") + before[12:SECTOR] + after[SECTOR:]


def cut_state(
    stage: int, old: bytes, new: bytes, full: bytes, zeroed: bytes, last: bytes, random: np.random.Generator
) -> dict[str, bytes]:
    """Return the ledger and its journal as a cut leaves them at one of four stages of a commit."""
    match stage:
        case 0:  # the journal is being written: its header does not count its pages yet
            return {"": old, "-journal": mixed(last, bytes(12) + full[12:], random)}
        case 1:  # the ledger is being written
            return {"": mixed(old, new, random), "-journal": full}
        case 2:  # the journal's header is being zeroed
            return {"": new, "-journal": (full, zeroed)[int(random.integers(2))]}
    return {"": new, "-journal": zeroed}


def mixed(old: bytes, new: bytes, random: np.random.Generator) -> bytes:
    """Return a file of which any of the sectors that changed were written, and which has grown by some of them."""
    sectors = range(0, max(len(old), len(new)), SECTOR)
    grown = len(old) + int(random.integers((max(len(new) - len(old), 0)) // SECTOR + 1)) * SECTOR
    parts = [(old if random.integers(2) else new)[place : place + SECTOR].ljust(SECTOR, b"\0") for place in sectors]
    return b"".join(parts)[:grown]


# --- disks --------------------------------------------------------------------------------------------------------


def failing_writes(folder: Path, times: int, seed: int = 2) -> Row:
    """Let the operating system refuse writes beyond a random place of a file while charges are made (as EIO would)."""
    import resource

    random, tally, path = (
        np.random.default_rng(seed),
        Tally("write error at a random place (RLIMIT_FSIZE)"),
        folder / "io.db",
    )
    made(path, 20)
    granted, unlimited = 20, resource.getrlimit(resource.RLIMIT_FSIZE)
    with Hasty(path) as journal:
        for _ in range(times):
            most = int(random.integers(0, os.path.getsize(path) + 20_000))
            tally.count(tried=1)

            def charge(most: int = most) -> None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, unlimited[1]))
                try:
                    journal.post(NAME, "charge", "x" * int(random.integers(1, 9000)), "", {"rho": 1})
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)

            granted += tally.attempt(charge)
            spent = journal.balance(NAME)["rho"][0]
            tally.count(unpaid=max(granted - spent, 0), granted=0)
    tally.count(granted=granted)
    tally.compare(path, granted, 10**6)
    return tally.row


def full_disk(folder: Path, times: int, seed: int = 3) -> Row:
    """Charge on a file system that is full but for a few pages (ENOSPC). Who may mount none tries nothing."""
    random, tally = np.random.default_rng(seed), Tally("disk full (ENOSPC)")
    place = folder / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", place], capture_output=True).returncode:
        return tally.row
    try:
        path, granted = made(place / "full.db", 5), 5
        with Hasty(path) as journal:
            for _ in range(times):
                filler = place / "filler"
                free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
                filler.write_bytes(bytes(max(free - 4096 * int(random.integers(0, 3)), 0)))
                tally.count(tried=1)

                def charge() -> None:
                    journal.post(NAME, "charge", "x" * int(random.integers(1, 9000)), "", {"rho": 1})

                granted += tally.attempt(charge)
                filler.unlink()
        tally.count(granted=granted)
        tally.compare(path, granted, 10**6)
    finally:
        subprocess.run(["umount", "-l", place], check=True)
    return tally.row


# --- damage -------------------------------------------------------------------------------------------------------


def flipped_bytes(folder: Path, times: int, seed: int = 4) -> list[Row]:
    """Flip one bit of the ledger, of the file beside it, and of an interrupted charge's journal; read it, and charge it."""
    random = np.random.default_rng(seed)
    path, spoilt, charges, cap = made(folder / "whole.db", 30, cap=100), folder / "spoilt.db", 30, 100
    at_rest = contents(path)
    with Copying(path) as journal:
        journal.post(NAME, "charge", "interrupted", "E()", {"rho": 1})
        after, before = contents(path), journal.before
    full = whole_journal(before["-journal"], after["-journal"])
    rows = []
    for suffix, words in (
        ("", "ledger"),
        ("-head", "head beside it"),
        ("-journal", "journal of an interrupted charge"),
    ):
        tally = Tally(f"a bit flipped in the {words}")
        for _ in range(times):
            if suffix == "-journal":
                held = {"": mixed(before[""], after[""], random), "-journal": full, "-head": before["-head"]}
            else:
                held = dict(at_rest)
            content = bytearray(held[suffix])
            used = np.flatnonzero(np.frombuffer(content, np.uint8))
            place = int(random.choice(used)) if random.integers(4) else int(random.integers(len(content)))
            content[place] ^= 1 << int(random.integers(8))
            put(spoilt, {**held, suffix: bytes(content)})
            tally.count(tried=1, granted=charges)
            _read_and_charge(spoilt, tally, charges, cap)
        rows.append(tally.row)
    return rows


def _read_and_charge(path: Path, tally: Tally, charges: int, cap: int) -> None:
    """Use a ledger in every way; count what is missing of its charges where it is called intact, or is granted."""

    def look() -> None:
        found, data = verify(path), show(path)["data_sets"]
        if found.ok:  # then nothing may be missing: the opening, the charges and the answer are entries
            spent = round(float(data[NAME]["accounts"]["rho"]["spent_exact"]) * 10**24)
            tally.count(unpaid=max(charges - spent, 0) + (found.entries < charges + 2))

    def charge() -> None:
        with Hasty(path, create=False) as journal:
            spent, most = journal.balance(NAME)["rho"]
            journal.post(NAME, "charge", "after", "", {"rho": 1})
            tally.count(overspent=int(most != cap or spent < charges))

    for act in (lambda: list(export(path)), look, charge):
        tally.attempt(act)


def all_faults(folder: Path, quick: bool) -> Iterator[Row]:
    """Yield the rows of all faults that this system lets one try."""
    if hasattr(os, "fork"):
        yield from forks(folder, 5 if quick else 50)
    yield links(folder, 8 if quick else 80)
    yield power_cuts(folder, 60 if quick else 1_000)
    if os.name == "posix":
        yield failing_writes(folder, 40 if quick else 400)
    if shutil.which("mount"):
        yield full_disk(folder, 20 if quick else 200)
    yield from flipped_bytes(folder, 40 if quick else 600)


def table(rows: list[Row]) -> str:
    """Return rows as a Markdown table."""
    names = ("tried", "granted", "refused", "unpaid", "overspent", "tracebacks")
    lines = ["| fault | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    lines += [f"| {row.fault} | " + " | ".join(f"{getattr(row, name):,}" for name in names) + " |" for row in rows]
    return "\n".join(lines)
