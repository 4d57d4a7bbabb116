"""The page never promises more than holds: to those without noise, towards those who are trusted, of other runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

import privfcd as pf
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
    assert "Each party's records" not in page.text
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
