"""How the command line ends when something goes wrong: one message, one object, and the right exit code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import privfcd
from privfcd import Budget, PrivateTable
from privfcd.cli import main
from privfcd.cli.endings import ending_of
from privfcd.cli.interrupts import Interrupted, Stopped, accounted, deaf, stoppable
from privfcd.errors import BudgetExceeded, InvalidParameter

Run = Callable[..., tuple[int, str, str]]
QUICK = ["--epsilon", "5", "--rounds", "2", "--updates", "3", "--step", "0.5", "--bounds", "9", "--clip", "20"]
SIMULATED = [*QUICK, "--noise", "simulated", "--seed", "3", "--stability", "0"]


def printed_to(stdout: io.TextIOWrapper, words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the command line in this process with this stdout, and return its exit code."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        patch.setattr(sys, "stderr", sys.stderr)
        with pytest.raises(SystemExit) as ended:
            main(words)
    with contextlib.suppress(OSError):
        stdout.close()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_an_error_that_nobody_foresaw_is_not_taken_for_a_refuted_claim(
    run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from privfcd.algorithms.fed_sparse.party import FedSparseParty

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(FedSparseParty, "_update", broken)
    code, out, err = run("learn", *files, *SIMULATED)
    assert code == 2 and out == "" and "Traceback" in err and "ZeroDivisionError, a fault of privfcd" in err
    assert "what was charged stays spent:\n  north: charged epsilon 5" in err
    code, out, err = run("learn", *files, *SIMULATED, "--json")
    answer = json.loads(out)
    assert code == 2 and answer["error"] == "ZeroDivisionError" and "north: charged epsilon 5" in answer["message"]


def test_a_failure_after_the_charge_says_what_was_charged_and_one_before_it_does_not() -> None:
    from dp_accounting import GaussianDpEvent

    table = PrivateTable(np.eye(2), name="north", budget=Budget(rho=1.0))
    with pytest.raises(InvalidParameter) as before, accounted([table]):
        raise InvalidParameter("no")
    assert ending_of(before.value).message == "Error: no"
    with pytest.raises(BudgetExceeded) as after, accounted([table]):
        table.ledger.charge(GaussianDpEvent(1.0))
        raise BudgetExceeded("no")
    ending = ending_of(after.value)
    assert ending.code == 3 and "no\nwhat was charged stays spent:\n  north: charged rho 0.5" in ending.message


def test_a_second_interruption_does_not_hide_what_the_first_one_said() -> None:
    told = Interrupted("north: charged 5", [{"party": "north"}])
    try:
        try:
            raise told
        finally:
            raise KeyboardInterrupt
    except KeyboardInterrupt as second:
        ending = ending_of(second)
    assert ending.code == 130 and ending.message == told.message and ending.parties == told.parties
    assert ending_of(KeyboardInterrupt()).parties is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_stop_a_program_once_and_ignored_ones_do_not(number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Stopped), stoppable():
        os.kill(os.getpid(), number)
        time.sleep(1)
    with stoppable(), deaf():
        os.kill(os.getpid(), number)
    signal.signal(number, signal.SIG_IGN)  # as nohup does
    try:
        with stoppable():
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)


def test_a_storm_of_interruptions_ends_with_130_and_one_object(files: list[str], tmp_path: Path) -> None:
    home = str(Path(privfcd.__file__).parents[1])
    words = ["learn", *files, "--epsilon", "2", "--bounds", "9", "--clip", "20", "--rounds", "100000", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "privfcd", *words, "--updates", "20"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        time.sleep(2.5)
        for _ in range(40):
            process.send_signal(signal.SIGINT)
            time.sleep(0.005)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and err.strip() == b"" and json.loads(out)["error"] == "Interrupted"


def test_an_interruption_inside_a_compiled_module_s_loading_is_one(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such modules make ImportError of whatever is raised while they load; without a signal it stays what it is."""
    from privfcd.algorithms.fed_sparse import FedSparseBNSL

    def load(self: FedSparseBNSL, *arguments: object, **options: object) -> None:
        if signals:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signals.pop())
        raise ImportError("initialization failed")

    monkeypatch.setattr(FedSparseBNSL, "fit", load)
    signals: list[signal.Signals] = []
    for sent, code, said in (([], 2, "ImportError"), ([signal.SIGINT], 130, "Interrupted"), ([], 2, "ImportError")):
        signals += sent
        with pytest.raises(SystemExit) as ended:
            main(["learn", *files, *SIMULATED, "--json"])
        assert ended.value.code == code and json.loads(capsys.readouterr().out)["error"] == said


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_result_that_cannot_be_printed_is_not_lost_without_a_word(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = open("/dev/full", "w", encoding="utf-8")  # closed in there
    assert printed_to(full, ["learn", *files, *SIMULATED, "--json"], monkeypatch) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and "the output failed: No space left" in err and "north: charged epsilon 5" in err


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_reader_that_goes_away_does_not_end_in_done_nor_in_refuted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: list[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = ["noise", "--epsilon", "1", "--delta", "1e-6", "--gaussians", "1", *as_json]
    assert printed_to(os.fdopen(writing, "w", encoding="utf-8"), words, monkeypatch) == 2
    assert capsys.readouterr().err == ""


def test_names_that_a_terminal_cannot_show_do_not_cost_the_result(
    tmp_path: Path, write_table: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [write_table(tmp_path / f"{name}.csv", seed, ("α", "→", "c")) for seed, name in enumerate(("o", "p"))]
    for encoding, as_json in (("ascii", []), ("latin-1", ["--json"])):
        with open(tmp_path / "out", "wb") as file:
            stdout = io.TextIOWrapper(file, encoding=encoding)
            assert printed_to(stdout, ["learn", *made, *SIMULATED, *as_json], monkeypatch) == 0
        text = (tmp_path / "out").read_text(encoding)
        assert json.loads(text)["columns"] == ["α", "→", "c"] if as_json else "Privacy, per party" in text
