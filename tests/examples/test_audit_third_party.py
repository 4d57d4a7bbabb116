"""The example that audits other libraries' noise, with OpenDP's mechanisms."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "audit_third_party.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit_third_party", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_opendp_keeps_its_claims(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opendp")
    monkeypatch.setattr(example, "CONFIDENCE", 1 - 1e-7)  # its noise has no seed
    laplace, gaussian = example.opendp_subjects()
    reports = [example.audits(subject, 2000) for subject in (laplace, gaussian)]
    assert not any(report.refuted for pair in reports for report in pair)
    assert reports[0][0].bound > 0.2


def test_half_of_opendps_claim_is_refuted(example: ModuleType) -> None:
    pytest.importorskip("opendp")
    laplace, _ = example.opendp_subjects()
    report = example.audit_function(
        laplace.function, example.TABLE, example.NEIGHBOUR, example.Claim(epsilon=0.4), 2000, vectorised=True
    )
    assert report.verdict == "violated"


def test_the_digits_of_numpys_noise_are_caught(example: ModuleType) -> None:
    (laplace,) = example.numpy_subjects()
    whole, digits = example.audits(laplace, 1500)
    assert not whole.refuted and digits.refuted


def test_a_library_that_is_missing_is_left_out(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("opendp", "opendp.prelude", "diffprivlib", "diffprivlib.mechanisms"):
        monkeypatch.setitem(sys.modules, name, None)
    assert example.main(300) == 1
    out = capsys.readouterr().out
    assert out.count("left out") == 2 and "pip install 'privfcd[examples]'" in out
