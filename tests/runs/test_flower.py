"""Real SuperLinks and party processes on 127.0.0.1, with TLS and node keys; skipped where Flower is not installed."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.ledger.tools import verify
from privfcd.runs.study_run import run_study

from .conftest import COLUMNS, DELTA, EPSILON, PARTIES, SEED, Place, Wire

pytest.importorskip("flwr", reason="the extra `flower` is not installed")

from privfcd.runs.flower.connection import SuperLink
from privfcd.runs.flower.grid import FlowerTransport, SuperLinkFailed
from privfcd.runs.flower.keys import make_party_key
from privfcd.runs.flower.node import serve
from privfcd.runs.flower.trial import Trial, free_port

STUDY = f"""
schema = 1
name = "trial"
method = "equal-variance"
parties = {list(PARTIES)}
columns = {list(COLUMNS)}
min_parties = 2

[budget]
epsilon = {EPSILON}
delta = {DELTA}
""".replace("'", '"')


class Setup:
    """A trial with the three parties' processes."""

    def __init__(self, place: Place, trial: Trial) -> None:
        self.place, self.trial = place, trial
        self.path = place.folder / "study.toml"
        self.path.write_text(STUDY)
        self.study = place.study(min_parties=2)
        self.checkpoint = place.folder / "checkpoint.sqlite"
        place.ledgers()

    def start(self, name: str) -> None:
        more = ("--simulated-noise", str(SEED), "--linger", "600")
        self.trial.serve(name, self.path, self.place.folder / f"{name}.csv", self.place.ledger(name), *more)

    def kill(self, name: str) -> None:
        self.trial.processes[name].send_signal(signal.SIGKILL)
        self.trial.processes[name].wait()

    def transport(self) -> FlowerTransport:
        return FlowerTransport(self.trial.superlink, secret=self.trial.secret)

    def run(self, transport: FlowerTransport, **more: Any) -> Any:
        absent = dict(transport.find(self.study, self.study.parties, more.pop("wait", 60.0)))
        return run_study(self.study, transport, checkpoint=self.checkpoint, absent=absent, **more)

    def expected(self) -> np.ndarray:
        folder = self.place.folder / "undisturbed"
        folder.mkdir()
        other = Place(self.place.folder, self.place.parts)
        other.ledger = lambda name: folder / f"{name}.sqlite"  # type: ignore[method-assign]
        other.ledgers()
        return np.asarray(run_study(self.study, Wire(other.halves(self.study))).model.adjacency_matrix_)


@pytest.fixture
def setup(place: Place) -> Iterator[Setup]:
    folder = place.folder / "trial"
    folder.mkdir()
    with Trial(folder, PARTIES) as trial:
        yield Setup(place, trial)
    assert all(process.poll() is not None for process in trial.processes.values())


def test_a_study_over_tls_is_that_of_one_process_bit_for_bit(setup: Setup) -> None:
    for name in PARTIES:
        setup.start(name)
    with setup.transport() as transport:
        run = setup.run(transport)
    assert run.parties == PARTIES
    np.testing.assert_array_equal(run.model.adjacency_matrix_, setup.expected())
    for name in PARTIES:
        assert verify(setup.place.ledger(name)).ok
        log = setup.trial.log(name)
        assert "COST: at most epsilon = 2" in log and "CHARGED" in log
        assert "SIMULATED" in "".join(entry.label for entry in setup.place.desk(setup.study, name).ledger.entries())
    wire = setup.trial.log("superlink")
    assert str(setup.place.folder) not in wire.replace(str(setup.place.folder / "trial"), "")


class Ends(FlowerTransport):
    """A coordinator that is gone after some questions."""

    left = 4

    def exchange(self, requests: Any, timeout: float) -> Any:
        answers = super().exchange(requests, timeout)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return answers


@pytest.mark.slow
def test_a_coordinator_that_dies_resumes_and_a_party_that_dies_is_named(setup: Setup) -> None:
    for name in PARTIES:
        setup.start(name)
    with pytest.raises(KeyboardInterrupt), Ends(setup.trial.superlink, secret=setup.trial.secret) as transport:
        setup.run(transport)
    spent = {name: setup.place.spent(setup.study, name) for name in PARTIES}
    with setup.transport() as transport:
        run = setup.run(transport)
    assert {name: setup.place.spent(setup.study, name) for name in PARTIES} == {
        name: max(spent[name], setup.place.spent(setup.study, name)) for name in PARTIES
    }
    np.testing.assert_array_equal(run.model.adjacency_matrix_, setup.expected())
    for name in PARTIES:
        assert verify(setup.place.ledger(name)).ok and setup.place.spent(setup.study, name) <= EPSILON


class Kills(FlowerTransport):
    """Kills a party's process before a question."""

    after: int
    victim: Any

    def exchange(self, requests: Any, timeout: float) -> Any:
        self.after -= 1
        if self.after == 0:
            self.victim()
        return super().exchange(requests, timeout)


@pytest.mark.slow
def test_a_party_that_is_killed_after_its_charge_is_named_in_time(setup: Setup) -> None:
    for name in PARTIES:
        setup.start(name)
    with Kills(setup.trial.superlink, secret=setup.trial.secret) as transport:
        transport.after, transport.victim = 7, lambda: setup.kill("south")
        began = time.monotonic()
        with pytest.raises(PartyFailed, match="south: it did not answer in time"):
            setup.run(transport, timeout=20.0, tries=1)
        assert time.monotonic() - began < 120
    assert 0 < setup.place.spent(setup.study, "south") <= EPSILON
    assert verify(setup.place.ledger("south")).ok


@pytest.mark.slow
def test_a_party_that_is_killed_before_its_charge_comes_back(setup: Setup) -> None:
    def restart() -> None:
        setup.kill("south")
        setup.start("south")

    for name in PARTIES:
        setup.start(name)
    with Kills(setup.trial.superlink, secret=setup.trial.secret) as transport:
        transport.after, transport.victim = 2, restart
        run = setup.run(transport, timeout=150.0, tries=1)
    assert run.parties == PARTIES, setup.trial.log("south")
    np.testing.assert_array_equal(run.model.adjacency_matrix_, setup.expected())


@pytest.mark.slow
def test_a_party_behind_a_standard_supernode_takes_part_as_any_other(setup: Setup) -> None:
    for name in PARTIES[1:]:
        setup.start(name)
    name, folder = PARTIES[0], setup.place.folder
    more = ("--simulated-noise", str(SEED), "--linger", "600")
    setup.trial.serve_behind_supernode(name, setup.path, folder / f"{name}.csv", setup.place.ledger(name), *more)
    with setup.transport() as transport:
        run = setup.run(transport)
    assert run.parties == PARTIES, setup.trial.log(f"{name}-node")
    np.testing.assert_array_equal(run.model.adjacency_matrix_, setup.expected())


@pytest.mark.slow
def test_without_one_party_the_others_go_on(setup: Setup) -> None:
    for name in ("north", "west"):
        setup.start(name)
    with setup.transport() as transport:
        run = setup.run(transport, wait=25.0)
    assert run.parties == ("north", "west") and "come forward" in run.absent["south"]
    assert setup.place.spent(setup.study, "south") == 0


@pytest.mark.slow
def test_who_has_no_key_no_secret_or_no_certificate_is_not_let_in(setup: Setup, tmp_path: Path) -> None:
    (tmp_path / "stranger").mkdir()
    make_party_key(tmp_path / "stranger" / "stranger.key")
    command = setup.trial
    command.start("stranger", _serving(setup, tmp_path / "stranger" / "stranger.key"))
    wrong = tmp_path / "wrong.secret"
    wrong.write_bytes(b"0" * 32)
    with pytest.raises(SuperLinkFailed), FlowerTransport(setup.trial.superlink, secret=wrong):
        pass
    deadline = time.monotonic() + 60
    while "not let in" not in setup.trial.log("stranger") and time.monotonic() < deadline:
        time.sleep(1)
    assert "not let in" in setup.trial.log("stranger") and "connected" not in setup.trial.log("stranger")
    assert setup.trial.processes["stranger"].poll() is None  # it goes on trying
    strange = SuperLink(setup.trial.superlink.address)  # the system's authorities do not know this certificate
    with pytest.raises(SuperLinkFailed), FlowerTransport(strange, secret=setup.trial.secret):
        pass


def _serving(setup: Setup, key: Path) -> list[str]:
    setup.start("north")
    command = [str(word) for word in setup.trial.processes["north"].args]  # type: ignore[union-attr]
    setup.kill("north")
    command[command.index("--key") + 1] = str(key)
    return command


def test_tls_is_needed_off_this_machine(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="stay on this machine"):
        SuperLink("hospital.example.org:8000", insecure=True)
    with pytest.raises(InvalidParameter, match="HOST:PORT"):
        SuperLink("127.0.0.1")
    with pytest.raises(InvalidParameter, match="PEM"):
        SuperLink("127.0.0.1:8000", tmp_path / "none.pem")
    SuperLink("127.0.0.1:8000", insecure=True)
    with pytest.raises(InvalidParameter, match="secret must be given"):
        FlowerTransport(SuperLink("127.0.0.1:8000"))
    with pytest.raises(InvalidParameter, match="private_key must be given"):
        serve(lambda body: body, SuperLink("127.0.0.1:8000"))
    (tmp_path / "bad.key").write_text("no key")
    with pytest.raises(InvalidParameter, match="private_key must be"):
        serve(lambda body: body, SuperLink("127.0.0.1:8000"), private_key=tmp_path / "bad.key")


def test_a_superlink_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(SuperLinkFailed, match="refused"):
        with FlowerTransport(SuperLink(f"127.0.0.1:{free_port()}", insecure=True)):
            pass


@pytest.mark.slow
def test_the_command_line_runs_a_study(setup: Setup) -> None:
    import json
    import sys

    for name in PARTIES:
        setup.start(name)
    trial = setup.trial
    command = [sys.executable, "-m", "privfcd", "coordinator", "run", "--config", str(setup.path), "--json"]
    command += ["--superlink", trial.superlink.address, "--root-certificates", str(trial.superlink.root_certificates)]
    command += ["--secret", str(trial.secret), "--graph", str(setup.place.folder / "graph.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    found = json.loads(done.stdout)
    assert found["parties"] == list(PARTIES) and found["bytes"] > 0
    assert (setup.place.folder / "graph.json").exists()
