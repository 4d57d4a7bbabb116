"""Edges that no test could judge are kept, and said to be untested: in notes, on the page and for machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import privfcd as pf
from privfcd.algorithms.constraint import FisherZ, Skeleton, stable_skeleton
from privfcd.algorithms.constraint.skeleton import run_layer
from privfcd.algorithms.constraint.untested import untested_notes
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


HALF_KNOWN = np.array([[1.0, 0.9, 0.0, 0.0], [0.9, 1.0, 0.0, 0.0], [0.0, 0.0, 25.0, 0.0], [0.0, 0.0, 0.0, 36.0]])
"""a and b are known, and what either has beside the other is not: no test given the other can be made."""


def test_columns_that_drown_in_noise_are_named_and_get_no_edge() -> None:
    """The noise of the smallest columns is louder than their variances: nothing is known of them."""
    loud = moments([0.1, 0.2, 5.0, 6.0], sd=0.5)
    left = np.argwhere(np.triu(stable_skeleton(FisherZ(loud)).adjacent, 1)).tolist()
    assert left == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3]], "c and d alone can be tested, and are independent"
    for learner in (pf.PC(), pf.GES(), pf.FedACD(), pf.PERI(), pf.IPERI()):
        model: Any = learner.fit(loud)
        assert not model.adjacency_matrix_.any(), learner
        (note,) = model.notes_
        assert note.startswith("2 columns were left out of the learning: 'a', 'b'.")
        assert "2 columns were left out of the learning" in report_html(model)


def test_edges_that_no_test_could_judge_are_said_to_be_untested() -> None:
    model = pf.PC().fit(Moments(HALF_KNOWN, 1000, NAMES, (NoiseTerm(0.4),)))
    assert model.untested_ == [("a", "b")] and len(model.notes_) == 1
    said = model.notes_[0]
    assert said.startswith("1 of 1 edges could not be tested: the privacy noise is louder than") and "a – b" in said
    summary = run_summary(model, 1.0)
    assert summary["notes"] == model.notes_ and all(edge["untested"] for edge in summary["edges"])
    page = report_html(model)
    assert page.count("(not tested)") == 1 and "1 of 1 edges could not be tested" in page
    assert "could not be tested" in model._repr_html_()


def test_a_second_fit_forgets_the_notes_of_the_first() -> None:
    model = pf.PC().fit(Moments(HALF_KNOWN, 1000, NAMES, (NoiseTerm(0.4),)))
    assert model.untested_
    for quiet in (moments([1.0, 1.0, 5.0, 6.0], sd=0.001), moments([1.0, 1.0, 5.0, 6.0], sd=0.0)):
        model.fit(quiet)
        assert model.untested_ == [] and model.notes_ == [] and "not tested" not in report_html(model)


@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_voters_columns_in_any_order(combine: str) -> None:
    """FedACD works in the order of sorted names: what was not tested is named rightly whatever the given order."""
    order = ("d", "a", "c", "b")
    matrix = np.diag([2.4, 25.0, 36.0, 49.0])
    matrix[0, 1] = matrix[1, 0] = 7.0
    matrix[2, 3] = matrix[3, 2] = 30.0
    parts = [Moments((1 + k / 10) * matrix, 1000, order, (NoiseTerm(0.9),)) for k in range(2)]
    if combine == "sum":  # one estimate of all, with less noise
        parts = [replace(part, noise=(NoiseTerm(1.3),)) for part in parts]
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
    near = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.08]])
    model = pf.PC().fit(Moments(near, 2000, NAMES[:3], (NoiseTerm(0.03),)))
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
    """Independent columns of scales 1 to 8 at epsilon 0.5: no edge is the noise's without a word."""
    rows = np.random.default_rng(900).normal(size=(2000, 6)) * [1, 1.5, 2, 3, 5, 8]
    tables = [
        pf.PrivateTable(part, name=f"p{k}", budget=pf.Budget(epsilon=0.5, delta=1e-6), noise=pf.SimulatedNoise(0))
        for k, part in enumerate(np.split(rows, 2))
    ]
    moments_ = pf.release_moments(tables, method="covariance", row_norm=30.0).moments
    model = pf.PC().fit(moments_)
    assert not model.adjacency_matrix_.any()
    assert "3 columns were left out of the learning: 'x0', 'x1', 'x2'." in model.notes_[0]


@pytest.mark.parametrize("rows", [3, 1000])
def test_parties_that_keep_moments_name_what_drowns_in_their_sum(rows: int) -> None:
    """Also of fewer rows than columns, and where one party's moments are exact."""
    loud = Moments(np.diag([0.1, 4.0, 9.0]), rows, NAMES[:3], (NoiseTerm(0.5),))
    second = replace(loud, matrix=1.1 * loud.matrix)
    for parts in ([loud], [loud, second], [loud, replace(loud, matrix=np.eye(3) * 0.1, rows=1, noise=())]):
        for learner in (pf.PERI(), pf.GES()):
            model: Any = learner.fit(parts)
            assert "1 column was left out of the learning: 'a'." in model.notes_[0]
            assert not model.adjacency_matrix_[0].any() and not model.adjacency_matrix_[:, 0].any()
