"""What several floors' tests share: rows that must not be read, noise that keeps a record of itself, a command line."""

from __future__ import annotations

import csv
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from privfcd.parallel import one_thread_each

one_thread_each()  # a process on each core runs tests: threads beside them would only wait for one another

import numpy as np
import pytest
from hypothesis import settings

from privfcd.data.private import PrivateTable
from privfcd.ledger import row_fingerprints
from privfcd.mechanisms import SimulatedNoise

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("thorough", derandomize=False, deadline=None, max_examples=400)
settings.load_profile(os.environ.get("PRIVFCD_HYPOTHESIS", "steady"))

for each in ("SIGINT", "SIGHUP"):  # a shell that starts the suite in the background has them ignored; tests send them
    if signal.getsignal(getattr(signal, each)) == signal.SIG_IGN:
        signal.signal(getattr(signal, each), signal.default_int_handler if each == "SIGINT" else signal.SIG_DFL)


class RowsTouched(BaseException):
    """Rows were read where nothing may be read; no `except Exception` can hide it."""


class Tripwire:
    """Stands where a table's rows were: looking at it in any way raises RowsTouched."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise RowsTouched(name)


def _trip(name: str) -> Callable[..., NoReturn]:
    def method(*args: Any, **kwargs: Any) -> NoReturn:
        raise RowsTouched(name)

    return method


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
_SPECIAL = (
    *(f"__{side}{name}__" for name in _BINARY for side in ("", "r", "i")),
    *("__getitem__", "__len__", "__iter__", "__array__", "__array_ufunc__", "__array_function__", "__bool__"),
    *("__neg__", "__abs__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__float__"),
    *("__copy__", "__deepcopy__", "__reduce_ex__", "__repr__", "__str__", "__hash__", "__buffer__"),
)
for _name in _SPECIAL:
    setattr(Tripwire, _name, _trip(_name))


@dataclass(frozen=True)
class Draw:
    """One call of a noise stream."""

    kind: str
    key: tuple[int, ...]
    scale: Any
    value: Any


@dataclass
class SpyNoise:
    """Simulated noise that writes down which streams were made and what was drawn from each."""

    seed: int = 0
    secure: bool = False
    label: str = "simulated, watched"
    keys: list[tuple[int, ...]] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)

    def stream(self, *key: int) -> _SpyStream:
        self.keys.append(key)
        return _SpyStream(self, key)

    def order(self, size: int, *key: int) -> Any:
        return SimulatedNoise(self.seed).order(size, *key)


class _SpyStream:
    secure = False

    def __init__(self, spy: SpyNoise, key: tuple[int, ...]) -> None:
        self._spy, self._key = spy, key
        self._inner = SimulatedNoise(spy.seed).stream(*key)

    def _note(self, kind: str, value: Any, scale: Any) -> None:
        self._spy.draws.append(Draw(kind, self._key, np.copy(scale), np.copy(value)))

    def gaussian(self, value: Any, scale: Any) -> np.ndarray:
        self._note("gaussian", value, scale)
        return self._inner.gaussian(value, scale)

    def laplace(self, value: Any, scale: Any) -> np.ndarray:
        self._note("laplace", value, scale)
        return self._inner.laplace(value, scale)

    def select(self, scores: np.ndarray, scale: float) -> int:
        self._note("select", scores, scale)
        return self._inner.select(scores, scale)

    def select_many(self, scores: np.ndarray, scale: float, size: int) -> np.ndarray:
        self._note("select_many", scores, scale)
        return self._inner.select_many(scores, scale, size)


@pytest.fixture(scope="session")
def rows_touched() -> type[BaseException]:
    """The exception that rows behind a tripwire raise."""
    return RowsTouched


@pytest.fixture(scope="session")
def arm() -> Callable[[PrivateTable], PrivateTable]:
    """Put a tripwire in the place of a table's rows."""

    def place(table: PrivateTable) -> PrivateTable:
        table._rows = Tripwire()  # type: ignore[assignment]
        return table

    return place


@pytest.fixture(autouse=True)
def no_rows_seen_before() -> None:
    """A test stands for a process: it has not seen the rows of other tests' tables."""
    row_fingerprints._MARKS.clear()


@pytest.fixture
def spy() -> SpyNoise:
    """One source of watched noise."""
    return SpyNoise(seed=5)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; return its exit code, stdout and stderr."""
    from privfcd.cli import main

    def call(*words: str) -> tuple[int, str, str]:
        row_fingerprints._MARKS.clear()  # a command is a process of its own
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        return (0 if ended.value.code is None else int(ended.value.code)), out, err

    return call


@pytest.fixture(scope="session")
def calls() -> Callable[[Callable[[], object]], int]:
    """Count the Python and C functions that an action calls: what grows where work is done again and again.

    It is the same on every machine, busy or not; seconds are not, and are left to `python -m benchmarks bench`.
    """

    def count(action: Callable[[], object]) -> int:
        seen = 0

        def note(frame: object, kind: str, argument: object) -> None:
            nonlocal seen
            seen += kind in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            action()
        finally:
            sys.setprofile(before)
        return seen

    return count


@pytest.fixture(scope="session")
def write_table() -> Callable[..., str]:
    """Write a CSV table of 80 rows in which the second column follows from the first."""

    def write(path: Path, seed: int, names: tuple[str, ...] = ("a", "b", "c"), order: Any = (0, 1, 2)) -> str:
        rows = np.random.default_rng(seed).normal(size=(80, 3))
        rows[:, 1] += 2 * rows[:, 0]
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows([[repr(float(cell)) for cell in row] for row in rows[:, list(order)]])
        return str(path)

    return write


@pytest.fixture
def files(tmp_path: Path, write_table: Callable[..., str]) -> list[str]:
    """Paths of three parties' tables."""
    return [write_table(tmp_path / f"{name}.csv", seed) for seed, name in enumerate(("north", "south", "west"))]
