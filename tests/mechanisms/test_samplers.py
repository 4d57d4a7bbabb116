"""The secure stream from outside: shapes, refusals, grids, copies and forks; and against OpenDP."""

from __future__ import annotations

import copy
import json
import os
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privfcd.errors import InvalidParameter
from privfcd.mechanisms import grid
from privfcd.mechanisms.cells import StandardLaw
from privfcd.mechanisms.entropy import Entropy
from privfcd.mechanisms.samplers import SecureSampler, _Reserve

KINDS = ["gaussian", "laplace"]


def seeded(seed: int) -> SecureSampler:
    return SecureSampler(_source=np.random.default_rng(seed).bytes)


def name_of(kind: str) -> Any:
    return stats.norm if kind == "gaussian" else stats.laplace


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 4), (2, 0, 5), (1500,), (40_000,)])
def test_noise_has_the_shape_of_the_value(kind: str, shape: tuple[int, ...]) -> None:
    value = np.ones(shape)
    noisy = getattr(seeded(1), kind)(value, 2.0)
    assert isinstance(noisy, np.ndarray)
    assert noisy.shape == shape
    assert noisy.dtype == np.float64
    assert (value == 1).all()
    assert (np.mod(noisy, grid.spacing(2.0)) == 0).all()
    assert noisy.size < 2 or len(np.unique(noisy)) > 0.9 * noisy.size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value", [3.0, np.float64(3.0), np.float32(3.0), 3, np.int8(3), np.array(3), [3.0], [[3, 3]], (3.0, 3.0)]
)
def test_numbers_of_all_sorts_are_taken(kind: str, value: Any) -> None:
    noisy = getattr(seeded(2), kind)(value, 0.5)
    assert noisy.shape == np.shape(value)
    assert (np.abs(noisy - 3) < 10).all()


@pytest.mark.parametrize(
    "scale",
    [
        1,
        1.0,
        np.float64(1),
        np.float32(1),
        np.int64(1),
        np.array(1.0),
        np.ones(3),
        np.ones((1,)),
        np.array([1, 1, 1]),
    ],
)
def test_scales_of_all_sorts_are_taken(scale: Any) -> None:
    assert seeded(3).gaussian(np.zeros(3), scale).shape == (3,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [
    np.nan, np.inf, -np.inf, [0.0, np.nan], [[np.inf]], "1", None, 1j, [True], True, [2**63 + 1], 10**400,
    [10**400, 1.5], np.array([1], dtype=np.longdouble), np.array([object()]),
])  # fmt: skip
def test_values_that_are_not_finite_numbers_are_refused_before_noise(kind: str, value: Any) -> None:
    def source(count: int) -> bytes:
        raise AssertionError("noise was drawn")

    with pytest.raises(InvalidParameter, match="value"):
        getattr(SecureSampler(_source=source), kind)(value, 1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0.5, np.zeros(3)])
@pytest.mark.parametrize(
    "scale",
    [
        -1.0,
        np.nan,
        np.inf,
        -5e-324,
        True,
        "1",
        None,
        [1.0, -1.0, 1.0],
        [1.0, np.nan, 1.0],
        [1.0, 1.0],
        np.ones((2, 3)),
    ],
)
def test_scales_that_mean_nothing_are_refused(kind: str, value: Any, scale: Any) -> None:
    with pytest.raises(InvalidParameter, match="scale"):
        getattr(seeded(4), kind)(value, scale)


@pytest.mark.parametrize("kind", KINDS)
def test_scale_0_returns_the_value(kind: str) -> None:
    sampler = seeded(5)
    value = np.array([0.1, -7e300, 5e-324])
    assert getattr(sampler, kind)(0.1, 0.0).tolist() == 0.1
    assert getattr(sampler, kind)(value, 0.0).tolist() == value.tolist()
    assert getattr(sampler, kind)(value, 0.0) is not value
    mixed = getattr(sampler, kind)(np.full(4, 0.1), np.array([0.0, 1.0, 0.0, 2.0]))
    assert (mixed == 0.1).tolist() == [True, False, True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_each_coordinate_has_its_own_scale_and_grid(kind: str) -> None:
    scales = np.array([1e-12, 0.7, 1.0, 300.0, 1e9])
    value = np.array([[1e-11, -4.0, 0.1, 5.0, 2e10]] * 4000)
    noisy = getattr(seeded(6), kind)(value, scales)
    for j, scale in enumerate(scales.tolist()):
        assert (np.mod(noisy[:, j], grid.spacing(scale)) == 0).all()
        assert stats.kstest((noisy[:, j] - value[:, j]) / scale, name_of(kind).cdf).pvalue > 1e-8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [None, 7, 100_000])
def test_every_way_in_has_the_law(kind: str, size: int | None) -> None:
    sampler = seeded(7)
    draw = getattr(sampler, kind)
    if size is None:
        noisy = np.array([float(draw(-2.5, 3.0)) for _ in range(30_000)])
    else:
        noisy = np.concatenate([draw(np.full(size, -2.5), 3.0) for _ in range(max(30_000 // size, 1))])
    assert stats.kstest((noisy + 2.5) / 3, name_of(kind).cdf).pvalue > 1e-8
    uniform = name_of(kind).cdf((noisy + 2.5) / 3)
    assert stats.chisquare(np.histogram(uniform, 200, (0, 1))[0]).pvalue > 1e-8
    pairs = np.histogram2d(uniform[:-1], uniform[1:], 8, ((0, 1), (0, 1)))[0]
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-8
    assert len(np.unique(noisy)) > 0.99 * len(noisy)


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, allow_infinity=False),
    st.sampled_from(KINDS),
)
@settings(max_examples=80, deadline=None)
def test_extremes_give_finite_numbers_or_the_value(value: float, scale: float, kind: str) -> None:
    sampler = SecureSampler()
    for noisy in (getattr(sampler, kind)(value, scale), getattr(sampler, kind)(np.array([value] * 3), scale)):
        assert np.isfinite(noisy).all()
        assert not (np.signbit(noisy) & (noisy == 0)).any() or scale == 0


def test_selection_at_scale_0_is_the_first_maximum() -> None:
    sampler = seeded(8)
    assert sampler.select(np.array([1.0, 3.0, 2.0, 3.0]), 0.0) == 1
    assert sampler.select_many(np.array([-np.inf, -1e308]), 0, 4).tolist() == [1, 1, 1, 1]


def test_selection_takes_lists_and_integers() -> None:
    sampler = seeded(9)
    assert sampler.select([1000, 0, 0], 1) == 0
    assert type(sampler.select(np.float32([0.0, 500.0]), np.float64(1.0))) is int
    picks = sampler.select_many(np.zeros(5), 1.0, 50)
    assert picks.dtype == np.int64
    assert set(picks.tolist()) == {0, 1, 2, 3, 4}
    assert sampler.select_many(np.zeros(5), 1.0, 0).tolist() == []


def test_minus_infinity_is_never_chosen() -> None:
    picks = seeded(10).select_many(np.array([-np.inf, 0.0, -np.inf, 1.0]), 5.0, 20_000)
    assert set(picks.tolist()) == {1, 3}


@pytest.mark.parametrize("scores", [
    [], [[1.0]], 3.0, [np.nan, 1.0], [np.inf, 1.0], [-np.inf, -np.inf], ["a"], [True, False], [1j, 2.0], None,
])  # fmt: skip
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_scores_that_mean_nothing_are_refused(scores: Any, scale: float) -> None:
    with pytest.raises(InvalidParameter, match="scores"):
        seeded(11).select(scores, scale)
    with pytest.raises(InvalidParameter, match="scores"):
        seeded(11).select_many(scores, scale, 3)


@pytest.mark.parametrize("scale", [-1.0, np.nan, np.inf, True, None, np.ones(2), [1.0, 2.0]])
def test_selection_scales_that_mean_nothing_are_refused(scale: Any) -> None:
    with pytest.raises(InvalidParameter, match="scale"):
        seeded(12).select(np.zeros(2), scale)


@pytest.mark.parametrize("size", [-1, 1.5, True])
def test_numbers_of_selections_that_mean_nothing_are_refused(size: Any) -> None:
    with pytest.raises(InvalidParameter, match="size"):
        seeded(12).select_many(np.zeros(2), 1.0, size)


def use(sampler: SecureSampler) -> bytes:
    """A little of everything, so that all reserves are half used."""
    numbers = [
        [float(sampler.gaussian(0.0, 1.0)) for _ in range(4)],
        [float(sampler.laplace(0.0, 1.0)) for _ in range(4)],
        sampler.gaussian(np.zeros(4), 1.0).tolist(),
        sampler.laplace(np.zeros(4), 1.0).tolist(),
        [sampler.select(np.zeros(1000), 1.0) for _ in range(8)],
    ]
    return json.dumps(numbers).encode()


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_share_no_noise(copier: Callable[[SecureSampler], SecureSampler]) -> None:
    sampler = seeded(13)
    use(sampler)
    twin = copier(sampler)
    assert type(twin) is SecureSampler
    assert twin._entropy._source is os.urandom
    assert use(twin) != use(sampler)
    assert len(pickle.dumps(sampler)) < 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_processes_share_no_noise() -> None:
    sampler = SecureSampler()
    use(sampler)
    answers = []
    for _ in range(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, use(sampler))
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answers.append(pipe.read())
        os.waitpid(child, 0)
    answers.append(use(sampler))
    runs = {tuple(run) for answer in answers for run in json.loads(answer)}
    assert len(runs) == 15


def test_threads_share_no_noise() -> None:
    sampler = SecureSampler()
    drawn: list[list[float]] = [[] for _ in range(6)]

    def work(mine: list[float]) -> None:
        for _ in range(1500):
            mine.append(float(sampler.gaussian(0.0, 2.0**40)))
            mine.extend(sampler.gaussian(np.zeros(2), 2.0**40).tolist())

    threads = [threading.Thread(target=work, args=(mine,)) for mine in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = np.array(drawn)
    # single numbers on a grid do meet by chance, but runs of three do not
    windows = {tuple(row[i : i + 3]) for row in numbers.tolist() for i in range(0, len(row), 3)}
    assert len(windows) == numbers.size // 3


def test_numpys_generators_are_left_alone() -> None:
    before = np.random.get_state()  # noqa: NPY002
    sampler = SecureSampler()
    use(sampler)
    sampler.gaussian(np.zeros(5000), np.linspace(1, 2, 5000))
    sampler.select(np.zeros(5000), 1.0)
    after = np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0]
    assert (before[1] == after[1]).all()
    assert before[2:] == after[2:]


def test_reserves_hand_out_their_draws_once_and_in_order() -> None:
    """With a law a third of whose draws are special (beyond one standard deviation)."""
    law = StandardLaw(gaussian=True, cell_bits=6, top_bits=0)
    entropy = Entropy(np.random.default_rng(18).bytes)
    wanted = law.draw(Entropy(np.random.default_rng(18).bytes), 2048)
    reserve = _Reserve(law)
    taken = 0
    for size in (None, 5, None, None, 1000, 300, None, 200):
        if size is None:
            got = {0: reserve.one(entropy)}
        else:
            z, special = reserve.many(entropy, size)
            assert len(z) == size
            assert max(special) < size
            got = {i: (float(z[i]), special.get(i)) for i in range(size)}
        for i, (z_i, special_i) in got.items():
            assert special_i == wanted.special.get(taken + i)
            assert np.array_equal(z_i, wanted.z[taken + i], equal_nan=True)
        taken += len(got)
    assert len(wanted.special) > 500
    assert len(reserve.many(entropy, 1500).z) == 1500


def test_the_same_bytes_give_the_same_noise() -> None:
    assert use(seeded(14)) == use(seeded(14)) != use(seeded(15))


@pytest.mark.parametrize("kind", KINDS)
def test_noise_agrees_with_opendp(kind: str) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    vector = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    distance = dp.l2_distance(T=float) if kind == "gaussian" else dp.l1_distance(T=float)
    theirs = getattr(dp.m, f"make_{kind}")(vector, distance, scale=3.7)([1.25] * 10_000)
    ours = getattr(seeded(16), kind)(np.full(200_000, 1.25), 3.7)
    assert stats.ks_2samp(theirs, ours).pvalue > 1e-7


def test_selections_agree_with_opendp() -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    vector = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    noisy_max = dp.m.make_noisy_max(
        vector, dp.linf_distance(T=float), dp.zero_concentrated_divergence(), scale=1.5
    )
    scores = np.array([0.0, 1.0, -2.0, 3.0, 2.9, 0.5])
    theirs = np.bincount([noisy_max(scores.tolist()) for _ in range(4000)], minlength=6)
    ours = np.bincount(seeded(17).select_many(scores, 1.5, 100_000), minlength=6)
    assert stats.chi2_contingency(np.array([theirs, ours])).pvalue > 1e-7
