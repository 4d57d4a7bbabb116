"""The Flower app that a run is started with.

A Flower run belongs to an app bundle. Parties that are nodes themselves (see `node`) do not look at it. A standard SuperNode
runs its ClientApp, which hands questions to the party's process (see `relay`). Its ServerApp is never run, for coordinators
are processes of their own; where a SuperExec tries all the same, it ends with the words in `REFUSAL`.
"""

from __future__ import annotations

import hashlib
from typing import Any

from privfcd import __version__

REFUSAL = "start the SuperLink with --isolation process, and the coordinator with `privfcd coordinator run`"

PYPROJECT = f"""[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "privfcd-study"
version = "{__version__}"
description = "Private federated causal discovery: messages between privfcd parties and a privfcd coordinator"
license = {{ file = "LICENSE" }}
dependencies = ["flwr>=1.42,<1.43"]

[tool.flwr.app]
publisher = "privfcd"
fab-format-version = 1
flwr-version-target = "1.42.0"

[tool.flwr.app.components]
serverapp = "privfcd_study.app:server"
clientapp = "privfcd_study.app:client"

[tool.flwr.app.config]
"""

CODE = f'''"""A study of privfcd: questions go to the party's own process; the coordinator is a process of its own."""

from privfcd.runs.flower.relay import client_app

client = client_app()


def server(*_: object) -> None:
    raise SystemExit("{REFUSAL}")
'''


def bundle() -> Any:
    """Return the bundle, a `flwr.supercore.fab.Fab`."""
    from flwr.cli.build import build_fab_from_files
    from flwr.supercore.fab import Fab

    files = {
        "pyproject.toml": PYPROJECT.encode(),
        "README.md": b"# privfcd-study\n",
        "LICENSE": b"Apache-2.0\n",
        "privfcd_study/__init__.py": b"",
        "privfcd_study/app.py": CODE.encode(),
    }
    content, _ = build_fab_from_files(files)
    return Fab(hashlib.sha256(content).hexdigest(), content, {})
