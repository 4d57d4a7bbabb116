"""Scales from noisy histograms of octaves."""

from __future__ import annotations

import numpy as np
import pytest

from privfcd.data.histogram import OctaveHistogram
from privfcd.moments.octaves import column_scales


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
def test_scales_of_gaussian_columns(noise: float) -> None:
    """Within 2.2 percent by the grid, and about noise / 0.4 by the noise: 6 sd of the mean over 40 columns."""
    rng = np.random.default_rng(1)
    scales = np.exp2(rng.uniform(-20, 20, size=40))
    shares = OctaveHistogram(40).evaluate(rng.normal(size=(4000, 40)) * scales)[:40]
    found = column_scales(shares + rng.normal(scale=noise, size=shares.shape))
    errors = np.log(found / scales)
    assert np.abs(errors).max() < 0.06 + 5 * noise / 0.4
    assert abs(errors.mean()) < 0.006 + 6 * noise / 0.4 / np.sqrt(40)


def test_no_column_has_no_scale() -> None:
    shares = np.random.default_rng(2).normal(scale=0.02, size=(5, 81))
    assert np.isfinite(column_scales(shares)).all() and (column_scales(shares) > 0).all()
