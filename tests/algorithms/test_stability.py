"""Edge stability: its laws, that it is post-processing, and what it refuses."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
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
    edge_stability,
    personalise,
)
from privfcd.algorithms.fed_sparse import messages
from privfcd.algorithms.fed_sparse.constants import REFIT_PRUNE
from privfcd.algorithms.fed_sparse.plan import plan_releases
from privfcd.algorithms.fed_sparse.refit import implied_moments, refit
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.rounds import RoundRecord
from privfcd.algorithms.stability import EdgeStability
from privfcd.algorithms.stability.history import from_rounds
from privfcd.algorithms.stability.late_rounds import late_rounds
from privfcd.algorithms.stability.no_dependence import without_dependence
from privfcd.algorithms.stability.tally import Tally
from privfcd.data.encoding import Contrasts
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.graphs.dag import project_to_dag
from privfcd.ledger import Ledger
from privfcd.mechanisms import SimulatedNoise
from privfcd.moments import Moments, NoiseTerm

from .conftest import NAMES, WEIGHTS

Tables = Callable[..., list[PrivateTable]]
BUDGET = Budget(5, 1e-6)
LEARNERS: list[Any] = [
    EqualVarianceSearch(),
    GES(),
    PC(),
    NOTEARS(),
    FedBNSL(rounds=5),
    FedSparseBNSL(rounds=5, release="preconditioned"),
    FedACD(),
    PERI(),
    IPERI(),
]
PRIVATE_RUN: dict[str, Any] = {"rounds": 8, "updates": 6}


def noisy(sd: float = 0.05, seed: int = 0, names: tuple[str, ...] = NAMES) -> Moments:
    """Moments of the tests' graph with noise of one standard deviation, carried by their own root."""
    inverse = np.linalg.inv(np.eye(4) - WEIGHTS)
    exact = inverse.T @ inverse
    term = NoiseTerm(sd, np.linalg.cholesky(exact))
    matrix = exact + term.sample(np.random.default_rng(seed), 4)
    return Moments((matrix + matrix.T) / 2, 5000, names, (term,))


def copied(model: Any) -> Any:
    return type(model)(**model.get_params())


def same(one: EdgeStability, other: EdgeStability) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)
        for name in ("frequency", "adjacency", "weight_low", "weight_high", "noise_alone", "noise_alone_adjacency")
    )


@pytest.mark.parametrize("model", LEARNERS, ids=repr)
def test_every_learner_on_noisy_moments(model: Any) -> None:
    fitted = copied(model).fit([noisy(seed=1), noisy(seed=2)])
    params, graph = fitted.get_params(), fitted.causal_graph_.copy()
    steps: list[tuple[int, int]] = []
    found = edge_stability(fitted, draws=4, on_draw=lambda *step: steps.append(step))
    assert fitted.edge_stability_ is found and found.columns == NAMES and found.draws == 4
    assert steps == [(k, 4) for k in (1, 2, 3, 4)]
    assert fitted.get_params() == params and nx.utils.graphs_equal(fitted.causal_graph_, graph)
    assert found.noise_alone is not None and found.noise_alone_adjacency is not None
    for shares, together in ((found.frequency, found.adjacency), (found.noise_alone, found.noise_alone_adjacency)):
        assert shares.shape == (4, 4) and not np.diag(shares).any()
        assert np.array_equal(together, together.T)
        assert (shares + shares.T <= together + 1e-12).all() and together.max() <= 1
    weights = fitted.adjacency_matrix_.dtype == np.float64 and not isinstance(model, FedACD)
    assert np.isnan(found.weight_low).all() == np.isnan(found.weight_high).all() == (not weights)
    assert (found.noise_alone_weight is not None) == weights
    assert found.noise_alone_edges == pytest.approx(found.noise_alone_adjacency.sum() / 2)
    rows = found.rows(fitted.causal_graph_)
    assert [row["frequency"] for row in rows] == sorted((row["frequency"] for row in rows), reverse=True)
    json.dumps(found.as_dict(), allow_nan=False)
    assert same(found, edge_stability(fitted, draws=4))


@pytest.mark.parametrize("model", LEARNERS, ids=repr)
def test_from_private_tables_nothing_is_read_charged_or_needed(
    many: list[np.ndarray], tables: Tables, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tables(many, budget=BUDGET)
    fitted = copied(model)
    if isinstance(model, FedBNSL):  # its parties keep their moments
        untouched = [table.ledger.left() for table in private]
        with pytest.raises(InvalidParameter, match="send must be True"):
            copied(model).set_params(release="preconditioned").fit(private)
        assert [table.ledger.left() for table in private] == untouched
    elif "release" in model.get_params():
        fitted.set_params(release="preconditioned")
    fitted.fit(private)
    ledgers = [table.ledger for table in private]
    left = [ledger.left() for ledger in ledgers]
    with monkeypatch.context() as patch:
        for kind in (PrivateTable, Ledger):
            for name, _ in inspect.getmembers(kind, inspect.isfunction):
                patch.setattr(kind, name, _refusing(name))
        del private
        edge_stability(fitted, draws=2)
    assert [ledger.left() for ledger in ledgers] == left
    assert all(part.noise for part in fitted.released_moments_)


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError(f"a table or a ledger was asked: {name}")

    return refuse


@pytest.mark.parametrize("model", [*LEARNERS, FedSparseBNSL(rounds=3)], ids=repr)
def test_open_runs_keep_nothing(tables: Tables, model: Any) -> None:
    fitted = copied(model)
    if isinstance(model, FedSparseBNSL):
        fitted.set_params(release="coordinates")
    fitted.fit(tables())
    assert fitted.released_moments_ is None and fitted.late_rounds_ is None
    with pytest.raises(InvalidParameter, match="open, and exact answers have no noise"):
        edge_stability(fitted)


def test_one_open_party_keeps_all_moments_out(many: list[np.ndarray], tables: Tables) -> None:
    fitted = FedBNSL(rounds=3).fit(tables(many, budget=[BUDGET, None]))
    assert fitted.released_moments_ is None
    with pytest.raises(InvalidParameter, match="exact ones are not kept"):
        edge_stability(fitted)


def test_exact_moments_and_a_new_fit_forget(tables: Tables) -> None:
    fitted = PC().fit(noisy())
    edge_stability(fitted, draws=1)
    fitted.fit(replace(noisy(), noise=()))
    assert not hasattr(fitted, "edge_stability_") and fitted.released_moments_ is None
    with pytest.raises(InvalidParameter, match="was exact"):
        edge_stability(fitted)
    assert PC().fit(replace(noisy(), noise=(NoiseTerm(0.0),))).released_moments_ is None


@pytest.mark.parametrize("learner", [PC(alpha=0.2), GES()], ids=repr)
def test_the_frequency_estimates_the_chance_at_twice_the_variance(learner: Any) -> None:
    """Its mean over releases is the probability of each edge under noise of twice the variance, told as such."""
    releases, sd = 160, 0.25
    base = noisy(0.0)
    term = replace(base.noise[0], sd=sd)
    mean, at_twice = np.zeros((4, 4)), np.zeros((4, 4))
    rng = np.random.default_rng(0)
    for release in range(releases):
        moments = replace(base, matrix=base.matrix + term.sample(rng, 4), noise=(term,))
        mean += edge_stability(copied(learner).fit(moments), draws=1, seed=release).adjacency
        louder = term.scaled(np.sqrt(2))
        again = copied(learner).fit(replace(base, matrix=base.matrix + louder.sample(rng, 4), noise=(louder,)))
        at_twice += again.adjacency_matrix_ | again.adjacency_matrix_.T
    assert ((at_twice > 0.1 * releases) & (at_twice < 0.9 * releases)).any()
    assert np.abs(mean - at_twice).max() / releases < 4 * np.sqrt(2 * 0.25 / releases)


def test_weights_vary_around_the_released_one_as_the_noise_makes_them() -> None:
    """Where all edges are found, the quantiles are a 90 % interval for the weight without noise."""
    exact = EqualVarianceSearch(polish=False, local=False).fit(replace(noisy(0.0), noise=()))
    inside = []
    for seed in range(10):
        fitted = EqualVarianceSearch(polish=False, local=False).fit(noisy(0.02, seed))
        found = edge_stability(fitted, draws=16)
        held = (found.weight_low <= exact.adjacency_matrix_) & (exact.adjacency_matrix_ <= found.weight_high)
        inside += held[exact.adjacency_matrix_ != 0].tolist()
    assert 0.72 < np.mean(inside) < 0.99


def test_seeds_draws_and_time() -> None:
    fitted = PC().fit(noisy(0.4))
    assert not same(edge_stability(fitted, draws=10), edge_stability(fitted, draws=10, seed=1))
    first = edge_stability(fitted, draws=1000, seconds=1e-9)
    assert first.draws == 1
    assert same(first, edge_stability(fitted, draws=1))


def test_columns_and_levels_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels given as a sequence belong to the tables' columns, whatever the order of the moments."""
    rng = np.random.default_rng(3)
    cause = rng.integers(0, 3, 4000)
    effect = np.where(rng.random(4000) < 0.8, cause % 2, rng.integers(0, 2, 4000))
    rows = np.column_stack([cause, effect, rng.integers(0, 4, 4000)]).astype(float)
    table = PrivateTable(rows, ("z", "m", "a"), name="one", budget=BUDGET, noise=SimulatedNoise(1))
    fitted = FedACD(levels=[3, 2, 4]).fit([table])
    found = edge_stability(fitted, draws=5)
    assert found.columns == ("z", "m", "a")
    assert found.adjacency[0, 1] == 1 and found.adjacency[2].max() < 1
    assert found.noise_alone_adjacency is not None and found.noise_alone_adjacency[0, 1] < 1


def test_noise_alone_has_no_dependence() -> None:
    moments = noisy(0.2)
    lowered = moments.matrix.copy()
    lowered[0, 0] = -1.0
    without = without_dependence(replace(moments, matrix=lowered))
    assert moments.noise_sd is not None
    assert np.array_equal(without.exact, np.diag(np.diag(without.exact)))
    assert without.exact[0, 0] == pytest.approx(moments.noise_sd[0, 0])
    assert np.diag(without.exact)[1:] == pytest.approx(np.diag(moments.matrix)[1:])
    made = without.with_noise(np.random.default_rng(0))
    assert made.noise_sd is not None and np.array_equal(made.matrix, made.matrix.T)
    assert np.diag(made.noise_sd) == pytest.approx(np.diag(moments.noise_sd))
    carry = made.noise[0].carry
    assert carry is not None and np.array_equal(carry, np.diag(np.diag(carry)))
    plain = NoiseTerm(0.1)
    assert without_dependence(replace(moments, noise=(plain,))).like.noise == (plain,)


def test_discrete_columns_without_dependence_are_those_of_independent_rows() -> None:
    rng = np.random.default_rng(0)
    own = [rng.dirichlet(np.ones(level)) for level in (3, 2)]
    encoding = Contrasts((3, 2))
    joint = np.outer(*own)
    joint[0, 0] += 0.05 * joint.max()
    joint /= joint.sum()
    margins = joint.sum(axis=1), joint.sum(axis=0)
    cells = np.array([[i, j] for i in range(3) for j in range(2)], dtype=float)
    encoded = encoding.apply(cells)
    dependent = np.einsum("k,ki,kj->ij", joint.ravel(), encoded, encoded)
    independent = np.einsum("k,ki,kj->ij", np.outer(*margins).ravel(), encoded, encoded)
    moments = Moments((dependent + dependent.T) / 2, 100, encoding.columns(("u", "v")), (NoiseTerm(1e-9),))
    assert without_dependence(moments, ("u", "v")).exact == pytest.approx(independent)


def test_late_rounds_by_their_definition(many: list[np.ndarray], tables: Tables) -> None:
    records: list[RoundRecord] = []
    fitted = FedSparseBNSL(**PRIVATE_RUN, refit_share=0.0).fit(
        tables(many, budget=Budget(2, 1e-6)), on_round=records.append
    )
    late = [project_to_dag(record.weights, 0.3).weights for record in records[4:]]
    found = edge_stability(fitted, draws=1)
    assert found.draws == 4 and found.noise_alone is None and found.noise_alone_edges is None
    assert found.frequency == pytest.approx(np.mean([one != 0 for one in late], axis=0))
    assert found.adjacency == pytest.approx(np.mean([(one != 0) | (one.T != 0) for one in late], axis=0))
    assert found.weight_low == pytest.approx(np.quantile(late, 0.05, axis=0))
    assert found.weight_high == pytest.approx(np.quantile(late, 0.95, axis=0))
    json.dumps(found.as_dict(), allow_nan=False)
    assert found.rows(fitted.causal_graph_)[0]["noise_alone"] is None


def test_late_rounds_with_a_refit(many: list[np.ndarray], tables: Tables) -> None:
    records: list[RoundRecord] = []
    private = tables(many, budget=BUDGET)
    fitted = FedSparseBNSL(**PRIVATE_RUN).fit(private, on_round=records.append)
    left = [table.ledger.left() for table in private]
    late = fitted.late_rounds_
    found = edge_stability(fitted)
    assert [table.ledger.left() for table in private] == left
    assert late is not None and late.refitted is not None and late.refit_sd is not None
    assert np.array_equal(late.refit_sd > 0, late.refitted != 0)
    entered = np.mean([project_to_dag(r.weights, REFIT_PRUNE * 0.3).weights != 0 for r in records[4:]], axis=0)
    place = np.nonzero(late.refitted)
    draws = np.random.default_rng(0).normal(late.refitted[place], late.refit_sd[place], (20_000, len(place[0])))
    assert late.refit_limits is not None and (late.refit_limits >= 0.3).all()
    passing = (draws * np.sign(late.refitted[place]) > late.refit_limits[place]).mean(axis=0)
    drawn = np.random.default_rng(1).normal(0.0, late.refit_sd[place], (20_000, len(place[0])))
    assert found.noise_alone is not None and np.count_nonzero(found.noise_alone) <= len(place[0])
    assert found.noise_alone[place] == pytest.approx((np.abs(drawn) > late.refit_limits[place]).mean(axis=0), abs=0.02)
    assert found.frequency[place] == pytest.approx(entered[place] * passing, abs=0.02)
    reach = norm.ppf(0.95) * late.refit_sd[place]
    assert found.weight_high[place] - found.weight_low[place] == pytest.approx(2 * reach)
    assert (found.frequency + found.frequency.T <= found.adjacency + 1e-12).all()


def test_late_rounds_of_one_round_and_of_none_certain() -> None:
    weights = np.zeros((2, 2))
    weights[0, 1] = 0.5
    late = late_rounds([weights], 0.3, 0.15, None, np.ones(2), {})
    limits = np.full((2, 2), 0.3)
    assert late.rounds == 1 and late.frequency[0, 1] == 1
    exact = replace(late, refitted=weights, refit_sd=0 * weights, refit_limits=limits)
    found = from_rounds(exact, ("a", "b"))
    assert found.frequency[0, 1] == 1 and found.weight_low[0, 1] == pytest.approx(0.5)


@pytest.mark.parametrize("change", [{}, {"noise_multiplier": 40.0}, {"center": True}], ids=str)
def test_runs_on_noise_have_the_runs_own_noise(
    many: list[np.ndarray], tables: Tables, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    private = tables(many, budget=[Budget(2, 1e-6), Budget(3, 1e-6)], bounds=[None, 20.0])
    plans: list[dict[str, float]] = []

    def noted(table: Any, settings: Any) -> Any:
        plan = plan_releases(table, settings)
        plans.append({**plan.setup_multipliers, "z": plan.noise_multiplier})
        return plan

    monkeypatch.setattr("privfcd.algorithms.fed_sparse.party.plan_releases", noted)
    fitted = FedSparseBNSL(**PRIVATE_RUN, **change, workers=1).fit(private)
    left = [table.ledger.left() for table in private]
    steps: list[tuple[int, int]] = []
    found = edge_stability(fitted, noise_runs=2, on_draw=lambda *step: steps.append(step))
    assert [table.ledger.left() for table in private] == left
    assert len(plans) == 6 and steps == [(1, 2), (2, 2)]
    for place, plan in enumerate(plans[2:]):
        assert plan == pytest.approx(plans[place % 2], rel=1e-6)
    assert found.noise_alone is not None and found.noise_alone_edges is not None
    assert found.noise_alone_edges < fitted.causal_graph_.number_of_edges()
    assert "2 runs with the same plan" in found.method
    assert same(found, edge_stability(fitted, noise_runs=2))


def test_runs_on_noise_of_declared_rows_and_what_is_refused(many: list[np.ndarray], tables: Tables) -> None:
    relation = {"relation": NeighboringRelation.ADD_OR_REMOVE_ONE, "declared_rows": 5000}
    fitted = FedSparseBNSL(**PRIVATE_RUN).fit(tables(many, budget=BUDGET, **relation))
    assert edge_stability(fitted, noise_runs=1).noise_alone_edges is not None
    published = FedSparseBNSL(**PRIVATE_RUN, mechanisms="mangold-published", epsilon=1.0, delta=1e-7)
    published.fit(tables(many, budget=Budget(50, 1e-6)))
    with pytest.raises(InvalidParameter, match="mangold-published"):
        edge_stability(published, noise_runs=1)
    del fitted.privacy_report_
    with pytest.raises(InvalidParameter, match="between machines"):
        edge_stability(fitted, noise_runs=1)
    with pytest.raises(InvalidParameter, match="noise_runs"):
        edge_stability(fitted, noise_runs=-1)


class NoisySlopes:
    """A party that answers a refit from exact moments, with noise of a known scale in units of the clips."""

    def __init__(self, matrix: np.ndarray, units: np.ndarray, sd: float, seed: int) -> None:
        self.name = "one"
        self._matrix, self._units, self._sd = matrix, units, sd
        self._rng = np.random.default_rng(seed)

    def answer(self, message: Any) -> messages.SupportSlope:
        weights = message.weights.dense()
        place = np.nonzero(weights)
        slope = (self._matrix @ weights - self._matrix)[place]
        return messages.SupportSlope(slope + self._sd * self._units[place[0]] * self._rng.normal(size=len(slope)))


def test_the_refits_stated_noise_is_its_noise() -> None:
    matrix = implied_moments(WEIGHTS, np.diag(noisy(0.0).matrix).copy())
    settings = FedSparseBNSL()._settings(math.inf, 4)
    units = np.sqrt(np.diag(matrix) + settings.rho2)
    results, stated = [], []
    for seed in range(300):
        party = NoisySlopes(matrix, units, 0.02, seed)
        made = refit(LocalFederation([party]), settings, WEIGHTS, np.diag(matrix).copy(), np.ones(1))  # type: ignore[list-item]
        results.append(made.weights[WEIGHTS != 0])
        stated.append(made.noise_sd[WEIGHTS != 0])
    assert np.sqrt(np.mean(np.square(stated), axis=0)) == pytest.approx(np.std(results, axis=0), rel=0.2)


def test_undirected_edges_are_one_row_with_their_adjacency() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edge("b", "a", undirected=True)
    graph.add_edge("a", "b", undirected=True)
    graph.add_edge("c", "a")
    tally = Tally(3)
    both = np.zeros((3, 3), dtype=bool)
    both[0, 1] = both[1, 0] = both[2, 0] = True
    tally.add(both)
    one = np.zeros((3, 3), dtype=bool)
    one[0, 1] = True
    tally.add(one)
    assert tally.edges == 1.5
    nan = np.full((3, 3), np.nan)
    found = EdgeStability(
        ("a", "b", "c"), tally.frequency, tally.adjacency, nan, nan, tally.frequency, 1.5, 2, "words", tally.adjacency
    )
    assert [(row["from"], row["to"], row["frequency"], row["noise_alone"]) for row in found.rows(graph)] == [
        ("a", "b", 1.0, 1.0),
        ("c", "a", 0.5, 0.5),
    ]
    assert found.rows(graph)[0]["undirected"] and found.rows(graph)[0]["low"] is None
    assert found.shares(graph) == {("a", "b"): 1.0, ("c", "a"): 0.5}
    assert repr(found) == "EdgeStability(3 columns, 2 draws)"
    assert "1.5 edges" in str(found) and "words" in str(found)
    with pytest.raises(InvalidParameter, match="'d'"):
        found.rows(nx.DiGraph([("d", "a")]))


def test_what_is_refused(many: list[np.ndarray], tables: Tables) -> None:
    fitted = PC().fit(noisy())
    with pytest.raises(InvalidParameter, match="draws"):
        edge_stability(fitted, draws=0)
    with pytest.raises(InvalidParameter, match="seed"):
        edge_stability(fitted, seed=-1)
    with pytest.raises(InvalidParameter, match="seconds"):
        edge_stability(fitted, seconds=0)
    with pytest.raises(InvalidParameter, match="call fit first"):
        edge_stability(PC())
    with pytest.raises(InvalidParameter, match="DiGraph"):
        edge_stability(nx.DiGraph())
    given = [np.ones((4, 4)) - np.eye(4)] * 2
    with pytest.raises(InvalidParameter, match="graphs of the parties"):
        edge_stability(PERI().fit([noisy(seed=1), noisy(seed=2)], graphs=given))
    private = tables(many, budget=Budget(1000, 1e-6))
    regrets = PERI(privacy="regret", value_bound=10.0, local="ges", graph_share=0.5).fit(private)
    with pytest.raises(InvalidParameter, match="regrets"):
        edge_stability(regrets)
    chain: nx.DiGraph[str] = nx.DiGraph()
    chain.add_weighted_edges_from([("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0)])
    own = personalise(chain, [noisy()])[0]
    with pytest.raises(InvalidParameter, match="PersonalWeights"):
        edge_stability(own)


def test_parameters_that_are_set_after_the_fit_change_nothing() -> None:
    moments = Moments(np.array([[1.0, 1.0], [1.0, 2.0]]), 1000, ("a", "b"), (NoiseTerm(0.05),))
    model = EqualVarianceSearch().fit(moments)
    before = edge_stability(model, draws=5)
    model.set_params(threshold=10.0)
    after = edge_stability(model, draws=5)
    assert np.array_equal(before.frequency, after.frequency) and before.frequency.any()
    assert model.fitted_params()["threshold"] != 10.0 and model.get_params()["threshold"] == 10.0
