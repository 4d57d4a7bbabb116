"""Tables with a schema: bounded on both sides, refused before a charge where a learner does not take them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privfcd as pf
from privfcd.algorithms.declared import learners_for
from privfcd.algorithms.fed_sparse import party as fed_sparse_party
from privfcd.algorithms.registry import LEARNERS
from privfcd.algorithms.release import party as release_party
from privfcd.data import OctaveHistogram, SecondMoments

NUMBERS = {
    "age": {"range": [18, 90], "unit": "a"},
    "sbp": {"range": [80, 220], "unit": "mmHg"},
    "visits": {"kind": "count", "range": [0, 30], "map": "log1p"},
    "smoker": {"kind": "binary", "levels": ["no", "yes"]},
}
LEVELS = {
    "sex": {"kind": "categorical", "levels": ["f", "m"]},
    "ward": {"kind": "categorical", "levels": ["a", "b", "c"], "missing": "category"},
    "pain": {"kind": "ordinal", "range": [0, 3]},
}
MIXED = {**NUMBERS, "ward": {"kind": "categorical", "levels": ["a", "b", "c"], "missing": "category"}}
GAPS = {**NUMBERS, "age": {"range": [18, 90], "missing": "pairwise"}}


def frame(seed: int, n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.uniform(10, 100, n)
    ward = rng.choice(["a", "b", "c", None], n)
    return pd.DataFrame(
        {
            "age": age.round(1),
            "sbp": 90 + 0.6 * age + rng.normal(0, 8, n),
            "visits": rng.poisson(age / 10),
            "smoker": np.where(rng.random(n) < 0.3, "yes", "no"),
            "sex": np.where(rng.random(n) < 0.5, "f", "m"),
            "ward": ward,
            "pain": rng.integers(0, 4, n).astype(float),
            "id": [f"p{k}" for k in range(n)],
        }
    )


def tables(schema: dict, epsilon: float | None = None, **more: object) -> list[pf.PrivateTable]:
    budget = None if epsilon is None else pf.Budget(epsilon, 1e-6)
    given = {"noise": pf.SimulatedNoise(1), **more}
    return [pf.PrivateTable(frame(k), name=f"ward-{k}", budget=budget, schema=schema, **given) for k in range(2)]


def test_a_table_is_centred_at_the_middle_of_its_ranges_and_bounded_on_both_sides() -> None:
    table = tables(NUMBERS)[0]
    assert table.columns == ("age", "sbp", "visits", "smoker")
    assert table.bounds == pytest.approx((36, 70, math.log(31) / 2, 0.5))
    rows = np.column_stack([frame(0)["age"].clip(18, 90), frame(0)["sbp"].clip(80, 220)]) - [54, 150]
    second = table.release(SecondMoments(math.inf), pf.mechanisms.AnalyticGaussian(0.0)).matrix
    np.testing.assert_allclose(second[:2, :2], rows.T @ rows / len(rows), rtol=1e-6)
    plain = table.declared()
    assert plain.bounds is None
    turned = plain.reordered(["smoker", "visits", "sbp", "age"])
    again = turned.release(SecondMoments(math.inf), pf.mechanisms.AnalyticGaussian(0.0))
    assert again.matrix[3, 3] == pytest.approx(np.mean(np.square(frame(0)["age"].clip(18, 90))), rel=1e-6)


def test_one_record_moves_a_covariance_no_further_than_its_noise_covers() -> None:
    """The farthest records of a table with ranges are corners of its box; the sensitivity covers them."""
    schema = {name: NUMBERS[name] for name in ("age", "sbp")}
    n = 50
    base = np.tile([54.0, 150.0], (n, 1))
    norm = float(np.linalg.norm([36, 70]))
    found = []
    for last in ([1e9, 1e9], [-1e9, 1e9], [54, 150], [18, 220]):
        rows = base.copy()
        rows[-1] = last
        table = pf.PrivateTable(rows, ["age", "sbp"], schema=schema)
        found.append(table.release(SecondMoments(norm), pf.mechanisms.AnalyticGaussian(0.0)).matrix)
    moved = max(np.linalg.norm(one - other) for one in found for other in found)
    assert 0.5 * norm**2 / n < moved <= SecondMoments(norm).sensitivity(n)


@pytest.mark.parametrize("method", list(LEARNERS))
def test_learners_take_declared_numbers_and_refuse_others_before_a_charge(method: str) -> None:
    for schema, words in ((MIXED, "'ward'"), (GAPS, "'age'")):
        if method in learners_for(pf.Schema(schema)):
            continue
        made = tables(schema, epsilon=50)
        with pytest.raises(pf.InvalidParameter, match=words):
            pf.learn(made, method=method)
        assert all(not any(table.ledger.spent().values()) for table in made)
    model = pf.learn(tables(NUMBERS), method=method)
    assert list(model.feature_names_in_) == list(NUMBERS)
    assert any("18 to 90" in line for line in model.privacy_report_[0].declared["schema"])


def test_the_method_follows_from_the_schema() -> None:
    parts = [frame(0), frame(1)]
    assert type(pf.learn(parts, private=False, schema=LEVELS)).__name__ == "FedACD"
    assert type(pf.learn(parts, private=False, schema=NUMBERS)).__name__ == "GES"
    model = pf.learn(parts, schema=pf.Schema(LEVELS), epsilon=20, noise=pf.SimulatedNoise(1))
    assert model.levels == {"sex": 2, "ward": 4, "pain": 4} and type(model).__name__ == "FedACD"
    only = pf.learn(parts, private=False, schema=MIXED, drop=["ward"])
    assert type(only).__name__ == "GES" and "ward" not in only.feature_names_in_


def test_levels_are_those_of_the_schema() -> None:
    made = tables(LEVELS)
    with pytest.raises(pf.InvalidParameter, match="'ward'"):
        pf.FedACD().fit(made)
    with pytest.raises(pf.InvalidParameter, match="levels"):
        pf.FedACD(levels={"sex": 2, "ward": 3, "pain": 4}).fit(made)
    fitted = pf.FedACD(levels=pf.Schema(LEVELS).levels).fit(made)
    codes = pf.Schema(LEVELS)
    plain = [pf.PrivateTable(codes.apply(frame(k)).rows, list(LEVELS)) for k in range(2)]
    same = pf.FedACD(levels=codes.levels).fit(plain)
    np.testing.assert_array_equal(fitted.adjacency_matrix_, same.adjacency_matrix_)


def test_all_parties_faults_are_said_at_once_and_agreement_is_checked() -> None:
    wrong = [frame(0).assign(smoker="maybe"), frame(1).drop(columns="age")]
    with pytest.raises(pf.InvalidTable) as refusal:
        pf.learn(wrong, private=False, schema=NUMBERS)
    assert "party-1" in str(refusal.value) and "party-2" in str(refusal.value) and "'maybe'" in str(refusal.value)
    months = {**NUMBERS, "age": {"range": [18, 90], "unit": "mo", "factor": 1 / 12}}
    other = frame(1).assign(age=frame(1)["age"] * 12)
    one = pf.learn([frame(0), frame(1)], private=False, schema=NUMBERS)
    two = pf.learn([frame(0), other], private=False, schema=[NUMBERS, months])
    np.testing.assert_allclose(one.adjacency_matrix_, two.adjacency_matrix_, atol=1e-9)
    wide = {**NUMBERS, "age": {"range": [0, 90]}}
    with pytest.raises(pf.InvalidParameter, match=r"age\.range"):
        pf.learn([frame(0), frame(1)], private=False, schema=[NUMBERS, wide])
    with pytest.raises(pf.InvalidParameter, match="schema or none"):
        pf.GES().fit([tables(NUMBERS)[0], pf.PrivateTable(np.ones((9, 4)), list(NUMBERS), name="other")])


def test_what_a_schema_says_is_not_said_twice() -> None:
    for more in ({"bounds": 3.0}, {"log1p": True}):
        with pytest.raises(pf.InvalidParameter, match="schema"):
            pf.learn([frame(0)], private=False, schema=NUMBERS, **more)


def test_a_table_with_gaps_answers_no_query_of_numbers() -> None:
    table = tables(GAPS, epsilon=1)[0]
    with pytest.raises(pf.InvalidParameter, match="gaps"):
        table.release(SecondMoments(1.0), pf.mechanisms.AnalyticGaussian(1.0))
    assert not any(table.ledger.spent().values())


def test_plans_and_files(tmp_path: Path) -> None:
    made = tables(NUMBERS, epsilon=5)
    plan = pf.plan_run(pf.GES(release="covariance"), made, rehearse=False)
    assert not any("histogram" in part.label for part in plan.parties[0].parts)
    assert any("18 to 90" in note for note in plan.notes) and "18 to 90" in str(plan)
    frame(0).to_csv(tmp_path / "a.csv", index=False)
    pf.Schema(NUMBERS).write(tmp_path / "columns.toml")
    model = pf.learn([tmp_path / "a.csv"], private=False, schema=tmp_path / "columns.toml")
    same = pf.learn([frame(0)], private=False, schema=NUMBERS)
    np.testing.assert_allclose(model.adjacency_matrix_, same.adjacency_matrix_, atol=1e-9)


def test_a_column_with_a_range_has_no_paid_histogram_where_others_have_none() -> None:
    """The histogram that finds bounds is of the columns without a range alone, and the declared ones keep theirs."""
    some = {**NUMBERS, "sbp": {}}
    table = tables(some, epsilon=20)[0]
    assert table.bounds is None and table.without_bounds == (1,)
    assert table.known_bounds == pytest.approx((36, math.inf, math.log(31) / 2, 0.5))
    asked = []

    class Watched(OctaveHistogram):
        def exact(self, rows, n):  # type: ignore[no-untyped-def]
            asked.append(self)
            return super().exact(rows, n)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fed_sparse_party, "OctaveHistogram", Watched)
        pf.FedSparseBNSL(rounds=2, updates=5, release="coordinates").fit(tables(some, epsilon=20))
    assert [query.only for query in asked] == [(1,), (1,)]


def test_moments_that_stay_at_a_party_pay_for_a_histogram_of_columns_without_a_range_only() -> None:
    asked = []

    class Watched(OctaveHistogram):
        def exact(self, rows, n):  # type: ignore[no-untyped-def]
            asked.append(self.only)
            return super().exact(rows, n)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(release_party, "OctaveHistogram", Watched)
        pf.NOTEARS(release="covariance").fit_each(tables({**NUMBERS, "sbp": {}}, epsilon=50))
    assert asked == [(1,), (1,)]
