"""Ctrl-C and SIGTERM: ledgers and files stay sound, and what was spent is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfcd
from privfcd import Budget, PrivateTable
from privfcd.cli.interrupts import Interrupted, accounted, held, stoppable
from privfcd.errors import PrivfcdError
from privfcd.ledger.tools import show, verify
from tests.support.helpers import interrupted

Run = Callable[..., tuple[int, str, str]]
LONG = ["--epsilon", "2", "--bounds", "9", "--clip", "20", "--rounds", "100000", "--updates", "20"]
QUICK = ["--epsilon", "5", "--rounds", "2", "--updates", "3", "--step", "0.5", "--bounds", "9", "--clip", "20"]
FIXED = [*QUICK, "--noise", "simulated", "--seed", "3"]


@pytest.fixture
def ledgers(run: Run, tmp_path: Path) -> list[str]:
    """Paths of three ledgers, one for each table."""
    paths = [str(tmp_path / f"{name}.sqlite") for name in ("north", "south", "west")]
    for path in paths:
        assert run("ledger", "init", path, "--name", Path(path).stem, "--epsilon", "5", "--delta", "1e-5")[0] == 0
    return paths


def started(*words: str, cwd: Path) -> subprocess.Popen[str]:
    home = str(Path(privfcd.__file__).parents[1])

    def as_at_a_terminal() -> None:  # a test may run where SIGINT is ignored, and children inherit that
        signal.signal(signal.SIGINT, signal.default_int_handler)

    return subprocess.Popen(
        [sys.executable, "-m", "privfcd", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=as_at_a_terminal,
    )


def spent(path: str) -> float:
    try:
        (held_set,) = show(path)["data_sets"].values()
    except PrivfcdError:  # busy for a moment
        return 0.0
    return float(held_set["accounts"]["epsilon"]["spent"])


def ended(words: list[str], path: str, number: int, cwd: Path) -> tuple[int, str, str]:
    """Start a run, wait until it has charged the ledger, send it a signal, and return how it ends."""
    process = started(*words, cwd=cwd)
    try:
        for _ in range(600):
            if spent(path) > 0 or process.poll() is not None:
                break
            time.sleep(0.1)
        time.sleep(0.2)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_sound_ledgers_and_says_what_it_spent(
    run: Run, files: list[str], ledgers: list[str], tmp_path: Path, number: int
) -> None:
    as_json = ["--json"] if number == signal.SIGTERM else []
    before = sorted(path.name for path in tmp_path.iterdir())
    words = ["learn", *files, *LONG, "--graph", "graph.json", "--report", "report.txt", *as_json]
    for path in ledgers:
        words += ["--ledger", path]
    code, out, err = ended(words, ledgers[2], number, tmp_path)
    assert code == 130 and "Traceback" not in err
    if as_json:
        answer = json.loads(out)
        assert answer["error"] == "Interrupted" and err.strip() == ""
        for party, path in zip(answer["parties"], ledgers, strict=True):
            assert party["charged"]["epsilon"] == pytest.approx(spent(path)) == pytest.approx(2, rel=0.01)
            assert party["party"] == Path(path).stem and party["left"].startswith("(epsilon, delta) = (3")
            assert run("ledger", "verify", path, "--head", party["ledger"])[0] == 0
    else:
        assert out == "" and "what was charged stays spent:" in err
        for name in ("north", "south", "west"):
            assert f"  {name}: charged epsilon 2, delta 4e-06; left: (epsilon, delta) = (3, 6e-06)" in err
    for path in ledgers:
        found = verify(path)
        assert found.ok and len(found.notes) == 1 and "never closed" in found.notes[0]
    left = [path.name for path in tmp_path.iterdir() if not path.name.endswith(("-wal", "-shm", "-journal"))]
    assert sorted(left) == before, "no output, and nothing half-written"
    # the rest of the budget is there for a next run
    words = ["learn", *files, *FIXED[2:], "--epsilon", "3"]
    assert run(*words, *(word for path in ledgers for word in ("--ledger", path)))[0] == 0


def test_without_a_ledger_the_message_says_that_nothing_remembers(
    run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from privfcd.algorithms.fed_sparse.party import FedSparseParty

    monkeypatch.setattr(FedSparseParty, "_update", interrupted)
    code, out, err = run("learn", *files, *FIXED)
    assert (
        code == 130 and out == "" and "north: charged epsilon 5" in err and "without --ledger nothing remembers" in err
    )
    code, out, err = run("learn", *files, *FIXED, "--json")
    answer = json.loads(out)
    assert (
        code == 130 and err == "" and answer["parties"][0]["left"] == "nothing" and answer["parties"][0]["ledger"] == ""
    )


def test_an_interrupted_release_says_what_it_spent(
    run: Run, files: list[str], ledgers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privfcd.algorithms.release.coordinator import ReleaseCoordinator

    real = ReleaseCoordinator.run

    def interrupted(*arguments: Any, **more: Any) -> None:
        real(*arguments, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(ReleaseCoordinator, "run", interrupted)
    words = ["moments", "release", files[0], "--ledger", ledgers[0], "--epsilon", "4", "-o", str(tmp_path / "m.npz")]
    code, out, err = run(*words, "--method", "covariance", "--row-norm", "8", "--no-center")
    assert code == 130 and out == "" and "north: charged epsilon 4" in err
    assert verify(ledgers[0]).ok and not (tmp_path / "m.npz").exists()


def test_an_interruption_before_any_charge_says_so(run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import privfcd.data.tables

    monkeypatch.setattr(privfcd.data.tables, "read_table", interrupted)
    code, out, err = run("learn", *files, *FIXED)
    assert code == 130 and out == "" and err.strip() == "interrupted; nothing was charged yet"
    code, out, _ = run("learn", *files, *FIXED, "--json")
    assert code == 130 and json.loads(out)["message"] == "interrupted; nothing was charged yet"


@pytest.mark.parametrize("as_json", [False, True])
def test_results_that_are_paid_for_are_written_before_the_program_ends(
    run: Run, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    import privfcd.graphs

    real = privfcd.graphs.write_graph

    def late(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)  # while files are being written
        time.sleep(0.01)
        real(*arguments)

    monkeypatch.setattr(privfcd.graphs, "write_graph", late)
    graph, report = tmp_path / "graph.json", tmp_path / "report.txt"
    words = ["learn", *files, *FIXED, "--graph", str(graph), "--report", str(report), *(["--json"] if as_json else [])]
    code, out, err = run(*words)
    assert code == 130 and "its result is complete" in err
    assert json.loads(graph.read_text())["nodes"] and report.read_text().count("Privacy report for") == 3
    assert json.loads(out)["edges"] is not None if as_json else "Privacy, per party" in out
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interruption_ends_the_draws_of_stability_and_nothing_else(
    run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import privfcd.algorithms.stability as stability

    def endless(model: Any, *, draws: int, on_draw: Callable[[int, int], None], **_: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for done in range(10**9):
            on_draw(done, draws)

    monkeypatch.setattr(stability, "edge_stability", endless)
    code, out, err = run("learn", *files, *FIXED)
    assert code == 130 and "Stability: interrupted" in out and "Privacy, per party" in out and "complete" in err


def test_a_second_interruption_is_not_put_off() -> None:
    with pytest.raises(KeyboardInterrupt):
        with held() as seen:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            assert seen == [signal.SIGINT]
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_are_left_alone_outside_the_main_thread() -> None:
    seen = []

    def inside() -> None:
        with stoppable(), held() as stopped:
            seen.append(stopped)

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [[]]


def test_sigterm_is_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), stoppable():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    assert signal.getsignal(signal.SIGTERM) is before


def test_amounts_are_those_since_the_block_began() -> None:
    from dp_accounting import GaussianDpEvent

    table = PrivateTable(np.eye(2), name="north", budget=Budget(rho=1.0))
    table.ledger.charge(GaussianDpEvent(2.0))  # rho = 1/8
    with pytest.raises(Interrupted) as caught, accounted([table]):
        table.ledger.charge(GaussianDpEvent(1.0))  # rho = 1/2
        raise KeyboardInterrupt
    (party,) = caught.value.parties
    assert party["charged"] == {"rho": pytest.approx(0.5)} and party["left"] == "rho = 0.375 (zCDP)"
    with pytest.raises(Interrupted, match="nothing was charged"), accounted([table]):
        raise KeyboardInterrupt
