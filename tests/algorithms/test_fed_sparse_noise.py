"""What noise a run knows to have, and that weights which do not stand out from it are no edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from privfcd.accounting import Budget
from privfcd.algorithms import FedSparseBNSL, edge_stability
from privfcd.algorithms.fed_sparse import messages
from privfcd.algorithms.fed_sparse.constants import REFIT_CLIP, default_clip
from privfcd.algorithms.fed_sparse.greedy import GreedyDescent
from privfcd.algorithms.fed_sparse.plan import REFIT, plan_releases
from privfcd.algorithms.fed_sparse.run_noise import LEVEL, RunNoise, noise_notes, run_noise
from privfcd.algorithms.fed_sparse.support_gradient import SupportGradient
from privfcd.algorithms.scale_notes import scale_notes
from privfcd.data.private import PrivateTable
from privfcd.errors import PartyFailed
from privfcd.mechanisms import SimulatedNoise

NAMES = tuple("abcdefgh")


def independent(seed: int, rows: int, budget: Budget, parties: int = 3) -> list[PrivateTable]:
    """Tables of independent standard normal columns."""
    rng = np.random.default_rng(seed)
    return [
        PrivateTable(
            rng.normal(size=(rows, len(NAMES))),
            NAMES,
            name=f"p{k}",
            bounds=6.0,
            budget=budget,
            noise=SimulatedNoise(10 * seed + k),
        )
        for k in range(parties)
    ]


@pytest.mark.parametrize("rows", [300, pytest.param(1000, marks=pytest.mark.slow)])
def test_independent_columns_at_little_budget_have_next_to_no_edges_and_no_large_weights(rows: int) -> None:
    edges, largest = 0, 0.0
    for seed in range(1000, 1012):
        model = FedSparseBNSL(center=True).fit(independent(seed, rows, Budget(1.0, 1 / rows**2)))
        edges += model.causal_graph_.number_of_edges()
        largest = max(largest, float(np.abs(model.adjacency_matrix_).max()))
        found = edge_stability(model)
        assert found.kind == "rounds" and found.frequency.max() <= 1
    assert edges <= 3 and largest < 3


def test_a_refit_that_noise_makes_useless_is_not_asked_for_and_goes_back() -> None:
    """At 300 rows the noise is known beforehand; a zCDP budget gets back what was not drawn."""
    made = independent(1005, 300, Budget(rho=0.02))
    model = FedSparseBNSL(center=True).fit(made)
    part = next(part for part in model.privacy_report_[0].parts if part.label == REFIT)
    assert part.planned == 3 and part.drawn == 0
    left = made[0].ledger.left()
    assert left is not None and left.rho is not None and left.rho == pytest.approx(0.02 * model.refit_share, rel=0.01)
    assert any("refit" in note for note in model.notes_)


def test_the_stated_noise_is_that_of_the_queries() -> None:
    tables = independent(0, 500, Budget(2.0, 1e-6), parties=2)
    settings = FedSparseBNSL().settings_for(FedSparseBNSL().facts_of(tables))
    moments = np.linspace(1.0, 4.0, 8)
    clip = default_clip(moments, settings.rho2)
    plans = [plan_releases(table, settings) for table in tables]
    quotes = [
        messages.Quote(500, True, 2 / 500 * plan.noise_multiplier, 2 / 500 * plan.setup_multipliers[REFIT])
        for plan in plans
    ]
    noise = run_noise(quotes, settings, moments, moments / 1.5, clip)
    query = GreedyDescent(tuple(moments + settings.rho2), clip, settings.l1, settings.rho2, plans[0].noise_multiplier)
    gradient_sd = plans[0].noise_multiplier * query.entry_sensitivity(500, tables[0].relation)
    assert noise.update == pytest.approx(gradient_sd / np.sqrt(2) / (moments + settings.rho2))
    weights = np.zeros((8, 8))
    weights[2, 5] = 1.0
    clips = REFIT_CLIP * query.clips()
    refit = SupportGradient(tuple(map(tuple, weights.tolist())), tuple(clips.tolist()))
    one = plans[0].setup_multipliers[REFIT] * refit.sensitivity(500, tables[0].relation) * clips
    assert noise.refit * np.sqrt(moments + settings.rho2) == pytest.approx(one / np.sqrt(2))
    assert noise.unknown.all() and not run_noise(quotes, settings, moments, moments / 3, clip).unknown.any()


@pytest.mark.parametrize("said", [(np.nan, 0.1), (0.1, np.inf), (-0.1, 0.1)])
def test_noise_that_is_no_number_fails_the_party(said: tuple[float, float]) -> None:
    settings = FedSparseBNSL()._settings(1.0, 2)
    with pytest.raises(PartyFailed, match="how much noise"):
        run_noise([messages.Quote(10, True, *said)], settings, np.ones(2), None, 1.0)


def test_the_refits_limits_are_those_of_benjamini_and_hochberg() -> None:
    rng = np.random.default_rng(0)
    for trial in range(200):
        d = 6
        support = np.triu(rng.random((d, d)) < 0.5, 1)
        sd = np.where(support, rng.uniform(0.05, 0.3, (d, d)), 0.0)
        weights = np.where(support, rng.normal(size=(d, d)) * rng.choice([0.2, 1.0]), 0.0)
        sizes = RunNoise.none(d).refit_limits(0.1, weights, sd)
        places = np.argwhere(support)
        chances = [2 * norm.sf(abs(weights[i, j]) / sd[i, j]) for i, j in places]
        most = max(
            (k for k in range(1, len(places) + 1) if sorted(chances)[k - 1] <= LEVEL * k / len(places)), default=0
        )
        order = np.argsort(chances)[:most]
        staying = {tuple(places[k]) for k in order if abs(weights[tuple(places[k])]) > 0.1}
        assert {tuple(p) for p in np.argwhere(np.abs(weights) > sizes)} == staying, trial
        assert (sizes >= 0.1).all()


def test_noise_alone_passes_a_limit_in_a_run_as_seldom_as_is_said() -> None:
    rng = np.random.default_rng(1)
    noise = RunNoise(np.full(6, 0.2), 0.0, np.zeros(6, dtype=bool))
    off = ~np.eye(6, dtype=bool)
    draws = 0.2 * rng.normal(size=(4000, 6, 6))
    passed = (np.abs(draws) > noise.descent_limits(0.0))[:, off].any(axis=1).mean()
    assert passed == pytest.approx(LEVEL, abs=0.012)
    sd = np.where(off, 0.2, 0.0)
    refitted = [np.where(off, draw, 0.0) for draw in draws[:1500]]
    passed = np.mean([(np.abs(w) > noise.refit_limits(0.0, w, sd))[off].any() for w in refitted])
    assert passed == pytest.approx(LEVEL, abs=0.018)


def test_nothing_is_stated_of_columns_without_a_scale_and_the_notes_say_so() -> None:
    noise = RunNoise(np.zeros(3), 0.0, np.array([False, True, False]))
    sizes = noise.descent_limits(0.3)
    assert np.isinf(sizes[1]).all() and np.isinf(sizes[:, 1]).all() and (np.isinf(sizes).sum() == 5)
    notes = noise_notes(noise, ("a", "b", "c"), lost=2, skipped=True)
    assert len(notes) == 3 and "'b'" in notes[0] and "'a'" not in notes[0] and notes[2].startswith("2 weights")
    assert noise_notes(noise, ("a", "b", "c"), lost=1, skipped=False)[1].startswith("1 weight above")
    assert noise_notes(RunNoise.none(3), ("a", "b", "c"), 0, False) == []


def test_open_runs_have_no_limits() -> None:
    made: Any = [PrivateTable(np.random.default_rng(0).normal(size=(50, 3)), ("a", "b", "c"), name="one")]
    model = FedSparseBNSL(rounds=5, threshold=0.01).fit(made)
    assert model.notes_ == [] and model.causal_graph_.number_of_edges() > 0


def test_clipping_is_noted_where_columns_differ_tenfold() -> None:
    squares, none = np.array([1.0, 150.0]), np.zeros(2)
    assert scale_notes(squares, none, ("a", "b")) == []
    assert "clipped" in scale_notes(squares, none, ("a", "b"), clipped=True)[0]
    assert scale_notes(squares / [1, 2], none, ("a", "b"), clipped=True) == []
    assert "clipped" in scale_notes(squares * [1, 10], none, ("a", "b"), clipped=True)[0]
    assert "clipped" not in scale_notes(squares * [1, 10], none, ("a", "b"))[0]
