"""The page never promises more than holds: to those without noise, towards those who are trusted, of other runs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

import privfcd as pf
from privfcd.ledger.privacy_report import report_on
from privfcd.reports import privacy_text, report_html, run_summary

from .test_html import BOTH, check_whole, quiet


@pytest.mark.parametrize("method", ["fed-bnsl", "equal-variance", "notears", "ges", "pc", "fedacd", "peri"])
@pytest.mark.parametrize("reported", [True, False])
def test_moments_without_noise_beside_others_are_an_alarm(method: str, reported: bool, tables: Any) -> None:
    """The promise to the others must not read as one to all."""
    north, south, west = tables(BOTH, noise=pf.SecureNoise())
    released = pf.release_moments([north, south])
    (exact,) = pf.release_moments([pf.PrivateTable(west._rows, name="open")]).parts
    sources = [released, exact] if reported else [*released.parts, exact]
    model = quiet(lambda: pf.learn(sources, method=method))
    page = check_whole(report_html(model))
    lede = page.text[: page.text.index("What is promised")]
    assert "The moments of 1 party carry no noise" in lede and "Not all are protected." in page.text
    assert "Each party's records" not in page.text and "from 2 parties" not in page.text
    assert ("1 of the moments came without the report of a release" in lede) == reported
    assert "carry no noise" in privacy_text(model) and "carry no noise" in model._repr_html_()
    summary = run_summary(model, 1.0)["privacy"]
    assert "carry no noise" in summary["missing"][0]
    if reported:
        assert summary["epsilon"] == "inf" and model.privacy_spent_[0] == math.inf


def test_the_report_of_an_open_table_says_for_itself_that_its_moments_are_exact(tables: Any) -> None:
    north, south, _ = tables(BOTH, noise=pf.SecureNoise())
    west = tables(None)[2]
    sources = [pf.release_moments([north, south]), pf.release_moments([west])]
    page = check_whole(report_html(quiet(lambda: pf.learn(sources, method="ges"))))
    assert "Of 3 parties 1 had no privacy" in page.text and "This concerns west ." in page.text
    assert "Not all are protected." not in page.text


def test_moments_whose_release_nobody_reports_are_not_promised_anything(tables: Any) -> None:
    north, south, west = tables(BOTH, noise=pf.SecureNoise())
    sources = [pf.release_moments([north, south]), *pf.release_moments([west]).parts]
    model = quiet(lambda: pf.learn(sources, method="ges"))
    page = check_whole(report_html(model))
    assert "1 of the moments came without the report of a release" in page.text
    assert "Each party's records" not in page.text and "carry no noise" not in page.text


def test_a_trusted_sum_promises_nothing_towards_the_place_that_sums(tables: Any) -> None:
    model = quiet(lambda: pf.FedACD(sum="trusted").fit(tables(BOTH, noise=pf.SecureNoise())))
    page, report = check_whole(report_html(model)), model.privacy_report_[0]
    place = "the place that summed up the tables"
    assert f"but not towards {place}." in page.text[: page.text.index("What is promised")]
    for text in (page.text, str(report), report._repr_html_()):
        assert f"It does NOT hold towards {place}" in text and "towards the coordinator" not in text
    assert f"not towards {place}" in report.headline() and report.as_dict()["trusted"] == place
    each = quiet(lambda: pf.FedACD().fit(tables(BOTH, noise=pf.SecureNoise())))
    assert "towards the coordinator" in check_whole(report_html(each)).text and not each.privacy_report_[0].trusted


class _Homemade(pf.SimulatedNoise):
    """A source that is not secure, and says so in words of its own."""

    @property
    def label(self) -> str:
        return "a generator of ours"


@pytest.mark.parametrize("kinds", ["homemade", "secure and homemade", "secure and simulated", "secure and open"])
def test_noise_that_can_be_taken_away_is_never_said_to_be_gone(kinds: str, tables: Any) -> None:
    given = tables(BOTH, noise=pf.SecureNoise())
    if kinds == "homemade":
        given = tables(BOTH, noise=_Homemade(3))
    elif kinds.endswith("homemade"):
        given[1] = tables(BOTH, noise=_Homemade(3))[1]
    elif kinds.endswith("simulated"):
        given[1] = tables(BOTH)[1]
    else:
        given[1] = tables(None)[1]
    page = check_whole(report_html(quiet(lambda: pf.GES().fit(given)))).text
    again = page[page.rindex("How to run it again") :]
    assert "the result is the same" not in again
    assert ("was kept nowhere" in again) == (kinds == "secure and open")
    assert ("whoever knows how it was made can take it away" in again) == (kinds != "secure and open")


def test_a_promise_is_of_one_run_and_says_that_others_were_paid_too(tables: Any) -> None:
    given = tables(BOTH, noise=pf.SecureNoise())
    texts = [check_whole(report_html(quiet(lambda: pf.GES(epsilon=2.0).fit(given)))).text for _ in range(2)]
    words = "Other runs on the same data have spent of the budget too"
    assert [words in text for text in texts] == [False, True]
    for text in texts:
        assert "every set of outcomes of this run" in text and "in what was released for this result" in text


def test_a_plan_says_what_a_trusted_sum_and_exact_moments_do_not_promise(tables: Any) -> None:
    given = tables(BOTH)
    assert "nothing is promised towards the place that sums them up" in str(
        pf.plan_run(pf.FedACD(sum="trusted"), given, rehearse=False)
    )
    assert "ONE NOISE" not in str(pf.plan_run(pf.FedACD(), given, rehearse=False))
    exact = pf.release_moments(tables(None)).parts
    noisy = pf.release_moments(given).parts
    for moments, words in (
        (exact, "The moments of 3 parties carry no noise"),
        ([*noisy[1:], exact[0]], "of 1 party carry"),
    ):
        plan = " ".join(str(pf.plan_run(pf.GES(), moments, rehearse=False)).split())
        assert words in plan and "were paid for" not in plan
    assert "carry no noise" not in str(pf.plan_run(pf.GES(), noisy, rehearse=False))


def test_a_graph_that_is_too_large_to_be_drawn_is_listed(tables: Any) -> None:
    """A complete graph of 200 nodes would be a picture of hundreds of megabytes, after the run was paid for."""
    model = quiet(lambda: pf.GES().fit(tables(None)))
    names = [f"v{k}" for k in range(60)]
    model.causal_graph_ = nx.DiGraph([(one, two) for k, one in enumerate(names) for two in names[k + 1 :]])
    model.feature_names_in_ = np.array(names, dtype=object)
    text = report_html(model)
    page = check_whole(text).text
    assert "too large to be drawn here" in page and "1,770 edges" in page and len(text) < 2_000_000
    assert "v58" in page[page.index("The other edges") :]


@pytest.mark.parametrize("values", [[1.7e308, -1.7e308], [10**400, 1], [1.0, math.inf], [5e-324, 5e-324], [1e301, 1.0]])
def test_no_number_of_a_finished_run_breaks_its_page(values: list[float], tables: Any) -> None:
    model = quiet(lambda: pf.NOTEARS().fit(tables(BOTH)))
    model.history_ = [{"step": k, "h": value, "loss": 1.0} for k, value in enumerate(values, start=1)]
    assert "The course of the run" in check_whole(report_html(model)).text


def test_a_mixed_federation_is_told_apart(tables: Any) -> None:
    north, south, west = tables(BOTH, noise=pf.SecureNoise())[0], tables(BOTH)[1], tables(None)[2]
    page = check_whole(report_html(quiet(lambda: pf.GES().fit([north, south, west])))).text
    assert "Of 3 parties 1 had simulated noise, which protects nobody, and 1 had no privacy" in page
    assert "this run protects nobody." in page and "This concerns south ." in page and "This concerns west ." in page


def test_rows_that_are_not_public_are_called_declared() -> None:
    parts = pf.simulate.linear_gaussian(4, parties=2, rows=300, seed=1).tables
    given = [
        pf.PrivateTable(
            part, name=f"p{k}", budget=BOTH, bounds=20.0, relation=pf.accounting.ADD_OR_REMOVE_ONE, declared_rows=310
        )
        for k, part in enumerate(parts)
    ]
    page = check_whole(report_html(quiet(lambda: pf.GES().fit(given)))).text
    assert "(620 rows in all, as declared)" in page


@pytest.mark.parametrize("secure", [True, False])
def test_the_alarm_is_there_where_no_epsilon_is(secure: bool) -> None:
    ledger = pf.Ledger(pf.Budget(rho=0.5), name="ward")
    report = report_on(
        ledger.reserve(pf.accounting.gaussian_event(1.0, 2.0)),
        delta=None, relation=pf.accounting.REPLACE_ONE, noise="theirs", secure=secure, declared={},
    )  # fmt: skip
    assert math.isinf(report.epsilon) and "rho = 0.125 zero-concentrated" in str(report)
    for text in (str(report), report._repr_html_()):
        assert ("THE NOISE WAS SIMULATED" in text) == (not secure)
    assert ("SIMULATED" in report.headline()) == (not secure)


def test_a_target_with_undirected_edges_is_counted_rightly(tables: Any) -> None:
    model = quiet(lambda: pf.EqualVarianceSearch().fit(tables(None)))
    target: nx.DiGraph[str] = nx.DiGraph()
    target.add_nodes_from(model.causal_graph_)
    target.add_edges_from([("x0", "x1"), ("x1", "x0")], undirected=True)
    target.add_edge("x2", "x3")
    page = check_whole(report_html(model, target=target)).text
    assert "The target has 2 edges, 1 of them without a direction," in page and "a graph without edges has 2." in page
    nothing = nx.create_empty_copy(model.causal_graph_)
    assert pf.metrics.compare(target, nothing).shd == 2


def test_texts_of_a_report_from_elsewhere_hide_nothing(tables: Any) -> None:
    """Reports come with files of moments, whose every text another party may have written."""
    model = quiet(lambda: pf.GES().fit(tables(BOTH)))
    evil = '"><script>\x00\u202e\u2066<img src=x>'
    model.privacy_report_ = [
        replace(
            each, relation=evil, budget=evil, head=evil, accountant=evil, assumptions=(evil,), noise=evil, trusted=evil
        )
        for each in model.privacy_report_
    ]
    text = report_html(model)
    check_whole(text)
    assert not set("\x00\u202e\u2066") & set(text + model._repr_html_() + model.privacy_report_[0]._repr_html_())
    assert "<img" not in text + model._repr_html_()
