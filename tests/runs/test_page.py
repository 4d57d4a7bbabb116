"""docs/flower.md, followed word by word: keys, SuperLink, registration, parties, coordinator. Another address only."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from privfcd.cli.main import cli

PAGE = Path(__file__).parents[2] / "docs" / "flower.md"
PARTIES = ("north", "south", "west")
BESIDE = Path(sys.executable).parent


def commands() -> list[list[str]]:
    """The page's commands that are followed, in order, each as words."""
    blocks = re.findall(r"follows it word by word -->\n\n```sh\n(.*?)```", PAGE.read_text(), re.S)
    return [shlex.split(line) for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def study() -> str:
    return re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.S)[1]  # type: ignore[index]


def test_keys_are_made_where_they_belong_and_never_written_over(tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="the extra `flower` is not installed")
    run, key, folder = CliRunner(), tmp_path / "north.key", tmp_path / "keys"
    assert run.invoke(cli, ["party", "keygen", str(key)]).exit_code == 0
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and b"PRIVATE" in key.read_bytes()
    public = (tmp_path / "north.key.pub").read_bytes()
    assert b"PRIVATE" not in public and b"PUBLIC KEY" in public
    before = key.read_bytes()
    assert "nothing is written over a key" in str(run.invoke(cli, ["party", "keygen", str(key)]).exception)
    assert key.read_bytes() == before
    assert run.invoke(cli, ["coordinator", "keys", str(folder), "--host", "link.example.org"]).exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "ca.pem",
        "coordinator.secret",
        "server.key",
        "server.pem",
    ]
    assert all(stat.S_IMODE((folder / name).stat().st_mode) == 0o600 for name in ("server.key", "coordinator.secret"))
    assert "there already" in str(run.invoke(cli, ["coordinator", "keys", str(folder)]).exception)
    where = ["--superlink", "127.0.0.1:9", "--root-certificates", str(folder / "ca.pem")]
    refused = run.invoke(cli, ["coordinator", "register", "north", str(key), *where])
    assert "never leaves its party's machine" in str(refused.exception)
    (tmp_path / "junk.pub").write_text("junk")
    assert "keygen" in str(
        run.invoke(cli, ["coordinator", "register", "n", str(tmp_path / "junk.pub"), *where]).exception
    )


@contextmanager
def running(words: list[str], folder: Path, name: str, say: str = "") -> Iterator[subprocess.Popen[bytes]]:
    program = [str(BESIDE / words[0]), *words[1:]]
    with open(folder / f"{name}.log", "ab") as log:
        process = subprocess.Popen(program, cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log)
    assert process.stdin is not None
    process.stdin.write(say.encode())
    process.stdin.close()
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.slow
def test_the_page_works_as_it_stands(tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="the extra `flower` is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    told = commands()
    assert [words[:3] for words in told if words[0] == "privfcd"] == [
        ["privfcd", "coordinator", "keys"], ["privfcd", "party", "keygen"], ["privfcd", "coordinator", "register"],
        ["privfcd", "ledger", "init"], ["privfcd", "party", "preview"], ["privfcd", "party", "serve"],
        ["privfcd", "coordinator", "run"],
    ]  # fmt: skip

    def here(words: list[str], party: str = "north") -> list[str]:
        """The same words for this machine's address, and for another party."""
        place = {"link.example.org:8000": f"127.0.0.1:{port}", "link.example.org": "127.0.0.1", "0.0.0.0": "127.0.0.1"}
        return [str(port) if word == "8000" else place.get(word, word.replace("north", party)) for word in words]

    def done(words: list[str], folder: Path) -> str:
        program = [str(BESIDE / words[0]), *words[1:]]
        ended = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=240)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout + ended.stderr

    keys, superlink, keygen, register, init, preview, serve, run = told
    desk = tmp_path / "coordinator"
    desk.mkdir()
    (desk / "study.toml").write_text(study())
    done(here(keys), desk)
    rng, folders = np.random.default_rng(1), {}
    for party in PARTIES:
        folders[party] = folder = tmp_path / party
        folder.mkdir()
        rows = np.exp(rng.normal(3, 0.5, (900, 1)) + rng.normal(0, 0.5, (900, 3)))
        np.savetxt(folder / f"{party}.csv", rows, delimiter=",", header="praf,pmek,plcg", comments="")
        done(here(keygen, party), folder)
        shutil.copy(folder / f"{party}.key.pub", desk)  # sent
        shutil.copy(desk / "keys" / "ca.pem", folder)  # and got
        shutil.copy(desk / "study.toml", folder)
        done(here(init, party), folder)
        assert "COST: at most epsilon = 5" in done(here(preview, party), folder)
    # a party whose file is another is told apart at once
    other = study().replace("updates = 60", "updates = 61")
    (folders["west"] / "study.toml").write_text(other)
    with running(here(superlink), desk, "superlink"):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                break
            except OSError:
                time.sleep(0.2)
        for party in PARTIES:
            done(here(register, party), desk)
        with running([*here(serve, "west"), "--linger", "5"], folders["west"], "west", "y\n"):
            program = [str(BESIDE / "privfcd"), *here(run)[1:]]
            ended = subprocess.run(program, cwd=desk, capture_output=True, text=True, timeout=110)
            assert ended.returncode == 2 and "they differ in parameters.updates" in ended.stderr, ended.stderr
            assert "Nothing was" in ended.stderr and "parameters.updates" in (folders["west"] / "west.log").read_text()
        (folders["west"] / "study.toml").write_text(study())
        servers = [
            running([*here(serve, party), "--linger", "5"], folders[party], party, "y\n")
            for party in ("north", "south")
        ]
        with servers[0], servers[1]:
            said = done([*here(run), "--wait", "5"], desk)
    assert "Graph, number of edges" in said and "each party paid at most epsilon = 5" in said
    assert (desk / "graph.json").exists() and "without west" in said
    assert not [path for path in desk.rglob("*.key") if path.name != "server.key"]
