"""Every method in one call, from tables and from moments; and what is noted of the result."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privfcd as pf
from privfcd.algorithms import release_moments
from privfcd.algorithms.registry import LEARNERS, learner_class
from privfcd.algorithms.scale_notes import RATIO, scale_notes, store_moment_notes
from privfcd.cli import demonstration as demo
from privfcd.errors import InvalidParameter
from privfcd.moments import load_moments, save_moments
from privfcd.runs import learn, reports_rounds

NOISE = pf.SimulatedNoise(3)
QUICK: dict[str, dict[str, Any]] = {"fed-sparse": {"rounds": 2, "updates": 3}, "fed-bnsl": {"rounds": 2}}
SHIFT = 1.0

pytestmark = pytest.mark.filterwarnings("ignore::privfcd.algorithms.equal_variance.estimator.EqualVarianceWarning")


def frames(scale: float = 1.0) -> list[pd.DataFrame]:
    made = []
    for seed in range(2):
        values = np.random.default_rng(seed).normal(size=(200, 3))
        values[:, 1] += 1.5 * values[:, 0]
        made.append(pd.DataFrame((values + SHIFT) * [1.0, scale, 1.0], columns=["a", "b", "c"]))
    return made


def tables(budget: pf.Budget | None, scale: float = 1.0) -> list[pf.PrivateTable]:
    return [
        pf.PrivateTable(frame, name=f"ward {k}", budget=budget, bounds=[9.0, 9.0 * scale, 9.0], noise=NOISE)
        for k, frame in enumerate(frames(scale))
    ]


@pytest.mark.parametrize("method", LEARNERS)
@pytest.mark.parametrize("private", [True, False])
def test_every_method_is_one_call(method: str, private: bool) -> None:
    asked = {"epsilon": 9.0, "bounds": 9.0, "noise": NOISE} if private else {"private": False}
    fitted = learn(frames(), method=method, **asked, **QUICK.get(method, {}))
    kind = learner_class(method)
    assert type(fitted) is kind and LEARNERS[method].endswith(f":{kind.__name__}")
    assert set(fitted.causal_graph_) == {"a", "b", "c"} and fitted.n_features_in_ == 3
    assert fitted.privacy_spent_[0] == (pytest.approx(9.0, rel=1e-3) if private else math.inf)
    own = tables(pf.Budget(epsilon=9.0, delta=1 / 200**2) if private else None)
    assert kind().get_params()["center"] is None, "one default everywhere: each party's own means are taken off"
    by_hand: Any = kind(**QUICK.get(method, {}))
    np.testing.assert_allclose(by_hand.fit(own).adjacency_matrix_, fitted.adjacency_matrix_, atol=1e-12)
    labels = [part.label for part in fitted.privacy_report_[0].parts]
    assert any("mean" in label or "differences" in label for label in labels), "means are taken off unless told otherwise"
    without = learn(tables(pf.Budget(rho=1.0)), method=method, center=False, **QUICK.get(method, {}))
    assert not any("mean" in part.label or "differences" in part.label for part in without.privacy_report_[0].parts)


@pytest.mark.parametrize("method", LEARNERS)
def test_moments_are_learnt_from_free_of_charge(method: str, tmp_path: Path) -> None:
    released = release_moments(tables(pf.Budget(epsilon=9.0, delta=1e-6)), center=True)
    path = tmp_path / "released.npz"
    save_moments(path, released.parts, privacy_report=released.privacy_report, rule=released.rule)
    quick = QUICK.get(method, {})
    found = [
        learn(source, method=method, **quick)
        for source in (released, path, str(path), [path], load_moments(path), list(released.parts), [released])
    ]
    for fitted in found[1:]:
        np.testing.assert_array_equal(fitted.adjacency_matrix_, found[0].adjacency_matrix_)
    assert found[0].privacy_report_ == released.privacy_report
    assert found[1].privacy_spent_ == found[0].privacy_spent_ == pytest.approx((9.0, 1e-6), rel=1e-3)
    assert found[5].privacy_report_ is None and found[5].privacy_spent_ == (0.0, 0.0)
    learn(released.moments, method=method, **quick)


def test_sites_may_each_bring_a_file(tmp_path: Path) -> None:
    paths, parts = [], []
    for k, table in enumerate(tables(pf.Budget(epsilon=9.0, delta=1e-6))):
        released = release_moments([table])
        paths.append(tmp_path / f"site {k}.npz")
        parts += released.parts
        save_moments(paths[-1], released.parts, privacy_report=released.privacy_report)
    fitted = learn(paths, method="ges")
    assert [report.party for report in fitted.privacy_report_] == ["ward 0", "ward 1"]
    np.testing.assert_array_equal(fitted.adjacency_matrix_, pf.GES().fit(parts).adjacency_matrix_)
    with pytest.raises(InvalidParameter, match="different files"):
        learn([paths[0], tmp_path / "." / "site 0.npz"], method="ges")
    with pytest.raises(InvalidParameter, match="all moments or all tables"):
        learn([paths[0], frames()[0]], method="ges", epsilon=1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 1.0}, "epsilon must be left out for moments"),
        ({"delta": 1e-6}, "delta must be left out for moments"),
        ({"bounds": 3.0}, "bounds must be left out for moments"),
        ({"noise": NOISE}, "noise must be left out for moments"),
        ({"names": ["x"]}, "names must be left out for moments"),
        ({"ledgers": ["a.sqlite"]}, "ledgers must be left out for moments"),
        ({"center": True}, "center must be left out for moments"),
        ({"private": False}, "private and log1p must be left out"),
        ({"log1p": True}, "private and log1p must be left out"),
        ({"alpha": 0.05}, "parameter must be one of penalty"),
    ],
)
def test_options_of_tables_are_refused_for_moments(arguments: dict[str, Any], message: str) -> None:
    released = release_moments(tables(None))
    with pytest.raises(InvalidParameter, match=message):
        learn(released, method="ges", **arguments)


def test_what_does_not_belong_to_a_method_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"method must be one of fed-sparse, equal-variance, .*, got 'lingam'"):
        learn(frames(), method="lingam", epsilon=1.0)
    with pytest.raises(
        InvalidParameter, match=r"one of alpha, .* for method 'pc', got 'updates \(of method fed-sparse\)'"
    ):
        learn(frames(), method="pc", epsilon=1.0, updates=3)
    with pytest.raises(InvalidParameter, match="on_round must be left out for method 'pc': fed-sparse, fed-bnsl have"):
        learn(frames(), method="pc", epsilon=1.0, on_round=print)
    with pytest.raises(InvalidParameter, match="alpha"):
        learn(frames(), method="pc", epsilon=1.0, bounds=9.0, alpha=3.0)
    assert [name for name in LEARNERS if reports_rounds(name)] == ["fed-sparse", "fed-bnsl"]


def test_rounds_of_either_method_are_reported() -> None:
    for method in ("fed-sparse", "fed-bnsl"):
        seen: list[int] = []
        learn(frames(), method=method, private=False, on_round=lambda r, s=seen: s.append(r.number), **QUICK[method])
        assert seen == [1, 2]


def test_discrete_columns_need_their_levels_only() -> None:
    codes = [pd.DataFrame(np.random.default_rng(k).integers(0, 3, (200, 3)), columns=list("abc")) for k in range(2)]
    fitted = learn(codes, method="fedacd", epsilon=9.0, noise=NOISE, levels=3)
    assert fitted.privacy_report_[0].declared["levels"] == {"a": 3, "b": 3, "c": 3}


@pytest.mark.parametrize("method", ["equal-variance", "pc", "fed-bnsl"])
def test_the_demonstration_takes_any_method(method: str) -> None:
    result = demo.run_demo(method=method, noise=NOISE)
    assert type(result.model) is learner_class(method) and result.model.privacy_spent_[0] <= 5
    assert [report.party for report in result.model.privacy_report_] == list(demo.PARTIES)


@pytest.mark.parametrize(
    ("method", "budget"),
    [
        *((method, None) for method in ("fed-sparse", "fed-bnsl", "notears", "equal-variance")),
        # not fed-bnsl: the noise of a clipped covariance is alike in all columns, and hides the small ones
        *((method, pf.Budget(epsilon=60, delta=1e-6)) for method in ("fed-sparse", "notears", "equal-variance")),
    ],
)
def test_columns_of_very_different_sizes_are_noted(method: str, budget: pf.Budget | None) -> None:
    kind = learner_class(method)
    fitted: Any = kind(**QUICK.get(method, {})).fit(tables(budget, scale=1e3))  # type: ignore[call-arg, attr-defined]
    note = fitted.notes_[0]
    assert "'b' has values of about" in note and "comparable units" in note
    assert len(fitted.privacy_report_) == 2, "nothing more is charged for it"
    fitted.fit(tables(budget))
    assert not [note for note in fitted.notes_ if "values of about" in note or "comparable units" in note]


@pytest.mark.parametrize("method", ["pc", "ges", "peri", "fedacd"])
def test_methods_that_scales_do_not_matter_to_note_nothing(method: str) -> None:
    fitted: Any = learner_class(method)().fit(tables(None, scale=1e3))  # type: ignore[attr-defined]
    assert list(fitted.notes_) == []


def test_noise_is_held_against_a_note() -> None:
    columns = ["a", "b", "c"]
    squares, none = np.array([1.0, 1.01 * RATIO**2, 4.0]), np.zeros(3)
    assert "'b'" in scale_notes(squares, none, columns)[0] and "'a'" in scale_notes(squares, none, columns)[0]
    assert not scale_notes(squares * [1, 0.9, 1], none, columns)
    assert not scale_notes(squares, np.array([0.05, 0.0, 0.0]), columns)
    assert not scale_notes(squares, np.array([0.0, 20.0, 0.0]), columns)
    assert not scale_notes(np.array([0.0, 1.0, 1.0]), none, columns), "a constant column has no size"
    assert not scale_notes(none, none, columns)
    assert not scale_notes(np.array([-0.1, 1.0, 1.0]), np.array([0.2, 0.1, 0.1]), columns)
    with_noise = scale_notes(np.array([-0.1, 1e4, 1.0]), np.array([0.2, 0.1, 0.1]), columns)
    assert "'a' of about 0.63" in with_noise[0]


def test_notes_of_moments_weigh_parties_by_their_rows() -> None:
    class Model:
        notes_: list[str]

    def moments(square: float, rows: int) -> pf.Moments:
        return pf.Moments(np.diag([1.0, square]), rows, ("a", "b"), (pf.moments.NoiseTerm(0.1),))

    model = Model()
    store_moment_notes(model, [moments(3000.0, 900), moments(1.0, 100)])
    assert "'b' has values of about 52" in model.notes_[0]
    store_moment_notes(model, [moments(3000.0, 100), moments(1.0, 900)])
    assert model.notes_ == []
