"""The page's numbers against their definitions: costs that add up, promises that are never too good, charts, edges."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import privfcd as pf
from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE
from privfcd.accounting.conversions import gaussian_delta
from privfcd.ledger import PlanPart
from privfcd.ledger.privacy_report import PrivacyReport, report_on, rounded_up
from privfcd.reports.html.charts import BOTTOM, LEFT, RIGHT, TOP, charts
from privfcd.reports.html.costs import cost_groups, event_of, mechanism_words, run_costs, standings
from privfcd.reports.html.edges import against, edge_rows
from privfcd.reports.html.promise import OPEN, PROMISED, SIMULATED, kind_of, promise, promises
from privfcd.reports.html.settings_used import parameters
from privfcd.reports.html.wording import counted, duration, number, percent, printable, rounded_down, size, value_text

BOTH = pf.Budget(epsilon=2, delta=1e-6)
GAUSSIAN, SELECTION = GaussianDpEvent(20.0), pf.accounting.BoundedRangeDpEvent(0.05)


def reported(
    budget: pf.Budget | None, *parts: PlanPart, ledger: pf.Ledger | None = None, **given: Any
) -> PrivacyReport:
    ledger = pf.Ledger(budget, name="ward") if ledger is None else ledger
    delta = given.pop("of", None)
    reservation = ledger.reserve(parts, delta=delta)
    words = {"delta": 1e-6, "relation": REPLACE_ONE, "noise": "secure", "secure": True, "declared": {}, **given}
    return report_on(reservation, **words)


positive = st.floats(1e-3, 1e6)
simple = st.one_of(
    positive.map(GaussianDpEvent),
    positive.map(LaplaceDpEvent),
    positive.map(pf.accounting.BoundedRangeDpEvent),
    positive.map(ZCDpEvent),
    st.builds(pf.accounting.EpsilonDeltaDpEvent, positive, st.floats(0, 0.5)),
    st.just(NonPrivateDpEvent()),
    st.just(GaussianDpEvent(math.inf)),
)
events = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(SelfComposedDpEvent, inner, st.integers(1, 9)),
        st.lists(inner, min_size=1, max_size=3).map(ComposedDpEvent),
    ),
    max_leaves=6,
)


@given(events)
def test_an_event_is_read_back_from_its_text(event: Any) -> None:
    assert event_of(repr(event)) == event
    assert mechanism_words(event)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_other_texts_are_no_events(text: str) -> None:
    assert event_of(text) is None


@pytest.mark.parametrize(
    "text",
    ["__import__('os').system('true')", "DpEvent.__subclasses__()", "GaussianDpEvent(open('x'))", "GaussianDpEvent",
     "(" * 500, "Gaussian(1)", "GaussianDpEvent(noise=1)", "PrivacyAccountant()", "1 + 1", ""],
)  # fmt: skip
def test_nothing_in_a_text_is_executed(text: str) -> None:
    assert event_of(text) is None


def test_costs_in_rho_are_those_of_the_definitions_and_add_up() -> None:
    made = reported(BOTH, PlanPart("update", GAUSSIAN, 30), PlanPart("select", SELECTION, 40, "a remark"))
    costs = run_costs(made)
    assert costs.account == "rho"
    update, select = costs.parts
    assert update.cost == pytest.approx(30 / (2 * 20.0**2), rel=1e-12)
    assert select.cost is not None and select.cost <= 40 * 0.05**2 / 8 * (1 + 1e-12)
    assert costs.total == pytest.approx(update.cost + select.cost, rel=1e-12) == pytest.approx(made.rho, rel=1e-9)
    assert update.share + select.share == pytest.approx(1) and update.share == pytest.approx(update.cost / costs.total)
    assert (select.remark, select.planned, select.drawn) == ("a remark", 40, 0)


def test_a_pure_budget_is_shown_in_epsilon() -> None:
    made = reported(
        pf.Budget(epsilon=3), PlanPart("noise", LaplaceDpEvent(10.0), 10), PlanPart("s", SELECTION, 4), delta=None
    )
    costs = run_costs(made)
    assert costs.account == "epsilon" and costs.total == pytest.approx(1.2) == pytest.approx(made.pure_epsilon)
    assert [part.cost for part in costs.parts] == pytest.approx([1.0, 0.2])


def test_a_pure_budget_is_shown_in_epsilon_at_whatever_delta_the_run_is_reported() -> None:
    parts = PlanPart("noise", LaplaceDpEvent(10.0), 10), PlanPart("s", SELECTION, 4)
    made = reported(pf.Budget(epsilon=3), *parts, delta=1e-6)
    assert made.epsilon < made.pure_epsilon
    assert run_costs(made).account == "epsilon" and run_costs(made).total == pytest.approx(1.2)
    assert run_costs(reported(BOTH, *parts)).account == "rho"


def test_no_shares_are_drawn_where_costs_do_not_add_up() -> None:
    given = PlanPart("given", pf.accounting.EpsilonDeltaDpEvent(0.5, 1e-8), 2)
    made = reported(BOTH, given, PlanPart("update", GAUSSIAN, 3))
    costs = run_costs(made)
    assert costs.account == "" and [part.cost for part in costs.parts] == [None, None]
    assert costs.parts[0].mechanism == "(0.5, 1e-08)-DP"
    strange = replace(made, parts=[replace(made.parts[0], event="Unheard(of=1)")])
    assert run_costs(strange).account == "" and run_costs(strange).parts[0].mechanism == "Unheard(of=1)"
    nothing = reported(BOTH)
    assert run_costs(nothing).account == "" and run_costs(nothing).parts == []


def test_exact_answers_have_no_cost() -> None:
    made = reported(None, PlanPart("mean", NonPrivateDpEvent(), 1), delta=None)
    assert kind_of(made) == OPEN and run_costs(made).account == "" and standings([made]) == []


def test_a_learners_shares_are_those_that_were_asked_for(sparse: Any) -> None:
    for report in sparse.privacy_report_:
        costs = run_costs(report)
        assert costs.total == pytest.approx(report.rho, rel=1e-9)
        shares = {part.label: part.share for part in costs.parts}
        assert shares["second moments (smoothness M)"] == pytest.approx(0.2, abs=0.01)
        assert sum(shares.values()) == pytest.approx(1)


def test_parties_that_paid_alike_share_a_table(sparse: Any) -> None:
    (group,) = cost_groups(sparse.privacy_report_)
    assert group.parties == ["north", "south", "west"]
    other = replace(sparse.privacy_report_[1], parts=sparse.privacy_report_[1].parts[:1])
    assert [one.parties for one in cost_groups([sparse.privacy_report_[0], other])] == [["north"], ["south"]]


@settings(max_examples=15)
@given(st.lists(st.floats(0.01, 0.6), min_size=1, max_size=4))
def test_the_bar_of_a_budget_adds_up_over_runs(epsilons: list[float]) -> None:
    ledger = pf.Ledger(pf.Budget(epsilon=3, delta=1e-5), name="ward")
    for epsilon in epsilons:
        earlier = ledger.spent().get("epsilon", 0.0)
        made = reported(None, PlanPart("s", pf.accounting.EpsilonDeltaDpEvent(epsilon, 0.0), 1), ledger=ledger, of=1e-6)
        now = ledger.spent()["epsilon"]
        (bar,) = standings([made])
        assert bar.account == "epsilon" and bar.note == ""
        assert bar.before + bar.run + bar.left == pytest.approx(1)
        assert (bar.before, bar.run) == pytest.approx((earlier / 3, (now - earlier) / 3), abs=1e-9)
        before, run, left = (0.0 if text in ("0", "nothing") else float(text) for text in bar.amounts)
        assert before >= earlier - 3e-6 and run >= (now - earlier) * (1 - 1e-12) and left <= 3 - now + 1e-12


def test_epsilon_without_delta_is_said_to_be_useless() -> None:
    made = reported(pf.Budget(epsilon=3, delta=1e-6), PlanPart("update", GAUSSIAN, 30))
    (bar,) = standings([made])
    assert made.left == "nothing" and bar.left > 0.1 and "delta is used up" in bar.note


def test_what_went_back_is_not_shown_as_spent() -> None:
    ledger = pf.Ledger(pf.Budget(rho=1.0), name="ward")
    reservation = ledger.reserve([PlanPart("update", GaussianDpEvent(10.0), 100)])
    reservation.draw("update", 40)
    reservation.close()
    made = report_on(reservation, delta=1e-6, relation=REPLACE_ONE, noise="secure", secure=True, declared={})
    (bar,) = standings([made])
    assert (bar.account, bar.before) == ("rho", 0) and bar.run == pytest.approx(0.2) and bar.left == pytest.approx(0.8)
    assert bar.amounts == ("0", "0.2", "0.8")


def test_an_adaptive_slice_is_shown_in_its_rho() -> None:
    ledger = pf.Ledger(pf.Budget(epsilon=2, delta=1e-6), name="ward")
    ledger.charge(GAUSSIAN)
    made = reported(None, PlanPart("update", GAUSSIAN, 3), ledger=ledger)
    (bar,) = standings([made])
    assert bar.account == "rho" and "turned into" in bar.note
    assert bar.before * 3 == pytest.approx(bar.run) and 0 < bar.left < 1


def test_reports_stored_before_there_was_a_standing_have_no_bar(sparse: Any) -> None:
    assert standings([replace(report, standing={}) for report in sparse.privacy_report_]) == []


@given(st.floats(0.01, 30), st.floats(1e-9, 0.1))
def test_the_printed_promise_is_never_better_than_the_true_one(epsilon: float, delta: float) -> None:
    made = reported(BOTH, PlanPart("update", GAUSSIAN, 1))
    sentences = promise(replace(made, epsilon=epsilon, delta=delta))
    text = " ".join(sentences)
    factor = float(text.split(" times as likely")[0].split("= ")[1].replace(",", ""))
    assert math.exp(epsilon) <= factor <= 1.002 * math.exp(epsilon)
    assert epsilon <= float(text.split("epsilon = ")[1].split(" ")[0]) <= epsilon * 1.002
    assert delta <= float(text.split("a probability of ")[1].split(". ")[0].rstrip("."))
    chance = float(text.split("probability of at most ")[1].split(". Without")[0])
    exact = (math.exp(epsilon) + delta) / (math.exp(epsilon) + 1)
    assert min(1.0, exact) <= chance <= min(1.0, exact * 1.002)


@given(st.floats(0.1, 4), st.floats(0.05, 6))
def test_nobody_tells_gaussian_neighbours_apart_better_than_the_page_says(sensitivity: float, epsilon: float) -> None:
    """The best guess between N(0, 1) and N(s, 1) is right with probability Phi(s / 2)."""
    delta = gaussian_delta(1.0, epsilon, sensitivity)
    made = replace(reported(BOTH, PlanPart("update", GAUSSIAN, 1)), epsilon=epsilon, delta=delta)
    said = float(promise(made)[1].split("probability of at most ")[1].split(". Without")[0])
    assert norm.cdf(sensitivity / 2) <= said + 1e-12


@given(st.floats(1e-4, 3))
def test_the_guess_under_zcdp_holds_for_its_tightest_mechanism(rho: float) -> None:
    """Gaussian noise of scale 1 on a sensitivity of sqrt(2 rho) is rho-zCDP."""
    made = replace(reported(BOTH, PlanPart("update", GAUSSIAN, 1)), epsilon=math.inf, delta=0.0, rho=rho)
    sentences = promise(made)
    assert f"rho = {rounded_up(rho)}" in sentences[0] and "no epsilon" in sentences[0]
    assert norm.cdf(math.sqrt(2 * rho) / 2) <= float(sentences[1].split("at most ")[1].split(". Without")[0])


def test_the_kinds_of_promises() -> None:
    closed = reported(BOTH, PlanPart("update", GAUSSIAN, 1))
    open_ = reported(None, PlanPart("update", NonPrivateDpEvent(), 1), delta=None)
    simulated = replace(closed, secure=False, noise="simulated (seed 3): reproducible, NO protection")
    assert [kind_of(report) for report in (closed, open_, simulated)] == [PROMISED, OPEN, SIMULATED]
    added = reported(BOTH, PlanPart("update", GAUSSIAN, 1), relation=ADD_OR_REMOVE_ONE)
    assert "whether a record is in the table" in promise(added)[1]
    assert "which of two equally likely records" in promise(closed)[1]
    names = [
        replace(report, party=name)
        for name, report in zip("abcde", (closed, open_, closed, simulated, open_), strict=True)
    ]
    assert [(one.parties, one.kind) for one in promises(names)] == [
        (["a", "c"], PROMISED), (["b", "e"], OPEN), (["d"], SIMULATED),
    ]  # fmt: skip


def test_a_shared_promise_is_the_weakest_of_its_parties() -> None:
    made = reported(BOTH, PlanPart("update", GAUSSIAN, 1))
    near = [
        replace(made, party=name, epsilon=e, delta=d)
        for name, e, d in (("a", 1.00001, 1.01e-6), ("b", 1.00002, 1.02e-6))
    ]
    (one,) = promises(near)
    assert one.parties == ["a", "b"] and "delta = 1.02e-06" in one.sentences[0]
    assert len(promises([near[0], replace(near[1], epsilon=1.1)])) == 2


@example([0.0, 5e-324], "round")
@given(st.lists(st.floats(0, 1e9), min_size=2, max_size=900), st.sampled_from(["round", "step", "layer"]))
def test_charts_stay_inside_and_keep_the_extremes(values: list[float], clock: str) -> None:
    history = [{clock: k, "h": value, "seconds": 1.0} for k, value in enumerate(values, start=1)]
    (chart,) = charts(history)
    points = [tuple(map(float, pair.split(","))) for pair in chart.points.split()]
    assert all(LEFT <= x <= RIGHT and TOP - 0.1 <= y <= BOTTOM + 0.1 for x, y in points)
    assert [x for x, _ in points] == sorted(x for x, _ in points) and len(points) <= 402
    drawn = [value for value in values if value > 0 or not chart.logarithmic]
    heights = [y for _, y in points]
    assert heights[0] == min(heights) if drawn[0] == max(drawn) else True
    assert ("0, which a logarithmic scale does not show" in chart.note) == (chart.logarithmic and 0 in values)
    places = [tick.place for tick in chart.up]
    assert 2 <= len(places) <= 8 and all(TOP - 0.1 <= place <= BOTTOM + 0.1 for place in places)
    assert all(one - other >= 15 for one, other in pairwise(places))
    assert len({tick.text for tick in chart.up}) == len(chart.up)
    if chart.logarithmic:
        assert max(drawn) > 50 * min(drawn)


def test_a_known_chart() -> None:
    history = [{"round": 1, "h": 1.0, "edges": 0, "bytes": 5}, {"round": 2, "h": 0.1, "edges": 5, "bytes": 9},
               {"round": 3, "h": 0.001, "edges": 10, "bytes": 11}]  # fmt: skip
    h, edges = charts(history)
    assert h.logarithmic and [tick.text for tick in h.up] == ["0.001", "0.01", "0.1", "1"]
    assert not edges.logarithmic and [tick.text for tick in edges.up] == ["0", "3", "6", "9", "12"]
    assert edges.points == f"{LEFT},{BOTTOM} {(LEFT + RIGHT) / 2:g},96 {RIGHT},36"
    assert [tick.text for tick in edges.across] == ["1", "2", "3"]
    assert edges.words == "edges above the threshold, from 0 in round 1 to 10 in round 3; least 0, most 10"


@pytest.mark.parametrize(
    "history",
    [[], [{"step": 1, "cost": 3.0}], [{"phase": 1, "step": "insert", "nodes": ("a", "b")}] * 3, [{"edges": 1}, {"edges": 2}],
     [{"round": 1, "h": None}, {"round": 2, "h": math.nan}]],
)  # fmt: skip
def test_nothing_is_drawn_of_what_has_no_course(history: list[dict[str, Any]]) -> None:
    assert charts(history) == []


def test_edges_with_what_is_known_of_them(sparse: Any, truth: nx.DiGraph[str]) -> None:
    stability = sparse.edge_stability_
    rows = edge_rows(sparse.causal_graph_, stability, truth)
    place = {name: k for k, name in enumerate(stability.columns)}
    assert {(row.source, row.sink): row.weight for row in rows} == {
        (a, b): w for a, b, w in sparse.causal_graph_.edges(data="weight")
    }
    assert [abs(row.weight or 0) for row in rows] == sorted((abs(row.weight or 0) for row in rows), reverse=True)
    for row in rows:
        i, j = place[row.source], place[row.sink]
        assert (row.frequency, row.adjacency) == (stability.frequency[i, j], stability.adjacency[i, j])
        assert (row.verdict == "in the target") == truth.has_edge(row.source, row.sink)
        assert (row.verdict == "reversed") == truth.has_edge(row.sink, row.source)
    comparison = against(truth, sparse.causal_graph_)
    assert comparison.metrics == pf.metrics.compare(truth, sparse.causal_graph_)
    found = {frozenset(edge) for edge in sparse.causal_graph_.edges}
    assert {frozenset(edge) for edge in comparison.missed} == {frozenset(edge) for edge in truth.edges} - found


def test_a_class_is_compared_with_the_targets_class() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edges_from([("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")], undirected=True)
    target = nx.DiGraph([("a", "b"), ("b", "c")])
    rows = edge_rows(graph, None, target)
    assert [(row.source, row.sink, row.directed) for row in rows] == [("a", "b", False), ("b", "c", False)]
    assert {row.verdict for row in rows} == {"adjacent in the target, direction open"}
    comparison = against(target, graph)
    assert comparison.metrics.shd == 2 and comparison.classes is not None and comparison.classes.shd == 0
    cyclic = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")])
    assert against(cyclic, graph).classes is None
    assert against(target, nx.DiGraph(target)).classes is None


def test_parameters_that_are_arrays_or_left_open() -> None:
    model = pf.FedSparseBNSL(rounds=7, smoothness=np.array([1.0, 2.0]), clip=math.inf)
    shown = {one.name: one for one in parameters(model)}
    assert (shown["rounds"].value, shown["rounds"].changed) == ("7", True)
    assert (shown["smoothness"].value, shown["clip"].value) == ("1, 2", "inf")
    assert (shown["updates"].value, shown["updates"].became, shown["updates"].changed) == ("None", "", False)
    model.settings_ = {"updates": 12}  # type: ignore[attr-defined]
    assert {one.name: one.became for one in parameters(model)}["updates"] == "12"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_printable_texts_hide_nothing(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert not any(ord(character) < 32 or "\u202a" <= character <= "\u202e" for character in shown)
    assert text.isalnum() is False or shown == text


@given(st.floats(1e-12, 1e12), st.integers(1, 8))
def test_rounding_goes_the_safe_way(value: float, digits: int) -> None:
    assert float(rounded_down(value, digits)) <= value <= float(rounded_up(value, digits))
    assert float(rounded_down(value, digits)) >= value * (1 - 10.0 ** (1 - digits))


def test_words_for_values() -> None:
    assert [number(value) for value in (None, math.nan, 1234567, 0.123456, True, "a\nb")] == [
        "–", "–", "1,234,567", "0.1235", "True", "a\\nb",
    ]  # fmt: skip
    assert [percent(value) for value in (None, 0.0, 0.004, 0.5, 0.999, 1.0)] == [
        "–",
        "0 %",
        "< 1 %",
        "50 %",
        "> 99 %",
        "100 %",
    ]
    assert [size(count) for count in (7, 1500, 2_000_000)] == [
        "7 bytes",
        "1.5 kB (1,500 bytes)",
        "2 MB (2,000,000 bytes)",
    ]
    assert [duration(s) for s in (0.001, 1.5, 180.0, 7200.0)] == [
        "1 milliseconds",
        "1.50 seconds",
        "3.0 minutes",
        "2.0 hours",
    ]
    assert (counted(1, "party", "parties"), counted(1200, "edge")) == ("1 party", "1,200 edges")
    assert value_text(list(range(20))).endswith("… (20 in all)") and value_text([]) == "none"
    assert value_text({"a": np.float64(0.5), "b": [np.int64(2)]}) == "a: 0.5; b: 2"
    assert value_text(SimpleNamespace(a=1)) == "namespace(a=1)"
