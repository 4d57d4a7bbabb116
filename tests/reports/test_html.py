"""The page: whole for every learner and every kind of privacy, safe from every name, and made without a row."""

from __future__ import annotations

import copy
import json
import math
import re
import warnings
from collections.abc import Callable
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import privfcd as pf
from privfcd.algorithms.results import store_graph
from privfcd.errors import InvalidParameter
from privfcd.reports import privacy_text, report_html, run_summary, write_report

BOTH = pf.Budget(epsilon=5, delta=1e-6)
LEARNERS = [
    pf.FedSparseBNSL(rounds=3, updates=4),
    pf.FedSparseBNSL(rounds=3, updates=4, release="preconditioned"),
    pf.FedBNSL(rounds=3),
    pf.NOTEARS(),
    pf.EqualVarianceSearch(),
    pf.GES(),
    pf.PC(),
    pf.FedACD(),
    pf.PERI(),
    pf.IPERI(),
    pf.PERI(privacy="regret", value_bound=5.0, max_regrets=100),
]
_VOID = {"meta", "br", "rect", "line", "circle", "polyline", "path", "polygon", "ellipse", "use", "stop"}


class Page(HTMLParser):
    """Reads a page, and complains about elements that are not closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.opened: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.opened == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.opened and self.opened[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def check_whole(text: str) -> Page:
    """Check what every page must be, and return it."""
    page = Page(text)
    names = [tag for tag, _ in page.tags]
    assert names[:2] == ["html", "head"] and names.count("h1") == 1 and names.count("main") == 1
    assert not {"script", "img", "iframe", "link", "object", "embed", "form", "base", "image", "foreignobject"} & set(
        names
    )
    for _, attributes in page.tags:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("src", "srcset", "action", "xlink:href")
        ]
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    (policy,) = [each["content"] for tag, each in page.tags if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert "script-src" not in policy
    targets = {each.get("id") for _, each in page.tags}
    assert all(each["href"][1:] in targets for tag, each in page.tags if tag == "a" and each.get("href"))
    return page


def quiet(make: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def label(value: Any) -> str:
    return repr(value)


@pytest.mark.parametrize("learner", LEARNERS, ids=label)
@pytest.mark.parametrize("budget", [BOTH, pf.Budget(rho=0.6), None], ids=["both", "rho", "open"])
def test_every_learner_has_a_page(learner: Any, budget: pf.Budget | None, tables: Any, truth: Any) -> None:
    if budget is None and getattr(learner, "privacy", "") == "regret":
        pytest.skip("regrets are noisy only")
    model = quiet(lambda: type(learner)(**learner.get_params()).fit(tables(budget)))
    page = check_whole(report_html(model, target=truth, seconds=1.5))
    for words in (type(model).__name__, "north", "south", "west", "What is promised", "SHD", "1.50 seconds"):
        assert words in page.text
    for name in learner.get_params():
        assert name in page.text
    assert ("No privacy." in page.text) == (budget is None)
    assert ("this run protects nobody" in page.text) == (budget is not None)
    assert json.dumps(run_summary(model, 1.0, truth), allow_nan=False)


@pytest.mark.parametrize(
    "learner",
    [
        pf.FedSparseBNSL(rounds=2),
        pf.FedBNSL(rounds=2),
        pf.NOTEARS(),
        pf.EqualVarianceSearch(),
        pf.GES(),
        pf.PC(),
        pf.PERI(),
    ],
    ids=label,
)
def test_a_fit_to_moments_promises_nothing_of_its_own(learner: Any, tables: Any) -> None:
    moments = pf.release_moments(tables(BOTH, noise=pf.SecureNoise())).moments
    model = quiet(lambda: type(learner)(**learner.get_params()).fit(moments))
    page = check_whole(report_html(model))
    assert "released before" in page.text and "in the report of that release" in page.text
    assert "protected by" not in page.text and "epsilon =" not in page.text
    summary = run_summary(model, 1.0)
    assert summary["privacy"] == {
        "paid": "when the moments were released",
        "epsilon": 0.0,
        "delta": 0.0,
        "parties": [],
        "missing": [],
    }
    assert "when the moments were released" in privacy_text(model)


def test_moments_with_the_report_on_their_release(tables: Any) -> None:
    released = pf.release_moments(tables(BOTH, noise=pf.SecureNoise()))
    model = quiet(lambda: pf.GES().fit(released.moments))
    model.privacy_report_ = released.privacy_report
    page = check_whole(report_html(model))
    assert (
        "the promise of that release, which is stated here" in page.text
        and "Each of north , south and west :" in page.text
    )
    assert "costs nothing" in page.text and "pf.GES().fit(moments)" in page.text and "PrivateTable(" not in page.text
    assert "costs its budget again" not in page.text
    summary = run_summary(model, 1.0)["privacy"]
    assert summary["paid"] == "when the moments were released" and len(summary["parties"]) == 3


def test_exact_moments_are_said_to_protect_nobody(tables: Any) -> None:
    model = quiet(lambda: pf.GES().fit([pf.table_moments(table) for table in tables(None)]))
    page = check_whole(report_html(model))
    assert "moments of 3 parties carry no noise" in page.text and "nothing protects their records" in page.text
    assert "protected by" not in page.text and "released before" not in page.text
    assert privacy_text(model).startswith("NOT ALL ARE PROTECTED. The moments of 3 parties carry no noise")
    assert "released" not in privacy_text(model)
    assert "nobody paid for its moments: they are exact, so that no epsilon holds" in page.text
    assert "paid for when they were released" not in page.text and "release promised" not in model._repr_html_()
    assert model.privacy_spent_ == (math.inf, 0.0)
    privacy = run_summary(model, 1.0)["privacy"]
    assert privacy["epsilon"] == "inf" and privacy["paid"] == "nowhere: the moments were exact"
    assert "alarm" in {value for _, each in page.tags for value in (each.get("class") or "").split()}


def test_what_a_coordinator_learnt_from_afar_has_a_page_and_a_summary(sparse: Any) -> None:
    model = copy.copy(sparse)
    for name in ("privacy_report_", "privacy_spent_", "paid_before_", "edge_stability_", "settings_"):
        delattr(model, name)
    page = check_whole(report_html(model))
    assert "paid from their own ledgers" in page.text and "protected by" not in page.text
    privacy = run_summary(model, 1.0)["privacy"]
    assert privacy == {"paid": "at the parties", "epsilon": None, "delta": None, "parties": [], "missing": []}


def test_no_row_is_read_and_nothing_is_charged(tables: Any, arm: Any, tmp_path: Path) -> None:
    given = tables(BOTH)
    model = pf.FedSparseBNSL(rounds=3, updates=4).fit(given)
    before = [(table.ledger.spent(), len(table.ledger.entries())) for table in given]
    for table in given:
        arm(table)
    write_report(tmp_path / "report.html", model, seconds=1.0)
    run_summary(model, 1.0)
    assert [(table.ledger.spent(), len(table.ledger.entries())) for table in given] == before


def test_names_cannot_break_the_page(hostile: Any) -> None:
    target: nx.DiGraph[str] = nx.DiGraph()
    names = list(hostile.causal_graph_)
    target.add_nodes_from(names)
    target.add_edges_from([(names[0], names[2]), (names[3], names[4])])
    page = check_whole(
        report_html(
            hostile, target=target, title="<script>x</script>", command=["privfcd", "learn", "</pre><b>", "two words"]
        )
    )
    for words in (
        "<script>alert(1)</script>",
        "<script>x</script>",
        '<img src="x" onerror="alert(1)">',
        "שלום עולם",
        "x" * 200,
    ):
        assert words in page.text
    assert "a\\u202eb\\nc" in page.text and "\u202e" not in page.text
    assert "{{ 7*7 }}{% raw %}" in page.text and "49" not in "".join(page.texts).split("7*7")[0][-5:]
    assert "'</pre><b>' 'two words'" in page.text


def test_parties_without_privacy_are_named_beside_those_that_have_it(tables: Any) -> None:
    noise = pf.SecureNoise()
    given = [*tables(BOTH, noise=noise)[:2], tables(None, noise=noise)[2]]
    page = check_whole(report_html(pf.FedSparseBNSL(rounds=2, updates=3).fit(given)))
    assert "Of 3 parties 1 had no privacy" in page.text
    assert "No privacy. These tables had no budget" in page.text and "This concerns west ." in page.text
    assert "Each of north and south :" in page.text


def test_secure_noise_is_said_not_to_come_again(tables: Any) -> None:
    model = quiet(lambda: pf.GES().fit(tables(BOTH, noise=pf.SecureNoise())))
    page = check_whole(report_html(model))
    assert "nobody can repeat this run bit for bit" in page.text and "SimulatedNoise" not in page.text
    assert "protected by differential privacy with epsilon = 5 and delta = 1e-06 at the most" in page.text
    assert "alarm" not in {value for _, each in page.tags for value in (each.get("class") or "").split()}


def test_the_seed_of_simulated_noise_is_told(sparse: Any) -> None:
    page = check_whole(report_html(sparse))
    assert "with seed 1" in page.text and "noise=pf.SimulatedNoise(1)" in page.text
    assert f"model = pf.{sparse!r}.fit(tables)" in page.text


def test_defaults_are_shown_as_what_they_became(tables: Any) -> None:
    model = pf.FedSparseBNSL().fit(tables(pf.Budget(epsilon=1, delta=1e-6), rows=100))
    page = check_whole(report_html(model))
    found = {
        name: re.search(rf"\b{name} (\S+) by the run", page.text) for name in ("rounds", "updates", "step", "keep")
    }
    for name, match in found.items():
        assert match is not None and float(match[1]) == pytest.approx(model.settings_[name], rel=1e-5)
    assert model.settings_["rounds"] == len(model.history_)


def test_ledger_heads_are_on_the_page(tmp_path: Path, tables: Any) -> None:
    parts = [np.random.default_rng(k).normal(size=(300, 3)) for k in range(2)]
    given = []
    for index, part in enumerate(parts):
        journal = pf.ledger.SqliteJournal(tmp_path / f"{index}.sqlite", create=True)
        ledger = pf.Ledger(pf.Budget(epsilon=20, delta=1e-5), name=f"site-{index}", journal=journal)
        given.append(pf.PrivateTable(part, ["a", "b", "c"], ledger=ledger, bounds=4.0, noise=pf.SimulatedNoise(1)))
    model = pf.FedSparseBNSL(rounds=2, updates=2, epsilon=5, delta=1e-6).fit(given)
    page = check_whole(report_html(model))
    for report in model.privacy_report_:
        assert report.head and report.head in page.text
    assert page.text.count("15") >= 2


def test_two_variables_and_no_edge(tables: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(300, 2))
    model = pf.PC().fit([pf.PrivateTable(rows)])
    assert model.causal_graph_.number_of_edges() == 0
    page = check_whole(report_html(model))
    assert (
        "PC found an equivalence class with no edge among 2 variables in the tables of 1 party (300 rows in all)"
        in page.text
    )


def test_200_variables_make_a_small_page(sparse: Any, calls: Callable[[Callable[[], object]], int]) -> None:
    rng = np.random.default_rng(0)
    model = copy.copy(sparse)
    del model.edge_stability_
    weights = np.triu(rng.normal(size=(200, 200)) * (rng.random((200, 200)) < 0.02), 1)
    store_graph(model, weights, 0.3, [f"gene-{k}" for k in range(200)])
    model.history_ = [{"round": k, "h": math.exp(-k / 40), "edges": k, "bytes": k} for k in range(1, 1001)]
    pages: list[str] = []
    assert calls(lambda: pages.append(report_html(model))) < 10_000_000
    (text,) = pages
    check_whole(text)
    assert len(text.encode()) < 2_000_000
    for cause, effect in model.causal_graph_.edges:
        assert f"<bdi>{cause}</bdi>" in text and f"<bdi>{effect}</bdi>" in text


def test_what_was_dropped_and_noted_is_told(sparse: Any) -> None:
    from privfcd.graphs.dag import project_to_dag

    model = copy.copy(sparse)
    loops = np.zeros((6, 6))
    loops[0, 1], loops[1, 0], loops[2, 3] = 2.0, 1.5, 0.1
    model.dropped_ = project_to_dag(loops, 0.3)
    model.notes_ = ["the step was halved <twice>"]
    page = check_whole(report_html(model))
    assert "1 weight other than 0 did not exceed the threshold 0.25" in page.text
    assert (
        "1 edge above it closed a cycle with stronger ones and was dropped" in page.text
        and "x1 → x0 (1.5)" in page.text
    )
    assert "the step was halved <twice>" in page.text
    assert run_summary(model, 1.0)["notes"] == ["the step was halved <twice>"]


def test_a_failed_test_of_equal_variances_is_a_note(tables: Any) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 3)) * [1.0, 5.0, 0.2]
    model = quiet(lambda: pf.EqualVarianceSearch().fit([pf.PrivateTable(rows)]))
    assert model.equal_variances_.warning is not None
    assert model.equal_variances_.warning in run_summary(model, 1.0)["notes"]
    assert "residual variances differ" in check_whole(report_html(model)).text


def test_stability_is_in_the_page_and_the_summary(sparse: Any) -> None:
    page = check_whole(report_html(sparse))
    stability = sparse.edge_stability_
    assert stability.method in page.text and "In late rounds" in page.text
    assert run_summary(sparse, 1.0)["stability"] == stability.as_dict()
    without = copy.copy(sparse)
    del without.edge_stability_
    assert run_summary(without, 1.0)["stability"] is None
    assert "In late rounds" not in check_whole(report_html(without)).text


def test_the_date_and_the_title(sparse: Any) -> None:
    assert "· 2026-02-03" in check_whole(report_html(sparse, date=date(2026, 2, 3))).text
    moment = datetime(2026, 2, 3, 4, 5, tzinfo=UTC)
    assert "2026-02-03 04:05 UTC" in check_whole(report_html(sparse, date=moment)).text
    assert re.search(r"· \d{4}-\d\d-\d\d \d\d:\d\d", check_whole(report_html(sparse)).text)
    assert "<title>Kidneys &amp; more</title>" in report_html(sparse, title="Kidneys & more")
    assert report_html(sparse, date=date(2026, 2, 3)) == report_html(sparse, date=date(2026, 2, 3))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"seconds": -1.0}, "seconds"),
        ({"seconds": math.nan}, "seconds"),
        ({"date": "today"}, "date"),
        ({"title": " "}, "title"),
        ({"title": 3}, "title"),
        ({"command": 3}, "command"),
        ({"command": ["a", 1]}, "command"),
        ({"target": nx.DiGraph([("a", "b")])}, "estimate"),
    ],
)
def test_what_cannot_be_shown_is_refused(sparse: Any, given: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        report_html(sparse, **given)


def test_a_model_that_is_not_fitted_is_refused(tmp_path: Path) -> None:
    for call in (
        lambda: report_html(pf.GES()),
        lambda: write_report(tmp_path / "a.html", pf.GES()),
        lambda: write_report(tmp_path / "a.txt", pf.GES()),
    ):
        with pytest.raises(InvalidParameter, match="fitted"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_files_by_their_suffix(sparse: Any, hostile: Any, tmp_path: Path) -> None:
    write_report(tmp_path / "report.HTML", sparse, date=date(2026, 1, 1))
    assert (tmp_path / "report.HTML").read_text(encoding="utf-8") == report_html(sparse, date=date(2026, 1, 1))
    write_report(tmp_path / "privacy.txt", sparse)
    assert (tmp_path / "privacy.txt").read_text(encoding="utf-8") == privacy_text(sparse)
    with pytest.raises(InvalidParameter, match=r"\.html, \.htm or \.txt"):
        write_report(tmp_path / "report.pdf", sparse)
    with pytest.raises(InvalidParameter, match="cannot be written"):
        write_report(tmp_path / "none" / "report.html", sparse)
    lone = copy.copy(hostile)
    lone.notes_ = ["a lone surrogate \ud800"]
    write_report(tmp_path / "lone.html", lone)
    assert "a lone surrogate \\ud800" in (tmp_path / "lone.html").read_text(encoding="utf-8")
