"""Scales from noisy histograms of octaves."""

from __future__ import annotations

import numpy as np
import pytest

from privfcd.data.histogram import OctaveHistogram
from privfcd.moments.octaves import column_scales, upper_bounds


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
def test_scales_of_gaussian_columns(noise: float) -> None:
    """Within 2.2 percent by the grid, and about noise / 0.4 by the noise: 6 sd of the mean over 40 columns."""
    rng = np.random.default_rng(1)
    scales = np.exp2(rng.uniform(-20, 20, size=40))
    shares = OctaveHistogram(40).evaluate(rng.normal(size=(4000, 40)) * scales)[:40]
    found = column_scales(shares + rng.normal(scale=noise, size=shares.shape), noise)
    errors = np.log(found / scales)
    assert np.abs(errors).max() < 0.06 + 5 * noise / 0.4
    assert abs(errors.mean()) < 0.006 + 6 * noise / 0.4 / np.sqrt(40)


def test_no_column_has_no_scale() -> None:
    shares = np.random.default_rng(2).normal(scale=0.02, size=(5, 81))
    assert np.isfinite(column_scales(shares, 0.0)).all() and (column_scales(shares, 0.0) > 0).all()


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.02])
def test_zeros_say_nothing_of_the_size_of_the_rest(noise: float) -> None:
    """A flag that is mostly 0 has bounds of its ones; the scale of a column that is 0 for half of the records is of all."""
    rng = np.random.default_rng(3)
    flag = (rng.random(4000) < 0.2).astype(float)
    half = rng.normal(size=4000) * (rng.random(4000) < 0.5) * 8.0
    shares = OctaveHistogram(3).evaluate(np.c_[flag, half, np.zeros(4000)])[:3]
    noisy = shares + rng.normal(scale=noise, size=shares.shape)
    bounds = upper_bounds(noisy, noise)
    assert 1 <= bounds[0] <= 4 and 16 <= bounds[1] <= 64
    assert column_scales(noisy, noise)[1] == pytest.approx(8 * np.sqrt(0.5), rel=0.15 + 4 * noise)
    assert bounds[2] < 1e-9 or noise > 0  # nothing but zeros: no size at all


@pytest.mark.parametrize("prevalence", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
def test_a_rare_flag_is_never_clipped_away(prevalence: float, noise: float) -> None:
    """Whatever the noise hides of its ones: 4e-12 was the bound in 97 of 100 draws at 10 % and noise .03."""
    rng = np.random.default_rng(4)
    flags = (rng.random((4000, 2)) < prevalence).astype(float)
    shares = OctaveHistogram(5).evaluate(np.c_[flags, rng.normal(size=(4000, 3))])
    for _ in range(100):
        bounds = upper_bounds(shares + rng.normal(scale=noise, size=shares.shape), noise)
        assert (bounds[:2] >= 1).all() and (bounds[:2] <= 64).all()
