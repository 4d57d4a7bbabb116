"""One run with many canaries: the p-values, the curve recursion, and the audit of a covariance release."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from privfcd.accounting import Budget
from privfcd.audits import Claim, audit_one_run, one_run_bound, one_run_epsilon, one_run_mu, one_run_p_value
from privfcd.audits.one_run import one_run_refutes
from privfcd.data.private import PrivateTable
from privfcd.data.second_moments import table_moments
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import SimulatedNoise


def test_at_delta_0_the_p_value_is_a_binomial_tail() -> None:
    for correct in (0, 50, 73, 100):
        share = 1 / (1 + math.exp(-1.0))
        assert one_run_p_value(200, 100, correct, 1.0) == pytest.approx(stats.binom.sf(correct - 1, 100, share))


def test_the_delta_term_is_the_steepest_slope() -> None:
    m, r, v, delta = 60, 20, 18, 1e-3
    share = 1 / (1 + math.exp(-0.5))

    def tail(k: int) -> float:
        return float(stats.binom.sf(k - 1, r, share))

    slope = max((tail(v - i) - tail(v)) / i for i in range(1, v + 1))
    assert one_run_p_value(m, r, v, 0.5, delta) == pytest.approx(tail(v) + 2 * m * delta * slope)


def test_bounds_grow_with_right_guesses_and_shrink_with_delta() -> None:
    found = [one_run_epsilon(500, 100, correct) for correct in range(50, 101, 10)]
    assert found == sorted(found) and found[0] == 0.0 and found[-1] > 3
    assert one_run_epsilon(500, 100, 90, 1e-3) < one_run_epsilon(500, 100, 90)
    mus = [one_run_mu(500, 100, correct) for correct in range(50, 101, 10)]
    assert mus == sorted(mus) and mus[0] == 0.0
    p = one_run_p_value(500, 100, 90, one_run_epsilon(500, 100, 90))
    assert p == pytest.approx(0.05, rel=1e-6)


def test_the_curve_of_mu_and_the_bound_on_mu_agree() -> None:
    for correct in (60, 80, 95):
        mu = one_run_mu(300, 100, correct)
        assert one_run_refutes(Claim(mu=mu * 0.999), 300, 100, correct)
        assert not one_run_refutes(Claim(mu=mu * 1.001), 300, 100, correct)
        assert one_run_refutes(Claim(epsilon=0.1), 300, 100, correct) or correct == 60


def test_randomised_response_fails_the_bound_at_most_as_often_as_it_says() -> None:
    """300 runs of 200 coins, each told truly with odds e^1: at 5 %, more than 28 failures have a chance below 1e-3."""
    rng = np.random.default_rng(0)
    right = rng.binomial(200, 1 / (1 + math.exp(-1.0)), size=300)
    assert sum(one_run_p_value(200, 200, int(one), 1.0) <= 0.05 for one in right) <= 28
    assert sum(one_run_refutes(Claim(epsilon=1.0), 200, 200, int(one)) for one in right) <= 28


def test_independent_gaussian_answers() -> None:
    rng = np.random.default_rng(1)
    coins = rng.integers(0, 2, 2_000)
    scores = rng.normal(size=2_000) + 2 * (coins - 0.5)
    found = one_run_bound(scores, coins, 1e-5)
    assert 2.0 < found.epsilon < 9.99 and 0.8 < found.mu < 2.0
    assert one_run_bound(-scores, coins, 1e-5).epsilon == 0.0
    assert one_run_bound(rng.normal(size=2_000), coins).epsilon == 0.0


EPSILON, DELTA = 4.0, 1e-5


def release(tables: list[PrivateTable]) -> object:
    return table_moments(tables[0], epsilon=EPSILON, delta=DELTA)


def weak_release(tables: list[PrivateTable]) -> object:
    """Charges epsilon = 4 and has the noise of 40."""
    moments = table_moments(tables[0], epsilon=EPSILON, delta=DELTA)
    true = tables[0]._rows.T @ tables[0]._rows / tables[0].n_rows
    strong = true + 0.1 * (moments.matrix - true)
    return type(moments)(strong, moments.rows, moments.columns, moments.noise)


def test_a_covariance_release_in_one_run() -> None:
    table = PrivateTable(np.zeros((1_000, 40)), bounds=1.0, budget=Budget(epsilon=EPSILON, delta=DELTA))
    right = audit_one_run(release, table, seed=1000)
    assert right.verdict != "violated" and right.tightness > 0.1
    assert right.accountants["tight"] == pytest.approx(EPSILON, rel=1e-6)
    assert "in one run" in str(right)
    assert json.loads(json.dumps(right.as_dict(), allow_nan=False))["canaries"] == 410
    assert audit_one_run(weak_release, table, seed=1000).verdict == "violated"
    assert table.ledger.spent() == PrivateTable(np.zeros((2, 2)), budget=table.ledger.budget).ledger.spent()


def test_what_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="correct"):
        one_run_p_value(10, 20, 5, 1.0)
    with pytest.raises(InvalidParameter, match="coins"):
        one_run_bound([0.1, 0.2], [0, 2])
    table = PrivateTable(
        np.zeros((10, 4)), bounds=1.0, budget=Budget(epsilon=1.0, delta=DELTA), noise=SimulatedNoise(0)
    )
    with pytest.raises(InvalidParameter, match="canaries"):
        audit_one_run(release, table, canaries=11)
    with pytest.raises(InvalidParameter, match="matrix"):
        audit_one_run(lambda tables: 1.0, table)
