"""The comparison of noise regimes: reference numbers, and laws."""

from __future__ import annotations

import functools
import json
import math

import pytest

from privfcd.accounting import advanced_composition, zcdp_to_epsilon
from privfcd.audits import RegimeRow, regime_factors
from privfcd.audits import compare_regimes as compare
from privfcd.audits.regimes import laplace_regime, unequal_advanced_composition
from privfcd.errors import InvalidParameter

DELTA = 4e-8
compare_regimes = functools.cache(compare)
"""The rows are frozen, and several tests look at the same ones."""

NAMES = ["mangold-published", "mangold-proven", "zcdp-loose", "zcdp"]


@pytest.fixture(scope="module")
def rows() -> dict[str, RegimeRow]:
    return {row.regime: row for row in compare_regimes(10, DELTA, 2000)}


def test_reference_scales_at_epsilon_ten(rows: dict[str, RegimeRow]) -> None:
    assert rows["zcdp-loose"].scale == pytest.approx(41.71, abs=0.005)
    assert rows["zcdp-loose"].selection_sd == pytest.approx(53.5, abs=0.05)
    assert rows["zcdp"].scale == pytest.approx(39.34, abs=0.005)
    assert rows["mangold-proven"].scale == pytest.approx(72.4, abs=0.05)
    assert rows["mangold-proven"].selection_sd == pytest.approx(102.3, abs=0.05)
    assert rows["mangold-published"].scale < rows["mangold-proven"].scale
    assert not rows["mangold-published"].proven and rows["mangold-proven"].proven


@pytest.mark.parametrize(("loose", "tight"), [(1, 0.862), (5, 4.572), (10, 9.349), (50, 48.62)])
def test_reference_epsilons_at_the_noise_of_the_loose_formula(loose: float, tight: float) -> None:
    rows = {row.regime: row for row in compare_regimes(loose, DELTA, 2000)}
    assert rows["zcdp-loose"].epsilon_same_scale == pytest.approx(loose, rel=1e-9)
    assert rows["zcdp"].epsilon_same_scale == pytest.approx(tight, abs=6e-4 * max(1, loose / 10))


@pytest.mark.parametrize(("epsilon", "pairs"), [(0.1, 100), (1, 2000), (10, 2000), (50, 500)])
def test_laws(epsilon: float, pairs: int) -> None:
    rows = compare_regimes(epsilon, DELTA, pairs)
    by_name = {row.regime: row for row in rows}
    assert list(by_name)[:4] == NAMES
    for row in rows:
        assert row.epsilon <= epsilon and row.epsilon == pytest.approx(epsilon, rel=1e-8)
        sd = {"laplace": math.sqrt(2), "gumbel": math.pi / math.sqrt(6), "gaussian": 1.0}
        assert row.selection_sd == pytest.approx(row.scale * sd[row.selection_noise])
        assert row.update_sd == pytest.approx(row.scale * sd[row.update_noise])
        if row.selection_noise == "gumbel":
            assert row.epsilon_same_scale == pytest.approx(row.epsilon_same_sd, rel=1e-9)
            assert row.epsilon_same_scale == pytest.approx(row.epsilon_same_update_sd, rel=1e-9)
    assert by_name["zcdp"].scale < by_name["zcdp-loose"].scale < by_name["mangold-published"].scale
    # appendix A.4 of the paper: at least sqrt(2) in epsilon when all Laplace noise has the update's variance
    for name in ("mangold-published", "mangold-proven"):
        assert by_name[name].epsilon_same_update_sd >= math.sqrt(2) * by_name["zcdp-loose"].epsilon_same_update_sd
    # with the selections' noise of equal variance too, what can be proven is still worse by that much
    assert by_name["mangold-proven"].epsilon_same_sd >= math.sqrt(2) * by_name["zcdp-loose"].epsilon_same_sd


def test_zcdp_rows_are_the_closed_form() -> None:
    row = compare_regimes(1, DELTA, 200)[3]
    rho = 200 / row.scale**2  # 2 / scale² / 4 for each selection and half of that again for each update
    assert row.regime == "zcdp"
    assert zcdp_to_epsilon(rho, DELTA) == pytest.approx(1, rel=1e-4)


def test_unequal_composition_extends_the_equal_one() -> None:
    assert unequal_advanced_composition([(0.01, 1000)], 1e-6) == pytest.approx(advanced_composition(0.01, 1e-6, 1000))
    assert unequal_advanced_composition([(0.01, 400), (0.01, 600)], 1e-6) == pytest.approx(
        advanced_composition(0.01, 1e-6, 1000)
    )
    assert unequal_advanced_composition([(0.5, 1), (1.0, 1)], 1e-6) == 1.5  # the sum is smaller
    assert unequal_advanced_composition([(0.1, 5)], 0.0) == pytest.approx(0.5)


def test_a_regime_can_be_added() -> None:
    own = laplace_regime("monotone scores", 1.0, True, "selection range D / b")
    (row,) = compare(1, 1e-6, 10, [own])
    assert row.regime == "monotone scores" and row.proven


def test_rows_are_json() -> None:
    json.dumps([row.as_dict() for row in compare_regimes(1, 1e-6, 10)], allow_nan=False)


@pytest.mark.parametrize("arguments", [(0, 1e-6, 10), (1, 0.0, 10), (1, 1.0, 10), (1, 1e-6, 0), (math.inf, 1e-6, 1)])
def test_bad_input_is_refused(arguments: tuple[float, float, int]) -> None:
    with pytest.raises(InvalidParameter):
        compare_regimes(*arguments)


@pytest.mark.parametrize(("epsilon", "pairs"), [(1, 200), (10, 2000), (50, 10_000)])
def test_mangold_is_worse_by_at_least_sqrt_2_in_epsilon_at_equal_variance(epsilon: float, pairs: int) -> None:
    rows = compare_regimes(epsilon, DELTA, pairs)
    factors = {factor.regime: factor for factor in regime_factors(rows)}
    assert list(factors) == [row.regime for row in rows if not row.regime.startswith("mangold")]
    for factor in factors.values():
        assert factor.epsilon_proven > factor.epsilon >= math.sqrt(2)
        assert factor.noise_proven > factor.noise > 1.4
    assert factors["tight"].epsilon > factors["zcdp"].epsilon > factors["zcdp-loose"].epsilon
    by_name = {row.regime: row for row in rows}
    assert factors["zcdp"].noise == by_name["mangold-published"].update_sd / by_name["zcdp"].update_sd
    json.dumps([factor.as_dict() for factor in factors.values()], allow_nan=False)


def test_a_single_release_is_better_off_with_laplace_noise() -> None:
    """Advanced composition needs many releases; the plain sum of few epsilons is below zCDP, and it is reported."""
    factors = regime_factors(compare_regimes(1.0, DELTA, 1))
    assert all(factor.epsilon < 1 for factor in factors)


def test_factors_need_both_rows_of_mangold() -> None:
    rows = compare_regimes(1, DELTA, 200)
    with pytest.raises(InvalidParameter, match="mangold-proven"):
        regime_factors([row for row in rows if row.regime != "mangold-proven"])
