"""Two releases of one party's rows cost the sum of both, which no report says: they are not learnt from together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfcd as pf
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments, NoiseTerm, Origin, load_moments, pooled, save_moments

WORDS = "'north' was released twice: give one of them; both together cost the sum"


def table(name: str, epsilon: float | None = 4.0, seed: int = 1) -> pf.PrivateTable:
    rows = np.random.default_rng(seed).normal(size=(300, 3))
    budget = None if epsilon is None else pf.Budget(epsilon=epsilon, delta=1e-6)
    return pf.PrivateTable(rows, ["a", "b", "c"], name=name, budget=budget, bounds=6.0)


def release(*tables: pf.PrivateTable, **options: Any) -> pf.MomentsRelease:
    return pf.release_moments(list(tables), method="covariance", epsilon=2.0, **options)


@pytest.fixture(scope="module")
def two() -> tuple[pf.MomentsRelease, pf.MomentsRelease]:
    north = table("north")
    return release(north), release(north)


def refused(sources: Any) -> None:
    with pytest.raises(InvalidParameter, match="was released twice") as caught:
        pf.learn(sources, method="ges")
    assert WORDS in str(caught.value)


def test_two_releases_of_a_table_are_refused(two: Any, tmp_path: Path) -> None:
    one, other = two
    refused([one, other])
    refused([one, one])
    refused([one, *other.parts])
    refused([*one.parts, *other.parts])
    paths = [tmp_path / f"{k}.npz" for k in range(3)]
    for path, made in zip(paths, two, strict=False):
        save_moments(path, made.parts, privacy_report=made.privacy_report)
    refused(paths[:2])
    refused([paths[0], load_moments(paths[1])])
    reports = [*one.privacy_report, *other.privacy_report]
    save_moments(paths[2], [*one.parts, *other.parts], privacy_report=reports)
    refused(paths[2])
    nameless = [replace(part, origins=(Origin(),)) for part in (*one.parts, *other.parts)]
    save_moments(paths[2], nameless, privacy_report=reports)  # only the reports name the party
    refused(paths[2])


def test_a_party_of_a_trusted_sum_is_known(two: Any) -> None:
    summed = release(table("south", seed=2), table("north"), sum="trusted")
    refused([summed, two[0]])
    refused([two[1], summed.moments])


def test_estimators_pools_and_plans_refuse_them_too(two: Any) -> None:
    parts = [*two[0].parts, *two[1].parts]
    for call in (
        lambda: pooled(parts),
        lambda: pf.PC().fit(parts),
        lambda: pf.FedBNSL(rounds=1).fit(parts),
        lambda: pf.plan_run(pf.GES(), parts, rehearse=False),
        lambda: pf.GES().fit(replace(parts[0], origins=2 * parts[0].origins)),
    ):
        with pytest.raises(InvalidParameter, match="was released twice"):
            call()


def test_exact_rows_would_count_twice() -> None:
    opened = [pf.release_moments([table("north", None)]) for _ in range(2)]
    refused(opened)


def test_noisy_moments_without_names_are_known_by_their_numbers() -> None:
    noisy = Moments(np.eye(2), 100, ("a", "b"), (NoiseTerm(0.1),))
    for twice in ([noisy, noisy], [noisy, replace(noisy, matrix=noisy.matrix.copy())]):
        with pytest.raises(InvalidParameter, match="moments 2 are given twice: one noise would count as two"):
            pf.GES().fit(twice)
        with pytest.raises(InvalidParameter, match="moments 2 are given twice"):
            pooled(twice)
        with pytest.raises(InvalidParameter, match="moments 2 are given twice"):
            pf.learn(twice, method="ges")
    assert pooled([noisy, replace(noisy, matrix=2 * noisy.matrix)]).rows == 200
    exact = replace(noisy, noise=())
    assert pooled([exact, exact]).rows == 200  # two parties may have the same exact moments


def test_different_parties_are_learnt_from_together(two: Any) -> None:
    model = pf.learn([two[0], release(table("south", seed=2))], method="ges")
    assert model.privacy_spent_ == (max(r.epsilon for r in model.privacy_report_), 5e-7)
    same = release(table("north", seed=2))  # another hospital, which chose the same name
    refused([two[0], same])
    south = replace(same.parts[0], origins=(Origin("north of B", "secure"),))
    reports = [replace(same.privacy_report[0], party="north of B")]
    model = pf.learn([two[0], replace(same, parts=(south,), privacy_report=reports)], method="ges")
    assert [report.party for report in model.privacy_report_] == ["north", "north of B"]
