"""A whole federation on this machine: a SuperLink with TLS and node keys, and party processes, all ended at the end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from privfcd.errors import PartyFailed
from privfcd.runs.flower import QUIET, be_quiet
from privfcd.runs.flower.connection import SuperLink
from privfcd.runs.flower.grid import register
from privfcd.runs.flower.keys import make_certificates, make_party_key, make_secret

WAIT = 60.0


class Trial:
    """A SuperLink on 127.0.0.1 and the party processes that are started on it; a context manager.

    Parameters
    ----------
    folder : path
        Existing; keys, certificates and logs go there.
    parties : sequence of str
        Whose node keys are registered.
    """

    def __init__(self, folder: Path, parties: Sequence[str]) -> None:
        be_quiet()
        self._folder = folder
        self._parties = tuple(parties)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def superlink(self) -> SuperLink:
        """Where it is, and how it is known."""
        return SuperLink(f"127.0.0.1:{self._port}", self._folder / "ca.pem")

    @property
    def secret(self) -> Path:
        """The coordinator's secret."""
        return self._folder / "coordinator.secret"

    def key(self, name: str) -> Path:
        """Return the file of a party's node key."""
        return self._folder / f"{name}.key"

    def log(self, name: str) -> str:
        """Return what a process has written."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def __enter__(self) -> Self:
        make_certificates(self._folder)
        make_secret(self._folder)
        keys = {name: make_party_key(self.key(name)) for name in self._parties}
        self._port = free_port()
        try:
            self.start_superlink()
            for name, key in keys.items():
                register(self.superlink, key, name)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def start_superlink(self) -> None:
        """Start the SuperLink, and wait until it listens; what it knows is kept in a file."""
        files = {name: str(self._folder / name) for name in ("ca.pem", "server.pem", "server.key", "link.sqlite")}
        command = [_beside("flower-superlink"), "--isolation", "process", "--enable-supernode-auth"]
        command += ["--ssl-ca-certfile", files["ca.pem"], "--ssl-certfile", files["server.pem"]]
        command += ["--ssl-keyfile", files["server.key"], "--superexec-auth-secret-file", str(self.secret)]
        command += ["--host", "127.0.0.1", "--port", str(self._port), "--database", files["link.sqlite"]]
        self.start("superlink", [*command, "--disable-runtime-dependency-installation"])
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            if self.processes["superlink"].poll() is not None:
                raise PartyFailed("the SuperLink did not start: see superlink.log in the trial's folder")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1.0):
                return
            time.sleep(0.2)
        raise PartyFailed(f"the SuperLink did not listen within {WAIT:g} seconds")

    def serve(self, name: str, study: Path, table: Path, ledger: Path, *more: str) -> None:
        """Start a party's process: `privfcd party serve`."""
        command = [sys.executable, "-m", "privfcd", "party", "serve", str(study), "--name", name, "--table", str(table)]
        command += ["--ledger", str(ledger), "--superlink", self.superlink.address, "--accept"]
        command += ["--root-certificates", str(self._folder / "ca.pem"), "--key", str(self.key(name)), *more]
        self.start(name, command)

    def serve_behind_supernode(self, name: str, study: Path, table: Path, ledger: Path, *more: str) -> None:
        """Start a party's process that listens on a socket, and a standard SuperNode before it."""
        place = self._folder / f"{name}-relay"
        place.mkdir(mode=0o700)
        command = [sys.executable, "-m", "privfcd", "party", "serve", str(study), "--name", name, "--table", str(table)]
        self.start(name, [*command, "--ledger", str(ledger), "--relay", str(place / "s"), "--accept", *more])
        command = [_beside("flower-supernode"), "--superlink", self.superlink.address, "--port", str(free_port())]
        command += [
            "--root-certificates",
            str(self._folder / "ca.pem"),
            "--auth-supernode-private-key",
            str(self.key(name)),
        ]
        self.start(f"{name}-node", command, PRIVFCD_RELAY=str(place / "s"), FLWR_SUPEREXEC_TASK_POLL_INTERVAL="0.1")

    def start(self, name: str, command: Sequence[str], **more: str) -> None:
        """Start a process whose output goes to NAME.log, with `more` in its environment."""
        environment = {
            **os.environ,
            **QUIET,
            "FLWR_HOME": str(self._folder / "flwr"),
            "OPENBLAS_NUM_THREADS": "1",
            **more,
        }
        environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environment.get("PATH", "")))
        with open(self._folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def end(self) -> None:
        """End all processes that were started here."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _beside(program: str) -> str:
    """Return a program of this Python's environment."""
    return str(Path(sys.executable).parent / program)
