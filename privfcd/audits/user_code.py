"""Audits of anybody's code: a Python function of a table and a seed, held against a claim.

The function is a black box: it is run many times on each of two neighbouring tables, every run with a seed of its own,
and what it returns is all that the audit sees. Where no statistic is given, a score is learnt on half of the pilot runs
(see `scores`); the runs that evaluate it are fresh.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from privfcd import checks
from privfcd.audits.claims import Claim
from privfcd.audits.mechanisms import audit
from privfcd.audits.parallel import Progress
from privfcd.audits.report import AuditReport
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import NoiseStream, SimulatedNoise
from privfcd.parallel import worker_pool

Seeds = NDArray[np.int64]
Function = Callable[[Any, Any], Any]
Statistic = Callable[[Any], float]

TABLES = ("table", "neighbour")
_MOST_RUNS = 2**30
_PIECE = 1024


def audit_function(
    function: Function,
    table: Any,
    neighbour: Any,
    claim: Claim | DpEvent,
    runs: int = 10_000,
    *,
    statistic: Statistic | None = None,
    vectorised: bool = False,
    workers: int = 1,
    confidence: float = 0.95,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> AuditReport:
    """Audit a function f(table, seed) -> output against a claim.

    Parameters
    ----------
    function : callable
        f(table, seed) with a whole number below 2^32 as the seed; all of its randomness should come from that, or from a
        source that needs no seed. The output is a number, an array of fixed shape, or anything else that prints what
        it is (text, tuples, None). It must not change the table; NumPy's arrays are handed over read-only.
    table, neighbour : anything
        Two neighbouring tables, as the claim means it. The audit is of this pair and no other: choose the one on which
        the function should leak most.
    claim : Claim or dp_accounting.DpEvent
        What is held against it.
    runs : int
        Runs of each table, at least 50 (on average: a fair coin picks the table of each run that is evaluated).
    statistic : callable, optional
        From one output to the number that tells the tables apart, for instance a log-likelihood ratio. Learnt by default.
    vectorised : bool
        `function` takes an array of seeds, and returns one output for each along the first axis, independent of the
        others.
    workers : int
        Processes. Seeds are dealt out before the work is, so that the answer does not depend on it. The function,
        its outputs and the tables must be picklable (functions of a module are; lambdas are not).
    confidence : float
        With which everything that the report states holds at once.
    seed : int
        Of the seeds.
    on_progress : function of (done, total), optional
        Called with runs of both tables.

    Returns
    -------
    AuditReport
        Its witness names the two tables and the attack.

    Raises
    ------
    InvalidParameter
        A parameter is not accepted; or the function fails, or returns NaN, infinities or outputs of several shapes. The
        message names the table and the seed, with which the run can be repeated.
    """
    if not callable(function):
        raise checks.refuse("function", function, "a function of (table, seed)")
    if statistic is not None and not callable(statistic):
        raise checks.refuse("statistic", statistic, "a function of one output, or None")
    runs = checks.count("runs", runs, least=50)
    if runs > _MOST_RUNS:
        raise checks.refuse("runs", runs, f"at most {_MOST_RUNS}: every run has a seed of its own")
    workers = checks.count("workers", workers)
    task = _Task(function, (_read_only(table), _read_only(neighbour)), statistic, vectorised, name_of(function))
    runner = _Runner(task, checks.count("seed", seed, least=0), workers, 2 * runs, on_progress)
    with runner:
        report = audit(
            runner, claim, runs, confidence=confidence, pair=(0, 1), noise=SimulatedNoise(seed), batched=True
        )
    return replace(
        report,
        subject=name_of(function),
        noise=f"the function's own, by seeds made from {seed}",
        witness=replace(report.witness, pair=(table, neighbour)),
    )


def name_of(function: Any) -> str:
    """Return what a function is called."""
    name = getattr(function, "__qualname__", None)
    return name.replace("<locals>.", "") if isinstance(name, str) else repr(function)


@dataclass(frozen=True)
class _Task:
    """What a worker needs: the function, both tables, and what is made of an output."""

    function: Function
    tables: tuple[Any, Any]
    statistic: Statistic | None
    vectorised: bool
    name: str

    def run(self, world: int, seeds: Seeds) -> list[Any] | NDArray[Any]:
        """Return one output, or its statistic, for each seed."""
        if self.vectorised:
            outputs = self._call(world, seeds, "an array of seeds")
            count = len(outputs) if hasattr(outputs, "__len__") else None
            if count != len(seeds):
                raise InvalidParameter(
                    f"{self.name} must return one output for each of {len(seeds)} seeds, got {count}, on {TABLES[world]}"
                )
        else:
            outputs = [self._call(world, int(one), f"seed {one}") for one in seeds]
        if self.statistic is not None:
            outputs = np.array([self._measure(world, out, one) for out, one in zip(outputs, seeds, strict=True)])
        return self._checked(world, outputs, seeds)

    def _call(self, world: int, seed: Any, words: str) -> Any:
        try:
            return self.function(self.tables[world], seed)
        except Exception as error:
            raise InvalidParameter(
                f"{self.name} failed on {TABLES[world]} with {words}: {type(error).__name__}: {error}"
            ) from error

    def _measure(self, world: int, output: Any, seed: int) -> float:
        assert self.statistic is not None
        try:
            return float(self.statistic(output))
        except Exception as error:
            raise InvalidParameter(
                f"statistic failed on the output {_short(output)} of {self.name} on {TABLES[world]} with seed {seed}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _checked(self, world: int, outputs: Any, seeds: Seeds) -> Any:
        what = "statistic" if self.statistic is not None else self.name
        if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf":
            right = np.isfinite(outputs.reshape(len(outputs), -1)).all(axis=1)
            if not right.all():
                index = int(np.argmin(right))
                raise InvalidParameter(_not_finite(what, outputs[index], world, int(seeds[index])))
            return outputs
        first: Any = None
        answers = [getattr(output, "matrix", output) for output in outputs]
        for index, output in enumerate(answers):
            shape = _shape(output)
            first = shape if index == 0 else first
            if shape != first:
                raise InvalidParameter(
                    f"{what} must return outputs of one shape, got {first} with seed {seeds[0]} and {shape} with seed "
                    f"{seeds[index]}, on {TABLES[world]}: return text or tuples where the shape is part of the answer"
                )
            if shape is not None and not np.isfinite(np.asarray(output, dtype=np.float64)).all():
                raise InvalidParameter(_not_finite(what, output, world, int(seeds[index])))
        return answers if first is not None else [repr(output) for output in answers]


@dataclass
class _Runner:
    """Deals out seeds and runs the task, here or in worker processes; `audit` sees it as a mechanism."""

    task: _Task
    seed: int
    workers: int
    total: int
    on_progress: Progress | None
    _dealt: list[int] = field(default_factory=lambda: [0, 0])
    _pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> _Runner:
        if self.workers > 1:
            try:
                pickle.dumps(self.task)
            except Exception as error:
                raise InvalidParameter(
                    f"workers must be 1 for {self.task.name}, which, or whose tables or statistic, cannot be sent to worker "
                    f"processes: {error}"
                ) from error
            self._pool = worker_pool(self.workers, _equip, (self.task,))
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def __call__(self, world: int, runs: int, stream: NoiseStream) -> Any:
        """Return `runs` outputs of one world; the stream is not used: the function has noise of its own."""
        before = sum(self._dealt)
        seeds = run_seeds(self.seed, world, self._dealt[world], runs)
        self._dealt[world] += runs
        pieces = [seeds[start : start + _PIECE] for start in range(0, runs, _PIECE)]
        if self._pool is None:
            done = (self.task.run(world, piece) for piece in pieces)
        else:
            done = self._pool.map(_work, [world] * len(pieces), pieces)  # type: ignore[assignment]
        outputs: list[Any] = []
        for result in done:
            outputs.extend(result)
            if self.on_progress is not None:
                self.on_progress(before + len(outputs), self.total)
        return outputs


def run_seeds(seed: int, world: int, start: int, count: int) -> Seeds:
    """Return the seeds of runs `start` to `start + count` of one table: below 2^32, and none of them twice.

    Counters, of which one table has the even and the other the odd ones, are mixed by a bijection of 32-bit numbers (the
    finaliser of MurmurHash3) between two additions that depend on `seed`.
    """
    keys = np.random.SeedSequence(seed).generate_state(2, np.uint32)
    value = 2 * np.arange(start, start + count, dtype=np.uint32) + np.uint32(world) + keys[0]
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        value ^= value >> np.uint32(shift)
        value *= np.uint32(factor)
    value ^= value >> np.uint32(16)
    return (value + keys[1]).astype(np.int64)


_EQUIPPED: list[_Task] = []


def _equip(task: _Task) -> None:
    """Give a worker process its task, once."""
    _EQUIPPED[:] = [task]


def _work(world: int, seeds: Seeds) -> Any:
    return _EQUIPPED[0].run(world, seeds)


def _read_only(table: Any) -> Any:
    """Return a view of an array that cannot be written to, and anything else as it is."""
    if not isinstance(table, np.ndarray):
        return table
    view = table.view()
    view.flags.writeable = False
    return view


def _shape(output: Any) -> tuple[int, ...] | None:
    """Return the shape of numbers; None for what is compared by its printed form."""
    if isinstance(output, str | bytes | tuple | dict | set) or output is None:
        return None
    try:
        array = np.asarray(output)
    except ValueError:
        return None
    return array.shape if array.dtype.kind in "biuf" else None


def _not_finite(what: str, output: Any, world: int, seed: int) -> str:
    return (
        f"{what} must return finite numbers, got {_short(output)} on {TABLES[world]} with seed {seed}: return text, or "
        "None, where such an answer is meant"
    )


def _short(output: Any) -> str:
    text = repr(output)
    return text if len(text) <= 80 else text[:77] + "..."
