"""Columns that others determine, that nothing is known of, or whose sizes a clip hides: named, and never used or misread."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import privfcd as pf
from privfcd.algorithms.scale_notes import scale_notes, sizes_known
from privfcd.algorithms.usable import usable

CITIES = ["city_A", "city_B", "city_C", "inc"]


def _tables(parts: list[np.ndarray], epsilon: float | None, seed: int = 0, **options: Any) -> list[pf.PrivateTable]:
    budget = None if epsilon is None else pf.Budget(epsilon, 1e-5)
    return [
        pf.PrivateTable(part, name=f"clinic {k}", budget=budget, noise=pf.SimulatedNoise(seed), **options)
        for k, part in enumerate(parts)
    ]


@pytest.mark.parametrize("learner", [pf.GES, pf.PERI, pf.FedACD])
@pytest.mark.parametrize("epsilon", [5.0, 20.0])
def test_an_edge_beside_full_dummies_is_found_in_private(learner: Any, epsilon: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        city = rng.choice(3, size=3000, p=[0.5, 0.3, 0.2])
        rows = np.column_stack([np.eye(3)[city], (city == 0) + rng.normal(size=3000)])
        model = learner().fit(_tables([rows], epsilon, seed, columns=CITIES))
        assert model.adjacency_matrix_[0, 3] or model.adjacency_matrix_[3, 0], seed
        (words,) = [note for note in model.notes_ if "left out" in note]
        assert "city_A + city_B + city_C is constant" in words


def test_private_sums_of_columns_are_named() -> None:
    rng = np.random.default_rng(1)
    base = rng.normal(size=(4000, 15))
    rows = np.hstack([base, base @ rng.integers(-1, 2, (15, 40))])
    model = pf.GES().fit(_tables([rows[::2], rows[1::2]], 5.0, columns=[f"x{k}" for k in range(55)]))
    (words,) = [note for note in model.notes_ if "left out" in note]
    assert int(words.split()[0]) > 20 and "is a linear combination of" in words


def test_a_column_whose_size_was_guessed_is_unknown_to_every_reader() -> None:
    """No octave of it stands out of the noise: what the clip left of it may be any share of what it is."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(3000, 4))
    rows[:, 3] = 1e6 * (rng.random(3000) < 0.002)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        release = pf.release_moments(_tables([rows[:1500], rows[1500:]], 2.0))
    assert release.rule["unknown"] == ["x3"]
    used, notes = usable(release.parts)  # as of a file, without the rule
    assert not used[0].matrix[3, :3].any() and any("Nothing is known of 'x3'" in note for note in notes)


def test_sizes_behind_a_clip_are_not_compared() -> None:
    columns = ("a", "b")
    squares, exact = np.array([1.0, 1e-24]), np.zeros(2)
    assert "a factor of 1e+12" in scale_notes(squares, exact, columns)[0]
    assert not scale_notes(squares, exact, columns, cut=np.array([False, True]))
    # a column that is cut off and still the larger one is large
    assert scale_notes(squares, exact, columns, cut=np.array([True, False]))
    assert (
        sizes_known({})
        and not sizes_known({"share of the row norm": 0.9})
        and not sizes_known({"rounds": [{"kept": 0.2}]})
    )


def test_bounds_that_are_far_too_small_make_no_false_ratio() -> None:
    rows = np.random.default_rng(3).normal(size=(2, 1000, 3))
    tables = _tables(list(rows), 5.0, bounds={"x0": 4.0, "x1": 4.0, "x2": 4e-12})
    notes = pf.FedSparseBNSL(release="coordinates", rounds=5).fit(tables).notes_
    assert not any("very different sizes" in note for note in notes)
    assert any("equal error variances" in note for note in notes)
    model = pf.EqualVarianceSearch(release="covariance").fit(_tables(list(rows), 5.0, bounds=1e-9))
    assert model.rule_["release"]["share of the row norm"] > 0.5 and not any(
        "sizes" in note.lower() for note in model.notes_
    )


def test_rounds_on_rows_name_the_party_in_other_units() -> None:
    rows = np.random.default_rng(4).normal(size=(3, 5000, 3))
    rows[1, :, 2] *= 18
    tables = _tables(list(rows), 10.0, bounds={"x0": 4.0, "x1": 4.0, "x2": 70.0})
    notes = pf.FedSparseBNSL(release="coordinates", rounds=5, center=False).fit(tables).notes_
    assert any("'x2' at party 'clinic 1' is" in note and "times as large" in note for note in notes), notes


def test_a_released_mean_stays_within_its_bounds() -> None:
    rows = np.random.default_rng(5).uniform(-1, 1, size=(40, 3))
    release = pf.release_moments(_tables([rows], 0.05, bounds=1.0), method="covariance")
    assert np.abs(release.moments.mean).max() <= 1 and release.rule["row norm"] <= 2 * np.sqrt(3) * (1 + 1e-9)


def test_an_open_trusted_sum_takes_off_each_tables_own_mean() -> None:
    parts = [np.random.default_rng(k).normal(3.0 * k, 1.0, size=(500 + 100 * k, 3)) for k in range(3)]
    one = pf.release_moments(_tables(parts, None, bounds=0.5), sum="trusted").moments
    each = pf.release_moments(_tables(parts, None), sum="per-party").moments
    within = sum(len(part) * np.cov(part.T, bias=True) for part in parts) / sum(map(len, parts))
    np.testing.assert_allclose(one.matrix, within, atol=1e-6)
    np.testing.assert_allclose(one.matrix, each.matrix, atol=1e-9)
    np.testing.assert_allclose(one.mean, each.mean, atol=1e-9)
