"""What the page says in words: of stability, votes, parameters that were left open, and a delta that is too large."""

from __future__ import annotations

from typing import Any

import pytest

import privfcd as pf
from privfcd.algorithms.registry import LEARNERS, learner_class
from privfcd.reports import report_html
from privfcd.reports.html.left_open import ALL_LEFT, IN_PROPORTION, MOMENTS
from privfcd.reports.html.settings_used import parameters
from privfcd.runs import defaults_of

from .test_html import check_whole, quiet


def test_what_stability_counts_is_said_as_it_is(sparse: Any, tables: Any) -> None:
    text = check_whole(report_html(sparse)).text
    assert sparse.edge_stability_.kind == "rounds"
    assert "nothing was run again" in text and "if the edge is chosen at all" in text and "Found again" not in text
    assert "in how many of the run's last rounds it is there" in text and "rerun" not in text
    model = quiet(lambda: pf.EqualVarianceSearch().fit(tables(pf.Budget(epsilon=9, delta=1e-6))))
    pf.algorithms.edge_stability(model, draws=7)
    text = check_whole(report_html(model)).text
    assert "the share of 7 reruns with fresh noise" in text and "in nine of ten reruns" in text
    assert "In late rounds" not in text and "chosen at all" not in text


def test_shares_of_reruns_promise_nothing_but_of_the_noise(sparse: Any, tables: Any) -> None:
    model = quiet(lambda: pf.EqualVarianceSearch().fit(tables(pf.Budget(epsilon=9, delta=1e-6))))
    assert "about the noise that was paid for" not in check_whole(report_html(model)).text
    pf.algorithms.edge_stability(model, draws=7)
    for told in (sparse, model):
        text = check_whole(report_html(told)).text
        assert "Trust an edge" not in text and "about nothing else" in text
        assert (
            "what chance in the records, relations that are not linear, hidden causes or a release that is biased"
            in text
        )
        alone = told.edge_stability_.noise_alone is not None
        assert alone == ("speaks against the noise as the reason of an edge" in text)


def test_votes_are_not_called_weights_and_directions_not_sure(sparse: Any, tables: Any) -> None:
    model = quiet(lambda: pf.FedACD(variant="paper").fit(tables(pf.Budget(epsilon=9, delta=1e-6))))
    assert model.causal_graph_.number_of_edges()
    page = report_html(model)
    assert ">Votes</th>" in page and ">Weight</th>" not in page
    assert check_whole(page).text.count("Read the skeleton first") == 2
    page = report_html(sparse)
    assert ">Weight</th>" in page and "skeleton first" not in page


def test_a_delta_that_allows_to_publish_records_is_a_note(sparse: Any, tables: Any) -> None:
    assert "1/n" not in check_whole(report_html(sparse)).text
    model = quiet(lambda: pf.PC().fit(tables(pf.Budget(epsilon=9, delta=1 / 400))))
    assert "Delta is not below 1/n for north (delta = 0.0025, n = 400), south" in check_whole(report_html(model)).text
    model = quiet(lambda: pf.PC().fit(tables(None)))
    assert "1/n" not in check_whole(report_html(model)).text


@pytest.mark.parametrize("budget", [pf.Budget(epsilon=9, delta=1e-6), None])
@pytest.mark.parametrize("method", LEARNERS)
def test_no_parameter_is_shown_as_none(method: str, budget: Any, tables: Any) -> None:
    few = {"fed-sparse": {"updates": 4}, "fed-bnsl": {"rounds": 3}}.get(method, {})
    model = quiet(lambda: learner_class(method)(**few).fit(tables(budget)))
    shown = {one.name: one for one in parameters(model)}
    assert not [name for name, one in shown.items() if (one.became or one.value) in ("None", "auto")]
    assert shown["epsilon"].became == ("none: the tables are open" if budget is None else f"{ALL_LEFT}: 9")
    assert shown["delta"].became == ("none: the tables are open" if budget is None else f"{IN_PROPORTION}: 1e-06")
    planned = defaults_of(
        learner_class(method)(**few), tables(budget), [p.label for p in model.privacy_report_[0].parts]
    )
    for name in ("clip", "noise_multiplier", "row_norm"):  # a plan says the same
        if shown.get(name) and shown[name].became and isinstance(planned[name], str):
            assert planned[name] == shown[name].became


def test_parameters_of_a_fit_to_moments(tables: Any) -> None:
    given = [pf.table_moments(table) for table in tables(None)]
    for model in (pf.FedSparseBNSL(rounds=3), pf.GES(), pf.NOTEARS()):
        quiet(lambda model=model: model.fit(given))
        shown = {one.name: one for one in parameters(model)}
        assert shown["epsilon"].became == shown["delta"].became == MOMENTS
        assert not [name for name, one in shown.items() if (one.became or one.value) in ("None", "auto")]
