"""Sources of noise: seeded streams that are reproducible, secure ones that are not, and what both refuse."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import privfcd
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import (
    AnalyticGaussian,
    Gaussian,
    GumbelMax,
    Laplace,
    NoiseSource,
    NoiseStream,
    OpenDPNoise,
    SecureNoise,
    SimulatedNoise,
)

SECURE = 1e-9
FEW = 8
"""Secure answers lie on a grid of a millionth of the scale: a few hundred draws may hold an equal pair or two."""
KEYS = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (7, 3, 2), (7, 3, 3), (2**31,), (2**32 - 1, 5)]


@pytest.fixture(params=["simulated", "secure", "opendp"])
def stream(request: pytest.FixtureRequest) -> NoiseStream:
    sources: dict[str, NoiseSource] = {
        "simulated": SimulatedNoise(16),
        "secure": SecureNoise(),
        "opendp": OpenDPNoise(),
    }
    return sources[request.param].stream(1)


# --- simulated ----------------------------------------------------------------------------------------------------


def test_streams_of_one_key_are_equal_and_of_different_keys_independent() -> None:
    drawn = {key: SimulatedNoise(5).stream(*key).gaussian(np.zeros(400), 1.0) for key in KEYS}
    for key in KEYS:
        assert np.array_equal(drawn[key], SimulatedNoise(5).stream(*key).gaussian(np.zeros(400), 1.0))
        assert not np.array_equal(drawn[key], SimulatedNoise(6).stream(*key).gaussian(np.zeros(400), 1.0))
    correlations = np.corrcoef(list(drawn.values()))[np.triu_indices(len(KEYS), 1)]
    assert np.abs(correlations).max() * math.sqrt(400) < stats.norm.isf(1e-6 / len(correlations))
    assert len({float(x) for row in drawn.values() for x in row}) == 400 * len(KEYS)


def test_a_stream_goes_on_and_does_not_repeat() -> None:
    stream = SimulatedNoise(5).stream(1)
    drawn = [float(stream.gaussian(0.0, 1.0)) for _ in range(200)] + [
        float(stream.laplace(0.0, 1.0)) for _ in range(200)
    ]
    assert len(set(drawn)) == 400


def test_the_same_seed_and_key_give_the_same_stream_in_another_process() -> None:
    def draws() -> list[Any]:
        stream = SimulatedNoise(2**70).stream(3, 1, 4)
        return [
            stream.gaussian(np.zeros(3), 2.0).tolist(),
            stream.laplace(np.zeros(3), 2.0).tolist(),
            [stream.select(np.arange(5.0), 3.0) for _ in range(5)],
            stream.select_many(np.arange(5.0), 3.0, 5).tolist(),
        ]

    script = (
        "import json, numpy as np\n"
        "from privfcd.mechanisms import SimulatedNoise\n"
        "stream = SimulatedNoise(2**70).stream(3, 1, 4)\n"
        "print(json.dumps([stream.gaussian(np.zeros(3), 2.0).tolist(), stream.laplace(np.zeros(3), 2.0).tolist(),\n"
        "    [stream.select(np.arange(5.0), 3.0) for _ in range(5)],\n"
        "    stream.select_many(np.arange(5.0), 3.0, 5).tolist()]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(privfcd.__file__).parents[1]), "PYTHONHASHSEED": "1"}
    told = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == draws()


def test_sources_are_recipes_that_can_be_sent_to_other_processes() -> None:
    for source in (SimulatedNoise(5), SecureNoise(), OpenDPNoise()):
        back = pickle.loads(pickle.dumps(source))
        assert back == source
        assert hash(back) == hash(source)
        assert (back.secure, back.label) == (source.secure, source.label)
    with pytest.raises(AttributeError):
        SimulatedNoise(5).seed = 6  # type: ignore[misc]


def test_labels_say_what_protects_and_what_does_not() -> None:
    assert "NO protection" in SimulatedNoise(5).label
    assert "5" in SimulatedNoise(5).label
    assert not SimulatedNoise(5).secure
    assert not SimulatedNoise(5).stream().secure
    for source in (SecureNoise(), OpenDPNoise()):
        assert source.secure
        assert source.stream().secure
        assert "secure" in source.label


@pytest.mark.parametrize("seed", [-1, 1.5, True, None, "1", math.nan])
def test_seeds_that_are_no_count_are_refused_by_name(seed: Any) -> None:
    with pytest.raises(InvalidParameter, match="seed"):
        SimulatedNoise(seed)


def test_secure_noise_takes_no_seed() -> None:
    with pytest.raises(TypeError):
        SecureNoise(1)  # type: ignore[call-arg]


# --- secure -------------------------------------------------------------------------------------------------------


def test_secure_streams_of_the_same_key_are_not_equal() -> None:
    for source in (SecureNoise(), OpenDPNoise()):
        first, second = (source.stream(1, 2).gaussian(np.zeros(50), 1.0) for _ in range(2))
        assert len(set(first.tolist()) & set(second.tolist())) <= FEW


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("source", [SecureNoise(), OpenDPNoise()], ids=["secure", "opendp"])
def test_forked_children_and_their_parent_draw_different_noise(source: NoiseSource) -> None:
    stream = source.stream()

    def draws() -> list[float]:
        return np.concatenate([stream.gaussian(np.zeros(20), 1.0), stream.laplace(np.zeros(20), 1.0)]).tolist()

    draws()  # so that there is something to copy
    told: list[list[float]] = []
    for _ in range(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, json.dumps(draws()).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            told.append(json.loads(answer.read()))
        os.waitpid(child, 0)
    told.append(draws())
    assert len({x for drawn in told for x in drawn}) >= 120 - FEW


@pytest.mark.parametrize("source", [SecureNoise(), OpenDPNoise()], ids=["secure", "opendp"])
def test_threads_draw_different_noise(source: NoiseSource) -> None:
    stream, drawn = source.stream(), []

    def draw() -> None:
        drawn.extend(float(x) for _ in range(20) for x in stream.gaussian(np.zeros(5), 1.0))

    threads = [threading.Thread(target=draw) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 600 - FEW <= len(set(drawn)) <= len(drawn) == 600


@pytest.mark.parametrize("source", [SecureNoise(), OpenDPNoise()], ids=["secure", "opendp"])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_low_bits_of_secure_answers_do_not_tell_the_value(source: NoiseSource, kind: str) -> None:
    """Of plain doubles' sums in (-1/2, 1/2), all are multiples of 2⁻⁵³ where the value is 1, a third where 0."""
    shares = []
    for value in (0.0, 1.0):
        noisy = getattr(source.stream(), kind)(np.full(1500, value), 1.0)
        middle = noisy[np.abs(noisy) < 0.5]
        shares.append((int(np.sum(middle * 2.0**53 == np.rint(middle * 2.0**53))), len(middle)))
    (multiples_0, all_0), (multiples_1, all_1) = shares
    if (multiples_0, multiples_1) != (all_0, all_1):  # on a common grid all are, whatever the value
        table = [[multiples_0, all_0 - multiples_0], [multiples_1, all_1 - multiples_1]]
        assert stats.fisher_exact(table).pvalue > SECURE


# --- both ---------------------------------------------------------------------------------------------------------


def test_numpys_global_generator_is_left_alone(stream: NoiseStream) -> None:
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    for mechanism in (Gaussian(1.0), Laplace(1.0), AnalyticGaussian(1.0)):
        mechanism.release(np.eye(3), stream)
    GumbelMax(1.0).release([1.0, 2.0], stream)
    GumbelMax(1.0).release_many([1.0, 2.0], 5, stream)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_each_coordinate_can_have_a_scale_of_its_own(stream: NoiseStream) -> None:
    scales = np.array([[0.0, 1e-6], [1.0, 1e6]])
    noisy = np.array([stream.gaussian(np.ones((2, 2)), scales) for _ in range(150)]) - 1
    assert np.array_equal(noisy[:, 0, 0], np.zeros(150))
    for index in ((0, 1), (1, 0), (1, 1)):
        statistic = np.sum((noisy[:, index[0], index[1]] / scales[index]) ** 2)
        assert SECURE < stats.chi2.cdf(statistic, 150) < 1 - SECURE


@pytest.mark.parametrize("value", [math.nan, math.inf, [1.0, math.nan], [[-math.inf]]])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_values_that_are_not_finite_are_refused_and_never_turned_into_numbers(
    stream: NoiseStream, kind: str, value: Any
) -> None:
    for scale in (0.0, 1.0, np.zeros(np.shape(value))):
        with pytest.raises(InvalidParameter, match="value"):
            getattr(stream, kind)(value, scale)


# --- what went wrong once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [-1.0, math.nan])
def test_opendp_noise_returns_no_exact_value_for_a_scale_that_is_none(scale: float) -> None:
    try:
        noisy = OpenDPNoise().stream().gaussian(np.array([0.25, 0.5]), np.array([scale, 1.0]))
    except InvalidParameter:
        return
    assert noisy[0] != 0.25


@pytest.mark.parametrize("source", [SimulatedNoise(1), OpenDPNoise()], ids=["simulated", "opendp"])
@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, np.array([math.nan, 1.0]), np.array([-1.0, 1.0])])
def test_scales_that_are_no_amounts_are_refused_by_every_stream(source: NoiseSource, scale: Any) -> None:
    for kind in ("gaussian", "laplace"):
        with pytest.raises(InvalidParameter, match="scale"):
            getattr(source.stream(), kind)(np.zeros(2), scale)


def test_simulated_noise_has_the_shape_of_the_value() -> None:
    try:
        noisy = SimulatedNoise(1).stream().gaussian(np.zeros(1), np.ones(5))
    except InvalidParameter:
        return
    assert noisy.shape == (1,)


@pytest.mark.parametrize("key", [2**32, 2**64 + 7])
def test_keys_that_numpy_would_spell_as_several_are_refused(key: int) -> None:
    """SeedSequence spells a key as 32-bit words, so that (2**32,) and (0, 1) would be one stream."""
    with pytest.raises(InvalidParameter, match="key"):
        SimulatedNoise(1).stream(key)


@pytest.mark.parametrize("key", [-1, 1.5, "a"])
def test_keys_that_are_no_counts_are_refused_by_name(key: Any) -> None:
    with pytest.raises(InvalidParameter, match="key"):
        SimulatedNoise(1).stream(key)


@pytest.mark.parametrize("value", ["1.5", ["a"], [True], [1j]])
def test_simulated_and_opendp_noise_take_numbers_only(value: Any) -> None:
    for source in (SimulatedNoise(1), OpenDPNoise()):
        with pytest.raises(InvalidParameter, match="value"):
            source.stream().gaussian(value, 1.0)


@pytest.mark.parametrize("source", [SimulatedNoise(1), OpenDPNoise()], ids=["simulated", "opendp"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_answers_are_finite_at_the_largest_scales(source: NoiseSource) -> None:
    assert np.isfinite(source.stream().gaussian(np.full(60, 1.7e308), 1e308)).all()
