"""A newcomer's path: the README's command in a fresh copy, the demonstration, then tables of one's own up to the report.

It needs a package index, as a newcomer does; where pip cannot reach one, for reasons of the network, it is skipped.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable
from contextlib import chdir
from html.parser import HTMLParser
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]

INSTALL = re.compile(r"^python3 -m venv \.venv && (.+pip install.+) && (\S*privfcd demo)$", re.MULTILINE)
PARTIES = ("north", "south", "west")
COLUMNS = ("age", "dose", "pressure", "stay")


def test_what_counts_as_no_network(no_network: re.Pattern[str]) -> None:
    """Only what pip says of connections does; a package that does not exist, or does not build, is a failure."""
    assert no_network.search("Retrying ... NewConnectionError('Failed to establish a new connection: [Errno 111]')")
    assert no_network.search("[Errno -3] Temporary failure in name resolution")
    for other in (
        "ERROR: Could not find a version that satisfies the requirement nothing (from versions: none)",
        "error: subprocess-exited-with-error: Preparing metadata (pyproject.toml) did not run successfully",
        "ERROR: No matching distribution found for numpy>=99",
        "403 Client Error: Forbidden for url",
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
    ):
        assert not no_network.search(other)


@pytest.mark.slow
def test_the_newcomers_path(newcomer: Any, run: Run) -> None:
    commands = INSTALL.findall((newcomer.folder / "README.md").read_text(encoding="utf-8"))
    assert len(commands) == 1, "the README must have one line that makes .venv, installs, and runs the demonstration"
    install, demo = commands[0]
    before = newcomer.listing()
    newcomer.well(install)
    assert newcomer.listing() == before, "installing left files in the checkout"
    where = newcomer.well(".venv/bin/python -I -c 'import privfcd; print(privfcd.__file__)'")
    assert ".venv" in where, "the package must come from the environment, not from the checkout"

    shown = newcomer.well(demo)
    assert "hospital-1" in shown and "SHD" in shown

    own_tables(newcomer)
    plan_of_a_run(newcomer)
    learn_and_report(newcomer, run)


def own_tables(newcomer: Any) -> None:
    """Write one's own tables: dose follows age, pressure follows dose, stay follows pressure and age."""
    draw = random.Random(20)
    for party in PARTIES:
        with open(newcomer.folder / f"{party}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for _ in range(1500):
                age = draw.gauss(0, 1)
                dose = 0.9 * age + draw.gauss(0, 1)
                pressure = -1.1 * dose + draw.gauss(0, 1)
                stay = 0.8 * pressure + 0.7 * age + draw.gauss(0, 1)
                writer.writerow([f"{value:.4f}" for value in (age, dose, pressure, stay)])


def plan_of_a_run(newcomer: Any) -> None:
    """A plan names the parties and their budget, and leaves nothing behind."""
    before = newcomer.listing()
    plan = newcomer.privfcd("learn north.csv south.csv west.csv --epsilon 5 --dry-run --report never.html")
    assert all(party in plan for party in PARTIES) and "epsilon" in plan
    assert newcomer.listing() == before


def on_ledgers(newcomer: Any, run: Run, words: str) -> dict[str, str]:
    """Do one command on each party's ledger, in the copy, and return what it printed.

    On the first one the installed command does it; on the others the same command in this process, which is started already.
    """
    first, *others = [words.replace("PARTY", party) for party in PARTIES]
    printed = [newcomer.privfcd(first)]
    for line in others:
        with chdir(newcomer.folder):
            code, out, err = run(*line.split())
        assert code == 0, f"{line} ended with {code}:\n{out}{err}"
        printed.append(out)
    return dict(zip(PARTIES, printed, strict=True))


def learn_and_report(newcomer: Any, run: Run) -> None:
    """The run itself, from ledgers, and what it leaves: a page, a graph, and a ledger that adds up."""
    on_ledgers(newcomer, run, "ledger init PARTY.sqlite --name PARTY --epsilon 5 --delta 1e-6")
    newcomer.privfcd(
        "learn north.csv south.csv west.csv --ledger north.sqlite --ledger south.sqlite --ledger west.sqlite"
        " --epsilon 3 --report report.html --graph g.graphml"
    )
    page = (newcomer.folder / "report.html").read_text(encoding="utf-8")
    check_page(page)
    assert all(party in page for party in PARTIES) and "epsilon" in page
    with open(newcomer.folder / "truth.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("from", "to"), ("age", "dose"), ("dose", "pressure"), ("pressure", "stay"), ("age", "stay")]
        )
    assert "SHD" in newcomer.privfcd("compare graphs truth.csv g.graphml")
    same = json.loads(newcomer.privfcd("compare graphs g.graphml g.graphml --json"))
    assert next(value for key, value in flat(same) if key == "shd") == 0
    on_ledgers(newcomer, run, "ledger verify PARTY.sqlite")
    for party, shown in on_ledgers(newcomer, run, "ledger show PARTY.sqlite --json").items():
        assert party in json.dumps(json.loads(shown))
    refused = newcomer.shell(
        ".venv/bin/privfcd learn north.csv south.csv west.csv --ledger north.sqlite --ledger south.sqlite"
        " --ledger west.sqlite --epsilon 3"
    )
    assert refused.returncode == 3, refused.stdout + refused.stderr  # 3 of 5 are spent: another 3 are not there


def flat(value: object) -> list[tuple[str, object]]:
    """Return every key of nested JSON objects with its value, outer ones first."""
    if not isinstance(value, dict):
        return []
    return [*value.items(), *(pair for inner in value.values() for pair in flat(inner))]


class _Links(HTMLParser):
    """Collects what a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            loads = name in ("src", "srcset", "data", "poster") or (
                name in ("href", "xlink:href") and tag in ("link", "image", "use")
            )
            if loads and value and not value.startswith(("data:", "#")):
                self.fetched.append(f"<{tag} {name}={value!r}>")


def check_page(page: str) -> None:
    """A page of its own: a browser that opens it fetches nothing."""
    parser = _Links()
    parser.feed(page)
    assert page.lstrip().lower().startswith("<!doctype html>") and "svg" in parser.tags
    assert parser.fetched == []
    assert not re.search(r"@import|url\(\s*['\"]?(?!data:|#)", page), "the styles fetch something"
    assert not {"iframe", "object", "embed"} & set(parser.tags)
