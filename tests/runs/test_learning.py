"""The main job in one call: sources in, a fitted model out, and what is refused on the way."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privfcd as pf
from privfcd.cli import demonstration as demo
from privfcd.errors import BudgetExceeded, InvalidParameter, InvalidTable
from privfcd.runs import learn, private_tables

SMALL: dict[str, Any] = {"rounds": 2, "updates": 3, "clip": 20.0, "step": 0.5, "threshold": 0.3}
NOISE = pf.SimulatedNoise(3)


def rows(seed: int, n: int = 80) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 3))
    values[:, 1] += 2 * values[:, 0]
    return values


@pytest.fixture
def frames() -> list[pd.DataFrame]:
    return [pd.DataFrame(rows(seed), columns=["a", "b", "c"]) for seed in range(3)]


@pytest.fixture
def paths(frames: list[pd.DataFrame], tmp_path: Path) -> list[Path]:
    made = [tmp_path / f"{name}.csv" for name in ("north", "south", "west")]
    for frame, path in zip(frames, made, strict=True):
        frame.to_csv(path, index=False, float_format="%.17g")
    return made


def test_frames_paths_and_arrays_are_one(frames: list[pd.DataFrame], paths: list[Path]) -> None:
    fitted = [
        learn(sources, private=False, **SMALL) for sources in (frames, paths, [frame.to_numpy() for frame in frames])
    ]
    for other in fitted[1:]:
        np.testing.assert_array_equal(fitted[0].adjacency_matrix_, other.adjacency_matrix_)
    assert list(fitted[2].causal_graph_.nodes) == ["x0", "x1", "x2"]
    assert [report.party for report in fitted[1].privacy_report_] == ["north", "south", "west"]
    assert [report.party for report in fitted[0].privacy_report_] == ["party-1", "party-2", "party-3"]


def test_each_party_has_a_budget_of_its_own_and_a_delta_from_its_rows(frames: list[pd.DataFrame]) -> None:
    frames[1] = frames[1].head(40)
    fitted = learn(frames, epsilon=5.0, noise=NOISE, bounds=9.0, names=["x", "y", "z"], **SMALL)
    assert [report.party for report in fitted.privacy_report_] == ["x", "y", "z"]
    for report, n in zip(fitted.privacy_report_, (80, 40, 80), strict=True):
        assert 4.99 < report.epsilon <= 5 and report.delta == pytest.approx(1 / n**2)
        assert report.left == "nothing" or float(report.left.split("(")[-1].split(",")[0]) < 1e-3
    given = learn(frames, epsilon=5.0, delta=1e-9, noise=NOISE, bounds=9.0, **SMALL)
    assert given.privacy_spent_[1] == 1e-9
    assert {part.label for part in given.privacy_report_[0].parts} >= {"mean"}, "centred unless told otherwise"


def test_tables_bring_their_own_budgets(frames: list[pd.DataFrame]) -> None:
    def made() -> list[pf.PrivateTable]:
        return [
            pf.PrivateTable(frame, name=str(index), budget=pf.Budget(epsilon=5, delta=1e-6), bounds=9.0, noise=NOISE)
            for index, frame in enumerate(frames)
        ]

    tables = made()
    fitted = learn(tables, epsilon=2.0, **SMALL)
    assert fitted.privacy_spent_[0] <= 2 and tables[0].ledger.spent()["epsilon"] <= 2
    with pytest.raises(BudgetExceeded):
        learn(tables, epsilon=4.0, **SMALL)
    for extra in ({"bounds": 3.0}, {"noise": NOISE}, {"names": ["1", "2", "3"]}, {"private": False}):
        with pytest.raises(InvalidParameter, match="belong to the PrivateTables"):
            learn(made(), **extra, **SMALL)
    with pytest.raises(InvalidParameter, match="all PrivateTables or none"):
        learn([made()[0], frames[1]], epsilon=1.0)


def test_rounds_are_reported_as_they_pass(frames: list[pd.DataFrame]) -> None:
    seen: list[int] = []
    learn(frames, private=False, on_round=lambda record: seen.append(record.number), **SMALL)
    assert seen == [1, 2]


@pytest.mark.parametrize("epsilon", [0, 0.0, -1.0, math.nan, math.inf, True, "5"])
def test_bad_epsilons_are_refused(frames: list[pd.DataFrame], epsilon: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon must be"):
        learn(frames, epsilon=epsilon, **SMALL)


@pytest.mark.parametrize("delta", [0.0, 1.0, 1.5, -1e-9, math.nan, math.inf])
def test_bad_deltas_are_refused(frames: list[pd.DataFrame], delta: float) -> None:
    with pytest.raises(InvalidParameter, match="delta must be"):
        learn(frames, epsilon=1.0, delta=delta, **SMALL)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, InvalidParameter, "epsilon must be given for a private run"),
        ({"epsilon": 1.0, "private": False}, InvalidParameter, "epsilon must be left out with private=False"),
        ({"epsilon": 1.0, "private": "no"}, InvalidParameter, "private must be True or False"),
        ({"epsilon": 1.0, "nonsense": 3}, InvalidParameter, "parameter must be one of rounds"),
        ({"epsilon": 1.0, "names": ["a", "b"]}, InvalidParameter, "names must be 3 different texts"),
        ({"epsilon": 1.0, "names": ["a", "b", "a"]}, InvalidParameter, "names must be 3 different texts"),
        ({"epsilon": 1.0, "bounds": -1.0}, InvalidParameter, "bound of 'a' must be"),
        ({"epsilon": 1.0, "bounds": {"a": 1.0}}, InvalidParameter, r"missing \['b', 'c'\]"),
        ({"epsilon": 1.0, "rounds": 0}, InvalidParameter, "rounds must be"),
        ({"epsilon": 1.0, "updates": 0}, InvalidParameter, "updates must be"),
        ({"epsilon": 1.0, "clip": math.inf}, InvalidParameter, "clip must be"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_does_not_go_together_is_refused(
    frames: list[pd.DataFrame], arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        learn(frames, **arguments)


def test_bad_sources_are_refused(frames: list[pd.DataFrame], paths: list[Path], tmp_path: Path) -> None:
    for sources in ("north.csv", [], ()):
        with pytest.raises(InvalidParameter, match="sources must be a list"):
            learn(sources, epsilon=1.0)
    with pytest.raises(InvalidTable, match=r"'north.csv' was given twice"):
        learn([paths[0], paths[1], tmp_path / "." / "north.csv"], epsilon=1.0)
    with pytest.raises(InvalidTable, match="no such file"):
        learn([paths[0], tmp_path / "nowhere.csv"], epsilon=1.0)
    other = frames[2].rename(columns={"c": "z"})
    with pytest.raises(InvalidTable, match=r"missing \['c'\], unknown \['z'\]"):
        learn([*frames[:2], other], epsilon=5.0, bounds=9.0, **SMALL)


def test_files_of_one_name_from_two_folders_are_two_parties(frames: list[pd.DataFrame], tmp_path: Path) -> None:
    made = []
    for folder, frame in zip(("one", "two"), frames, strict=False):
        (tmp_path / folder).mkdir()
        made.append(tmp_path / folder / "ward.csv")
        frame.to_csv(made[-1], index=False)
    names = [table.name for table in private_tables(made, epsilon=1.0, noise=NOISE)]
    assert len(set(names)) == 2 and names[0] == "ward"


def test_logarithms_are_taken_record_by_record(frames: list[pd.DataFrame]) -> None:
    positive = [frame.abs() for frame in frames]
    logs = learn(positive, private=False, log1p=True, **SMALL)
    same = learn([np.log1p(frame) for frame in positive], private=False, **SMALL)
    np.testing.assert_allclose(logs.adjacency_matrix_, same.adjacency_matrix_, atol=1e-12)
    frames[1].iloc[3, 2] = -1.0
    frames[1].iloc[:, :2] = frames[1].iloc[:, :2].abs()
    with pytest.raises(InvalidTable, match=r"'party-2', column 'c', row \d+: log1p needs values above -1"):
        learn([positive[0], frames[1], positive[2]], epsilon=1.0, log1p=True)


def test_the_demonstration_is_the_main_job_on_the_bundled_data(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def watched(sources: list[pf.PrivateTable], **arguments: Any) -> Any:
        given.update(arguments, sizes=[source.n_rows for source in sources], budget=sources[0].ledger.budget)
        return learn(sources, **{**arguments, **SMALL})

    monkeypatch.setattr(demo, "learn", watched)
    result = demo.run_demo(epsilon=5.0, noise=NOISE)
    assert given["sizes"] == [2489, 2489, 2488] and given["budget"] == pf.Budget(epsilon=5, delta=1 / 2489**2)
    assert set(result.model.causal_graph_) == set(result.data.columns) == set(result.data.targets[demo.TARGET])
    assert result.model.privacy_spent_[0] <= 5
    assert demo.run_demo(epsilon=None).model.privacy_spent_[0] == math.inf


def test_a_refusal_does_not_print_the_rows() -> None:
    values = np.array([[123456.789, 1.0], [2.0, 987654.321]])
    for source in (values, pd.DataFrame(values)):
        with pytest.raises(InvalidParameter) as refusal:
            learn(source, epsilon=1.0)  # type: ignore[arg-type]
        assert "123456" not in str(refusal.value)


def whole(frames: int = 3) -> pd.DataFrame:
    parts = pf.simulate.linear_gaussian(d=4, parties=frames, rows=400, seed=2).tables
    each = [pd.DataFrame(rows, columns=list("abcd")).assign(site=f"clinic {k}") for k, rows in enumerate(parts)]
    return pd.concat(each).sample(frac=1, random_state=1)


def test_parties_are_named_by_keys_or_by_a_column(tmp_path: Path) -> None:
    frame = whole()
    parts = {f"clinic {k}": frame[frame.site == f"clinic {k}"].drop(columns="site") for k in (0, 1, 2)}
    options: dict[str, Any] = {"epsilon": 3.0, "method": "ges", "noise": pf.SimulatedNoise(1)}
    named = pf.learn(parts, **options)
    assert [report.party for report in named.privacy_report_] == list(parts)
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame.to_parquet(tmp_path / "all.parquet")
    first = list(dict.fromkeys(frame.site))
    for source in (frame, tmp_path / "all.csv", str(tmp_path / "all.parquet")):
        found = pf.learn(source, party_column="site", **options)
        assert [report.party for report in found.privacy_report_] == first
        assert found.feature_names_in_.tolist() == list("abcd")
        again = pf.learn({name: parts[name] for name in first}, **options)
        np.testing.assert_allclose(found.moments_.matrix, again.moments_.matrix, rtol=1e-9)


def test_rows_that_do_not_say_whose_they_are_are_counted_for_the_owner(tmp_path: Path) -> None:
    frame = whole()
    frame.iloc[:3, frame.columns.get_loc("site")] = None
    with pytest.raises(InvalidTable, match="3 of 1200 rows"):
        pf.learn(frame, party_column="site", epsilon=1.0)
    with pytest.raises(InvalidTable, match="party_column"):
        pf.learn(frame, party_column="hospital", epsilon=1.0)
    with pytest.raises(InvalidTable, match="no file"):
        pf.learn(tmp_path / "none.csv", party_column="site", epsilon=1.0)
    with pytest.raises(InvalidParameter, match="names"):
        pf.learn({"a": frame[["a", "b"]]}, names=["x"], epsilon=1.0)
    with pytest.raises(InvalidParameter, match="sources"):
        pf.learn([frame], party_column="site", epsilon=1.0)
