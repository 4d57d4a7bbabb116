"""Bytes and numbers from strangers: seeded mutations of all that is read, and what came of them.

Messages to parties, answers to a coordinator, files, and the numbers and events that accounting is asked about. What must be
0: answers from rows that nobody paid for (unpaid), budget spent above its cap, and errors that are not the package's own.
"""

from __future__ import annotations

import json
import resource
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import click
import networkx as nx
import numpy as np
from dp_accounting import ComposedDpEvent, GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent

from privfcd.accounting import BoundedRangeDpEvent, Budget, ZCDpEvent, epsilon_of
from privfcd.data.tables import read_table
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import InvalidParameter, PrivfcdError
from privfcd.graphs import read_graph, write_graph
from privfcd.ledger.tools import export, init_ledger, open_ledger, verify
from privfcd.mechanisms import SimulatedNoise
from privfcd.moments import Moments
from privfcd.moments.files import load_moments, save_moments
from privfcd.runs.desk import Desk
from privfcd.runs.method import Method
from privfcd.runs.study_run import run_study
from privfcd.runs.wire.checkpoint import Checkpoint
from privfcd.runs.wire.durable import DurableParty
from privfcd.runs.wire.envelope import ENVELOPES, Answer, Refusal, Request
from privfcd.runs.wire.study_file import Study, read_study, study_from

PARTIES, COLUMNS, EPSILON = ("north", "south", "west"), ("a", "b", "c", "d"), 2.0
EXTREMES = (b"1e400", b"-1", b"0", b"NaN", b"9" * 400, b"null", b"[" * 4000, b'"\\ud800"', b"1e308", b"true", b"{}")

Random = np.random.Generator


@dataclass
class Outcome:
    """What came of one kind of input."""

    kind: str
    tried: int = 0
    refused: int = 0
    unpaid: int = 0
    overspent: int = 0
    tracebacks: int = 0
    before: int = field(default_factory=lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    first: str = ""

    def attempt(self, work: Callable[[], Any]) -> Any:
        """Try one input; return what came of it, or None after an error."""
        self.tried += 1
        try:
            return work()
        except PrivfcdError:
            self.refused += 1
        except Exception as error:
            self.tracebacks += 1
            self.first = self.first or f"{type(error).__name__}: {error}"[:200]
        return None

    def row(self) -> str:
        """Return the row of the table."""
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.before) / 1024
        numbers = (self.tried, self.refused, self.unpaid, self.overspent, self.tracebacks)
        return f"| {self.kind} | " + " | ".join(f"{number:,}" for number in numbers) + f" | {grown:.0f} |"

    def holds(self) -> bool:
        """Whether nothing was lost."""
        return not (self.unpaid or self.overspent or self.tracebacks)


def mutated(data: bytes, other: bytes, random: Random) -> bytes:
    """Return bytes that a stranger may have made of these."""
    at, end = sorted(random.integers(0, len(data) + 1, 2).tolist())
    match int(random.integers(8)):
        case 0:
            changed = bytearray(data)
            for place in random.integers(0, len(data), int(random.integers(1, 4))).tolist():
                changed[place] ^= 1 << int(random.integers(8))
            return bytes(changed)
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[end:]
        case 3:
            return data[:at] + data[at:end] * 2 + data[end:]
        case 4:
            return data[:at] + random.bytes(int(random.integers(1, 40))) + data[at:]
        case 5:
            return data[:at] + other[at:]
        case 6:
            return data[:at] + EXTREMES[int(random.integers(len(EXTREMES)))] + data[min(at + 1, len(data)) :]
    digits = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    place = digits[int(random.integers(len(digits)))] if digits else at
    return data[:place] + EXTREMES[int(random.integers(len(EXTREMES)))] + data[place + 1 :]


class Trial:
    """Three parties with tables and ledgers, and a study, in a folder of its own."""

    def __init__(self, folder: Path, method: str) -> None:
        self.folder = folder
        folder.mkdir()
        parameters = {"rounds": 2, "updates": 4} if method == "fed-sparse" else {}
        document = {"schema": 1, "name": "trial", "method": method, "parties": list(PARTIES), "columns": list(COLUMNS)}
        document |= {"budget": {"epsilon": EPSILON, "delta": 1e-6}, "parameters": parameters, "min_parties": 2}
        self.study: Study = study_from(document)
        self.lines: list[str] = []
        _, parts = linear_gaussian(len(COLUMNS), len(PARTIES), 1000, seed=1)
        for name, rows in zip(PARTIES, parts, strict=True):
            np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header=",".join(COLUMNS), comments="")
            init_ledger(folder / f"{name}.sqlite", name, Budget(EPSILON, 1e-6))

    def half(self, name: str) -> DurableParty:
        """Return a party."""
        place = self.folder / name
        desk = Desk.open(self.study, name, f"{place}.csv", f"{place}.sqlite", noise=SimulatedNoise(1))
        return desk.party(log=self.lines.append)

    def spent(self, name: str) -> float:
        """Return the epsilon that a party has spent."""
        return open_ledger(self.folder / f"{name}.sqlite", name).spent().get("epsilon", 0.0)


@dataclass
class Wire:
    """A transport in this process that may change answers, and keeps what passed."""

    halves: dict[str, DurableParty]
    change: Callable[[bytes], bytes] = lambda answer: answer
    asked: list[tuple[str, bytes]] = field(default_factory=list)

    def exchange(self, requests: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        """See `Transport.exchange`."""
        self.asked += requests.items()
        return {name: self.change(self.halves[name].handle(body)) for name, body in requests.items()}


def inside(data: bytes, other: bytes, random: Random) -> bytes:
    """Mutate an envelope, or half of the time the message in it: then the envelope is whole."""
    if random.random() < 0.5:
        return mutated(data, other, random)
    envelope, theirs = ENVELOPES.decode(data), ENVELOPES.decode(other)
    payload = mutated(envelope.payload, theirs.payload, random)
    if isinstance(envelope, Request):
        return ENVELOPES.encode(Request(envelope.study, envelope.run, envelope.sequence, payload))
    return ENVELOPES.encode(Answer(envelope.request, payload))


def answer_of(half: DurableParty, body: bytes) -> Any:
    """Return the envelope that a party answers with."""
    return ENVELOPES.decode(half.handle(body))


def to_parties(folder: Path, method: str, messages: int, random: Random) -> Outcome:
    """Send mutations of each question of a run to a party before the question itself."""
    outcome, number = Outcome(f"messages to a party, {method}"), 0
    while outcome.tried < messages:
        number += 1
        trial = Trial(folder / f"{method}-to-{number}", method)
        wire = Wire({name: trial.half(name) for name in PARTIES})
        run_study(trial.study, wire)
        honest = [body for name, body in wire.asked if name == "north"]
        (trial.folder / "again").mkdir()
        init_ledger(trial.folder / "again" / "north.sqlite", "north", Budget(EPSILON, 1e-6))
        desk = Desk.open(
            trial.study, "north", trial.folder / "north.csv", trial.folder / "again" / "north.sqlite",
            noise=SimulatedNoise(1),
        )  # fmt: skip
        half, codec = desk.party(log=trial.lines.append), Method(trial.study).codec
        for body in honest:
            for _ in range(40):
                changed = inside(body, honest[int(random.integers(len(honest)))], random)
                answer = outcome.attempt(partial(answer_of, half, changed))
                spent = desk.ledger.spent().get("epsilon", 0.0)
                outcome.overspent += spent > EPSILON
                outcome.refused += isinstance(answer, Refusal)
                if isinstance(answer, Refusal) and answer.kind == "failed":
                    outcome.tracebacks += 1
                    outcome.first = outcome.first or trial.lines[-1]
                if isinstance(answer, Answer) and not spent:  # openings may be answered, without a number from rows
                    kind = type(codec.decode(answer.payload)).__name__
                    outcome.unpaid += kind not in ("Quote", "PartyFacts", "Empty")
            half.handle(body)
        outcome.tracebacks += not verify(trial.folder / "again" / "north.sqlite").ok
    return outcome


def to_coordinator(folder: Path, method: str, answers: int, random: Random) -> Outcome:
    """Run studies in which some answers are mutations: each ends with a result or an error of the package."""
    outcome, number = Outcome(f"answers to a coordinator, {method}"), 0
    while outcome.tried < answers:
        number += 1
        trial = Trial(folder / f"{method}-from-{number}", method)
        seen: list[bytes] = []
        hit = float(random.choice([0.05, 0.3]))

        def change(answer: bytes, seen: list[bytes] = seen, hit: float = hit) -> bytes:
            if isinstance(ENVELOPES.decode(answer), Answer):
                seen.append(answer)
                if random.random() < hit:
                    outcome.tried += 1
                    return inside(answer, seen[int(random.integers(len(seen)))], random)
            return answer

        before = outcome.tried
        wire = Wire({name: trial.half(name) for name in PARTIES}, change)
        outcome.attempt(partial(run_study, trial.study, wire, tries=1))
        outcome.tried = max(outcome.tried - 1, before)
        for name in PARTIES:
            outcome.overspent += trial.spent(name) > EPSILON
            outcome.tracebacks += not verify(trial.folder / f"{name}.sqlite").ok
    return outcome


def files(folder: Path, each: int, random: Random) -> list[Outcome]:
    """Read mutations of every kind of file."""
    trial = Trial(folder / "files", "equal-variance")
    place = trial.folder
    document = {"schema": 1, "name": "trial", "method": "pc", "parties": list(PARTIES), "columns": list(COLUMNS)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in document.items()]
    (place / "study.toml").write_text("\n".join([*lines, "[budget]", "epsilon = 2.0", "delta = 1e-6"]))
    save_moments(place / "m.npz", Moments(np.eye(4), 400, COLUMNS))
    graph = nx.DiGraph([("a", "b"), ("b", "c")])
    run_study(trial.study, Wire({name: trial.half(name) for name in PARTIES}), checkpoint=place / "run.sqlite")
    (place / "north.jsonl").write_text("\n".join(export(place / "north.sqlite")) + "\n")
    digest = trial.study.digest

    def checkpoint(path: Path) -> None:
        kept = Checkpoint(path, digest)
        kept.answers(1)
        kept.close()

    def ledger(path: Path) -> None:
        found = verify(path)
        if not found.ok:
            raise InvalidParameter(f"not intact: {found.problems}")

    readers: list[tuple[str, str, Callable[[Path], Any]]] = [
        ("study files", "study.toml", read_study),
        ("moments (.npz)", "m.npz", load_moments),
        ("checkpoints", "run.sqlite", checkpoint),
        ("tables (.csv)", "north.csv", lambda path: read_table(path, columns=COLUMNS)),
        ("ledgers", "north.sqlite", ledger),
    ]
    for suffix in ("json", "graphml", "csv"):
        write_graph(graph, place / f"g.{suffix}")
        readers.append((f"graphs (.{suffix})", f"g.{suffix}", read_graph))
    found = []
    for kind, name, read in readers:
        outcome = Outcome(kind)
        content = (place / name).read_bytes()
        read(place / name)
        for _ in range(each):
            path = place / f"hostile{Path(name).suffix}"
            path.write_bytes(mutated(content, content[::-1], random))
            outcome.attempt(partial(read, path))
            for left in place.glob("hostile*"):
                left.unlink()
        found.append(outcome)
    return found


def accounting(events: int, random: Random) -> Outcome:
    """Ask for the cost of events made of strange numbers, deeply nested or repeated often."""
    outcome = Outcome("events and numbers for accounting")
    kinds: list[Callable[[Any], Any]] = [GaussianDpEvent, LaplaceDpEvent, ZCDpEvent, BoundedRangeDpEvent]
    numbers: list[Any] = [
        10**400, -(10**400), Decimal(10) ** 400, Decimal("NaN"), "1", b"1", 1j, None, True, np.float16(2), np.float32(1e-30),
        np.int8(-1), np.nan, np.inf, 5e-324, 1.7e308, [1.0], np.array([1.0]), object(), 2**70, 0,
    ]  # fmt: skip
    counts: list[Any] = [0, 1, 2**22, 10**400, -1, 1.5, "2", np.uint8(3), True, None, np.nan]

    def chosen(values: list[Any]) -> Any:
        return values[int(random.integers(len(values)))]

    for _ in range(events):
        number = chosen(numbers) if random.random() < 0.7 else float(10 ** random.uniform(-3, 3))

        asked: list[Any] = []

        def ask(number: Any = number, asked: list[Any] = asked) -> float:
            event = chosen(kinds)(number)
            for _ in range(int(random.integers(4))):
                event = chosen([
                    lambda inner: SelfComposedDpEvent(inner, chosen(counts)),
                    lambda inner: ComposedDpEvent([inner] * int(random.integers(1, 50))),
                ])(event)  # fmt: skip
            if random.random() < 0.02:
                for _ in range(int(random.integers(100, 4000))):
                    event = SelfComposedDpEvent(event, 1)
            asked.append(event)
            return float(epsilon_of(event, chosen([1e-6, 0.0, *numbers]), str(chosen(["tight", "zcdp", "pure"]))))

        before, found = outcome.tracebacks, outcome.attempt(ask)
        if outcome.tracebacks > before and not before:
            outcome.first += f" for {asked!r}"[:200]
        outcome.tracebacks += found is not None and not found >= 0
    return outcome


@click.command()
@click.option("--quick", is_flag=True, help="A tenth of everything.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
def hostile(quick: bool, seed: int) -> None:
    """Throw seeded mutations of messages, answers, files and events at whatever reads them.

    Exit code 1 if an answer was not paid for, a budget was overspent, or an error was not the package's own.
    """
    few = 10 if quick else 1
    random = np.random.default_rng(seed)
    outcomes: list[Outcome] = []
    print("| input, mutated | tried | refused | unpaid | overspent | tracebacks | MB more at most |")
    print("|---|---:|---:|---:|---:|---:|---:|")

    def show(*found: Outcome) -> None:
        for outcome in found:
            outcomes.append(outcome)
            print(outcome.row() + (f" {outcome.first}" if outcome.first else ""), flush=True)

    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        for method in ("equal-variance", "fed-sparse"):
            show(to_parties(folder, method, 1000 // few, random))
            show(to_coordinator(folder, method, 100 // few, random))
        show(*files(folder, 300 // few, random))
        show(accounting(2000 // few, random))
    print(f"seed {seed}; {sum(outcome.tried for outcome in outcomes):,} inputs in all")
    if not all(outcome.holds() for outcome in outcomes):
        raise click.exceptions.Exit(1)
