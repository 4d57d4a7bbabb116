"""Edges that no test could judge are kept, and said to be untested: in notes, on the page and for machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import privfcd as pf
from privfcd.algorithms.constraint import FisherZ, Skeleton, stable_skeleton
from privfcd.algorithms.constraint.skeleton import run_layer
from privfcd.algorithms.constraint.untested import loud_notes, untested_notes
from privfcd.algorithms.fedacd.reference import run_reference_layer
from privfcd.moments import Moments, NoiseTerm
from privfcd.reports import report_html, run_summary

NAMES = ("a", "b", "c", "d")


def moments(sizes: list[float], sd: float, rows: int = 1000) -> Moments:
    return Moments(np.diag(np.square(sizes)), rows, NAMES[: len(sizes)], (NoiseTerm(sd),) if sd else ())


class Answers:
    """A test with given p-values for marginal pairs, and 0 for others."""

    d = 3

    def __init__(self, found: dict[tuple[int, int], float]) -> None:
        self.found = found

    def p_values(self, first: Any, second: Any, given: Any) -> Any:
        alone = given.shape[1] == 0
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        return np.array([self.found[min(pair), max(pair)] if alone else 0.0 for pair in pairs])


@pytest.mark.parametrize("run", [run_layer, run_reference_layer])
def test_tests_and_those_that_cannot_say_are_counted(run: Any) -> None:
    skeleton = Skeleton.complete(3)
    test: Any = Answers({(0, 1): np.nan, (0, 2): 0.5, (1, 2): 0.0})
    run(skeleton, test, 0.01, 0)
    assert not skeleton.adjacent[0, 2] and skeleton.adjacent[0, 1] and skeleton.adjacent[1, 2]
    once = skeleton.asked[0, 1]
    assert skeleton.silent[0, 1] == once >= 1 and skeleton.silent.sum() == 2 * once
    run(skeleton, test, 0.01, 1)
    for counts in (skeleton.asked, skeleton.silent):
        np.testing.assert_array_equal(counts, counts.T)
    assert skeleton.asked.sum() == 2 * skeleton.tests


def test_of_loud_noise_every_edge_of_independent_columns_is_untested() -> None:
    """The noise of the smallest columns is louder than their variances: nothing is known of them."""
    loud = moments([0.1, 0.2, 5.0, 6.0], sd=0.5)
    skeleton = stable_skeleton(FisherZ(loud))
    left = np.argwhere(np.triu(skeleton.adjacent, 1)).tolist()
    assert left == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3]], "c and d alone can be tested, and are independent"
    model = pf.PC().fit(loud)
    assert model.untested_ == [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")] and len(model.notes_) == 1
    said = model.notes_[0]
    assert said.startswith("5 of 5 edges could not be tested: the privacy noise is louder than") and "a – b" in said
    summary = run_summary(model, 1.0)
    assert summary["notes"] == model.notes_ and all(edge["untested"] for edge in summary["edges"])
    page = report_html(model)
    assert page.count("(not tested)") == 5 and "5 of 5 edges could not be tested" in page
    assert "could not be tested" in model._repr_html_()
    assert pf.FedACD().fit(loud).notes_ == [], "its score drops an edge that fits nothing"


def test_a_second_fit_forgets_the_notes_of_the_first() -> None:
    model = pf.PC().fit(moments([0.1, 0.2, 5.0, 6.0], sd=0.5))
    assert model.untested_
    for quiet in (moments([1.0, 1.0, 5.0, 6.0], sd=0.001), moments([1.0, 1.0, 5.0, 6.0], sd=0.0)):
        model.fit(quiet)
        assert model.untested_ == [] and model.notes_ == [] and "not tested" not in report_html(model)


@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_voters_columns_in_any_order(combine: str) -> None:
    """FedACD works in the order of sorted names: what was not tested is named rightly whatever the given order."""
    order = ("d", "a", "c", "b")
    matrix = np.diag([0.9, 25.0, 36.0, 49.0])
    matrix[0, 1] = matrix[1, 0] = 4.0
    matrix[2, 3] = matrix[3, 2] = 30.0
    noise = (NoiseTerm(0.9),)
    parts = [Moments((1 + k / 10) * matrix, 1000, order, noise) for k in range(2)]
    model = pf.FedACD(combine=combine).fit(parts)
    assert {frozenset(edge) for edge in model.causal_graph_.edges} == {frozenset("ad"), frozenset("bc")}
    assert [set(pair) for pair in model.untested_] == [{"a", "d"}]
    marked = [{edge["from"], edge["to"]} for edge in run_summary(model, 1.0)["edges"] if edge.get("untested")]
    assert marked == [{"a", "d"}]


def test_an_edge_that_one_test_found_is_not_untested() -> None:
    rows = np.random.default_rng(1).normal(size=(2000, 3))
    rows[:, 1] += 2 * rows[:, 0]
    rows[:, 2] += 2 * rows[:, 1]
    model = pf.PC().fit(Moments(rows.T @ rows / 2000, 2000, NAMES[:3]))
    assert model.untested_ == [] and model.notes_ == []
    # a and b determine c nearly: given the two others nothing can be said, alone much
    near = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.0]])
    model = pf.PC().fit(Moments(near, 2000, NAMES[:3], (NoiseTerm(0.01),)))
    assert model.untested_ == [] and "kept although some of the tests that might have removed them" in model.notes_[0]


def test_counts_of_records_that_are_too_few_have_a_reason_of_their_own() -> None:
    assert untested_notes([], 4, 0, noisy=False) == []
    pairs = [("a", f"b{k}") for k in range(13)]
    said = untested_notes(pairs, 20, 2, noisy=False)
    assert said[0].startswith("13 of 20 edges could not be tested: there are too few records") and "3 more" in said[0]
    assert said[1] == (
        "2 other edges were kept although some of the tests that might have removed them could not be made: for the same "
        "reason."
    )
    assert "2 of 20 edges were kept" in untested_notes([], 20, 2, noisy=True)[0]


def test_private_tables_of_columns_of_different_sizes() -> None:
    """Independent columns of scales 1 to 8 at epsilon 0.5: all edges are the noise's, and said to be untested."""
    rows = np.random.default_rng(900).normal(size=(2000, 6)) * [1, 1.5, 2, 3, 5, 8]
    tables = [
        pf.PrivateTable(part, name=f"p{k}", budget=pf.Budget(epsilon=0.5, delta=1e-6), noise=pf.SimulatedNoise(0))
        for k, part in enumerate(np.split(rows, 2))
    ]
    moments_ = pf.release_moments(tables, method="covariance", row_norm=30.0).moments
    model = pf.PC().fit(moments_)
    assert model.untested_ and len(model.untested_) <= model.skeleton_.adjacent.sum() // 2
    assert "could not be tested" in model.notes_[0]


@pytest.mark.parametrize("learner", [pf.GES(), pf.PERI(), pf.IPERI()], ids=lambda learner: type(learner).__name__)
def test_learners_that_score_name_columns_that_drown_in_noise(learner: Any) -> None:
    matrix = np.diag([0.9, 25.0, 36.0, 49.0])
    matrix[0, 1] = matrix[1, 0] = 4.0
    matrix[2, 3] = matrix[3, 2] = 30.0
    parts = [Moments((1 + k / 10) * matrix, 1000, NAMES, (NoiseTerm(0.9),)) for k in range(2)]
    model = learner.fit(parts)
    assert model.adjacency_matrix_[0].any() or model.adjacency_matrix_[:, 0].any()
    (note,) = model.notes_
    assert "edges join columns of which nothing is known beside the noise (a)" in note
    assert "however often they are found again" in report_html(model)
    quiet = [Moments(part.matrix, 1000, NAMES, (NoiseTerm(1e-3),)) for part in parts]
    assert learner.fit(quiet).notes_ == [] and learner.fit([replace(parts[0], noise=())]).notes_ == []


def test_loud_columns_are_named_in_the_order_of_the_result() -> None:
    part = Moments(np.diag([0.1, 4.0, 9.0]), 100, ("a", "b", "c"), (NoiseTerm(0.5),))
    adjacency = np.zeros((3, 3))
    adjacency[2, 0] = 0.7
    assert "1 of 1 edges join" in loud_notes([part], adjacency, ("c", "b", "a"))[0]
    assert "(a)" in loud_notes([part], adjacency, ("c", "b", "a"))[0]
    assert loud_notes([part], adjacency, ("b", "a", "c")) == [] == loud_notes([], adjacency, ("a", "b", "c"))
