"""What edge stability states, held against its definitions: the redrawn law, noise alone, the refit, and late rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from privfcd.accounting import Budget
from privfcd.algorithms import (
    GES,
    IPERI,
    NOTEARS,
    PC,
    PERI,
    EqualVarianceSearch,
    FedACD,
    FedBNSL,
    FedSparseBNSL,
)
from privfcd.algorithms.inputs import aligned
from privfcd.algorithms.release import release_moments
from privfcd.algorithms.stability import EdgeStability
from privfcd.algorithms.stability.history import from_rounds
from privfcd.algorithms.stability.late_rounds import LateRounds, late_rounds
from privfcd.algorithms.stability.no_dependence import without_dependence
from privfcd.algorithms.stability.redraws import fresh
from privfcd.algorithms.stability.streams import stream
from privfcd.data.private import PrivateTable
from privfcd.mechanisms import SimulatedNoise
from privfcd.moments import Moments, NoiseTerm, pooled

from .conftest import NAMES

D = 4
NUMBERS = np.random.default_rng(0)
SDS = np.abs(NUMBERS.normal(size=(D, D)))
ONE, OTHER = NUMBERS.normal(size=(D, D)), NUMBERS.normal(size=(D, D))
TERMS = (
    NoiseTerm(0.3),
    NoiseTerm(SDS + SDS.T, ONE),
    NoiseTerm(SDS + SDS.T),
    NoiseTerm(0.2, OTHER),
    NoiseTerm(0.5, ONE),
)
MANY = Moments(np.eye(D), 10, NAMES, TERMS)
FEW = Moments(np.eye(D), 30, NAMES, (NoiseTerm(0.1), NoiseTerm(0.7, ONE)))
LAWS = {
    "several terms": MANY,
    "pooled": pooled([MANY, FEW]),
    "carried": MANY.carried(OTHER),
    "in another order": aligned(MANY, tuple("dbca")),
    "repaired": MANY.carried(-OTHER).repaired(),
    "shrunk": MANY.shrunk(),
    "all of it": aligned(pooled([MANY, FEW]).carried(ONE), tuple("cdab")),
}


class Units:
    """Stands in for a generator: its k-th draw of a (d, d) matrix is 0 but for one entry, which is 1."""

    def __init__(self, term: int, entry: int) -> None:
        self.left, self.entry = term, entry

    def standard_normal(self, shape: tuple[int, int]) -> np.ndarray:
        answer = np.zeros(shape)
        if self.left == 0:
            answer.ravel()[self.entry] = 1.0
        self.left -= 1
        return answer


@pytest.mark.parametrize("moments", LAWS.values(), ids=LAWS.keys())
def test_a_draw_has_the_stated_law_and_a_redraw_is_told_twice_its_variance(moments: Moments) -> None:
    """A draw is linear in independent standard normal numbers, so that its covariances are sums over these."""
    units = [moments.noise_draw(Units(t, e)) for t in range(len(moments.noise)) for e in range(D * D)]  # type: ignore[arg-type]
    assert all(np.array_equal(unit, unit.T) for unit in units)
    form = NUMBERS.normal(size=(D, D))
    form = form + form.T
    assert sum(np.vdot(unit, form) ** 2 for unit in units) == pytest.approx(moments.form_noise_variance(form))
    left, right = NUMBERS.normal(size=(2, D, 3))
    values = np.array([np.einsum("im,ij,jm->m", left, unit, right) for unit in units])
    assert (values**2).sum(axis=0) == pytest.approx(moments.noise_variances(left, right))
    again = moments.redrawn(np.random.default_rng(1))
    assert again.form_noise_variance(form) == pytest.approx(2 * moments.form_noise_variance(form))
    assert again.noise_variances(left, right) == pytest.approx(2 * moments.noise_variances(left, right))
    assert again.noise_sd is not None and moments.noise_sd is not None
    assert again.noise_sd**2 == pytest.approx(2 * moments.noise_sd**2)
    assert (again.rows, again.columns) == (moments.rows, moments.columns)


def released(parties: int = 3, rounds: tuple[float, ...] = (0.5, 0.5)) -> Moments:
    """Moments of a release in rounds, of tables that are strongly dependent."""
    rng = np.random.default_rng(3)
    mix = np.eye(6) + np.triu(rng.normal(size=(6, 6)), 1)
    tables = [
        PrivateTable(
            rng.normal(size=(3000, 6)) @ mix,
            tuple("uvwxyz"),
            name=f"t{k}",
            budget=Budget(rho=0.02),
            noise=SimulatedNoise(k),
        )
        for k in range(parties)
    ]
    return release_moments(tables, shares=rounds).moments


@pytest.mark.parametrize(
    "moments", [LAWS["several terms"], LAWS["all of it"], released()], ids=["terms", "all", "rounds"]
)
def test_noise_alone_keeps_the_size_of_the_noise_on_the_diagonal_and_has_independent_entries(moments: Moments) -> None:
    like = without_dependence(moments).like
    assert like.noise_sd is not None and moments.noise_sd is not None
    assert np.diag(like.noise_sd) == pytest.approx(np.diag(moments.noise_sd))
    d = len(moments.columns)
    form = np.random.default_rng(0).normal(size=(d, d))
    form = (form + form.T) / 2
    alone = (form**2 * like.noise_sd**2 * np.where(np.eye(d, dtype=bool), 1.0, 2.0)).sum()
    assert like.form_noise_variance(form) == pytest.approx(alone)


def test_noise_alone_is_smaller_off_the_diagonal_by_what_two_columns_have_in_common() -> None:
    moments = Moments(np.eye(D), 10, NAMES, (NoiseTerm(0.2, ONE), NoiseTerm(np.full((D, D), 0.1), ONE)))
    spread = ONE @ ONE.T
    like = without_dependence(moments).like
    isotropic = 0.2**2 / 2 * np.outer(np.diag(spread), np.diag(spread))
    assert like.noise[0].entry_variances(D)[0, 1] == pytest.approx(isotropic[0, 1])
    squares = ONE**2
    by_hand = sum(0.1**2 * squares[0, k] * squares[1, m] * (0.5 if k == m else 1.0) for k in range(D) for m in range(D))
    assert like.noise[1].entry_variances(D)[0, 1] == pytest.approx(by_hand)
    alike = np.full((D, D), 0.2 / np.sqrt(2)) + np.diag(np.full(D, 0.2 - 0.2 / np.sqrt(2)))
    stated = without_dependence(Moments(np.eye(D), 10, NAMES, (NoiseTerm(alike, ONE),))).like
    assert stated.noise[0].entry_variances(D) == pytest.approx(like.noise[0].entry_variances(D))


@pytest.mark.parametrize("moments", [LAWS["all of it"], released()], ids=["terms", "rounds"])
def test_noise_alone_does_not_depend_on_the_order_of_the_columns(moments: Moments) -> None:
    order = tuple(reversed(moments.columns))
    place = [moments.columns.index(name) for name in order]
    one, other = without_dependence(moments).like.noise_sd, without_dependence(aligned(moments, order)).like.noise_sd
    assert one is not None and other is not None
    assert other == pytest.approx(one[np.ix_(place, place)])


def test_streams_are_apart_from_each_other_and_from_the_seeds_own() -> None:
    """`default_rng([s, 0, 0])` is `default_rng(s)`: noise that was simulated so would not be drawn afresh."""
    firsts = [np.random.default_rng(7).random(), np.random.default_rng([7, 1]).random()]
    firsts += [np.random.default_rng(np.random.SeedSequence(7, spawn_key=(0, k))).random() for k in range(3)]
    firsts += [stream(7, kind, draw, part).random() for kind in range(2) for draw in range(3) for part in range(2)]
    assert len(set(firsts)) == len(firsts)
    assert stream(7, 0, 1).random() == stream(7, 0, 1).random() != stream(8, 0, 1).random()


REFITTED: list[Any] = [
    EqualVarianceSearch(center=True),
    EqualVarianceSearch(release="covariance", row_norm=8.0),
    GES(epsilon=2.0, delta=1e-7),
    PC(release="covariance"),
    NOTEARS(center=True),
    FedBNSL(rounds=4, center=True),
    FedSparseBNSL(rounds=4, release="preconditioned", smoothness=[1.0, 2.0, 3.0, 4.0]),
    FedACD(combine="vote"),
    FedACD(sum="trusted"),
    FedACD(center=False),
    PERI(row_norm=8.0),
    IPERI(center=False),
]


@pytest.mark.parametrize("mixed", [False, True], ids=["private", "one open"])
@pytest.mark.parametrize("model", REFITTED, ids=repr)
def test_a_fresh_estimator_finds_the_same_graph_from_what_was_kept(
    many: list[np.ndarray], tables: Callable[..., list[PrivateTable]], model: Any, mixed: bool
) -> None:
    """Reruns differ from the fit by their noise only: options, columns, repairs and random choices are the same."""
    if mixed and model.get_params().get("sum") == "trusted":
        pytest.skip("a trusted sum takes no open tables among others")
    budget = Budget(5, 1e-6)
    made = tables(many, budget=[None if mixed else budget, budget])
    made[1] = made[1].reordered(("d", "b", "a", "c"))
    fitted = type(model)(**model.get_params()).fit(made)
    if fitted.released_moments_ is None:
        assert mixed and "exact ones are not kept" in fitted.no_stability_
        return
    again: Any = fresh(fitted).fit(list(fitted.released_moments_))
    assert again.feature_names_in_.tolist() == fitted.feature_names_in_.tolist()
    assert np.array_equal(again.adjacency_matrix_, fitted.adjacency_matrix_)


@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_the_same_holds_for_discrete_columns(combine: str) -> None:
    rng = np.random.default_rng(3)
    made = []
    for k in range(2):
        cause = rng.integers(0, 3, 4000)
        effect = np.where(rng.random(4000) < 0.8, cause % 2, rng.integers(0, 2, 4000))
        rows = np.column_stack([cause, effect, rng.integers(0, 4, 4000)]).astype(float)
        made.append(PrivateTable(rows, ("z", "m", "a"), name=f"t{k}", budget=Budget(5, 1e-6), noise=SimulatedNoise(k)))
    fitted = FedACD(levels=[3, 2, 4], combine=combine).fit(made)
    assert fitted.released_moments_ is not None
    again: Any = fresh(fitted).fit(list(fitted.released_moments_))
    assert np.array_equal(again.adjacency_matrix_, fitted.adjacency_matrix_)


def in_rounds(rounds: int, refitted: float | None, sd: float) -> LateRounds:
    """Rounds with 0 -> 1 in all of them and 2 -> 1 in the last; `refitted` is the weight of 0 -> 1 after a refit."""
    weights = []
    for number in range(rounds):
        each = np.zeros((3, 3))
        each[0, 1], each[2, 1] = 0.5, 0.5 if number == rounds - 1 else 0.0
        weights.append(each)
    after, noise = np.zeros((3, 3)), np.zeros((3, 3))
    after[0, 1], noise[0, 1] = refitted or 0.0, sd
    limits = np.full((3, 3), 0.3)
    return late_rounds(weights, 0.3, 0.15, None if refitted is None else (after, noise, limits), np.ones(3), {})


def test_a_low_chance_in_the_refit_is_no_matter_of_direction() -> None:
    """Adjacency says how often the columns are joined: no more often than the refit joins them."""
    found = from_rounds(in_rounds(4, 0.3, 0.1), ("a", "b", "c"))
    assert found.frequency[0, 1] == pytest.approx(0.5, abs=1e-3)
    assert found.adjacency[0, 1] == found.adjacency[1, 0] == pytest.approx(found.frequency[0, 1])
    assert found.adjacency[2, 1] == found.adjacency[1, 2] == found.frequency[2, 1] == 0.5
    assert "interval" in found.method and found.kind == "rounds" and found.as_dict()["kind"] == "rounds"
    assert found.noise_alone is not None and found.noise_alone[0, 1] == pytest.approx(2 * norm.cdf(-3))
    assert np.count_nonzero(found.noise_alone) == 1 and found.noise_alone_edges is None
    without = from_rounds(in_rounds(4, None, 0.0), ("a", "b", "c"))
    assert without.adjacency[0, 1] == without.frequency[0, 1] == 1.0 and "interval" not in without.method


@pytest.mark.parametrize("weight", [0.31, -0.31, 5.0])
def test_stability_does_not_grow_with_the_noise(weight: float) -> None:
    """Only weights with the sign of the result count: loud noise brings the share down to one half."""
    shares = [from_rounds(in_rounds(4, weight, sd), ("a", "b", "c")).frequency[0, 1] for sd in (0.01, 0.1, 10.0, 1e4)]
    entered = weight > 0  # the rounds have it with weight 0.5
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(entered * norm.cdf((abs(weight) - 0.3) / 0.01))
    assert shares[-1] == pytest.approx(entered / 2, abs=1e-3)


def test_rounds_with_the_other_sign_are_not_the_edge() -> None:
    there = np.array([[0.0, 0.5], [0.0, 0.0]])
    late = late_rounds([there, -there, -there, there], 0.3, 0.15, None, np.ones(2), {})
    assert late.frequency[0, 1] == 0.5 and late.adjacency[0, 1] == 1.0


def test_limits_of_each_weight_hold_in_the_rounds() -> None:
    there = np.array([[0.0, 0.5], [0.0, 0.0]])
    limits = np.array([[0.3, 0.6], [0.3, 0.3]])
    assert not late_rounds([there], limits, 0.15, None, np.ones(2), {}).frequency.any()


@pytest.mark.parametrize(("rounds", "late"), [(1, 1), (2, 1), (3, 2), (5, 3), (7, 4), (60, 30)])
def test_the_late_rounds_are_the_last_half(rounds: int, late: int) -> None:
    made = in_rounds(rounds, None, 0.0)
    assert made.rounds == late
    assert made.frequency[2, 1] == pytest.approx(1 / late)


def test_undirected_edges_on_noise_alone_are_shown_with_their_adjacency() -> None:
    never, joined = np.zeros((2, 2)), np.array([[0.0, 1.0], [1.0, 0.0]])
    nan = np.full((2, 2), np.nan)
    found = EdgeStability(("a", "b"), never, joined, nan, nan, never, 0.25, 4, "words", 0.25 * joined)
    pairs = found.as_dict()["pairs"]
    assert [(pair["noise_alone"], pair["noise_alone_adjacency"]) for pair in pairs] == [(0.0, 0.25)] * 2
    assert "25" in found._repr_html_() and "→" not in found._repr_html_()
    unseen = EdgeStability(("a", "b"), never, never, nan, nan, never, 0.25, 4, "words", 0.25 * joined)
    assert len(unseen.as_dict()["pairs"]) == 2
    unknown = EdgeStability(("a", "b"), never, joined, nan, nan, None, None, 4, "words")
    assert unknown.as_dict()["pairs"][0]["noise_alone_adjacency"] is None
