"""Order search: exact recovery, laws that it keeps at any noise, and parents against plain definitions."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd.algorithms.equal_variance import order_search
from privfcd.algorithms.equal_variance.law import Law
from privfcd.algorithms.equal_variance.likelihood import Likelihood, Point
from privfcd.algorithms.equal_variance.moves import Scale, before, improve, place
from privfcd.algorithms.equal_variance.parents import choose_parents, deepened, penalised, thinned
from privfcd.algorithms.equal_variance.polish import ancestors, polished
from privfcd.algorithms.equal_variance.search import final_tau, search_tau
from privfcd.algorithms.equal_variance.topdown import top_down
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import InvalidParameter
from privfcd.graphs.dag import is_acyclic
from privfcd.moments import Moments, NoiseTerm


def random_dag(d: int, seed: int, chance: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    present = np.triu(rng.random((d, d)) < chance, 1)
    weights = np.where(present, rng.uniform(0.5, 2, (d, d)) * rng.choice([-1, 1], (d, d)), 0.0)
    order = rng.permutation(d)
    return weights[np.ix_(order, order)]


def population(weights: np.ndarray, variance: float = 1.0) -> np.ndarray:
    through = np.linalg.inv(np.eye(len(weights)) - weights)
    matrix = variance * through.T @ through
    return (matrix + matrix.T) / 2


def moments_of(matrix: np.ndarray, rows: int = 10**7, noise: tuple[NoiseTerm, ...] = ()) -> Moments:
    return Moments((matrix + matrix.T) / 2, rows, tuple(f"x{j}" for j in range(len(matrix))), noise)


def symmetric_noise(rng: np.random.Generator, d: int, sd: float) -> np.ndarray:
    upper = np.triu(rng.normal(size=(d, d)) * sd / np.sqrt(2), 1)
    return upper + upper.T + np.diag(rng.normal(size=d) * sd)


def noisy(weights: np.ndarray, effective: float, seed: int, rows: int = 40_000) -> Moments:
    """Population moments with noise that is white in the errors' coordinates, as preconditioned releases have it."""
    d, sd = len(weights), np.sqrt(2 / effective)
    carry = np.linalg.inv(np.eye(d) - weights).T
    noise = symmetric_noise(np.random.default_rng([seed, 99]), d, sd)
    return moments_of(population(weights) + carry @ noise @ carry.T, rows, (NoiseTerm(sd, carry),))


@pytest.mark.parametrize("seed", range(20))
def test_population_moments_give_the_truth_and_no_other_order_is_better(seed: int) -> None:
    d = 3 + seed % 3
    weights = random_dag(d, seed)
    given_moments = moments_of(population(weights, 1.7))
    found = order_search(given_moments)
    np.testing.assert_allclose(found.weights, weights, atol=1e-6)
    np.testing.assert_allclose(found.variances, 1.7, rtol=1e-9)
    # brute force: the sum of residual variances over all orders is least for the orders of the truth
    matrix = population(weights, 1.7)
    totals = {}
    for order in permutations(range(d)):
        total = 0.0
        for place_in, node in enumerate(order):
            earlier = list(order[:place_in])
            block = matrix[np.ix_(earlier, earlier)]
            fit = np.linalg.solve(block, matrix[earlier, node]) if earlier else np.zeros(0)
            total += matrix[node, node] - fit @ matrix[earlier, node]
        totals[order] = total
    least = min(totals.values())
    assert totals[tuple(int(k) for k in found.order)] == pytest.approx(least, rel=1e-9)
    assert least == pytest.approx(1.7 * d, rel=1e-9)


@pytest.mark.parametrize("seed", [1, 100, 400])
def test_rows_without_noise_are_learnt_exactly_at_60_variables(seed: int) -> None:
    weights, (table,) = linear_gaussian(60, parties=1, rows=20_000, seed=seed)
    found = order_search(moments_of(table.T @ table / len(table), len(table)))
    assert np.array_equal(found.weights != 0, weights != 0)


@pytest.mark.parametrize("effective", [3000.0, 100.0])
def test_the_order_of_the_columns_does_not_matter(effective: float) -> None:
    weights = linear_gaussian(15, parties=1, rows=2, seed=3).weights
    one = noisy(weights, effective, seed=4)
    order = np.random.default_rng(5).permutation(15)
    term = one.noise[0]
    other = moments_of(one.matrix[np.ix_(order, order)], one.rows, (NoiseTerm(term.sd, term.carry[order]),))
    np.testing.assert_allclose(order_search(other).weights, order_search(one).weights[np.ix_(order, order)], atol=1e-8)


@given(st.integers(0, 10**6), st.integers(1, 9), st.sampled_from([0.0, 0.3, 2.0, 50.0]))
def test_the_graph_is_acyclic_along_the_order_whatever_the_matrix(seed: int, d: int, sd: float) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    matrix = root @ root.T + symmetric_noise(rng, d, sd)
    terms = (NoiseTerm(sd, root),) if sd else ()
    found = order_search(moments_of(matrix, 50, terms))
    assert is_acyclic(found.weights) and is_acyclic(found.structure)
    position = np.argsort(found.order)
    for result in (found.weights, found.structure):
        causes, effects = np.nonzero(result)
        assert (position[causes] < position[effects]).all()
    assert (np.abs(found.weights[found.weights != 0]) > 0.3).all()
    assert sorted(found.order) == list(range(d))
    assert np.isfinite(found.weights).all() and np.isfinite(found.variances).all()


def test_noise_of_no_size_changes_nothing() -> None:
    _, (table,) = linear_gaussian(12, parties=1, rows=400, seed=1000)
    matrix = table.T @ table / 400
    carry = np.random.default_rng(0).normal(size=(12, 12))
    exact = order_search(moments_of(matrix, 400))
    for terms in ((NoiseTerm(0.0),), (NoiseTerm(1e-12, carry), NoiseTerm(np.full((12, 12), 1e-12)))):
        found = order_search(moments_of(matrix, 400, terms))
        assert np.array_equal(found.order, exact.order)
        np.testing.assert_allclose(found.weights, exact.weights, atol=1e-9)


def test_more_noise_asks_for_stronger_parents() -> None:
    matrix = population(np.array([[0, 0.6], [0, 0]]))
    allowed = before(np.array([0, 1]))
    nodes = np.array([0, 1])
    for sd, expected in ((0.0, True), (0.05, True), (0.5, False)):
        law = Law.of(moments_of(matrix, 1000, (NoiseTerm(sd),) if sd else ()))
        assert choose_parents(law, nodes, allowed, 3.0).chosen[0, 1] == expected


def test_the_statistic_is_the_moments_own_law() -> None:
    """Coefficients over their standard deviations: the delta method on `Moments.noise_variances`, term by term."""
    rng = np.random.default_rng(7)
    root, carry = rng.normal(size=(5, 8)), rng.normal(size=(5, 5))
    matrix = root @ root.T
    given_moments = moments_of(matrix, 90, (NoiseTerm(0.02), NoiseTerm(0.03, carry)))
    law = Law.of(given_moments)
    parents = [0, 2, 3]
    inverse = np.linalg.inv(matrix[np.ix_(parents, parents)])
    fit = inverse @ matrix[parents, 4]
    residual = np.zeros(5)
    residual[4], residual[parents] = 1, -fit
    left = np.zeros((5, 3))
    left[parents] = inverse
    variance = residual @ matrix @ residual
    error = given_moments.noise_variances(left, np.repeat(residual[:, None], 3, axis=1))
    error += np.diag(inverse) * variance / 90
    z = np.abs(fit) / np.sqrt(error)
    chosen = np.zeros((5, 1), dtype=bool)
    chosen[parents] = True
    weakest = z.min()
    assert thinned(law, np.array([4]), chosen, weakest * 0.999).chosen[:, 0].sum() == 3
    left_over = thinned(law, np.array([4]), chosen, weakest * 1.001).chosen[:, 0]
    assert not left_over[parents[int(z.argmin())]]
    fits = thinned(law, np.array([4]), chosen, 0.0)
    np.testing.assert_allclose(fits.weights[parents, 0], fit)
    assert fits.variances[0] == pytest.approx(variance)
    expected = np.sqrt(given_moments.noise_variances(residual[:, None], residual[:, None])[0])
    assert fits.noise[0] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_the_batch_is_the_plain_forward_selection(seed: int) -> None:
    """Many nodes at once, each against a loop that inverts matrices."""
    rng = np.random.default_rng(seed)
    d = 7
    root = rng.normal(size=(d, 2 * d))
    carry = rng.normal(size=(d, d)) / 2
    given_moments = moments_of(root @ root.T / d, 200, (NoiseTerm(0.05, carry), NoiseTerm(0.02)))
    law, allowed, tau = Law.of(given_moments), rng.random((d, d)) < 0.7, 2.0
    fits = choose_parents(law, np.arange(d), allowed, tau)
    for j in range(d):
        candidates = [k for k in range(d) if allowed[k, j] and k != j]
        grown = _forward(given_moments, j, candidates, tau)
        start = np.zeros((d, 1), dtype=bool)
        start[grown] = True
        once = thinned(law, np.array([j]), start, tau)
        if once.chosen[:, 0].sum() == len(grown):  # nothing left again: the batch ends here too
            assert sorted(np.flatnonzero(fits.chosen[:, j])) == sorted(grown)


def _forward(given_moments: Moments, j: int, candidates: list[int], tau: float) -> list[int]:
    matrix, d, chosen = given_moments.matrix, len(given_moments.columns), []
    while True:
        inverse = np.linalg.inv(matrix[np.ix_(chosen, chosen)]) if chosen else np.zeros((0, 0))

        def contrast(k: int, inverse: np.ndarray = inverse) -> np.ndarray:
            w = np.zeros(d)
            w[k] = 1
            w[chosen] -= inverse @ matrix[chosen, k]
            return w

        best, strongest = None, tau**2
        own = contrast(j)
        for k in candidates:
            if k in chosen:
                continue
            w = contrast(k)
            noise = np.sqrt(given_moments.noise_variances(w[:, None], w[:, None])[0])
            if w @ matrix @ w <= noise:
                continue
            known = max(own @ matrix @ own, np.sqrt(given_moments.noise_variances(own[:, None], own[:, None])[0]))
            error = (w @ matrix @ w) * known / given_moments.rows
            error += given_moments.noise_variances(w[:, None], own[:, None])[0]
            strength = (w @ matrix @ own) ** 2 / error
            if strength > strongest:
                best, strongest = k, strength
        if best is None:
            return chosen
        chosen.append(best)


def test_parents_that_hide_one_another_are_found() -> None:
    """x2 = c (x1 - x0) + error, x0 and x1 correlated by 0.9: neither explains much alone."""
    c = np.sqrt(5)
    block = np.array([[1, 0.9], [0.9, 1]])
    effect = block @ [-c, c]
    matrix = np.block([[block, effect[:, None]], [effect[None, :], np.array([[1 + effect @ [-c, c]]])]])
    law = Law.of(moments_of(matrix, 100))
    nodes, allowed = np.arange(3), before(np.array([0, 1, 2]))
    fits = choose_parents(law, nodes, allowed, 2.0)
    assert not fits.chosen[:, 2].any()
    deep = deepened(law, nodes, allowed, fits, 2.0, 1.0, 100.0)
    assert deep.chosen[:, 2].tolist() == [True, True, False]
    assert deep.variances[2] == pytest.approx(1)
    assert (penalised(deep, 2.0, 1.0, 100.0) <= penalised(fits, 2.0, 1.0, 100.0) + 1e-9).all()


def test_local_search_never_raises_the_cost_and_mends_a_wrong_order() -> None:
    weights = random_dag(6, 3, 0.6)
    law = Law.of(noisy(weights, 200.0, seed=1))
    tau = search_tau(6)
    true_order = order_search(moments_of(population(weights))).order
    scale = Scale.of(law, place(law, true_order, tau).fits)
    best = place(law, true_order, tau, scale).cost
    ended = []
    for seed in range(10):
        start = place(law, np.random.default_rng(seed).permutation(6), tau, scale)
        end = improve(law, start, scale, tau)
        assert end.cost <= start.cost
        again = place(law, end.order, tau, scale)
        assert again.cost == pytest.approx(end.cost) and np.array_equal(again.fits.chosen, end.fits.chosen)
        ended.append(end.cost)
    assert min(ended) <= best + 1e-9


def test_caution_puts_off_what_is_not_known() -> None:
    matrix = np.diag([1.0, 1.1])
    law = Law.of(moments_of(matrix, 10**6, (NoiseTerm(np.diag([1.0, 0.001])),)))
    assert top_down(law, 2.0, 0.0).tolist() == [0, 1]
    assert top_down(law, 2.0, 1.0).tolist() == [1, 0]


def test_law_of_entrywise_noise_is_exact_where_it_is_a_product() -> None:
    g, carry = np.array([0.5, 1.0, 2.0]), np.random.default_rng(2).normal(size=(3, 3))
    variances = np.outer(g, g)
    variances[np.diag_indices(3)] *= 2
    given_moments = moments_of(np.eye(3), 10, (NoiseTerm(np.sqrt(variances), carry),))
    (spread,) = Law.of(given_moments).spreads
    u, v = np.random.default_rng(3).normal(size=(2, 3))
    mine = (u @ spread @ u) * (v @ spread @ v) + (u @ spread @ v) ** 2
    assert mine == pytest.approx(given_moments.noise_variances(u[:, None], v[:, None])[0])


def test_constants() -> None:
    assert search_tau(201) == pytest.approx(np.sqrt(2 * np.log(100)))
    assert [search_tau(d) for d in (1, 2, 3)] == [1.0, 1.0, 1.0]
    assert final_tau(1, 0.05) == pytest.approx(1.959964, abs=1e-6)
    assert final_tau(20, 0.05) == pytest.approx(3.0233, abs=1e-3)


@pytest.mark.parametrize(
    ("option", "value"),
    [("threshold", -1), ("tau", 0), ("level", 1.0), ("cautions", ()), ("cautions", (-1.0,)), ("threshold", np.nan)],
)
def test_options_are_checked(option: str, value: object) -> None:
    with pytest.raises(InvalidParameter, match=option):
        order_search(moments_of(np.eye(2)), **{option: value})


def test_strong_noise_finds_little_and_still_ends() -> None:
    weights = linear_gaussian(30, parties=1, rows=2, seed=6).weights
    found = order_search(noisy(weights, 5.0, seed=2))
    assert is_acyclic(found.weights)
    assert found.rule["effective rows"] < 100


def _likelihood(effective: float = 60.0) -> tuple[np.ndarray, Moments, Likelihood]:
    weights = random_dag(6, 11)
    given_moments = noisy(weights, effective, seed=8)
    return weights, given_moments, Likelihood(Law.of(given_moments), weights, 1.0)


def test_the_likelihood_is_the_noise_law_and_its_slopes_are_right() -> None:
    """Against the density of the released entries, written out, where sampling is nothing beside the noise."""
    weights = random_dag(4, 2)
    sd, carry = 0.3, np.random.default_rng(1).normal(size=(4, 4)) + 2 * np.eye(4)
    error = symmetric_noise(np.random.default_rng(4), 4, sd)
    given_moments = moments_of(population(weights) + carry @ error @ carry.T, 10**15, (NoiseTerm(sd, carry),))
    likelihood = Likelihood(Law.of(given_moments), weights, 1.0)
    expected = (np.diag(error) ** 2).sum() / (2 * sd**2) + (np.triu(error, 1) ** 2).sum() / sd**2
    assert likelihood._slopes(weights, 1.0)[0] == pytest.approx(expected, rel=1e-4)
    away, step = weights + 0.1 * (weights != 0), 1e-6
    _, slopes, inner = likelihood._slopes(away, 1.3)
    for edge in map(tuple, np.argwhere(weights)):
        up, down = away.copy(), away.copy()
        up[edge] += step
        down[edge] -= step
        numeric = (likelihood._slopes(up, 1.3)[0] - likelihood._slopes(down, 1.3)[0]) / (2 * step)
        assert slopes[edge] == pytest.approx(numeric, rel=1e-4, abs=1e-4)
    numeric = likelihood._slopes(away, 1.3 * np.exp(step))[0] - likelihood._slopes(away, 1.3 * np.exp(-step))[0]
    assert inner == pytest.approx(numeric / (2 * step), rel=1e-4)


def test_weights_fitted_by_likelihood_have_the_deviations_that_it_states() -> None:
    weights = random_dag(5, 21)
    z = []
    for seed in range(60):
        given_moments = noisy(weights, 800.0, seed=seed)
        likelihood = Likelihood(Law.of(given_moments), weights, 1.0)
        point = likelihood.fitted(Point(weights, 1.0, np.inf), weights != 0, 100)
        place, sds = likelihood.deviations(point)
        z.append((point.weights[place] - weights[place]) / sds)
    # noise and sampling were added up in sd: the deviations are right or a little wide
    assert 0.7 < np.std(z) < 1.1


def test_polish_lowers_the_cost_and_mends_what_was_changed() -> None:
    weights, _, likelihood = _likelihood(600.0)
    start = weights.copy()
    missing = np.argwhere(weights)[0]
    start[tuple(missing)] = 0.0
    free = Point(start, 1.0, np.inf)
    first = likelihood.fitted(free, start != 0, 100)
    end = polished(likelihood, free, 2.0, 200)
    assert end.value + 2 * (end.weights != 0).sum() <= first.value + 2 * (first.weights != 0).sum()
    assert is_acyclic(end.weights)
    assert end.weights[tuple(missing)] == pytest.approx(weights[tuple(missing)], abs=0.4)
    assert polished(likelihood, free, 2.0, 0).value == pytest.approx(first.value, rel=1e-3)


def test_ancestors_are_those_of_a_path() -> None:
    support = random_dag(9, 5, 0.3) != 0
    paths = ancestors(support)
    reach = np.linalg.inv(np.eye(9) - 0.1 * support) > 1e-12
    assert np.array_equal(paths, reach & ~np.eye(9, dtype=bool))


def test_polish_is_for_noise_and_few_variables() -> None:
    weights = linear_gaussian(20, parties=1, rows=2, seed=7).weights
    assert order_search(noisy(weights, 50.0, seed=1)).rule["polished"]
    assert not order_search(noisy(weights, 50.0, seed=1), polish=False).rule["polished"]
    assert not order_search(moments_of(population(weights))).rule["polished"]
