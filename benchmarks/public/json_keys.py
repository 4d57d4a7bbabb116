"""The keys of what `--json` prints, for one small call of each kind of command."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from privfcd.data.simulate import linear_gaussian
from privfcd.errors import InvalidParameter

_NOISE = "--noise simulated --seed 0"
CALLS = {
    "noise": "noise --epsilon 1 --delta 1e-6 --gaussians 10 --selections 10",
    "compare regimes": "compare regimes --epsilon 1 --delta 1e-6",
    "learn": f"learn a.csv b.csv --epsilon 5 --delta 1e-6 --rounds 2 --graph g.json --stability 2 {_NOISE}",
    "learn --dry-run": f"learn a.csv b.csv --epsilon 5 --delta 1e-6 --rounds 2 --dry-run {_NOISE}",
    "compare graphs": "compare graphs g.json g.json",
    "moments release": f"moments release a.csv b.csv --epsilon 3 --delta 1e-6 -o m.npz {_NOISE}",
    "moments show": "moments show m.npz",
    "ledger init": "ledger init a.sqlite --name a --epsilon 1 --delta 1e-6",
    "ledger show": "ledger show a.sqlite",
    "ledger verify": "ledger verify a.sqlite",
    "audit gaussian": "audit gaussian --epsilon 1 --delta 1e-6 --runs 1000",
}
"""Commands by name, in an order in which each finds the files that it reads."""
OPEN = ("parameters", "options", "declared", "rule", "configuration")
"""What is below these follows the method, or mirrors the options: their own keys are not listed."""


@cache
def json_keys() -> dict[str, list[str]]:
    """Return the keys that each call prints, nested ones as "parties[].epsilon"; rows are simulated.

    Raises
    ------
    InvalidParameter
        A call fails.
    """
    from privfcd.cli.main import cli

    answer = {}
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for name, rows in zip("ab", linear_gaussian(d=3, parties=2, rows=300, seed=0).tables, strict=True):
                with open(Path(f"{name}.csv"), "w", newline="", encoding="utf-8") as file:
                    csv.writer(file).writerows([["x", "y", "z"], *rows.tolist()])
            for name, words in CALLS.items():
                done = CliRunner().invoke(cli, [*words.split(), "--json"])
                if done.exit_code:
                    raise InvalidParameter(f"`privfcd {words} --json` ended with {done.exit_code}: {done.output}")
                answer[name] = sorted(set(paths(json.loads(done.stdout))))
        finally:
            os.chdir(here)
    return answer


def paths(value: Any, before: str = "") -> Iterator[str]:
    """Yield the path of every key in nested JSON, but for what is below one of `OPEN`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            path = f"{before}.{key}" if before else str(key)
            yield path
            if key not in OPEN:
                yield from paths(inner, path)
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, f"{before}[]")
