"""The study of secure sums; the whole is `python -m benchmarks secure`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from benchmarks.secure import costs, learnt, over_flower


def test_keys_shares_and_signatures_take_less_than_20_kilobytes_a_party() -> None:
    _, sent, releases = costs(20, "secure", 2)
    assert releases == 1
    assert sent / 8 - 8 * 210 < 20_000


@pytest.mark.slow
def test_secure_sums_find_a_graph_that_one_noise_each_does_not() -> None:
    wrong = {kind: sum(learnt((20, 0.1, kind, seed, 0)) for seed in range(2, 12)) for kind in ("per-party", "secure")}
    assert 2 * wrong["secure"] < wrong["per-party"]


@pytest.mark.slow
def test_a_party_process_that_is_killed_between_its_shares_and_its_numbers(tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="the extra `flower` is not installed")
    run = over_flower(tmp_path, 5, 1, "masked", d=3)
    assert run.model.rule_["release"]["secure sum"]["lost"] == ["h1"]
    assert run.parties == ("h0", "h2", "h3", "h4")
