"""No report promises anything to exact moments that were pooled with noisy ones, by whatever way they came."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import privfcd as pf
from privfcd.moments import pooled, save_moments
from privfcd.reports import privacy_text, report_html, run_summary

from .test_html import BOTH, check_whole, quiet

WORDS = "The moments of 1 party carry no noise (west)"
METHODS = ["fed-sparse", "fed-bnsl", "equal-variance", "notears", "ges", "pc", "fedacd", "peri", "iperi"]


@pytest.fixture(scope="module")
def made(tables: Any) -> tuple[Any, Any]:
    """Return the release of two parties that paid, and that of an open one."""
    north, south, west = tables(BOTH, noise=pf.SecureNoise())
    return pf.release_moments([north, south]), pf.release_moments([pf.PrivateTable(west._rows, name="west")])


def alarmed(model: Any) -> None:
    page = check_whole(report_html(model))
    assert WORDS in page.text[: page.text.index("What is promised")] and "Not all are protected." in page.text
    assert "Each party's records are protected" not in page.text
    assert WORDS in privacy_text(model) and WORDS in model._repr_html_()
    assert WORDS in run_summary(model, 1.0)["privacy"]["missing"][0]


@pytest.mark.parametrize("method", METHODS)
def test_pooled_by_hand(method: str, made: Any) -> None:
    noisy, exact = made
    model = quiet(lambda: pf.learn(pooled([*noisy.parts, *exact.parts]), method=method))
    alarmed(model)
    assert model.unprotected_ == 1 and model.released_moments_ is None


@pytest.mark.parametrize("way", ["list", "pooled", "two files", "stored beside a release", "stored as one"])
def test_ways_of_combining(way: str, made: Any, tmp_path: Path) -> None:
    noisy, exact = made
    both = [*noisy.parts, *exact.parts]
    path, other = tmp_path / "m.npz", tmp_path / "n.npz"
    if way == "list":
        sources: Any = [noisy, *exact.parts]
    elif way == "pooled":
        sources = [noisy, pooled(exact.parts)]
    elif way == "two files":
        save_moments(path, noisy.parts, privacy_report=noisy.privacy_report)
        save_moments(other, exact.parts)
        sources = [path, other]
    else:  # the others' reports must not be taken for west's
        save_moments(path, both if way.endswith("release") else pooled(both), privacy_report=noisy.privacy_report)
        sources = path
    model = quiet(lambda: pf.learn(sources, method="ges"))
    alarmed(model)
    assert model.privacy_spent_[0] == math.inf and run_summary(model, 1.0)["privacy"]["epsilon"] == "inf"
    assert model.unreported_ == 1


def test_the_report_of_the_open_table_is_enough(made: Any, tmp_path: Path) -> None:
    noisy, exact = made
    path = tmp_path / "m.npz"
    reports = [*noisy.privacy_report, *exact.privacy_report]
    save_moments(path, pooled([*noisy.parts, *exact.parts]), privacy_report=reports)
    model = quiet(lambda: pf.learn(path, method="ges"))
    page = check_whole(report_html(model)).text
    assert "Of 3 parties 1 had no privacy" in page and "Not all are protected." not in page
    assert model.privacy_spent_[0] == math.inf and model.unreported_ == 0


def test_surplus_reports_of_one_source_hide_nothing_of_another(tables: Any, made: Any) -> None:
    opened = pf.release_moments(tables(None)[:2], sum="trusted")
    model = quiet(lambda: pf.learn([opened, *made[1].parts], method="ges"))
    assert WORDS in model._repr_html_()


def test_a_plan_and_an_estimator_of_its_own_say_it_too(made: Any) -> None:
    noisy, exact = made
    whole = pooled([*noisy.parts, *exact.parts])
    assert WORDS in " ".join(str(pf.plan_run(pf.GES(), whole, rehearse=False)).split())
    alarmed(quiet(lambda: pf.GES().fit(whole)))
    with pytest.raises(pf.errors.InvalidParameter, match="exact, and exact ones are not kept"):
        pf.algorithms.edge_stability(quiet(lambda: pf.GES().fit(whole)))


@pytest.mark.parametrize("method", ["ges", "pc", "notears", "equal-variance", "fedacd"])
def test_learners_that_pool_keep_no_exact_moments_for_stability(method: str, tables: Any) -> None:
    given = tables(BOTH, noise=pf.SecureNoise())
    given[2] = tables(None)[2]
    model: Any = quiet(lambda: pf.learn(given, method=method))
    assert model.released_moments_ is None and "exact ones are not kept" in model.no_stability_


def test_simulated_noise_whose_report_is_missing_is_an_alarm(tables: Any) -> None:
    released = pf.release_moments(tables(BOTH))
    model = quiet(lambda: pf.learn(pooled(released.parts), method="ges"))
    words = "The noise in the moments of 3 parties was simulated (north, south, west)"
    assert words in check_whole(report_html(model)).text and words in privacy_text(model)
    told = quiet(lambda: pf.learn(released, method="ges"))
    assert words not in report_html(told) and "simulated" in report_html(told)
