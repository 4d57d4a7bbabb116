"""Claims as curves: against definitions, by brute force, and against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import laplace, norm

from privfcd.accounting import (
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    ZCDpEvent,
    compose,
    zcdp_to_delta,
)
from privfcd.audits import Claim
from privfcd.errors import InvalidParameter

TAIL = np.geomspace(1e-9, 0.01, 300)
Q = np.concatenate([[0.0], TAIL, np.linspace(0.01, 0.99, 4000)[1:-1], 1 - TAIL[::-1], [1.0]])
CLAIMS = [
    Claim(epsilon=1.0),
    Claim(epsilon=0.0),
    Claim(epsilon=1.0, delta=0.01),
    Claim(mu=0.7),
    Claim(event=BoundedRangeDpEvent(1.3)),
    Claim(event=LaplaceDpEvent(0.8)),
    Claim(event=compose([(BoundedRangeDpEvent(0.4), 5), (GaussianDpEvent(3.0), 2)])),
    Claim(event=compose([(BoundedRangeDpEvent(0.2), 3), (LaplaceDpEvent(4.0), 1)])),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_a_curve_rises_from_chance_and_is_concave(claim: Claim) -> None:
    curve = claim.curve(Q)
    assert np.all(curve >= Q - 1e-12)
    assert np.all(np.diff(curve) >= -1e-12)
    slopes = np.diff(curve) / np.diff(Q)
    assert np.all(np.diff(slopes) <= 1e-6 * np.abs(slopes[:-1]) + 1e-4)
    assert curve[-1] == pytest.approx(1)


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_the_profile_is_the_gap_of_the_curve(claim: Claim) -> None:
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        gap = float(np.max(claim.curve(Q) - math.exp(epsilon) * Q))
        assert gap <= claim.delta_at(epsilon) + (1e-4 if claim.kind == "event" else 1e-12)  # on a grid of epsilons
        # A composition's curve may be below the line of one of its points: it is the smallest over all of them, so that
        # only simple claims, whose curve is exact, attain the profile everywhere.
        if claim.event is None or claim.event in (BoundedRangeDpEvent(1.3), LaplaceDpEvent(0.8)):
            assert gap == pytest.approx(claim.delta_at(epsilon), rel=2e-3, abs=1e-7)


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_epsilon_at_inverts_delta_at(claim: Claim) -> None:
    for delta in (0.0, 1e-9, 1e-4, 0.01, 0.1, 0.3):
        epsilon = claim.epsilon_at(delta)
        if math.isfinite(epsilon):
            assert claim.delta_at(epsilon) <= delta * (1 + 1e-9) + 1e-15
            if epsilon > 1e-6:
                assert claim.delta_at(epsilon * (1 - 1e-6)) >= delta * (1 - 1e-6)


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
def test_gaussian_curve_is_that_of_two_normal_laws(mu: float) -> None:
    thresholds = np.linspace(-5, 5 + mu, 200)
    np.testing.assert_allclose(Claim(mu=mu).curve(norm.sf(thresholds)), norm.sf(thresholds - mu), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_laplace_curve_is_that_of_two_laplace_laws(epsilon: float) -> None:
    thresholds = np.linspace(-8, 8 + epsilon, 400)
    curve = Claim(event=LaplaceDpEvent(1 / epsilon)).curve(laplace.sf(thresholds))
    np.testing.assert_allclose(curve, laplace.sf(thresholds - epsilon), rtol=1e-9, atol=1e-12)


def test_pure_curve_is_that_of_randomised_response() -> None:
    claim = Claim(epsilon=1.0)
    keep = math.e / (1 + math.e)
    assert float(claim.curve(1 - keep)) == pytest.approx(keep)
    assert claim.delta_at(0.0) == pytest.approx(2 * keep - 1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-1, 1)), min_size=2, max_size=6),
    st.floats(0.2, 3.0),
)
def test_no_exponential_mechanism_leaves_the_selection_curve(
    candidates: list[tuple[float, float]], scale: float
) -> None:
    """All events of all pairs: subsets of the candidates, scores that move by up to 1 in either direction."""
    scores = np.array([score for score, _ in candidates])
    moves = np.array([move for _, move in candidates])
    first, second = (np.exp((s - s.max()) / scale) for s in (scores, scores + moves))
    first, second = first / first.sum(), second / second.sum()
    subsets = (np.arange(2 ** len(scores))[:, None] >> np.arange(len(scores))) & 1
    claim = Claim(event=BoundedRangeDpEvent(2 / scale))
    assert np.all(subsets @ second <= claim.curve(subsets @ first) + 1e-12)
    assert np.all(subsets @ first <= claim.curve(subsets @ second) + 1e-12)


@pytest.mark.parametrize("eta", [0.3, 1.0, 4.0])
def test_two_candidates_attain_the_selection_curve_and_profile(eta: float) -> None:
    p = np.linspace(1e-6, 1 - 1e-6, 100_001)
    raised = p * math.exp(eta) / (1 - p + p * math.exp(eta))
    claim = Claim(event=BoundedRangeDpEvent(eta))
    np.testing.assert_allclose(claim.curve(p), raised, rtol=1e-12)
    for epsilon in (0.0, eta / 3, 0.9 * eta):
        assert claim.delta_at(epsilon) == pytest.approx(np.max(raised - math.exp(epsilon) * p), rel=1e-6)
        # the one-step recursion: max over t of p_t (1 - exp(epsilon - t)), p_t = (1 - e^(t - eta)) / (1 - e^-eta)
        t = np.linspace(epsilon, eta, 100_001)
        step = np.expm1(t - eta) / np.expm1(-eta) * -np.expm1(epsilon - t)
        assert claim.delta_at(epsilon) == pytest.approx(step.max(), rel=1e-6)


def test_a_selection_is_not_held_against_the_gaussian_of_its_rho() -> None:
    """Its curve leaves that of mu = sqrt(2 rho), rho = eta²/8, which zCDP does not imply."""
    eta = 1.0
    gaussian = Claim(mu=eta / 2)
    assert np.any(Claim(event=BoundedRangeDpEvent(eta)).curve(Q) > gaussian.curve(Q) + 1e-3)


def test_composition_allows_what_its_parts_do() -> None:
    """Three selections on fixed two-candidate pairs, by enumeration of all outcomes."""
    eta, claim = 0.5, Claim(event=compose([(BoundedRangeDpEvent(0.5), 3)]))
    for p in (0.1, 0.4378, 0.7):
        raised = p * math.exp(eta) / (1 - p + p * math.exp(eta))
        counts = np.arange(4)
        ways = np.array([1, 3, 3, 1])
        first, second = (ways * x**counts * (1 - x) ** (3 - counts) for x in (p, raised))
        fpr, tpr = np.cumsum(first[::-1]), np.cumsum(second[::-1])
        assert np.all(tpr <= claim.curve(fpr) + 1e-12)


def test_composition_curve_never_exceeds_the_pure_one() -> None:
    parts = compose([(BoundedRangeDpEvent(0.2), 3), (LaplaceDpEvent(4.0), 1)])
    assert np.all(Claim(event=parts).curve(Q) <= Claim(epsilon=0.85 * (1 + 1e-12)).curve(Q) + 1e-9)


def test_from_event_finds_the_simplest_claim() -> None:
    gaussians = compose([(GaussianDpEvent(2.0), 3), (GaussianDpEvent(4.0), 1)])
    assert Claim.from_event(gaussians).mu == pytest.approx(math.sqrt(3 / 4 + 1 / 16))
    assert Claim.from_event(EpsilonDeltaDpEvent(1.0, 1e-5)) == Claim(epsilon=1.0, delta=1e-5)
    assert Claim.from_event(NoOpDpEvent()) == Claim(epsilon=0.0)
    assert Claim.from_event(BoundedRangeDpEvent(1.0)).kind == "event"


def test_where_epsilon_is_reported() -> None:
    assert (Claim(epsilon=2.0).report_delta, Claim(epsilon=2.0).report_epsilon) == (0.0, 2.0)
    assert Claim(mu=1.0).report_delta == 1e-6
    assert Claim(mu=1.0, delta=1e-3).report_delta == 1e-3
    selection = Claim(event=BoundedRangeDpEvent(0.5))
    assert (selection.report_delta, selection.report_epsilon) == (0.0, 0.5)
    zcdp = Claim(event=ZCDpEvent(0.1))
    assert zcdp.report_delta == 1e-6
    assert zcdp.delta_at(1.0) == pytest.approx(zcdp_to_delta(0.1, 1.0))


def test_as_gaussian_just_satisfies_the_point() -> None:
    gaussian = Claim(epsilon=1.0, delta=1e-5).as_gaussian()
    assert gaussian.mu == pytest.approx(1 / 3.7306316348, rel=1e-9)
    assert gaussian.delta_at(1.0) == pytest.approx(1e-5, rel=1e-9)
    assert Claim(epsilon=1.0).as_gaussian() == Claim(epsilon=1.0)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"epsilon": 1.0, "mu": 1.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": True},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": -0.1},
        {"mu": -1.0},
        {"mu": math.nan},
        {"event": NonPrivateDpEvent()},
        {"event": GaussianDpEvent(0.0)},
        {"event": GaussianDpEvent(math.nan)},
        {"event": EpsilonDeltaDpEvent(1.0, 0.1)},
        {"event": "gaussian"},
    ],
)
def test_what_claims_nothing_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        Claim(**arguments)  # type: ignore[arg-type]


def test_as_dict_and_text() -> None:
    assert Claim(epsilon=1.0, delta=1e-5).as_dict() == {
        "kind": "approximate",
        "epsilon": 1.0,
        "delta": 1e-5,
        "mu": None,
        "event": None,
    }
    assert str(Claim(epsilon=1.0)) == "epsilon = 1"
    assert "mu = 0.5" in str(Claim(mu=0.5)) and "delta = 1e-06" in str(Claim(mu=0.5))
