"""The durable ledger under load: charges a second, kill -9 at random moments, races, other faults, and a long history.

What kill -9 shows is that no order of events inside the process loses a charge. That a commit survives a power cut
rests on the disk doing what fsync asks of it, which no program can show from inside; what a cut may then leave is put
together from what was written (`ledger_faults`).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from dp_accounting import ZCDpEvent

from benchmarks.ledger_faults import Row, all_faults, table
from privfcd.accounting.budget import Budget
from privfcd.errors import BudgetExceeded
from privfcd.ledger.ledger import Ledger
from privfcd.ledger.memory_journal import MemoryJournal
from privfcd.ledger.reservation import PlanPart
from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import init_ledger, open_ledger, verify

NAME = "patients"
STEP = ZCDpEvent(1e-6)
UNIT = ZCDpEvent(1e-24)
STEP_UNITS = 10**18
DRAWS = 5
WRITTEN = (0, 1, 20)
"""How many releases one process and the next are let write before the moment at which they are killed is drawn."""


class HastyJournal(SqliteJournal):
    """A journal that does not wait for the disk: fills a history up between measurements."""

    _synchronous = "OFF"


@dataclass(frozen=True)
class Killed:
    """What many kill -9 left: how many releases were seen outside, which of them were not paid, and the verdict."""

    kills: int
    releases: Counter[str]
    unpaid: int
    entries: int
    unfinished: int
    problems: tuple[str, ...]


def charge_times(ledger: Ledger, count: int) -> list[float]:
    """Return the seconds that each of `count` charges took."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        ledger.charge(STEP)
        times.append(time.perf_counter() - start)
    return times


def sync_times(path: Path, count: int) -> list[float]:
    """Return the seconds that each of `count` writes of a page took until it was on disk."""
    times = []
    with open(path, "wb", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return times


def draw_seconds(count: int) -> float:
    """Return the seconds that `count` draws from a reservation took, one by one."""
    run = Ledger(Budget(rho=1), journal=MemoryJournal()).reserve([PlanPart("step", ZCDpEvent(1e-9), count)])
    start = time.perf_counter()
    for _ in range(count):
        run.draw("step")
    return time.perf_counter() - start


def kill_often(folder: Path, kills: int, seed: int = 1, longest: float = 0.06) -> Killed:
    """Start a process that charges and releases, kill it after up to `longest` seconds, and again.

    Each release is written to a file of its own once it was paid, as if it had been sent. Two processes of three are first
    let write some: on a slow machine none would come so far.
    """
    path, sent = folder / "ledger.db", folder / "sent.txt"
    init_ledger(path, NAME, Budget(rho=100))
    sent.touch()
    moments = np.random.default_rng(seed).uniform(0, longest, kills)
    context = _context()
    for number, moment in enumerate(moments):
        process = context.Process(target=_charge_and_send, args=(str(path), str(sent), number))
        before = sent.stat().st_size
        process.start()
        _wait_for(sent, before + len(sent_line("", "", "")) * WRITTEN[number % len(WRITTEN)], process)
        time.sleep(moment)
        process.kill()
        process.join()
    return _compare(path, sent, kills)


def _wait_for(file: Path, size: int, process: BaseProcess, longest: float = 60.0) -> None:
    """Wait until a file has that size, or the process ended."""
    end = time.monotonic() + longest
    while file.stat().st_size < size and process.is_alive() and time.monotonic() < end:
        time.sleep(0.001)


def sent_line(kind: str, token: str, content: str) -> bytes:
    """Return a release as a line of 64 bytes: none crosses a page, so that a kill cannot leave half of one."""
    return f"{kind} {token} {content}".ljust(63).encode() + b"\n"


def race(folder: Path, units: int, processes: int = 8) -> tuple[int, list[int], bool]:
    """Let processes race for `units` units; return how many were granted in all and to each, and if the chain holds."""
    path = folder / "race.db"
    init_ledger(path, NAME, Budget.from_units(rho_units=units))
    granted = _all_at_once(_spend_units, path, processes)
    return sum(granted), granted, verify(path).ok


def naive_race(folder: Path, units: int, processes: int = 8) -> int:
    """The same with a store that is checked, then released from, then updated; return how many were granted."""
    path = folder / "naive.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE account (spent INTEGER, cap INTEGER)")
        connection.execute("INSERT INTO account VALUES (0, ?)", (units,))
    return sum(_all_at_once(_spend_naively, path, processes))


def history_times(folder: Path, total: int, window: int) -> list[tuple[int, float, float]]:
    """Return, along a history of `total` charges, (charges before, median seconds durable, and without the disk).

    Each median is over `window` charges; between the windows the history is filled up without waiting for the disk.
    """
    path, budget = folder / "long.db", Budget(rho=100)
    init_ledger(path, NAME, budget)
    results: list[tuple[int, float, float]] = []
    done = 0
    for start in (0, total // 100, total // 10, total // 2, total - 2 * window):
        if start < done:
            continue
        with HastyJournal(path) as journal:
            hasty = Ledger(budget, name=NAME, journal=journal)
            charge_times(hasty, start - done)
            alone = median(charge_times(hasty, window))
        with SqliteJournal(path) as journal:
            durable = median(charge_times(Ledger(budget, name=NAME, journal=journal), window))
        results.append((start, durable, alone))
        done = start + 2 * window
    return results


def main(quick: bool = False) -> bool:
    """Measure and print; return whether everything that must hold did.

    Parameters
    ----------
    quick : bool
        40 kills, 300 units, 5,000 charges and a tenth of the other faults, instead of 1,000, 3,000 and 100,000.
    """
    kills, units, total = (40, 300, 5_000) if quick else (1_000, 3_000, 100_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        init_ledger(folder / "rate.db", NAME, Budget(rho=100))
        times = charge_times(open_ledger(folder / "rate.db", NAME), 100 if quick else 500)
        syncs = sync_times(folder / "sync", 100)
        best = sorted(times)[len(times) // 10]
        print(
            f"durable charges: {len(times) / sum(times):.0f} a second here; median {median(times) * 1e3:.2f} ms, a tenth of "
            f"them in at most {best * 1e3:.2f} ms"
        )
        print(
            f"  a charge waits for the disk 5 times (journal twice, folder, ledger, journal); one wait: median "
            f"{median(syncs) * 1e3:.2f} ms, a tenth of them at most {sorted(syncs)[len(syncs) // 10] * 1e3:.2f} ms"
        )
        seconds = min(draw_seconds(80_000) for _ in range(10))
        fine = [_verdict(f"80,000 draws from a reservation: {seconds:.3f} s, must be below 0.1 s", seconds < 0.1)]
        killed = kill_often(folder, kills)
        released = ", ".join(f"{count} {kind}" for kind, count in sorted(killed.releases.items()))
        print(
            f"{killed.kills} times kill -9: {killed.entries} entries, released {released}; "
            f"{killed.unfinished} reserved or requested and never finished, all still spent"
        )
        fine.append(_verdict(f"unpaid releases: {killed.unpaid}, must be 0", killed.unpaid == 0))
        fine.append(_verdict(f"chain and balances: {killed.problems or 'intact'}", not killed.problems))
        granted, each, intact = race(folder, units)
        line = f"8 processes for {units} units: {granted} granted ({', '.join(map(str, each))}), must be {units}"
        fine.append(_verdict(line, granted == units and intact))
        rows = [
            Row("kill -9", killed.kills, sum(killed.releases.values()), killed.unpaid, tracebacks=len(killed.problems)),
            Row("race of 8 processes for the last units", units, granted, overspent=max(granted - units, 0)),
        ]
        (folder / "faults").mkdir()
        for row in all_faults(folder / "faults", quick):
            rows.append(row)
            fine.append(row.holds())
        print(table(rows))
        naive = naive_race(folder, units)
        print(f"  the same by check, release, update: {naive} granted, {naive - units} too many")
        print(f"{'charges before':>16} {'ms durable':>12} {'ms without disk':>16}   (medians)")
        times_along = history_times(folder, total, window=100 if quick else 400)
        for before, durable, alone in times_along:
            print(f"{before:>16,} {durable * 1e3:>12.2f} {alone * 1e3:>16.3f}")
        growth = times_along[-1][2] / times_along[0][2]
        line = f"without the disk, the last charges take {growth:.2f} times the first ones, must be below 1.5"
        fine.append(_verdict(line, growth < 1.5))
        found = verify(folder / "long.db")
        fine.append(_verdict(f"its {found.entries:,} entries: {found.problems or 'intact'}", found.ok))
    return all(fine)


def _verdict(text: str, holds: bool) -> bool:
    print(f"{text}: {'yes' if holds else 'NO'}")
    return holds


def _context() -> Any:
    """Return what starts a process fast and clean: forked from a server that has imported this, or spawned."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _charge_and_send(path: str, sent: str, seed: int) -> None:
    """Charge, run and answer without end, and write down each release after it was paid."""
    ledger, random = open_ledger(path, NAME), np.random.default_rng(seed)
    out = os.open(sent, os.O_WRONLY | os.O_APPEND)

    def send(kind: str, token: str, content: str = "-") -> None:
        os.write(out, sent_line(kind, token, content))

    while True:
        token = secrets.token_hex(8)
        match random.integers(3):
            case 0:
                ledger.charge(STEP, token)
                send("charges", token)
            case 1:
                run = ledger.reserve([PlanPart("step", STEP, DRAWS)], token)
                for _ in range(random.integers(DRAWS + 1)):
                    run.draw("step")
                    send("draws", token)
                run.close()
            case 2:
                answer = ledger.answer_once(token, STEP, lambda: secrets.token_bytes(8))
                send("answers", token, answer.hex())


def _compare(path: Path, sent: Path, kills: int) -> Killed:
    """Look up every release that was seen outside in the ledger."""
    with SqliteJournal(path, create=False) as journal:
        charged: Counter[str] = Counter()
        labels: dict[int, str] = {}
        for entry in journal.entries(NAME):
            labels[entry.sequence] = labels.get(entry.reference) or entry.request or entry.label
            charged[labels[entry.sequence]] += sum(entry.spent.values())
        lines = [line.split() for line in sent.read_text().splitlines()]
        owed: Counter[str] = Counter()
        unpaid = 0
        for kind, token, content in lines:
            owed[token] += STEP_UNITS
            stored = journal.answer(NAME, token)
            unpaid += kind == "answers" and (stored is None or not stored.hex().endswith(content))
    found = verify(path)
    unpaid += sum(owed[token] > charged[token] for token in owed)
    kinds = Counter(kind for kind, _, _ in lines)
    return Killed(kills, kinds, unpaid, found.entries, found.unfinished, found.problems)


def _all_at_once(work: Callable[..., None], path: Path, processes: int) -> list[int]:
    """Run `work` in several processes that start together, and return what each was granted."""
    context = _context()
    start, grants = context.Barrier(processes), context.SimpleQueue()
    workers = [context.Process(target=work, args=(str(path), start, grants)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    granted = [grants.get() for _ in workers]
    for worker in workers:
        worker.join()
    return sorted(granted, reverse=True)


def _spend_units(path: str, start: Any, grants: Any) -> None:
    ledger = open_ledger(path, NAME, timeout=120.0)
    start.wait()
    granted = 0
    with contextlib.suppress(BudgetExceeded):
        while True:
            ledger.charge(UNIT)
            granted += 1
    grants.put(granted)


def _spend_naively(path: str, start: Any, grants: Any) -> None:
    granted = 0
    with contextlib.closing(sqlite3.connect(path, timeout=120.0, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        start.wait()
        while _one(connection.execute("SELECT spent < cap FROM account")):
            granted += 1  # the rows would be read and the answer sent here
            connection.execute("UPDATE account SET spent = spent + 1")
    grants.put(granted)


def _one(rows: Iterable[tuple[Any, ...]]) -> Any:
    ((value,),) = rows
    return value


@click.command()
@click.option("--quick", is_flag=True, help="Fewer crashes, charges and units.")
def ledger(quick: bool) -> None:
    """The durable ledger: speed, crashes, races. Exit code 1 if a claim does not hold."""
    if not main(quick):
        raise click.exceptions.Exit(1)
