"""Small things that tests of several floors write: exact moments, seeded randomness, a listener, a Ctrl-C."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
import pytest

from privfcd.algorithms.local import LocalFederation
from privfcd.mechanisms.entropy import Entropy
from privfcd.moments import Moments


def exact_moments(rows: np.ndarray, names: Sequence[str] | None = None, *, centred: bool = False) -> Moments:
    """Return the second moments of rows without noise, about 0 or about their mean; names are x0, x1, ... by default."""
    if centred:
        rows = rows - rows.mean(axis=0)
    matrix = rows.T @ rows / len(rows)
    columns = [f"x{j}" for j in range(rows.shape[1])] if names is None else names
    return Moments((matrix + matrix.T) / 2, len(rows), tuple(columns))


def exact(rows: np.ndarray, names: Sequence[str] = ("a", "b", "c", "d")) -> Moments:
    """Return the second moments about 0 of rows of four columns."""
    return exact_moments(rows, names)


def seeded(seed: int) -> Entropy:
    """Return bits for the secure samplers that are the same each time."""
    return Entropy(np.random.default_rng(seed).bytes)


def wiretapped(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[tuple[Any, list[Any]]]:
    """Return a list that gets every message of a module that passes in this process, with the answers to it."""
    passed: list[tuple[Any, list[Any]]] = []
    plain = LocalFederation.ask

    def ask(self: LocalFederation, message: Any, check: Any = None) -> list[Any]:
        answers = plain(self, message, check)
        if type(message).__module__ == module.__name__:
            passed.append((message, answers))
        return answers

    monkeypatch.setattr(LocalFederation, "ask", ask)
    return passed


def interrupted(*_: object, **__: object) -> NoReturn:
    """Stand in for any function, and be interrupted by Ctrl-C."""
    raise KeyboardInterrupt
