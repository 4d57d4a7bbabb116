"""Privacy reports: what was paid is what is reported, in numbers and in words that are true."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from privfcd.accounting import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    BoundedRangeDpEvent,
    Budget,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    calibrate,
    epsilon_of,
)
from privfcd.ledger import Ledger, PlanPart
from privfcd.ledger.privacy_report import PrivacyReport, report_on

BOTH = Budget(epsilon=1, delta=1e-6)


def report(ledger: Ledger, plan: Any, *, draws: dict[str, int] | None = None, **given: Any) -> PrivacyReport:
    reservation = ledger.reserve(plan)
    for label, count in (draws or {}).items():
        reservation.draw(label, count)
    words: dict[str, Any] = {"delta": 1e-6, "relation": REPLACE_ONE, "noise": "secure", "secure": True, "declared": {}}
    return report_on(reservation, **{**words, **given})


def plan_of(epsilon: float) -> list[PlanPart]:
    plan = calibrate(epsilon, 1e-6, selections=20, gaussians=30)
    (selection, _), (gaussian, _) = plan.events
    return [PlanPart("select", selection, 20), PlanPart("update", gaussian, 30, "noisy gradients")]


def test_the_numbers_are_those_of_the_whole_plan_drawn_or_not() -> None:
    plan = plan_of(1.0)
    made = report(Ledger(BOTH, name="ward 3"), plan, draws={"select": 20, "update": 7})
    assert [(part.label, part.planned, part.drawn) for part in made.parts] == [("select", 20, 20), ("update", 30, 7)]
    assert made.parts[1].remark == "noisy gradients"
    assert made.parts[0].event == repr(plan[0].event)
    assert 1 - 1e-6 < made.epsilon <= 1
    assert made.delta == 1e-6
    whole = Ledger(None).reserve(plan).event
    assert made.epsilon == epsilon_of(whole, 1e-6, made.accountant)
    assert made.rho == pytest.approx(calibrate(1.0, 1e-6, selections=20, gaussians=30).rho, rel=1e-9)
    assert made.pure_epsilon == math.inf
    assert (made.party, made.left, made.budget) == ("ward 3", "nothing", "(epsilon, delta) = (1, 1e-06)")


def test_a_pure_plan_reports_its_sum_at_delta_0() -> None:
    made = report(Ledger(Budget(epsilon=1)), [PlanPart("select", BoundedRangeDpEvent(0.05), 10)], delta=None)
    assert made.epsilon == made.pure_epsilon == pytest.approx(0.5, rel=1e-12)
    assert made.delta == 0
    assert "epsilon = 0.5" in made.left


def test_the_words_name_party_promise_neighbours_and_assumptions() -> None:
    ledger = Ledger(BOTH, name="ward 3")
    made = report(
        ledger,
        plan_of(1.0),
        draws={"select": 4},
        declared={"rows": 200, "bounds": (0, 1)},
        assumptions=["each record is one patient"],
    )
    text = str(made)
    for words in (
        "'ward 3'",
        "4 of 20 x select",
        "0 of 30 x update",
        "noisy gradients",
        "replace one record",
        "rows = 200; bounds = (0, 1)",
        "each record is one patient",
        "at delta = 1e-06",
        "Noise: secure",
    ):
        assert words in text
    assert "NO PRIVACY" not in text
    assert "SIMULATED" not in text
    other = str(report(Ledger(BOTH), plan_of(1.0), relation=ADD_OR_REMOVE_ONE))
    assert "add or remove one record" in other
    assert "Declared public by the owner: nothing" in other


def test_simulated_noise_is_said_to_protect_nobody() -> None:
    made = report(Ledger(BOTH), plan_of(1.0), secure=False, noise="simulated (seed 1)")
    assert "SIMULATED" in str(made)
    assert "protects nobody" in str(made)
    assert not made.secure


def test_an_open_table_is_said_to_have_no_privacy() -> None:
    made = report(Ledger(None), [PlanPart("exact", NonPrivateDpEvent(), 3)], draws={"exact": 3}, delta=None)
    assert made.epsilon == made.rho == made.pure_epsilon == math.inf
    assert "NO PRIVACY" in str(made)
    assert (made.budget, made.left) == ("none (open table)", "everything is open")


def test_an_open_tables_report_is_infinite_even_where_noise_was_added() -> None:
    made = report(Ledger(None), plan_of(1.0))
    assert made.epsilon == math.inf
    assert made.rho < math.inf


def test_the_report_can_be_written_as_json() -> None:
    for ledger, plan in ((Ledger(BOTH), plan_of(1.0)), (Ledger(None), [PlanPart("exact", NonPrivateDpEvent(), 1)])):
        made = report(ledger, plan, declared={"rows": 200}, assumptions=["one"])
        back = json.loads(json.dumps(made.as_dict(), allow_nan=False))
        assert back["parts"][0]["planned"] == made.parts[0].planned
        assert back["epsilon"] == ("inf" if ledger.open else made.epsilon)
        assert back["declared"] == {"rows": 200}
        assert back["assumptions"] == ["one"]


def test_an_empty_plan_costs_nothing() -> None:
    made = report(Ledger(Budget(epsilon=1)), [], delta=None)
    assert (made.epsilon, made.rho, made.pure_epsilon, list(made.parts)) == (0, 0, 0, [])


# --- what went wrong once ------------------------------------------------------------------------------------------


def test_a_zcdp_budget_without_a_delta_is_not_said_to_be_an_open_table() -> None:
    made = report(Ledger(Budget(rho=0.5)), GaussianDpEvent(10.0), delta=None)
    assert "no budget" not in str(made)
    assert "exact answers" not in str(made)


def test_events_without_a_rho_are_reported_with_rho_infinite() -> None:
    made = report(Ledger(None), EpsilonDeltaDpEvent(1.0, 1e-6))
    assert made.rho == math.inf


def test_a_factor_beyond_the_doubles_is_not_printed_as_a_smaller_one() -> None:
    text = str(report(Ledger(Budget(epsilon=2000)), BoundedRangeDpEvent(1000.0), delta=None))
    assert "1.014e+304" not in text


def test_what_is_left_of_the_adaptive_slice_is_not_nothing() -> None:
    ledger = Ledger(BOTH)
    ledger.charge(GaussianDpEvent(1000.0))
    assert report(ledger, GaussianDpEvent(1000.0)).left != "nothing"


@pytest.mark.parametrize("declared", [{"clip": math.inf}, {"columns": ("a", "b"), "bounds": {1, 2}}])
def test_anything_declared_can_be_written_as_json(declared: dict[str, Any]) -> None:
    json.dumps(report(Ledger(BOTH), plan_of(1.0), declared=declared).as_dict(), allow_nan=False)


def test_the_standing_says_what_adds_up_in_the_budget() -> None:
    ledger = Ledger(Budget(epsilon=3, delta=1e-5), name="ward")
    assert report(Ledger(None), plan_of(1.0), delta=None).standing == {}
    for index, epsilon in enumerate((1.0, 0.5), start=1):
        reservation = ledger.reserve(plan_of(epsilon), delta=1e-6)
        made = report_on(reservation, delta=1e-6, relation=REPLACE_ONE, noise="secure", secure=True, declared={})
        standing = made.standing
        assert standing["account"] == "epsilon" and standing["cap"] == 3 and standing["usable"] is True
        assert standing["run"] == pytest.approx(epsilon, rel=1e-5) and standing["run"] >= made.epsilon
        assert standing["spent"] == pytest.approx(1.0 if index == 1 else 1.5, rel=1e-5)
        assert standing["spent"] + standing["left"] == pytest.approx(3)
        assert json.loads(json.dumps(made.as_dict(), allow_nan=False))["standing"] == standing


def test_the_standing_counts_what_went_back() -> None:
    ledger = Ledger(Budget(rho=1.0))
    reservation = ledger.reserve([PlanPart("update", GaussianDpEvent(10.0), 100)])
    assert reservation.charged() == {"rho": 5 * 10**23}
    reservation.draw("update", 40)
    reservation.close()
    assert reservation.charged() == {"rho": 2 * 10**23}
    made = report_on(reservation, delta=1e-6, relation=REPLACE_ONE, noise="secure", secure=True, declared={})
    assert made.standing == {"account": "rho", "cap": 1.0, "run": 0.2, "spent": 0.2, "left": 0.8, "usable": True}


def test_a_spent_delta_makes_the_rest_of_epsilon_useless() -> None:
    made = report(Ledger(Budget(epsilon=5, delta=1e-6)), plan_of(1.0))
    assert made.left == "nothing" and made.standing["usable"] is False and made.standing["left"] > 3.9


@pytest.mark.parametrize("epsilon", [0.7234561, 4.57249, 9.99999, 12.34567])
def test_words_about_a_promise_are_rounded_up(epsilon: float) -> None:
    made = report(Ledger(BOTH), plan_of(0.5))
    text = str(replace(made, epsilon=epsilon, rho=1.23456789, pure_epsilon=3.4567891))
    power, factor = text.split("at most e^")[1].split(" times as likely")[0].split(" = ")
    assert epsilon <= float(power) <= epsilon * 1.002
    assert math.exp(epsilon) <= float(factor) <= math.exp(epsilon) * 1.002
    assert "rho = 1.23457 (zCDP); pure epsilon = 3.45679" in text
