"""Pairs from elsewhere: dp_accounting's, numbers, and secret samples; against outcomes spelled out, and dp_accounting."""

from __future__ import annotations

import itertools
import math

import pytest
from dp_accounting import NeighboringRelation, PoissonSampledDpEvent, UnsupportedEventError
from dp_accounting.dp_event import SampledWithoutReplacementDpEvent
from dp_accounting.pld import PLDAccountant

from privfcd.accounting import (
    BoundedRangeDpEvent,
    Budget,
    DpEvent,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PrivacyLossDpEvent,
    PureDPAccountant,
    TightAccountant,
    ZCDPAccountant,
    leaves,
)
from privfcd.errors import InvalidParameter
from privfcd.ledger import Ledger

ADDED = NeighboringRelation.ADD_OR_REMOVE_ONE


def hockey(p: list[float], q: list[float], epsilon: float) -> float:
    return math.fsum(max(0.0, one - math.exp(epsilon) * two) for one, two in zip(p, q, strict=True))


def product(laws: list[list[float]]) -> list[float]:
    return [math.prod(masses) for masses in itertools.product(*laws)]


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("count", [1, 4])
def test_a_secret_sample_of_randomised_response_is_its_mixture(epsilon: float, count: int) -> None:
    """The worst pair of the sampled answer is (q P + (1 - q) Q, Q), or the same exchanged."""
    right, share = 1 / (1 + math.exp(-epsilon)), 0.1
    p, q = [right, 1 - right], [1 - right, right]
    mixed = [share * one + (1 - share) * two for one, two in zip(p, q, strict=True)]
    event = SampledWithoutReplacementDpEvent(1000, 100, EpsilonDeltaDpEvent(epsilon, 0.0))
    accountant = TightAccountant().compose(event, count)
    for target in (0.0, 0.3 * share, 0.05, 0.2):
        exact = max(
            hockey(product([mixed] * count), product([q] * count), target),
            hockey(product([q] * count), product([mixed] * count), target),
        )
        assert accountant.get_delta(target) >= exact * (1 - 1e-9)
        if count == 1:
            assert accountant.get_delta(target) <= exact * 1.02 + 1e-6
    assert PureDPAccountant().compose(event).get_epsilon() == pytest.approx(math.log1p(share * math.expm1(epsilon)))


@pytest.mark.parametrize("inner", [GaussianDpEvent(1.5), LaplaceDpEvent(1.0), EpsilonDeltaDpEvent(1.0, 0.0)])
def test_samples_of_all_rows_change_nothing_and_smaller_ones_cost_less(inner: DpEvent) -> None:
    def cost(event: DpEvent) -> float:
        return TightAccountant().compose(event, 20).get_epsilon(1e-6)

    costs = [cost(SampledWithoutReplacementDpEvent(1000, size, inner)) for size in (1, 10, 100, 1000)]
    assert costs == sorted(costs)
    assert costs[-1] == pytest.approx(cost(inner), rel=1e-5)
    assert costs[1] < costs[-1] / 20
    sampled = SampledWithoutReplacementDpEvent(1000, 100, inner)
    assert ZCDPAccountant().compose(sampled).rho == ZCDPAccountant().compose(inner).rho
    below, above = TightAccountant().compose(sampled, 20).gap(1e-6)
    assert below <= above


def test_numbers_are_what_they_describe() -> None:
    epsilon = 0.4
    right = 1 / (1 + math.exp(-epsilon))
    given = PrivacyLossDpEvent([epsilon, -epsilon], [right, 1 - right])
    same = EpsilonDeltaDpEvent(epsilon, 0.0)
    for count, delta in ((1, 0.01), (5, 1e-3), (40, 1e-8)):
        numbers = TightAccountant().compose(given, count).compose(GaussianDpEvent(3.0)).get_epsilon(delta)
        exact = TightAccountant().compose(same, count).compose(GaussianDpEvent(3.0)).get_epsilon(delta)
        assert exact * (1 - 1e-5) <= numbers <= exact * (1 + 1e-3)
    # an outcome that only one table can give: P has it with 0.001, Q never, and in reverse with 0.002
    one_sided = PrivacyLossDpEvent([0.0, math.inf], [0.999, 0.001], [0.0, math.inf], [0.998, 0.002])
    accountant = TightAccountant().compose(one_sided, 3).compose(BoundedRangeDpEvent(0.1), 5)
    assert accountant.get_epsilon(5.9e-3) == math.inf
    assert math.isfinite(accountant.get_epsilon(6.1e-3))
    assert TightAccountant().compose(one_sided, 3).get_delta(1.0) == pytest.approx(6e-3, rel=1e-6)


@pytest.mark.parametrize(
    "event,name",
    [
        (PrivacyLossDpEvent([0.1], [1.5]), "masses"),
        (PrivacyLossDpEvent([0.1, 0.2], [1.0]), "masses"),
        (PrivacyLossDpEvent([-0.5], [1.0]), "masses"),
        (PrivacyLossDpEvent("01", [1.0]), "losses"),
        (PrivacyLossDpEvent([True], [1.0]), "losses"),
        (PrivacyLossDpEvent([0.1], [1.0], [0.1]), "reverse_masses"),
        (SampledWithoutReplacementDpEvent(10, 11, GaussianDpEvent(1.0)), "sample_size"),
        (SampledWithoutReplacementDpEvent(10, 2, GaussianDpEvent(True)), "noise_multiplier"),  # type: ignore[arg-type]
        (PoissonSampledDpEvent(1.5, GaussianDpEvent(1.0)), "sampling_probability"),
    ],
)
def test_what_no_pair_can_have_is_refused_by_name(event: DpEvent, name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        leaves(event)


def test_poisson_samples_are_dp_accountings_and_compose_with_selections() -> None:
    event = PoissonSampledDpEvent(0.1, LaplaceDpEvent(2.0))
    ours = TightAccountant(ADDED).compose(event, 20)
    theirs = PLDAccountant(ADDED).compose(event, 20).get_epsilon(1e-6)
    assert theirs * (1 - 1e-3) <= ours.get_epsilon(1e-6) <= theirs * (1 + 1e-4)
    more = TightAccountant(ADDED).compose(event, 20).compose(BoundedRangeDpEvent(0.1), 3)
    assert ours.get_epsilon(1e-6) < more.get_epsilon(1e-6) <= ours.get_epsilon(1e-6) + 0.3


def test_relations_and_ledgers_that_cannot_hold_a_sample_refuse_it() -> None:
    poisson = PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0))
    sample = SampledWithoutReplacementDpEvent(100, 10, GaussianDpEvent(1.0))
    assert not TightAccountant().supports(poisson)
    assert not TightAccountant(ADDED).supports(sample)
    assert not TightAccountant().supports(SampledWithoutReplacementDpEvent(100, 10, poisson))
    with pytest.raises(UnsupportedEventError):
        TightAccountant(ADDED).compose(sample)
    numbers = PrivacyLossDpEvent([0.1, -0.1], [0.525, 0.475])
    for budget in (Budget(1), Budget(rho=1), Budget(1, 1e-6)):
        for event in (numbers, poisson):  # nothing bounds what they cost a run that chooses as it goes
            with pytest.raises(InvalidParameter):
                Ledger(budget).charge(event)
    assert Ledger(Budget(1, 1e-6)).reserve(numbers).entry.spent["epsilon"] > 0
    # adaptive spends from a sample cost what the release costs without it
    ledger = Ledger(Budget(rho=1))
    ledger.charge(sample)
    assert ledger.spent()["rho"] == pytest.approx(0.5)
