"""What `privfcd coordinator run` and `privfcd party serve` say of privacy at the end."""

from __future__ import annotations

import json
from types import SimpleNamespace

import networkx as nx
import pytest

from privfcd.cli import coordinator


@pytest.mark.parametrize(
    ("spent", "notes", "words", "epsilon"),
    [
        ((2.0, 1e-6), (), "each party paid at most epsilon = 2, delta = 1e-06 from its own ledger", 2.0),
        ((float("inf"), 0.0), ("NO PRIVACY: no budget",), "NO PRIVACY", "inf"),
    ],
)
def test_a_coordinator_says_what_parties_may_have_paid(
    capsys: pytest.CaptureFixture[str], spent: tuple[float, float], notes: tuple[str, ...], words: str, epsilon: object
) -> None:
    model = SimpleNamespace(
        causal_graph_=nx.DiGraph([("a", "b")]),
        privacy_spent_=spent,
        privacy_report_=None,
        paid_before_=False,
        notes_=notes,
    )
    found = SimpleNamespace(
        model=model,
        parties=("north",),
        absent={},
        questions=1,
        paper_bytes=1,
        wire_bytes=1,
        seconds=1.0,
        seconds_a_question=1.0,
    )
    coordinator._print(found)
    assert words in capsys.readouterr().out
    privacy = json.loads(json.dumps(coordinator.summary("trial", found)))["privacy"]
    assert privacy == {"paid": "at the parties", "epsilon": epsilon, "delta": spent[1]}
