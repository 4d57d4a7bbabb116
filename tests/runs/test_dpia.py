"""The draft of an impact assessment: what it says is that of the plan, and what only people know is left to them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privfcd.accounting import gaussian_mu
from privfcd.accounting.conversions import gdp_to_epsilon
from privfcd.algorithms.registry import LEARNERS
from privfcd.errors import InvalidParameter
from privfcd.runs.dpia import FILL, as_html, as_json, impact_assessment
from privfcd.runs.wire.study_file import Study, study_from

Run = Callable[..., tuple[int, str, str]]
PARTIES = ["north", "<south>", "west"]


def study(method: str = "ges", budget: dict[str, float] | None = None, **more: Any) -> Study:
    document = {"schema": 1, "name": "a & b", "method": method, "parties": PARTIES, "columns": ["x", "<y>", "z"], **more}
    return study_from(document if budget is None else {**document, "budget": budget})


@pytest.mark.parametrize("method", LEARNERS)
def test_what_leaves_is_what_the_run_will_release(method: str) -> None:
    agreed = study(method, {"epsilon": 2.0, "delta": 1e-7}, bounds={"x": 5.0, "<y>": 5.0, "z": 5.0})
    data = as_json(agreed, impact_assessment(agreed, [4000]))
    chapters = {chapter["key"]: chapter for chapter in data["chapters"]}
    said = chapters["leaving"]["table"]
    assert said and all(row["party"] == "each" and "exact" not in row["noise"] for row in said)
    assert data["to_fill"] > 10 and "epsilon = 2" in chapters["promise"]["text"][0]


def test_the_page_escapes_names_and_marks_what_is_left_to_people() -> None:
    agreed = study(budget={"epsilon": 2.0, "delta": 1e-7})
    chapters = impact_assessment(agreed, [4000, 3000, 2000])
    page = as_html(agreed, chapters)
    assert "<y>" not in page and "&lt;y&gt;" in page and "&lt;south&gt;" in page and "<script" not in page
    assert page.count('class="fill"') == as_json(agreed, chapters)["to_fill"] == page.count(FILL)
    assert not re.search(r"(src|href)=", page)
    several = gdp_to_epsilon(3 * gaussian_mu(2.0, 1e-7), 1e-7)
    promise = next(chapter for chapter in chapters if chapter.key == "promise")
    stated = float(re.search(r"with 3 records in one table: epsilon = ([\d.]+)", " ".join(promise.text))[1])  # type: ignore[index]
    assert several <= stated <= several * 1.001


def test_no_budget_pure_budgets_and_loose_deltas_are_said() -> None:
    def promise(budget: dict[str, float] | None) -> str:
        agreed = study(budget=budget)
        return " ".join(next(c for c in impact_assessment(agreed, [900]) if c.key == "promise").text)

    assert promise(None).startswith("NONE")
    assert "WARNING: delta is at least 1/n for north, <south>, west" in promise({"epsilon": 2.0, "delta": 0.01})


def test_bad_numbers_of_rows_are_refused() -> None:
    agreed = study(budget={"epsilon": 2.0, "delta": 1e-7})
    for rows in ([1, 2], [0], [10.5], []):
        with pytest.raises(InvalidParameter, match="rows"):
            impact_assessment(agreed, rows)  # type: ignore[arg-type]


def test_the_command_writes_a_page_and_prints_data(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('schema = 1\nname = "s"\nmethod = "ges"\nparties = ["a", "b"]\ncolumns = ["x", "y"]\n'
                    "[budget]\nepsilon = 1.0\ndelta = 1e-7\n")  # fmt: skip
    page = tmp_path / "dpia.html"
    code, out, _ = run("dpia", str(file), "--rows", "5000,4000", "-o", str(page), "--json")
    assert code == 0 and json.loads(out)["study"] == "s" and FILL in page.read_text()
    bad = (["--rows", "5000,x"], ["--rows", "1,2,3"], ["--rows", "10", "-o", "a.txt"], ["--rows", "10", "-o", str(file)])
    for words in bad:
        code, _, err = run("dpia", str(file), *words)
        assert code == 2 and err
    assert "schema = 1" in file.read_text()
