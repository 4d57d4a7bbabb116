"""Fresh draws of stated noise have the stated law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd.moments import Moments, NoiseTerm, pooled

RNG = np.random.default_rng(5)
CARRY = np.array([[1.0, 0.0, 0.5], [-2.0, 1.0, 0.0], [0.3, 0.2, 0.1]])
SDS = np.array([[1.0, 0.2, 0.4], [0.2, 0.5, 0.1], [0.4, 0.1, 2.0]])
TERMS = [NoiseTerm(0.7), NoiseTerm(SDS), NoiseTerm(0.7, CARRY), NoiseTerm(SDS, CARRY)]
NAMES = ("a", "b", "c")


@pytest.mark.parametrize("term", TERMS)
def test_draws_have_the_stated_variances(term: NoiseTerm) -> None:
    rng = np.random.default_rng(1)
    draws = np.array([term.sample(rng, 3) for _ in range(20_000)])
    assert np.array_equal(draws, draws.transpose(0, 2, 1))
    stated = term.entry_variances(3)
    assert draws.var(axis=0) == pytest.approx(stated, rel=0.06)
    assert np.abs(draws.mean(axis=0) / np.sqrt(stated / len(draws))).max() < 4.5
    form = RNG.normal(size=(3, 3))
    form = form + form.T
    assert np.einsum("kij,ij->k", draws, form).var() == pytest.approx(term.form_variance(form), rel=0.06)


def test_moments_and_their_redrawn_law() -> None:
    matrix = np.diag([1.0, 2.0, 3.0])
    moments = Moments(matrix, 50, NAMES, (TERMS[0], TERMS[3]), np.ones(3))
    again = moments.redrawn(np.random.default_rng(2))
    assert moments.noise_sd is not None and again.noise_sd is not None
    assert again.noise_sd == pytest.approx(math.sqrt(2) * moments.noise_sd)
    assert again.rows == 50 and again.columns == NAMES and np.array_equal(again.mean, np.ones(3))
    fresh = sum(term.sample(generator, 3) for generator in [np.random.default_rng(2)] for term in moments.noise)
    assert np.allclose(again.matrix - matrix, fresh)
    assert len(again.noise) == 2  # still one term for each carry


def test_exact_moments_stay() -> None:
    moments = Moments(np.eye(3), 9, NAMES)
    again = moments.redrawn(np.random.default_rng(0))
    assert again.exact and np.array_equal(again.matrix, moments.matrix)


@given(st.integers(0, 1000), st.floats(0.01, 10))
def test_two_draws_are_two_independent_releases_in_law(seed: int, sd: float) -> None:
    """N + N* and N - N* are uncorrelated with variance 2 V each: pooling both gives the released moments back."""
    moments = Moments(np.eye(3), 10, NAMES, (NoiseTerm(sd, CARRY),))
    plus = moments.redrawn(np.random.default_rng(seed))
    draw = plus.matrix - moments.matrix
    minus = Moments((moments.matrix - draw + (moments.matrix - draw).T) / 2, 10, NAMES, plus.noise)
    both = pooled([plus, minus])
    assert both.matrix == pytest.approx(moments.matrix)
    assert both.noise_sd == pytest.approx(moments.noise_sd)
