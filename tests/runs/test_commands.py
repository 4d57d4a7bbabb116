"""privfcd party and privfcd coordinator, as far as they go without a SuperLink."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from privfcd.cli.main import cli
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.runs.study_run import run_study
from privfcd.runs.wire.study_file import read_study
from tests.support.helpers import interrupted

from .conftest import COLUMNS, DELTA, EPSILON, PARTIES, Place, Wire

STUDY = f"""
schema = 1
name = "trial"
method = "fed-sparse"
parties = {list(PARTIES)}
columns = {list(COLUMNS)}

[budget]
epsilon = {EPSILON}
delta = {DELTA}

[parameters]
rounds = 4
updates = 5
""".replace("'", '"')


@pytest.fixture
def options(place: Place) -> list[str]:
    path = place.folder / "study.toml"
    path.write_text(STUDY)
    place.ledgers()
    words = [str(path), "--name", "south", "--table", str(place.folder / "south.csv")]
    return [*words, "--ledger", str(place.ledger("south"))]


def called(*words: str) -> Any:
    return CliRunner().invoke(cli, list(words))


def test_preview_says_what_is_asked_and_costs(place: Place, options: list[str]) -> None:
    shown = called("party", "preview", *options)
    assert shown.exit_code == 0
    assert "COST: at most epsilon = 2, delta = 1e-06" in shown.output and "rounds" in shown.output
    as_json = json.loads(called("party", "preview", *options, "--json").output)
    assert as_json["epsilon"] == EPSILON and as_json["noise"].startswith("secure")
    assert place.spent(place.study(), "south") == 0


def test_a_no_ends_it_before_anything_is_done(place: Place, options: list[str]) -> None:
    more = ("--superlink", "127.0.0.1:1", "--insecure")
    refused = CliRunner().invoke(cli, ["party", "serve", *options, *more], input="n\n")
    assert refused.exit_code != 0 and "Take part?" in refused.output
    assert place.spent(place.study(), "south") == 0


def test_an_interrupted_party_says_what_was_spent(
    place: Place, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import privfcd.runs.flower.relay as relay

    monkeypatch.setattr(relay, "listen", interrupted)
    ended = called("party", "serve", *options, "--relay", str(place.folder / "s.sock"), "--accept")
    assert ended.exit_code != 0 and "spent in all:" in ended.output and "head" in ended.output


def test_what_cannot_be_is_refused_at_once(place: Place, options: list[str]) -> None:
    away = called("party", "serve", *options, "--superlink", "link.example.org:8000", "--insecure", "--accept")
    assert isinstance(away.exception, InvalidParameter) and "TLS" in str(away.exception)
    (place.folder / "study.toml").write_text(STUDY.replace("epsilon = 2.0", "epsilon = 20.0"))
    dear = called("party", "preview", *options)
    assert isinstance(dear.exception, BudgetExceeded) and "asked epsilon 20" in str(dear.exception)
    early = called("coordinator", "run", "--config", "study.toml", "--superlink", "h:1", "--timeout", "10")
    assert early.exit_code == 2 and "at least 75" in early.output
    none = called("coordinator", "run", "--config", str(place.folder / "none.toml"), "--superlink", "h:1")
    assert isinstance(none.exception, InvalidParameter)


def test_a_party_that_took_part_ends_with_its_report(
    place: Place, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import privfcd.runs.flower.relay as relay

    study = read_study(options[0])

    def listened(handle: Any, *_: Any, **__: Any) -> None:
        halves = {name: place.desk(study, name).party() for name in PARTIES if name != "south"}
        run_study(study, Wire({**halves, "south": SimpleNamespace(handle=handle)}))  # type: ignore[dict-item]

    monkeypatch.setattr(relay, "listen", listened)
    ended = called("party", "serve", *options, "--relay", str(place.folder / "s.sock"), "--accept")
    assert ended.exit_code == 0 and "Privacy report for 'south'" in ended.output
    assert "epsilon = 2 at delta = 1e-06" in ended.output and "20 of 20 x coordinate selection" in ended.output
