"""Ctrl-C while the command line loads: one line and 130, at whatever import it comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import privfcd
from privfcd.__main__ import MESSAGE
from privfcd.cli.endings import INTERRUPTED
from privfcd.cli.interrupts import NOTHING_YET

CODE = """
import importlib.abc, os, signal, sys
place, number = {place!r}, {number}

class Strike(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == place:
            os.kill(os.getpid(), number)

sys.meta_path.insert(0, Strike())
signal.signal(signal.SIGINT, {before})
from privfcd.__main__ import main
sys.argv[1:] = {words!r}
main()
"""


def struck(
    place: str, *words: str, number: int = signal.SIGINT, before: str = "signal.default_int_handler"
) -> subprocess.CompletedProcess[str]:
    """Run `privfcd WORDS` in a process that is sent a signal when it imports `place`."""
    return run("-c", CODE.format(place=place, number=int(number), before=before, words=list(words)))


def run(*words: str) -> subprocess.CompletedProcess[str]:
    home = str(Path(privfcd.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")])}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "place", ["privfcd.cli", "privfcd.cli.main", "click", "click.core", "privfcd.cli.endings", "privfcd.cli.noise"]
)
def test_an_interruption_while_it_loads_ends_in_one_line(place: str) -> None:
    done = struck(place, "noise", "--epsilon", "1", "--delta", "1e-6")
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", f"{NOTHING_YET}\n")
    assert MESSAGE == NOTHING_YET


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_and_json_alike(number: int) -> None:
    done = struck("click", "noise", "--json", number=number)
    said = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (INTERRUPTED, "")
    assert said == {"error": "Interrupted", "message": NOTHING_YET, "parties": []}
    late = struck("privfcd.cli.noise", "noise", "--json", number=number)
    assert json.loads(late.stdout) == said, "as after it has loaded"


def test_who_has_signals_ignored_is_not_interrupted() -> None:
    done = struck("click", "--version", before="signal.SIG_IGN")
    assert done.returncode == 0 and privfcd.__version__ in done.stdout and done.stderr == ""


def test_the_module_runs_the_command() -> None:
    done = run("-m", "privfcd", "--version")
    assert done.returncode == 0 and done.stdout == f"privfcd, version {privfcd.__version__}\n"
