"""Batches of runs of a subject on two neighbouring tables, scored by replay or kept as numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from privfcd.algorithms.protocol import SparseMatrix
from privfcd.audits.canaries import Template
from privfcd.audits.subjects import Run, Subject, table_of
from privfcd.audits.transcripts import CERTAIN, Diverged, Recorder, Replay, fingerprint
from privfcd.data.private import PrivateTable
from privfcd.errors import PrivfcdError
from privfcd.mechanisms import NoiseSource, SimulatedNoise

Array = NDArray[np.float64]
Batch = tuple["Task", int, list[int]]


@dataclass(frozen=True, eq=False)
class Task:
    """Two worlds that differ in one party's first row.

    Attributes
    ----------
    subject : Subject
    templates : tuple of Template
        The public side of each party's table.
    party : int
        Who has the canary.
    worlds : (ndarray, ndarray)
        That party's rows in table 0 and table 1.
    others : tuple of ndarray
        All parties' rows; the audited one's are not used.
    noise : NoiseSource or None
        None for simulated noise with a seed for each run.
    """

    subject: Subject
    templates: tuple[Template, ...]
    party: int
    worlds: tuple[Array, Array]
    others: tuple[Array, ...]
    noise: NoiseSource | None

    def source(self, seed: int) -> NoiseSource:
        """Return the noise of one run."""
        return SimulatedNoise(seed) if self.noise is None else self.noise

    @property
    def noise_label(self) -> str:
        """What a report says of the noise."""
        return "simulated, a seed for each run: NO protection" if self.noise is None else self.noise.label

    def tables(self, world: int, noise: NoiseSource) -> list[PrivateTable]:
        """Return fresh tables of all parties."""
        rows = [self.worlds[world] if index == self.party else own for index, own in enumerate(self.others)]
        return [table_of(template, own, noise) for template, own in zip(self.templates, rows, strict=True)]


def dry_run(task: Task, seed: int) -> DpEvent:
    """Run once on table 0, where errors show, and return what the audited party was charged."""
    made: list[list[PrivateTable]] = []

    def tables() -> list[PrivateTable]:
        made.append(task.tables(0, task.source(seed)))
        return made[-1]

    task.subject.open(tables, task.party)(0)
    return task.subject.event(made[-1][task.party])


def replay_batch(job: Batch) -> Array:
    """Return the log-likelihood ratio, table 1 over table 0, of each run of `world`."""
    task, world, seeds = job
    recorder = Recorder(task.source(0))
    replay = Replay(recorder)
    run = task.subject.open(lambda: task.tables(world, recorder), task.party)
    again = task.subject.open(lambda: task.tables(1 - world, replay), task.party)
    ratios = np.empty(len(seeds))
    for number, seed in enumerate(seeds):
        recorder.source, recorder.steps = task.source(seed), []
        released = _outcome(run, number)
        replay.load(recorder.steps)
        try:
            same = _outcome(again, number) == released and replay.finished
        except Diverged:
            same = False
        ratios[number] = replay.log_ratio if same else -CERTAIN
    return ratios if world == 0 else -ratios


def black_box_batch(job: Batch) -> list[Any]:
    """Return what each run of `world` released, as one row of numbers, or printed where it is none."""
    task, world, seeds = job
    recorder = Recorder(task.source(0))
    run = task.subject.open(lambda: task.tables(world, recorder), task.party)
    released: list[Any] = []
    for number, seed in enumerate(seeds):
        recorder.source, recorder.steps = task.source(seed), []
        try:
            answer = run(number)
        except PrivfcdError as error:  # a refusal is an answer too
            released.append(type(error).__name__)
            continue
        numbers = list(numbers_in(answer))
        released.append(np.concatenate(numbers) if numbers else repr(answer))
    return released


def numbers_in(released: Any) -> Iterator[Array]:
    """Yield all numbers in what was released, in order, as rows; sparse matrices with their zeros."""
    if isinstance(released, SparseMatrix):
        yield released.dense().ravel()
    elif isinstance(released, np.ndarray):
        if released.dtype.kind in "biuf":
            yield released.astype(float).ravel()
    elif isinstance(released, bool | int | float | np.number):
        yield np.array([float(released)])
    elif dataclasses.is_dataclass(released) and not isinstance(released, type):
        for field in dataclasses.fields(released):
            yield from numbers_in(getattr(released, field.name))
    elif isinstance(released, Mapping):
        for value in released.values():
            yield from numbers_in(value)
    elif isinstance(released, list | tuple):
        for value in released:
            yield from numbers_in(value)


def _outcome(run: Run, number: int) -> bytes:
    """Return a digest of what was released; a refusal is an answer too."""
    try:
        return fingerprint(run(number))
    except Diverged:
        raise
    except PrivfcdError as error:
        return type(error).__name__.encode()
