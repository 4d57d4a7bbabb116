"""Attacks on the learners and their releases: hostile rows, hostile shapes, order of charges, noise that repeats itself."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest

from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE, Budget, NeighboringRelation
from privfcd.algorithms.constraint import PC
from privfcd.algorithms.equal_variance import EqualVarianceSearch
from privfcd.algorithms.fed_bnsl import FedBNSL
from privfcd.algorithms.ges import GES
from privfcd.algorithms.notears import NOTEARS
from privfcd.algorithms.personalisation import personalise
from privfcd.algorithms.personalisation.release import FAMILIES
from privfcd.algorithms.release import release_moments
from privfcd.data.directions import DirectionMoments, LinearMoments
from privfcd.data.encoding import Contrasts
from privfcd.data.family_moments import FamilyMoments
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.private import PrivateTable
from privfcd.data.queries import ClippedMean, Query, SecondMoments
from privfcd.data.second_moments import table_moments
from privfcd.errors import CopiedBudget, InvalidParameter, PrivfcdError
from privfcd.ledger import Ledger
from privfcd.mechanisms import AnalyticGaussian, SimulatedNoise
from privfcd.moments import Moments

NAMES = ("a", "b", "c", "d")
BUDGET = Budget(3, 1e-6)

pytestmark = pytest.mark.filterwarnings("ignore::privfcd.algorithms.equal_variance.estimator.EqualVarianceWarning")

LEARNERS: dict[str, Callable[..., Any]] = {
    "notears": NOTEARS,
    "fed-bnsl": lambda **options: FedBNSL(rounds=3, **options),
    "frank-wolfe": lambda **options: FedBNSL(rounds=3, local_step="frank-wolfe", **options),
    "pc": PC,
    "ges": GES,
    "equal-variance": EqualVarianceSearch,
}


def graph() -> Any:
    made: Any = nx.DiGraph()
    made.add_nodes_from(NAMES)
    made.add_edges_from([("a", "b"), ("c", "b"), ("b", "d")])
    return made


def gaussian(n: int, d: int = 4, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng([n, d, seed]).normal(size=(n, d))
    rows[:, 1] += rows[:, 0]
    return rows


def private(rows: np.ndarray, name: str = "ward", **options: Any) -> PrivateTable:
    names = [chr(97 + column) for column in range(rows.shape[1])]
    given: dict[str, Any] = {"budget": BUDGET, "bounds": 6.0, "noise": SimulatedNoise(3), **options}
    return PrivateTable(rows, names, name=name, **given)


def reports_of(model: Any) -> list[Any]:
    return list(model.privacy_report_)


RUNS: dict[str, Callable[..., list[Any]]] = {
    **{
        name: lambda tables, make=make, **options: reports_of(make(**options).fit(tables))
        for name, make in LEARNERS.items()
    },
    "notears, each": lambda tables, **options: [
        report for model in NOTEARS(**options).fit_each(tables) for report in reports_of(model)
    ],
    "personalise": lambda tables, **options: [one.privacy_report for one in personalise(graph(), tables, **options)],
}


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("bounds", [6.0, None])
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_all_pay_first_and_reports_say_what_was_drawn(
    run: Callable[..., list[Any]],
    relation: NeighboringRelation,
    bounds: float | None,
    center: bool,
    spy: Any,
    arm: Any,
    rows_touched: Any,
) -> None:
    declared: list[dict[str, Any]] = [{}, {}]
    if relation is ADD_OR_REMOVE_ONE:
        declared = [{"declared_rows": 3100}, {"declared_rows": 800}]

    def make() -> list[PrivateTable]:
        parts = (gaussian(3000), gaussian(900, seed=1))
        return [
            private(part, f"ward-{index}", noise=spy, bounds=bounds, relation=relation, **declared[index])
            for index, part in enumerate(parts)
        ]

    armed = [arm(table) for table in make()]
    with pytest.raises(rows_touched):
        run(armed, center=center)
    assert all(table.ledger.entries() and table.ledger.left() is None for table in armed), "spent after a failure"

    spy.keys.clear()
    spy.draws.clear()
    tables = make()
    reports = run(tables, center=center)
    assert len(spy.keys) == len(set(spy.keys)) == sum(len(report.parts) for report in reports)
    for table, report in zip(tables, reports, strict=True):
        assert report.party == table.name and all(part.drawn == part.planned == 1 for part in report.parts)
        assert report.epsilon <= 3 and report.delta <= 1e-6 and not report.secure
        assert report.declared["rows"] == table.n_rows and ("bounds" in report.declared) == (bounds is not None)
        if relation is ADD_OR_REMOVE_ONE:
            assert "3000" not in str(report) and "900" not in str(report), "the true number of rows is not public"


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
def test_the_noise_of_personal_weights_is_what_its_event_says(relation: NeighboringRelation, spy: Any) -> None:
    declared: dict[str, Any] = {} if relation is REPLACE_ONE else {"declared_rows": 250}
    table = private(gaussian(300), noise=spy, relation=relation, **declared)
    (found,) = personalise(graph(), [table], center=False)
    (draw,) = spy.draws
    moved = math.sqrt(2 * (2 if relation is REPLACE_ONE else 1)) / table.n_rows  # two families
    assert found.privacy_report is not None
    (part,) = found.privacy_report.parts
    planned = float(part.event.split("noise_multiplier=")[1].split(")")[0])
    assert part.label == FAMILIES and 1.5 < planned < 1.6 and float(draw.scale) >= planned * moved


HOSTILE = (0.0, 5e-324, -5e-324, 1e-310, 1e-160, 1.0, -1.0, 1e16, 1e160, 1e300, -1e300, 1.7e308)
QUERIES: dict[str, Query] = {
    "families": FamilyMoments(((0, 1), (1, 2), (0, 2, 1)), (1.0, 2.0, 1e-50), (1e3, 0.0, -5.0)),
    "second moments": SecondMoments(1.0),
    "large rows": SecondMoments(1e50),
    "directions": DirectionMoments(np.eye(3)),
    "linear": LinearMoments(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0], [3.0, 0.0, 1.0]]), 1.5),
    "mean": ClippedMean((1.0, 1e24, 1e-24)),
    "histogram": OctaveHistogram(3),
}


def moved(query: Query, one: Any, other: Any, n: int, relation: NeighboringRelation) -> float:
    """How far one record moves the answer, as a share of the stated sensitivity."""
    rest = [0.3] * len(one)
    with np.errstate(all="ignore"):
        first = query.evaluate(np.array([rest, one]), n)
        second = query.evaluate(np.array([rest, other] if relation is REPLACE_ONE else [rest]), n)
    return float(np.linalg.norm((first - second).ravel()) / query.sensitivity(n, relation))


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_hostile_records_move_an_answer_by_the_sensitivity_at_most(query: Query, relation: NeighboringRelation) -> None:
    query.check(3)
    rng = np.random.default_rng(1)
    worst = max(
        moved(query, rng.choice(HOSTILE, 3) * rng.choice([1.0, rng.random()]), rng.choice(HOSTILE, 3), 2, relation)
        for _ in range(1500)
    )
    assert 0.2 < worst <= 1


SUM_OF_COLUMNS_FROM_ONE = np.array([[0.0, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
def test_directions_of_denormal_products_have_length_one(relation: NeighboringRelation) -> None:
    query = DirectionMoments(SUM_OF_COLUMNS_FROM_ONE)
    query.check(2)
    assert moved(query, (1.0, 5e-324), (1.0, -5e-324), 2, ADD_OR_REMOVE_ONE) <= 1
    assert moved(query, (1.0, 5e-324), (0.0, 0.0), 2, relation) <= 1


def test_clipped_products_that_are_denormal_keep_the_norm() -> None:
    query = LinearMoments(SUM_OF_COLUMNS_FROM_ONE, 1e-16)
    query.check(2)
    assert moved(query, (1.7e308, 8.4e-16), (0.0, 0.0), 2, ADD_OR_REMOVE_ONE) <= 1


@pytest.mark.parametrize("query", [SecondMoments(1.0, (-1e308, 0.0)), DirectionMoments(np.eye(2), (-1e308, 0.0))])
def test_no_record_decides_whether_a_release_with_a_offset_fails(query: Query) -> None:
    rows = gaussian(50, 2)
    rows[0] = 1.7e308
    table = private(rows)
    with pytest.raises(InvalidParameter, match="offset"):
        table.release(query, AnalyticGaussian(1.0))
    assert not table.ledger.entries()


def test_rounding_is_covered_where_half_of_the_rows_are_declared() -> None:
    n = 500_000
    rows, query, worst = np.full((2 * n, 1), 1 / 3), ClippedMean((1.0,)), 0.0
    for left in range(2 * n - 60, 2 * n):  # in whole numbers: as doubles, two exact means would be rounded each
        one, other = query.exact(rows[:left], n), query.exact(np.vstack([rows[:left], [[1.0]]]), n)
        moved_by = Fraction(int(other.numbers[0]) - int(one.numbers[0])) * Fraction(1, 2**30)
        worst = max(worst, float(moved_by / n / Fraction(query.sensitivity(n, ADD_OR_REMOVE_ONE))))
    assert worst <= 1
    with pytest.raises(InvalidParameter, match="declared_rows must be at least half"):
        private(gaussian(50), relation=ADD_OR_REMOVE_ONE, declared_rows=24)


def shapes() -> dict[str, list[np.ndarray]]:
    zero, constant, twice = gaussian(300), gaussian(300), gaussian(300)
    zero[:, 2], constant[:, 2], twice[:, 3] = 0, 5, twice[:, 2]
    return {
        "a column of zeros": [zero, gaussian(200)],
        "a constant column": [constant, constant.copy()],
        "a column twice": [twice],
        "two columns": [gaussian(50, 2), gaussian(900, 2)],
        "as many rows as columns": [gaussian(4), gaussian(4, seed=1)],
        "far units": [gaussian(300) * 1e30],
    }


@pytest.mark.parametrize("rows", shapes().values(), ids=shapes())
@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_degenerate_tables_are_learnt_from_or_refused_unspent(make: Callable[..., Any], rows: list[np.ndarray]) -> None:
    for options in ({"budget": None, "bounds": None}, {}, {"budget": Budget(1e4, 1e-5)}):
        tables = [private(part, f"ward-{index}", **options) for index, part in enumerate(rows)]
        model: Any = make()
        try:
            model.fit(tables)
        except PrivfcdError:
            assert not any(table.ledger.entries() for table in tables)
            continue
        assert np.isfinite(np.asarray(model.adjacency_matrix_, dtype=float)).all()
        assert pickle.loads(pickle.dumps(model)).privacy_spent_ == model.privacy_spent_
        assert len(model.privacy_report_) == len(tables)


def test_order_search_on_a_table_of_zeros() -> None:
    EqualVarianceSearch().fit(Moments(np.zeros((3, 3)), 20, ("a", "b", "c")))


@pytest.mark.parametrize("bound", [1e24, 1e-24])
@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_a_paid_release_of_any_size_ends_in_an_answer(make: Callable[..., Any], bound: float) -> None:
    for epsilon in (0.05, 3.0, 1e4):
        table = private(gaussian(2000) * bound / 1e12, bounds=bound, budget=Budget(epsilon, 1e-6))
        model: Any = make(
            **({} if make in (LEARNERS["fed-bnsl"], LEARNERS["frank-wolfe"]) else {"release": "covariance"})
        )
        assert np.isfinite(np.asarray(model.fit([table]).adjacency_matrix_, dtype=float)).all()


def test_two_way_edges_are_no_structure_to_personalise() -> None:
    rows = gaussian(2000)
    model: Any = PC().fit([private(rows, budget=None, bounds=None)])
    assert (model.adjacency_matrix_ & model.adjacency_matrix_.T).any()
    table = private(rows)
    with pytest.raises(InvalidParameter, match="acyclic"):
        personalise(model, [table])
    assert not table.ledger.entries()


def test_copies_of_a_table_do_not_multiply_its_budget() -> None:
    table = private(gaussian(300))
    for duplicate in (lambda: pickle.loads(pickle.dumps(table)), lambda: copy.deepcopy(table)):
        with pytest.raises(CopiedBudget):
            duplicate()
    table_moments(copy.copy(table), epsilon=3.0, delta=1e-6)
    assert table.ledger.left() is None


def test_one_budget_is_no_federation() -> None:
    ledger = Ledger(BUDGET, name="shared")
    one, other = (PrivateTable(gaussian(300, seed=seed), NAMES, ledger=ledger) for seed in (0, 1))
    for pair in ([one, other], [one, one], [one, one.reordered(NAMES[::-1])]):
        for attempt in (
            lambda tables: NOTEARS().fit(tables),
            lambda tables: FedBNSL().fit(tables),
            lambda tables: personalise(graph(), tables),
            lambda tables: release_moments(tables, sum="trusted"),
        ):
            with pytest.raises(InvalidParameter, match="ledger each"):
                attempt(pair)
    assert not ledger.entries()


@pytest.mark.parametrize("name", ["notears", "fed-bnsl", "pc", "ges", "equal-variance"])
def test_an_open_table_makes_the_whole_fit_not_private(name: str) -> None:
    tables = [private(gaussian(3000), "closed"), private(gaussian(900, seed=1), "open", budget=None)]
    for order in (tables, [private(gaussian(900, seed=1), "open", budget=None), private(gaussian(3000), "closed")]):
        model: Any = LEARNERS[name]().fit(order)
        for table, report in zip(order, model.privacy_report_, strict=True):
            assert (report.epsilon == math.inf) == table.open
        assert model.privacy_spent_[0] == math.inf


def test_encoding_and_reordering_commute_and_neither_reads(arm: Any, rows_touched: Any) -> None:
    rows = np.random.default_rng(0).integers(0, 4, size=(200, 3)).astype(float)
    table = private(rows, budget=None, bounds=None)
    turned = table.reordered(["c", "a", "b"]).encoded(Contrasts((4, 2, 3)))
    straight = table.encoded(Contrasts((2, 3, 4)))
    exact = [
        one.release(SecondMoments(math.inf), AnalyticGaussian(0.0)).matrix
        for one in (turned.reordered(straight.columns), straight)
    ]
    np.testing.assert_allclose(exact[0], exact[1], atol=1e-12)
    assert table.columns == ("a", "b", "c") and table.release(ClippedMean((1.0, 1.0, 1.0)), _exact()).shape == (3,)

    encoding = Contrasts((2, 3, 4))
    armed = arm(private(rows)).encoded(encoding)
    with pytest.raises(rows_touched):
        release_moments([armed], method="covariance", row_norm=encoding.row_norm)
    assert armed.ledger.left() is None, "the encoded table spends from the table's own budget"


def _exact() -> Any:
    from privfcd.mechanisms import Gaussian

    return Gaussian(0.0)


def test_two_releases_of_one_table_have_different_noise() -> None:
    table = private(np.zeros((300, 4)))
    first, second = (release_moments([table], method="covariance", epsilon=1.0, delta=3e-7) for _ in range(2))
    assert abs(np.corrcoef(first.moments.matrix.ravel(), second.moments.matrix.ravel())[0, 1]) < 0.9


def test_parties_of_one_name_are_refused() -> None:
    tables = [private(np.zeros((300, 4)), "ward") for _ in range(2)]
    with pytest.raises(InvalidParameter, match="different names"):
        personalise(graph(), tables)
    assert not any(table.ledger.entries() for table in tables)


def test_a_rho_that_was_spent_is_reported_for_one_declared_row() -> None:
    table = private(gaussian(2, 2)[:, :1], budget=Budget(rho=1.0), relation=ADD_OR_REMOVE_ONE, declared_rows=1)
    release_moments([table], method="covariance")


def test_a_failed_refit_charges_nothing_more_and_a_refit_pays_again() -> None:
    table = private(gaussian(3000), budget=Budget(4, 1e-6))
    model: Any = FedBNSL(rounds=2, epsilon=2.0, delta=5e-7).fit([table])
    spent = table.ledger.spent()["epsilon"]
    before = model.adjacency_matrix_.copy()
    with pytest.raises(InvalidParameter):
        model.set_params(rho2=-1.0).fit([table])
    assert table.ledger.spent()["epsilon"] == spent and np.array_equal(model.adjacency_matrix_, before)
    model.set_params(rho2=1.0).fit([table])
    assert table.ledger.spent()["epsilon"] > 1.9 * spent
