"""`sum="secure"` in one process: the trusted sum's law but for P / h, what is charged, told and refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

import privfcd as pf
from privfcd.accounting import ADD_OR_REMOVE_ONE, gaussian_event
from privfcd.accounting.calibration import epsilon_of
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.release import messages, release_moments
from privfcd.algorithms.release.coordinator import ReleaseCoordinator
from privfcd.algorithms.release.party import ReleaseParty
from privfcd.algorithms.release.secure import SecureFederation
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.release.whitening import structure_whitening
from privfcd.algorithms.secure.seat import seats_for
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.mechanisms import SecureNoise, SimulatedNoise
from privfcd.reports import report_html

USUAL = pf.Budget(epsilon=5, delta=1e-6)
ROWS = (400, 900, 2000, 300)
pytestmark = pytest.mark.filterwarnings("ignore:the rows of")
COUNT = itertools.count()
Made = Callable[..., list[pf.PrivateTable]]


def tables(
    sizes: tuple[int, ...] = ROWS,
    d: int = 4,
    budget: pf.Budget | None = USUAL,
    noise: Any = None,
    relation: Any = None,
) -> list[pf.PrivateTable]:
    rows = linear_gaussian(d, parties=len(sizes), rows=list(sizes), seed=3).tables
    more = {} if relation is None else {"relation": relation}
    return [
        pf.PrivateTable(
            part,
            name=f"ward {index}" if noise is None else f"ward {index} {next(COUNT)}",
            budget=budget,
            noise=SimulatedNoise(1) if noise is None else noise,
            bounds=8.0,
            declared_rows=None if relation is None else len(part) + 7,
            **more,
        )
        for index, part in enumerate(rows)
    ]


RICH = pf.Budget(rho=1e10)


@pytest.mark.parametrize("method", ["covariance", "preconditioned"])
@pytest.mark.parametrize("center", [False, True, "mean"])
@pytest.mark.parametrize("noise", [SimulatedNoise(2), SecureNoise()])
def test_with_hardly_any_noise_it_is_the_trusted_sum(method: str, center: Any, noise: Any) -> None:
    made = [
        release_moments(tables(budget=RICH, noise=noise), sum=kind, method=method, center=center).moments
        for kind in ("trusted", "secure")
    ]
    assert made[1].rows == sum(ROWS)
    pairs = 0.05 if method == "preconditioned" and center is True else 0.01  # of records in other secret orders
    assert np.abs(made[1].matrix - made[0].matrix).max() < pairs * np.abs(made[0].matrix).max()
    if method == "covariance":  # the same records are clipped: only noise differs
        assert np.abs(made[1].matrix - made[0].matrix).max() < 1e-3


@pytest.mark.parametrize("terms", [(1, 0), (0, 0), (2, 0), (1, 1)])
def test_the_noise_is_what_is_stated_and_p_over_h_of_the_trusted_ones(terms: tuple[int, int]) -> None:
    """Over 60 columns, against the same release without noise: chi-square of 1830 entries, 5 standard errors."""
    colluders, dropouts = terms
    one = {"method": "covariance", "row_norm": 8.0, "center": False}
    exact = release_moments(tables(d=60, budget=RICH), sum="trusted", **one).moments.matrix
    trusted = release_moments(tables(d=60), sum="trusted", **one).moments
    secure = release_moments(tables(d=60), sum="secure", colluders=colluders, dropouts=dropouts, **one).moments
    assert secure.noise_sd is not None and trusted.noise_sd is not None
    factor = math.sqrt(4 / (4 - colluders - dropouts))
    assert (secure.noise_sd / trusted.noise_sd) == pytest.approx(factor, rel=1e-6)
    upper = np.triu_indices(60)
    z = ((secure.matrix - exact) / secure.noise_sd)[upper]
    assert abs(float((z**2).mean()) - 1) < 5 * math.sqrt(2 / len(z))


def test_noise_that_colluders_do_not_know_is_what_is_charged() -> None:
    """The sum less the share of one colluder, which simulated noise lets us compute, still has the event's noise."""
    d = 60
    one = {"method": "covariance", "row_norm": 8.0, "center": False}
    made = tables(d=d)
    exact = release_moments(tables(d=d, budget=RICH), sum="trusted", **one).moments.matrix
    found = release_moments(made, sum="secure", colluders=1, **one)
    share = found.parts[0].noise_sd
    assert share is not None
    own = share / math.sqrt(4)  # of four equal shares
    drawn = SimulatedNoise(1).stream(0, 1).gaussian(np.zeros(d * (d + 1) // 2), np.ones(d * (d + 1) // 2))
    upper = np.triu_indices(d)
    rest = (found.moments.matrix - exact)[upper] - drawn * own[upper]
    multiplier = float(found.privacy_report[0].parts[0].event.split("=")[1].rstrip(")"))
    charged = share[0, 0] * math.sqrt(3 / 4)
    assert charged == pytest.approx(multiplier * math.sqrt(2) * 64 / sum(ROWS), rel=1e-6)
    z = rest / (share[upper] * math.sqrt(3 / 4))
    assert abs(float((z**2).mean()) - 1) < 5 * math.sqrt(2 / len(z))


def test_every_party_is_charged_as_for_a_trusted_sum_and_told_what_remains_if_all_others_collude() -> None:
    made, plain = tables(), tables()
    found = release_moments(made, sum="secure")
    release_moments(plain, sum="trusted")
    for one, other, report in zip(made, plain, found.privacy_report, strict=True):
        assert one.ledger.spent()["epsilon"] == pytest.approx(other.ledger.spent()["epsilon"], rel=1e-8)
        text = str(report)
        assert "ONE NOISE for the sum over 4 parties" in text and "up to 1 of the other parties" in text
        assert "played all parties" in text  # one process saw all tables
        alone = epsilon_of(gaussian_event(1.0, 1 / (_mu(plain) * math.sqrt(3))), 1e-6)
        line = next(line for line in text.splitlines() if "If all other parties collude" in line)
        assert float(line.split("epsilon = ")[1].split(" at")[0]) == pytest.approx(alone, rel=1e-3)
    about = found.rule["secure sum"]
    assert about["parties"] == [table.name for table in made] and about["lost"] == []


def _mu(made: list[pf.PrivateTable]) -> float:
    fresh = tables()
    parties = [ReleaseParty([fresh[0]], 0)]
    settings = ReleaseSettings(method="covariance", row_norm=8.0)
    return ReleaseCoordinator(settings, fresh[0].columns, structure_whitening).offer(LocalFederation(parties))[0].mu


def test_the_smallest_budget_decides() -> None:
    made = tables()
    rows = linear_gaussian(4, parties=4, rows=list(ROWS), seed=3).tables
    budget = pf.Budget(epsilon=1, delta=1e-6)
    poor = pf.PrivateTable(rows[1], name="poor", budget=budget, noise=SimulatedNoise(1), bounds=8.0)
    found = release_moments([made[0], poor, *made[2:]], sum="secure", method="covariance", row_norm=8.0)
    reports = {report.party: report for report in found.privacy_report}
    assert reports["poor"].epsilon == pytest.approx(1, rel=1e-3)
    assert reports["ward 0"].epsilon <= 1.001


def test_records_may_be_added_or_removed() -> None:
    found = release_moments(
        tables(relation=ADD_OR_REMOVE_ONE, budget=RICH), sum="secure", method="covariance", row_norm=8.0, center=False
    )
    exact = release_moments(
        tables(relation=ADD_OR_REMOVE_ONE, budget=RICH), sum="trusted", method="covariance", row_norm=8.0, center=False
    )
    assert found.moments.rows == sum(ROWS) + 28
    assert np.abs(found.moments.matrix - exact.moments.matrix).max() < 1e-3


def test_a_fit_is_repeated_by_the_seed_although_masks_are_not() -> None:
    first, second = (release_moments(tables(), sum="secure").moments.matrix for _ in range(2))
    assert (first == second).all()


LEARNERS = {
    "equal-variance": lambda: pf.EqualVarianceSearch(sum="secure"),
    "ges": lambda: pf.GES(sum="secure", colluders=2),
    "pc": lambda: pf.PC(sum="secure", dropouts=1),
    "notears": lambda: pf.NOTEARS(sum="secure"),
    "fedacd": lambda: pf.FedACD(sum="secure"),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_learn_from_one_sum(name: str) -> None:
    model = LEARNERS[name]().fit(tables(budget=pf.Budget(epsilon=50, delta=1e-6)))
    assert len(model.released_moments_) == 1
    assert all("ONE NOISE" in str(report) for report in model.privacy_report_)


def test_a_plan_says_what_secure_sums_have_and_would_have() -> None:
    made = tables()
    would = pf.plan_run(pf.GES(), made, rehearse=False)
    assert any("1.7 times smaller (colluders=1, dropouts=0)" in note for note in would.notes)
    plan = pf.plan_run(pf.GES(sum="secure"), made, rehearse=False)
    assert any("ONE NOISE" in note and "1.7 times less" in note for note in plan.notes)
    assert [part.ledger.spent() for part in made] == [{"epsilon": 0.0, "delta": 0.0}] * 4
    most = plan.most_bytes if hasattr(plan, "most_bytes") else plan.most
    fitted = pf.GES(sum="secure").fit(made)
    assert most is None or fitted.bytes_exchanged_ <= most


REFUSED = {
    "open tables": (lambda: release_moments(tables(budget=None), sum="secure"), "exact"),
    "open tables, another method": (
        lambda: release_moments(tables(budget=None), sum="secure", method="covariance"),
        "without a budget",
    ),
    "two parties": (lambda: release_moments(tables((300, 300)), sum="secure"), "at least 3 parties"),
    "one": (lambda: release_moments(tables((600,)), sum="secure"), "at least 3 parties"),
    "no gain": (lambda: release_moments(tables(), sum="secure", colluders=3), "per-party"),
    "no shares": (lambda: release_moments(tables(), sum="secure", colluders=0, dropouts=2), "declare at most 1"),
    "kept": (lambda: release_moments(tables(), sum="secure", send=False), "send"),
    "half a colluder": (lambda: release_moments(tables(), sum="secure", colluders=0.5), "colluders"),
    "another learner": (lambda: pf.GES(sum="secret").fit(tables()), "sum"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_before_the_charge(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(InvalidParameter, match=words):
        call()


def test_both_relations_have_no_common_sum() -> None:
    mixed = [*tables()[:3], tables(relation=ADD_OR_REMOVE_ONE)[3]]
    with pytest.raises(InvalidParameter, match="one neighbouring relation"):
        release_moments(mixed, sum="secure", method="covariance", row_norm=8.0)
    assert mixed[0].ledger.spent() == {"epsilon": 0.0, "delta": 0.0}


def test_sums_that_do_not_fit_into_64_bits_are_refused_before_the_charge() -> None:
    huge = tables(relation=ADD_OR_REMOVE_ONE, budget=pf.Budget(rho=1e10))
    for table in huge:
        table.n_rows = 2**50
    with pytest.raises(InvalidParameter, match="64 bits"):
        release_moments(huge, sum="secure", method="covariance", row_norm=8.0, center=False)
    assert huge[0].ledger.spent() == {"rho": 0.0}


def _parties(
    made: list[pf.PrivateTable], most_alone: float | None = None
) -> tuple[list[ReleaseParty], SecureFederation]:
    parties = [ReleaseParty([table], index) for index, table in enumerate(made)]
    for party, seat in zip(parties, seats_for([table.name for table in made]), strict=True):
        party.seat = seat
        seat.most_alone = most_alone
    return parties, SecureFederation(LocalFederation(parties), [table.name for table in made])


SETTINGS = ReleaseSettings(method="covariance", row_norm=8.0, sum="secure")


def _planned(made: list[pf.PrivateTable], most_alone: float | None = None) -> list[ReleaseParty]:
    parties, federation = _parties(made, most_alone)
    coordinator = ReleaseCoordinator(SETTINGS, made[0].columns, structure_whitening)
    coordinator.plan(federation, coordinator.offer(federation))
    coordinator.charge(federation)
    return parties


def test_a_party_has_a_limit_of_its_own_on_what_is_left_if_all_others_collude() -> None:
    _planned(tables(), 20.0)
    made = tables()
    with pytest.raises(InvalidParameter, match="up to epsilon = 6 if all other parties collude"):
        _planned(made, 6.0)
    assert made[0].ledger.spent() == {"epsilon": 0.0, "delta": 0.0}


def test_a_party_of_secure_sums_gives_no_answer_of_its_own() -> None:
    """Its share of the noise alone is less than what is charged."""
    party = _planned(tables())[0]
    for question in (
        messages.AskMoments("second moments, clipped", 8.0, None, None),
        messages.AskMean((8.0,) * 4),
        messages.AskHistogram("histogram of octaves (bounds)", None),
    ):
        with pytest.raises(PartyFailed, match="answer of its own"):
            party.answer(question)


def test_a_party_without_a_seat_or_terms_takes_part_in_no_sum() -> None:
    made = tables()
    party = ReleaseParty([made[0]], 0)
    party.answer(messages.Offer(SETTINGS, made[0].columns))
    with pytest.raises(PartyFailed, match="no seat"):
        party.answer(messages.AskSeat())
    party.seat = seats_for([table.name for table in made])[0]
    with pytest.raises(PartyFailed, match="before it knew who takes part"):
        party.answer(messages.Plan((("second moments, clipped", 0.9), ("mean", 0.1))))


def test_sums_are_paid_for_first_and_asked_once() -> None:
    made = tables()
    _, federation = _parties(made)
    coordinator = ReleaseCoordinator(SETTINGS, made[0].columns, structure_whitening)
    coordinator.plan(federation, coordinator.offer(federation))
    ask = messages.AskMoments("second moments, clipped", 8.0, None, None)
    with pytest.raises(PartyFailed, match="before it was charged"):
        federation.ask(ask)
    _, federation = _parties(tables())
    coordinator.plan(federation, coordinator.offer(federation))
    coordinator.charge(federation)
    federation.ask(ask)
    with pytest.raises(Exception, match=r"drawn|left"):
        federation.ask(ask)


def _lied(made: list[pf.PrivateTable], lie: Callable[[int, Any], Any]) -> None:
    """Run one sum with a coordinator that tells each party something else."""
    parties, federation = _parties(made)

    class Lying(LocalFederation):
        def ask(self, message: Any, check: Any = None) -> list[Any]:
            return [party.answer(lie(place, message)) for place, party in enumerate(parties)]

    federation._inner = Lying(parties)
    coordinator = ReleaseCoordinator(SETTINGS, made[0].columns, structure_whitening)
    coordinator.plan(federation, coordinator.offer(federation))
    coordinator.charge(federation)
    federation.ask(messages.AskMoments("second moments, clipped", 8.0, None, None))


def test_a_coordinator_that_tells_parties_other_shares_gets_no_sum() -> None:
    """Less noise at one party would leave the others with less than they were charged for."""

    def other_shares(place: int, message: Any) -> Any:
        if place == 1 and isinstance(message, messages.Plan):
            return messages.Plan((("second moments, clipped", 0.5), ("mean", 0.5)))
        return message

    with pytest.raises(PartyFailed, match="not signed by its identity"):
        _lied(tables(), other_shares)


def test_a_coordinator_that_tells_parties_another_mu_or_settings_gets_no_sum() -> None:
    def other_mu(place: int, message: Any) -> Any:
        if place == 1 and isinstance(message, messages.SeatsTaken):
            return messages.SeatsTaken(message.names, message.nonces, message.mu / 2)
        return message

    def other_settings(place: int, message: Any) -> Any:
        if place == 1 and isinstance(message, messages.Offer):
            return messages.Offer(replace(message.settings, dropouts=1, colluders=0), message.columns)
        return message

    for lie in (other_mu, other_settings):
        with pytest.raises(PartyFailed, match="not signed by its identity"):
            _lied(tables(), lie)


def test_unequal_budgets_and_a_mu_that_is_too_large_give_no_sum() -> None:
    """Told a mu above the smallest budget's, each party would add noise for its own budget: not one noise for all."""
    made = tables()
    rows = linear_gaussian(4, parties=4, rows=list(ROWS), seed=3).tables
    budget = pf.Budget(epsilon=1, delta=1e-6)
    made[1] = pf.PrivateTable(rows[1], name="poor", budget=budget, noise=SimulatedNoise(1), bounds=8.0)

    def large(place: int, message: Any) -> Any:
        if isinstance(message, messages.SeatsTaken):
            return messages.SeatsTaken(message.names, message.nonces, 1e3)
        return message

    with pytest.raises(PartyFailed, match="not signed by its identity"):
        _lied(made, large)


def test_a_report_says_what_secure_sums_would_give() -> None:
    page = report_html(pf.GES().fit(tables()))
    assert "With sum=&#39;secure&#39; (1 colluder, no dropouts)" in page and "1.7 times smaller" in page
    for model, made in (
        (pf.GES(sum="secure"), tables()),
        (pf.GES(), tables((900, 900))),
        (pf.GES(), tables(budget=None)),
    ):
        assert "1 colluder, no dropouts" not in report_html(model.fit(made))
