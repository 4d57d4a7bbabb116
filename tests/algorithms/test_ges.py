"""Greedy equivalence search against brute force over equivalence classes, and against an independent library."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pytest

from privfcd.algorithms.ges import greedy_search
from privfcd.algorithms.ges.operators import apply, blocked, deletes, inserts, turns
from privfcd.algorithms.scores import Family, GaussianBIC, effective_rows
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import InvalidParameter
from privfcd.graphs import Pdag, dag_to_cpdag, is_dag
from privfcd.moments import Moments, NoiseTerm
from tests.support.helpers import exact_moments


@cache
def classes(p: int) -> dict[Pdag, tuple[Pdag, ...]]:
    """Every CPDAG on p nodes with its DAGs."""
    pairs = list(itertools.combinations(range(p), 2))
    found: dict[Pdag, list[Pdag]] = {}
    for states in itertools.product((0, 1, 2), repeat=len(pairs)):
        edges = [pair if state == 1 else pair[::-1] for pair, state in zip(pairs, states, strict=True) if state]
        dag = Pdag.from_edges(p, directed=edges)
        if is_dag(dag):
            found.setdefault(dag_to_cpdag(dag), []).append(dag)
    return {cpdag: tuple(dags) for cpdag, dags in found.items()}


class RandomScore:
    """A score-equivalent score: that of random rows, so that a class has one value."""

    def __init__(self, p: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._bic = GaussianBIC(exact_moments(rng.normal(size=(30, p)) @ rng.normal(size=(p, p)), centred=True))
        self.d = p
        self.asked: list[Family] = []

    def local(self, families: Sequence[Family]) -> np.ndarray:
        self.asked.extend(families)
        return self._bic.local(families)

    def total(self, sums: np.ndarray) -> np.ndarray:
        return self._bic.total(sums)

    def of(self, dag: Pdag) -> float:
        return float(self._bic.local(list(enumerate(dag.parents))).sum())


def neighbours_by_brute_force(dags: Sequence[Pdag], kind: str) -> set[Pdag]:
    found = set()
    for dag in dags:
        present = dag.directed_edges()
        for i, j in itertools.permutations(range(dag.p), 2):
            if kind == "insert" and (i, j) not in present and (j, i) not in present:
                edges = [*present, (i, j)]
            elif kind == "delete" and (i, j) in present:
                edges = [edge for edge in present if edge != (i, j)]
            elif kind == "turn" and (j, i) in present:
                edges = [(i, j), *(edge for edge in present if edge != (j, i))]
            else:
                continue
            other = Pdag.from_edges(dag.p, directed=edges)
            if is_dag(other):
                found.add(dag_to_cpdag(other))
    return found - {dag_to_cpdag(dags[0])}


@pytest.mark.parametrize(("kind", "listing"), [("insert", inserts), ("delete", deletes), ("turn", turns)])
def test_operators_lead_to_all_neighbouring_classes_with_their_gain(kind: str, listing: object) -> None:
    score = RandomScore(4, 0)
    for cpdag, dags in classes(4).items():
        before = score.of(dags[0])
        reached = set()
        for x, y in itertools.permutations(range(4), 2):
            adjacent, towards = cpdag.adjacent[y] >> x & 1, cpdag.parents[x] >> y & 1
            fits = {"insert": not adjacent, "delete": adjacent and not towards}
            turnable = adjacent and not cpdag.parents[y] >> x & 1
            if not fits.get(kind, turnable):
                continue
            for operator in listing(cpdag, x, y):  # type: ignore[operator]
                if blocked(cpdag, operator):
                    continue
                dag = apply(cpdag, operator)
                if dag is None:
                    continue
                gain = float(score.local(operator.gained).sum() - score.local(operator.lost).sum())
                assert score.of(dag) - before == pytest.approx(gain, abs=1e-8), (cpdag, operator)
                reached.add(dag_to_cpdag(dag))
        assert reached - {cpdag} == neighbours_by_brute_force(dags, kind), cpdag


@pytest.mark.parametrize("seed", range(12))
def test_the_result_is_a_local_optimum_over_all_neighbouring_classes(seed: int) -> None:
    score = RandomScore(4, seed)
    result = greedy_search(score)
    dags = classes(4)[result.cpdag]
    assert result.score == pytest.approx(score.of(dags[0]), abs=1e-8)
    for kind in ("insert", "delete", "turn"):
        for other in neighbours_by_brute_force(dags, kind):
            assert score.of(classes(4)[other][0]) <= result.score + 1e-7
    assert len(score.asked) >= result.families


@pytest.mark.parametrize("seed", range(20))
def test_population_moments_give_the_true_class(seed: int) -> None:
    weights, _ = linear_gaussian(8, parties=1, rows=10, seed=seed, edges=10)
    inverse = np.linalg.inv(np.eye(8) - weights)
    covariance = inverse.T @ inverse
    moments = Moments((covariance + covariance.T) / 2, 10**7, tuple(f"x{j}" for j in range(8)))
    assert greedy_search(GaussianBIC(moments)).cpdag == dag_to_cpdag(weights != 0)


def test_nothing_is_asked_twice_and_steps_ask_in_batches() -> None:
    score = RandomScore(6, 1)
    result = greedy_search(score)
    assert len(score.asked) == len(set(score.asked)) == result.families
    assert result.messages <= 2 * (len(result.steps) + 8)


@pytest.mark.parametrize("seed", range(4))
def test_no_worse_than_an_independent_library(seed: int) -> None:
    ges = pytest.importorskip("causallearn.search.ScoreBased.GES").ges
    _, parts = linear_gaussian(8, parties=1, rows=400, seed=seed, edges=12)
    score = GaussianBIC(exact_moments(parts[0], centred=True))
    result = greedy_search(score)
    matrix = ges(parts[0], score_func="local_score_BIC_from_cov")["G"].graph
    into = [
        sum(1 << i for i in range(8) if matrix[i, j] == -1 or (matrix[i, j] == matrix[j, i] == -1)) for j in range(8)
    ]
    theirs = dag_of(Pdag.from_entries(into))
    value = float(score.local(list(enumerate(theirs.parents))).sum())
    assert result.score >= value - 1e-6 * abs(value)


def dag_of(graph: Pdag) -> Pdag:
    from privfcd.graphs import consistent_extension

    dag = consistent_extension(graph)
    assert dag is not None
    return dag


def families_up_to(p: int) -> Iterator[Family]:
    for node in range(p):
        for mask in range(1 << p):
            if not mask >> node & 1:
                yield node, mask


def test_residual_variances_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4)) * [1, 1e3, 1e-3, 1]
    rows -= rows.mean(axis=0)
    families = list(families_up_to(4))
    found = GaussianBIC(exact_moments(rows, centred=True)).variances(families)
    for (node, mask), value in zip(families, found, strict=True):
        given = [i for i in range(4) if mask >> i & 1]
        residual = rows[:, node]
        if given:
            residual = residual - rows[:, given] @ np.linalg.lstsq(rows[:, given], residual, rcond=None)[0]
        assert value == pytest.approx(float(residual @ residual / 50), rel=1e-7)


def test_bic_is_the_formula_and_score_equivalent() -> None:
    rng = np.random.default_rng(4)
    bic = GaussianBIC(
        exact_moments(rng.normal(size=(40, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]]), centred=True), penalty=2.0
    )
    one = bic.local([(0, 0), (1, 1)]).sum()
    assert bic.local([(1, 0), (0, 2)]).sum() == pytest.approx(one, rel=1e-12)
    variances = bic.variances([(0, 0), (1, 1)])
    expected = sum(-20 * (1 + math.log(v)) for v in variances) - math.log(40) * 3
    assert one == pytest.approx(expected)


def test_noise_lowers_the_effective_rows() -> None:
    _, parts = linear_gaussian(6, parties=1, rows=2000, seed=0)
    exact = exact_moments(parts[0], centred=True)
    values = [effective_rows(exact)]
    for scale in (1e-3, 0.05, 0.5, 50.0):
        values.append(effective_rows(Moments(exact.matrix, exact.rows, exact.columns, (NoiseTerm(scale),))))
    assert (
        values[0] == 2000
        and all(a >= b for a, b in itertools.pairwise(values))
        and values[1] < 2000
        and values[-1] >= 2
    )


def test_limits_and_refusals() -> None:
    _, parts = linear_gaussian(6, parties=1, rows=500, seed=1, edges=12)
    score = GaussianBIC(exact_moments(parts[0], centred=True))
    small = greedy_search(score, max_parents=1)
    assert all(mask.bit_count() <= 1 for mask in dag_of(small.cpdag).parents)
    again = greedy_search(score, start=greedy_search(score).cpdag)
    assert not again.steps
    with pytest.raises(InvalidParameter, match="max_parents"):
        greedy_search(score, max_parents=-1)
    with pytest.raises(InvalidParameter, match="start"):
        greedy_search(score, start=Pdag((0, 0), (0, 0)))
    with pytest.raises(InvalidParameter, match="turning"):
        greedy_search(score, turning="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="penalty"):
        GaussianBIC(exact_moments(parts[0], centred=True), penalty=0.0)
