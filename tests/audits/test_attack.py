"""The covariance attack: what recorded messages give away, and what they do not."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from privfcd.algorithms.fed_bnsl import FedBNSL, FedBNSLCoordinator, FedBNSLParty
from privfcd.algorithms.protocol import Empty
from privfcd.algorithms.recorded import RecordedFederation
from privfcd.audits.attack import METHODS, attack_covariance
from privfcd.audits.membership import membership_test
from privfcd.audits.reconstruction import (
    Exchange,
    added_record,
    exchanges_with,
    off_diagonal_correlation,
    reconstruct,
    relative_error,
    replaced_record,
)
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments
from tests.support.helpers import exact_moments


def closed_form(s: np.ndarray, w: np.ndarray, dual: np.ndarray, rho2: float) -> np.ndarray:
    """The paper's equation for B, term by term."""
    return np.linalg.inv(s + rho2 * np.eye(len(s))) @ (rho2 * w - dual + s)


def recorded(parts: list[Moments], rounds: int, rho2: float = 1.0) -> list[tuple]:
    model = FedBNSL(rounds=rounds, rho2=rho2)
    federation = RecordedFederation.local([FedBNSLParty(f"p{i}", part) for i, part in enumerate(parts)])
    FedBNSLCoordinator(model._settings(), parts[0].columns).run(federation)
    return federation.transcript


@pytest.mark.parametrize("d", [20, 100, 200])
def test_first_messages_of_fed_bnsl_give_the_second_moments_away(d: int) -> None:
    dense, single = attack_covariance(d, methods=["fed-bnsl", "fed-bnsl-float32"])
    assert dense.relative_error < 1e-9 and dense.off_diagonal_correlation == pytest.approx(1)
    assert dense.entries == d * d and math.isinf(dense.epsilon) and not dense.private
    assert 1e-8 < single.relative_error < 1e-4
    assert dense.record_error < 1e-8 and dense.record_rank == 1.0
    for report in (dense, single):  # five standard deviations of the AUC, and what it should be for Gaussian rows
        assert report.membership.auc == pytest.approx(report.membership.expected_auc, abs=5 * report.membership.auc_sd)
    assert dense.membership.expected_auc == pytest.approx({20: 0.5576, 100: 0.7613, 200: 0.9219}[d], abs=1e-4)


def test_every_round_gives_them_away_since_the_multipliers_can_be_replayed() -> None:
    _, tables = linear_gaussian(6, parties=3, rows=40, seed=5)
    parts = [exact_moments(table) for table in tables]
    transcript = recorded(parts, rounds=6, rho2=2.5)
    for index, part in enumerate(parts):
        found = reconstruct(exchanges_with(transcript, index), 2.5)
        assert len(found) == 6
        assert all(relative_error(matrix, part.matrix) < 1e-9 for matrix in found)
    # a wrong penalty, or another party's messages, give something else
    assert relative_error(reconstruct(exchanges_with(transcript, 0), 2.0)[3], parts[0].matrix) > 1e-3
    assert relative_error(reconstruct(exchanges_with(transcript, 1), 2.5)[0], parts[0].matrix) > 1e-3


def test_fewer_rows_than_columns_protect_nobody() -> None:
    rows = np.random.default_rng(0).normal(size=(7, 15))
    part = exact_moments(rows)
    (found,) = reconstruct(exchanges_with(recorded([part], rounds=1), 0), 1.0)
    assert np.linalg.matrix_rank(part.matrix) == 7
    assert relative_error(found, part.matrix) < 1e-12


@given(st.integers(2, 8), st.floats(0.05, 20), st.integers(0, 10**6))
def test_inversion_is_exact_for_any_consensus_and_multiplier(d: int, rho2: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(3 * d, d))
    s = rows.T @ rows / (3 * d)
    w, dual = rng.normal(size=(d, d)), rng.normal(size=(d, d))
    local = closed_form(s, w, dual, rho2)
    # the multiplier reaches a round as rho2 (B of the last - W of this)
    before = Exchange(1, np.zeros((d, d)), w + dual / rho2)
    found = reconstruct([before, Exchange(2, w, local)], rho2)[1]
    condition = float(np.linalg.cond(local - np.eye(d)))
    assert relative_error(found, s) < 1e-11 * max(1.0, condition)
    if condition < 1e6:  # as A.1 prints it, the inverse stands on the wrong side
        printed = np.linalg.inv(local - np.eye(d)) @ (rho2 * (w - local) - dual)
        assert relative_error(printed, s) > 1e-3


def test_what_remains_for_sparse_and_private_messages() -> None:
    reports = {one.method: one for one in attack_covariance(20, epsilon=1.0, seed=2)}
    assert set(reports) == set(METHODS)
    for method in ("fed-sparse-bnsl", "fed-bnsl-fw", "dp-fed-sparse-bnsl"):
        assert reports[method].relative_error > 0.5 and reports[method].entries < 200
        assert abs(reports[method].membership.auc - 0.5) < 0.05
    assert reports["fed-sparse-bnsl"].off_diagonal_correlation > 0.5  # sparsity is not privacy
    for method in ("dp-fed-bnsl", "dp-fed-sparse-bnsl"):
        assert reports[method].epsilon == 1.0 and reports[method].delta == pytest.approx(1 / 5000**2)
        assert abs(reports[method].membership.auc - 0.5) < 5 * reports[method].membership.auc_sd + 0.02
        assert reports[method].record_error > 0.5
    assert reports["dp-fed-bnsl"].relative_error > 0.01


def test_a_larger_budget_leaves_less_error() -> None:
    small, large = (attack_covariance(30, 1000, ["dp-fed-bnsl"], epsilon=e)[0] for e in (0.5, 50.0))
    assert small.relative_error > 5 * large.relative_error


@given(st.integers(2, 10), st.integers(0, 10**6))
def test_one_record_more_or_less_is_revealed(d: int, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(20, d))
    fewer, all_rows = exact_moments(rows[:-1]).matrix, exact_moments(rows).matrix
    for found in (added_record(fewer, 19, all_rows, 20), added_record(all_rows, 20, fewer, 19)):
        sign = np.sign(found @ rows[-1])
        assert sign * found == pytest.approx(rows[-1], abs=1e-6)


@given(st.integers(2, 10), st.integers(0, 10**6))
def test_a_replaced_record_is_revealed_to_who_knows_the_old_one(d: int, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(20, d))
    other = rows.copy()
    other[3] = np.random.default_rng(seed + 1).normal(size=d)
    found = replaced_record(exact_moments(rows).matrix, exact_moments(other).matrix, 20, rows[3])
    assert np.sign(found @ other[3]) * found == pytest.approx(other[3], abs=1e-6)


def test_membership_follows_the_law_of_gaussian_rows() -> None:
    """The AUC against its closed form, with exact and with reference moments estimated from as many rows."""
    d, n = 40, 400
    rng = np.random.default_rng(3)
    inside, outside, others = rng.normal(size=(3, n, d))
    s = inside.T @ inside / n
    report = membership_test(s, np.eye(d), inside, outside, n)
    assert report.expected_auc == pytest.approx(float(ndtr(math.sqrt(d * (d + 1) / (4 * n)))))
    assert report.auc == pytest.approx(report.expected_auc, abs=0.05)
    wins = np.mean(report.members[:, None] > report.outsiders[None, :])
    assert report.auc == pytest.approx(wins)  # brute force
    estimated = membership_test(s, others.T @ others / n, inside, outside, n)
    assert 0.5 < estimated.auc < report.auc
    fpr, tpr = report.roc()
    assert fpr[0] == 0 and tpr[-1] == 1 and (np.diff(tpr) >= 0).all()
    assert np.trapezoid(tpr, fpr) == pytest.approx(report.auc, abs=0.02)


def test_membership_does_not_depend_on_the_scale_of_the_columns() -> None:
    rng = np.random.default_rng(4)
    inside, outside = rng.normal(size=(2, 50, 4))
    s, scale = inside.T @ inside / 50, np.diag([1e-3, 1.0, 50.0, 7.0])
    one = membership_test(s, np.eye(4), inside, outside, 50)
    two = membership_test(scale @ s @ scale, scale @ scale, inside @ scale, outside @ scale, 50)
    assert one.members == pytest.approx(two.members) and one.auc == two.auc


def test_chance_is_one_half() -> None:
    rng = np.random.default_rng(5)
    x, y, other = rng.normal(size=(3, 3000, 5))
    report = membership_test(other.T @ other / 3000, np.eye(5), x, y, 3000)
    assert report.auc == pytest.approx(0.5, abs=5 * report.auc_sd)
    assert off_diagonal_correlation(np.eye(3), np.ones((3, 3))) == 0.0


def test_reports_are_json_and_repeat() -> None:
    one, again = (attack_covariance(5, 60, ["dp-fed-bnsl"], epsilon=3.0, delta=1e-5, seed=9)[0] for _ in range(2))
    assert one.relative_error == again.relative_error
    answer = json.loads(json.dumps(one.as_dict(), allow_nan=False))
    assert answer["method"] == "dp-fed-bnsl" and answer["delta"] == 1e-5 and "truth" not in answer
    assert json.loads(json.dumps(attack_covariance(3, 20, ["fed-bnsl"])[0].as_dict()))["epsilon"] is None


def test_progress_counts_methods() -> None:
    seen: list[tuple[int, int]] = []
    attack_covariance(4, 60, ["fed-bnsl", "fed-bnsl-fw"], on_progress=lambda *both: seen.append(both))
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"d": 1}, "d must"),
        ({"rows": 20}, "rows must"),
        ({"methods": ["magic"]}, "methods must"),
        ({"parties": 0}, "parties must"),
        ({"seed": -1}, "seed must"),
        ({"rho2": 0.0}, "rho2 must"),
        ({"epsilon": 0.0}, "epsilon must"),
        ({"delta": 2.0}, "delta must"),
    ],
)
def test_bad_parameters_are_named(arguments: dict, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        attack_covariance(**{"d": 20, **arguments})


def test_bad_records_and_matrices_are_named() -> None:
    with pytest.raises(InvalidParameter, match="transcript must"):
        exchanges_with([(Empty(), [Empty()])], 0)
    with pytest.raises(InvalidParameter, match="party must"):
        exchanges_with(recorded([exact_moments(np.eye(3))], 1), 1)
    with pytest.raises(InvalidParameter, match="rows_after must"):
        added_record(np.eye(2), 5, np.eye(2), 5)
    rows = np.ones((2, 3))
    with pytest.raises(InvalidParameter, match="reference must be positive definite"):
        membership_test(np.eye(3), np.zeros((3, 3)), rows, rows, 2)
    with pytest.raises(InvalidParameter, match="moments and reference"):
        membership_test(np.eye(2), np.eye(3), rows, rows, 2)
    with pytest.raises(InvalidParameter, match="members must"):
        membership_test(np.eye(3), np.eye(3), rows[:, :2], rows, 2)


def test_a_recorded_federation_changes_nothing() -> None:
    parts = [exact_moments(np.random.default_rng(1).normal(size=(30, 4))) for _ in range(2)]
    settings = FedBNSL(rounds=3)._settings()
    parties = [FedBNSLParty(f"p{i}", part) for i, part in enumerate(parts)]
    from privfcd.algorithms.local import LocalFederation

    plain = LocalFederation(parties)
    watched = RecordedFederation.local([FedBNSLParty(f"p{i}", part) for i, part in enumerate(parts)])
    answers = [FedBNSLCoordinator(settings, parts[0].columns).run(one) for one in (plain, watched)]
    assert np.array_equal(answers[0][-1].weights, answers[1][-1].weights)
    assert watched.names == plain.names and watched.bytes_exchanged == plain.bytes_exchanged
    assert len(watched.transcript) == 5 and all(len(replies) == 2 for _, replies in watched.transcript)
