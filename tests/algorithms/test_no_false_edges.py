"""No edges out of means, units, sums of columns or too few rows; each was seen, and each learner is asked."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from privfcd import (
    NOTEARS,
    PC,
    EqualVarianceSearch,
    FedACD,
    FedBNSL,
    FedSparseBNSL,
    Moments,
    PrivateTable,
    release_moments,
)
from privfcd.accounting import Budget
from privfcd.algorithms import GES, PERI
from privfcd.algorithms.scale_notes import party_notes
from privfcd.errors import InvalidParameter, PrivfcdError
from privfcd.mechanisms import SimulatedNoise

Array = np.ndarray[Any, Any]

LEARNERS = {
    "ges": GES,
    "pc": PC,
    "equal-variance": EqualVarianceSearch,
    "notears": NOTEARS,
    "fed-bnsl": FedBNSL,
    "fed-sparse": FedSparseBNSL,
    "fedacd": FedACD,
    "peri": PERI,
}


def tables(parts: list[Array], epsilon: float | None = None, seed: int = 0, names: Any = None) -> list[PrivateTable]:
    budget = None if epsilon is None else Budget(epsilon, 1e-6)
    return [
        PrivateTable(part, names, name=f"p{k}", budget=budget, noise=SimulatedNoise(seed))
        for k, part in enumerate(parts)
    ]


def fitted(learner: str, source: Any, **parameters: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return LEARNERS[learner](**parameters).fit(source)


def pairs_of(model: Any) -> int:
    joined = np.asarray(model.adjacency_matrix_) != 0
    return int(np.triu(joined | joined.T).sum())


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("private", [False, True])
def test_means_make_no_edges(learner: str, private: bool) -> None:
    """5 to 10 of 10 false edges in every run of four learners, where means were left on."""
    found = 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(4000, 5)) + rng.uniform(3, 20, size=5)
        found += pairs_of(fitted(learner, tables([rows[:2000], rows[2000:]], 10.0 if private else None, seed)))
    assert found <= 1, f"{found} of 20 pairs"


@pytest.mark.parametrize("learner", [name for name in LEARNERS if name != "peri"])
def test_parties_whose_means_differ_make_no_edges(learner: str) -> None:
    """In open pooled runs a common mean left 23 to 36 edges."""
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(1000, 6)) + 3 * rng.normal(size=6) for _ in range(5)]
    model = fitted(learner, tables(parts))
    assert pairs_of(model) <= 1
    if learner in ("ges", "notears"):
        assert any("Means differ between parties" in note for note in model.notes_)


def test_one_covariance_takes_off_each_partys_own_mean() -> None:
    rng = np.random.default_rng(4)
    parts = [rng.normal(size=(4000, 3)) + shift for shift in (0.0, 3.0, -2.0)]
    release = release_moments(tables(parts, 20.0), method="covariance")
    off = release.moments.matrix - np.diag(np.diag(release.moments.matrix))
    assert np.abs(off).max() < 0.3, "about a common mean it is 4"
    assert release.moments.mean is not None and np.abs(release.moments.mean - 1 / 3).max() < 0.5


def dummies(seed: int, rows: int = 3000) -> tuple[Array, list[str]]:
    rng = np.random.default_rng(seed)
    city = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    return np.c_[np.eye(3)[city], (city == 0) + rng.normal(size=rows)], ["city_A", "city_B", "city_C", "inc"]


@pytest.mark.parametrize("learner", ["ges", "pc", "peri", "fedacd"])
def test_beside_full_dummies_an_edge_is_found(learner: str) -> None:
    rows, names = dummies(0)
    model = fitted(learner, tables([rows], names=names))
    assert model.adjacency_matrix_[0, 3] or model.adjacency_matrix_[3, 0]
    assert not model.adjacency_matrix_[2].any() and not model.adjacency_matrix_[:, 2].any()
    (note,) = [note for note in model.notes_ if "left out" in note]
    assert "'city_C'" in note and "city_A + city_B + city_C is constant" in note and "inc" not in note


@pytest.mark.parametrize("learner", LEARNERS)
def test_many_exact_sums_are_named(learner: str) -> None:
    """40 of 55 columns are sums of the first 15."""
    rng = np.random.default_rng(1)
    base = rng.normal(size=(4000, 15))
    rows = np.hstack([base, base @ rng.integers(-1, 2, (15, 40))])
    source: Any = tables([rows[:2000], rows[2000:]], names=[f"x{j:02d}" for j in range(55)])
    if learner == "fed-sparse":  # on rows it sees no moments
        source = list(release_moments(source).parts)
    model = fitted(learner, source, **({"rounds": 5} if learner.startswith("fed-") else {}))
    (note,) = [note for note in model.notes_ if "left out" in note]
    assert "40 columns" in note and "'x15'" in note and "'x54'" in note and "'x14'," not in note.split(".")[0]
    assert pairs_of(model) <= 3, "the others are independent"


def test_constants_and_copies_are_named() -> None:
    x = np.random.default_rng(2).normal(size=2000)
    y = x + np.random.default_rng(3).normal(size=2000)
    model = fitted("ges", tables([np.c_[x, y, np.full(2000, 7.0), 2 * x]], names=["x", "y", "seven", "twice"]))
    (note,) = [note for note in model.notes_ if "left out" in note]
    assert "'seven' is constant" in note and "twice - 2 x is constant" in note
    assert pairs_of(model) == 1


def test_the_rows_of_all_parties_count() -> None:
    rng = np.random.default_rng(5)
    parts = [rng.normal(size=(12, 40)) for _ in range(5)]
    assert fitted("ges", tables(parts)).moments_.rows == 60
    with pytest.raises(InvalidParameter, match="24 rows at 2 parties are fewer than the 40 columns"):
        fitted("ges", tables(parts[:2]))
    rows = rng.normal(size=(20, 40))
    matrix = rows.T @ rows / 20
    with pytest.raises(InvalidParameter, match="20 rows at 1 party are fewer"):
        fitted("ges", Moments((matrix + matrix.T) / 2, 20, tuple(f"x{j}" for j in range(40))))
    with pytest.raises(PrivfcdError, match="fewer than the 40 columns"):
        fitted("peri", tables(parts))


def test_a_party_in_another_unit_is_named() -> None:
    rng = np.random.default_rng(6)
    parts = [rng.normal(size=(1000, 3)) * [1.0, 2.0, 1.0] + [0.0, 5.0, 0.0] for _ in range(3)]
    parts[1][:, 1] *= 18
    for epsilon in (None, 8.0):
        model = fitted("ges", tables(parts, epsilon, names=["a", "glucose", "c"]))
        (note,) = [note for note in model.notes_ if "Sizes differ" in note]
        assert "'glucose' at party 'p1'" in note and "'a'" not in note


def test_equal_parties_are_rarely_said_to_differ() -> None:
    """At most 5 in 100 simulated federations of each law, with ten columns at four parties, have any note."""
    laws = {
        "normal": lambda g, size: g.normal(size=size),
        "exponential": lambda g, size: g.exponential(size=size),
        "t3": lambda g, size: g.standard_t(3, size=size),
        "flag": lambda g, size: (g.random(size) < 0.05) * 1.0,
    }
    for name, law in laws.items():
        said = 0
        for seed in range(100):
            rng = np.random.default_rng(seed)
            parts = []
            for _ in range(4):
                rows = law(rng, (500, 10))
                mean = rows.mean(axis=0)
                centred = rows - mean
                matrix = centred.T @ centred / 500
                parts.append(Moments((matrix + matrix.T) / 2, 500, tuple(f"x{j}" for j in range(10)), (), mean))
            said += bool(party_notes(parts))
        assert said <= 5, f"{name}: {said}"
