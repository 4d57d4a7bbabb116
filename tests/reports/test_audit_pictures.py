"""Pictures of audits, attacks and checks: what they draw, and what they refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from privfcd.audits import Claim, audit, check_sampler, compare_regimes, regime_factors, search_sensitivity
from privfcd.audits.attack import attack_covariance
from privfcd.data.queries import ClippedMean
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Gaussian, Laplace, SimulatedNoise
from privfcd.reports import draw_attack, draw_audit, draw_regimes, draw_sampler, draw_sensitivities


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_an_audit_of_each_verdict_is_drawn_with_its_curve_and_corner(tmp_path: Path, scale: float) -> None:
    report = audit(Laplace(scale), Claim(epsilon=1.0), runs=2000)
    draw_audit(report, tmp_path / "audit.svg")
    text = (tmp_path / "audit.svg").read_text()
    assert text.startswith("<?xml") and len(text) > 20_000


def test_curves_of_every_kind_of_claim_are_drawn(tmp_path: Path) -> None:
    for index, claim in enumerate((Claim(mu=1.0), Claim(epsilon=1.0, delta=1e-5), None)):
        draw_audit(audit(Gaussian(2.0), claim, runs=500), tmp_path / f"{index}.png")
    assert len(list(tmp_path.iterdir())) == 3


def test_one_row_of_panels_for_each_number_of_columns(tmp_path: Path) -> None:
    reports = attack_covariance(3, 40, ["fed-bnsl", "dp-fed-bnsl"]) + attack_covariance(5, 40, ["fed-bnsl"])
    draw_attack(reports[:2], tmp_path / "one.png")
    draw_attack(reports, tmp_path / "two.png")
    import matplotlib.image as image

    assert image.imread(tmp_path / "two.png").shape[0] == 2 * image.imread(tmp_path / "one.png").shape[0]


def test_checks_and_regimes_are_drawn(tmp_path: Path) -> None:
    found = [search_sensitivity(ClippedMean((1.0, 2.0)), 5, 2, evaluations=60)]
    draw_sensitivities(found, tmp_path / "s.png")
    draw_sampler(check_sampler(SimulatedNoise(1), draws=10_000), tmp_path / "n.png")
    rows = compare_regimes(1.0, 1e-6, 100)
    both = [[{"pairs": 100, **one.as_dict()} for one in part] for part in (rows, regime_factors(rows))]
    draw_regimes(both[0], tmp_path / "plain.png", epsilon=1.0, delta=1e-6)
    draw_regimes(both[0], tmp_path / "factors.png", epsilon=1.0, delta=1e-6, factors=both[1])
    import matplotlib.image as image

    assert image.imread(tmp_path / "factors.png").shape[1] > image.imread(tmp_path / "plain.png").shape[1]


def test_nothing_to_draw_and_other_formats_are_refused(tmp_path: Path) -> None:
    for draw in (draw_attack, draw_sensitivities):
        with pytest.raises(InvalidParameter, match="at least one"):
            draw([], tmp_path / "x.png")
    report = audit(Laplace(1.0), runs=100)
    with pytest.raises(InvalidParameter, match=r"\.png, \.svg or \.pdf"):
        draw_audit(report, tmp_path / "x.txt")
    assert not list(tmp_path.iterdir())


def test_a_missing_matplotlib_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidParameter, match="pip install"):
        draw_audit(audit(Laplace(1.0), runs=100), tmp_path / "x.png")
    assert np.array_equal(list(tmp_path.iterdir()), [])
