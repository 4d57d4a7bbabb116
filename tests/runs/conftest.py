"""Three parties with tables, ledgers and a study, and a transport that can be made to fail."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.datasets.simulate import linear_gaussian
from privfcd.ledger.tools import init_ledger, open_ledger
from privfcd.mechanisms import SimulatedNoise
from privfcd.runs.desk import Desk
from privfcd.runs.wire.durable import DurableParty
from privfcd.runs.wire.study_file import Study, study_from
from privfcd.runs.wire.study_ledger import StudyLedger

PARTIES = ("north", "south", "west")
COLUMNS = tuple(f"v{j}" for j in range(5))
EPSILON, DELTA, SEED = 2.0, 1e-6, 7
ROWS = 800


@dataclass
class Wire:
    """A transport in this process; `fault(name, body, answer)` may change or lose (None) an answer."""

    halves: dict[str, DurableParty]
    fault: Callable[[str, bytes, bytes], bytes | None] = lambda name, body, answer: answer
    sent: list[tuple[str, bytes]] = field(default_factory=list)

    def exchange(self, requests: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        answers = {}
        for name, body in requests.items():
            self.sent.append((name, body))
            if name in self.halves:
                answer = self.fault(name, body, self.halves[name].handle(body))
                if answer is not None:
                    answers[name] = answer
        return answers


@dataclass
class Place:
    """A folder with each party's table and ledger."""

    folder: Path
    parts: list[Any]

    def study(self, method: str = "equal-variance", private: bool = True, **more: Any) -> Study:
        document = {"schema": 1, "name": "trial", "method": method, "parties": list(PARTIES), "columns": list(COLUMNS)}
        if private:
            document["budget"] = {"epsilon": EPSILON, "delta": DELTA}
        return study_from({**document, **more})

    def ledgers(self, epsilon: float | None = EPSILON, delta: float = DELTA) -> None:
        for name in PARTIES:
            init_ledger(self.ledger(name), name, None if epsilon is None else Budget(epsilon, delta))

    def ledgers_again(self) -> None:
        """Make the ledgers anew."""
        for name in PARTIES:
            for path in self.folder.glob(f"{name}.sqlite*"):
                path.unlink()
        self.ledgers()

    def ledger(self, name: str) -> Path:
        return self.folder / f"{name}.sqlite"

    def desk(self, study: Study, name: str) -> Desk:
        return Desk.open(study, name, self.folder / f"{name}.csv", self.ledger(name), noise=SimulatedNoise(SEED))

    def halves(self, study: Study) -> dict[str, DurableParty]:
        return {name: self.desk(study, name).party() for name in PARTIES}

    def spent(self, study: Study, name: str) -> float:
        ledger = StudyLedger(open_ledger(self.ledger(name), name), study.epsilon, study.delta)
        return ledger.spent().get("epsilon", 0.0)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A folder with the parties' tables, and their rows."""
    folder = tmp_path_factory.mktemp("tables")
    _, parts = linear_gaussian(len(COLUMNS), len(PARTIES), ROWS, seed=1)
    for name, rows in zip(PARTIES, parts, strict=True):
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header=",".join(COLUMNS), comments="", fmt="%.17g")
    return folder, list(parts)


@pytest.fixture
def place(tmp_path: Path, written: tuple[Path, list[Any]]) -> Place:
    folder, parts = written
    for name in PARTIES:
        shutil.copy(folder / f"{name}.csv", tmp_path)
    return Place(tmp_path, [rows.copy() for rows in parts])
