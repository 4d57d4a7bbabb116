"""What the tests of installing share: a fresh copy of the repository with an environment, and a package index in reach."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ConnectionResetError|ProxyError"
    r"|Temporary failure in name resolution|Name or service not known|Network is unreachable|No route to host"
    r"|Connection refused|Connection timed out|RemoteDisconnected|dns error|tcp connect error|error sending request"
)


@dataclass(frozen=True)
class Newcomer:
    """Somebody in a fresh copy of the repository, with nothing but Python.

    Attributes
    ----------
    folder : Path
        The copy; there is an empty environment in its `.venv`.
    environment : dict of str to str
        Of the shell, in which `python3` is the version that runs the tests.
    """

    folder: Path
    environment: dict[str, str] = field(repr=False)

    def shell(self, line: str, seconds: float = 600) -> subprocess.CompletedProcess[str]:
        """Run a line of a shell in the copy."""
        return subprocess.run(
            ["sh", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=seconds
        )

    def privfcd(self, words: str) -> str:
        """Run the installed command, which must end well; return what it prints."""
        return self.well(f".venv/bin/privfcd {words}")

    def well(self, line: str) -> str:
        """Run a line of a shell, which must end well; return what it prints."""
        done = self.shell(line)
        assert done.returncode == 0, f"{line} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def listing(self, below: str = ".") -> set[str]:
        """Return the names of a folder's files and folders, but for the environment and Python's caches."""
        return {
            str(path.relative_to(self.folder))
            for path in (self.folder / below).rglob("*")
            if ".venv" not in path.parts and "__pycache__" not in path.parts
        }


@pytest.fixture(scope="session")
def no_network() -> re.Pattern[str]:
    """What pip and uv say where a connection fails, and only there."""
    return NO_NETWORK


@pytest.fixture(scope="session")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    """Somebody who has made the environment and reached the package index, and installed nothing yet."""
    folder = tmp_path_factory.mktemp("newcomer") / "checkout"
    shutil.copytree(
        ROOT, folder, ignore=shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "site")
    )
    for name in (".gitignore",):  # what the build backend reads
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)])
    # pip compiles nothing beforehand: as a variable, this option is turned on by a "no"
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_COMPILE": "0", "OMP_NUM_THREADS": "1"}
    someone = Newcomer(folder, environment)
    someone.well("python3 -m venv .venv")
    (backend,) = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    probe = someone.shell(f".venv/bin/pip download --no-deps --retries 0 --timeout 15 -d ../probe '{backend}'")
    said = probe.stdout + probe.stderr
    if probe.returncode and NO_NETWORK.search(said):
        pytest.skip(f"pip reaches no package index: {said.strip().splitlines()[-1]}")
    assert probe.returncode == 0, said
    return someone
