"""The staircase's integers against mpmath, decisions against a reference on the same bits, and the laws."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from privfcd.mechanisms import cells
from privfcd.mechanisms.cells import COIN_BITS, LAPLACE, LEVEL_BITS, NORMAL, PART_BITS, Draws, StandardLaw
from privfcd.mechanisms.entropy import Entropy
from tests.support.helpers import seeded

LOW_TOPS = [
    StandardLaw(gaussian=True, cell_bits=6, top_bits=0),
    StandardLaw(gaussian=True, cell_bits=7, top_bits=1),
    StandardLaw(gaussian=False, cell_bits=6, top_bits=0),
    StandardLaw(gaussian=False, cell_bits=6, top_bits=2),
]
LAWS = [NORMAL, LAPLACE, *LOW_TOPS]


def values(law: StandardLaw, draws: Draws) -> np.ndarray:
    z = draws.z.copy()
    for i, (sign, number) in draws.special.items():
        assert np.isnan(z[i])
        z[i] = sign * float(number.low)
    assert not np.isnan(z).any()
    return z


def distribution(law: StandardLaw) -> stats.rv_continuous:
    return stats.norm if law.gaussian else stats.laplace


def height(law: StandardLaw, x: Fraction) -> mpmath.mpf:
    gamma = law.gamma(x)
    return mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator)


@pytest.mark.parametrize("law", LAWS)
def test_the_integers_are_on_the_safe_side_and_add_up(law: StandardLaw) -> None:
    tables = law.tables
    assert sum(tables.weights) == 2**32
    assert min(tables.weights) >= 0
    with mpmath.workprec(200):
        for j in range(law.cells):
            left, right = Fraction(j, 1 << law.cell_bits), Fraction(j + 1, 1 << law.cell_bits)
            weight = tables.weights[j]
            assert tables.scale * height(law, left) <= weight <= tables.scale * height(law, left) + 1.001
            assert int(tables.sure[j]) <= tables.scale * height(law, right) / weight * 2**COIN_BITS
            assert int(tables.sure[j]) >= tables.scale * height(law, right) / weight * 2**COIN_BITS - 1.001
            assert tables.ratios[j] == tables.scale / weight
        top = 1 << law.top_bits
        beyond = tables.scale * height(law, Fraction(top)) * 2**law.cell_bits / (top if law.gaussian else 1)
        assert beyond <= tables.weights[law.cells] <= beyond + 1.001
    assert tables.weights[-1] < 2**32 // 500
    assert tables.sure[law.cells :].tolist() == [0, 0]


@pytest.mark.parametrize("law", LAWS)
def test_the_alias_table_gives_every_outcome_its_weight(law: StandardLaw) -> None:
    tables = law.tables
    mass = np.zeros(len(tables.weights), dtype=np.int64)
    levels = tables.levels.astype(np.int64)
    np.add.at(mass, tables.outcomes[0::2], levels)
    np.add.at(mass, tables.outcomes[1::2], (1 << LEVEL_BITS) - levels)
    assert mass.tolist() == tables.weights


def test_the_exponential_in_floating_point_is_as_exact_as_it_says() -> None:
    gamma = np.concatenate(
        [np.random.default_rng(1).uniform(0, 127.9, 4000), np.arange(0, 127, 1 / 64)[:3000], [0.0]]
    )
    computed = cells._exp_minus(gamma)
    with mpmath.workprec(200):
        worst = max(
            abs(mpmath.mpf(c) * mpmath.exp(mpmath.mpf(g)) - 1) for g, c in zip(gamma, computed, strict=True)
        )
    assert worst < 2.0**-48


def reference(law: StandardLaw, first: int, second: int, later: Entropy) -> float | None:
    """What one proposal must give: its number, or None; in mpmath, on the bits that the code would use."""
    tables = law.tables
    column, level = first >> LEVEL_BITS, first & ((1 << LEVEL_BITS) - 1)
    outcome = int(tables.outcomes[2 * column + (level >= int(tables.levels[column]))])
    if outcome >= law.cells:
        return None
    part, coin = second & ((1 << PART_BITS) - 1), second >> PART_BITS & ((1 << COIN_BITS) - 1)
    whole = (outcome << PART_BITS) + part
    sign = -1 if second >> 63 else 1
    left = Fraction(whole, 1 << law.places)
    right = Fraction(whole + 1, 1 << law.places)
    odds = [tables.scale * height(law, x) / tables.weights[outcome] for x in (right, left)]
    if mpmath.mpf(coin + 1) / 2**COIN_BITS <= odds[0]:
        return sign * float(left)
    if mpmath.mpf(coin) / 2**COIN_BITS >= odds[1]:
        return None
    # 64 more bits of each decide in all of these tests; the number that comes back is rounded down
    coin = coin << 64 | later.bits(64)
    finer = Fraction(whole << 64 | later.bits(64), 1 << (law.places + 64))
    assert left <= finer < right
    kept = (
        mpmath.mpf(coin) / 2 ** (COIN_BITS + 64) < tables.scale * height(law, finer) / tables.weights[outcome]
    )
    return sign * float(finer) if kept else None


@pytest.mark.parametrize("law", [NORMAL, LAPLACE])
def test_proposals_agree_with_a_reference_on_the_same_bits(law: StandardLaw) -> None:
    size = 3000
    twin = seeded(7)
    first, second = twin.uint32(size), twin.uint64(size)
    got = law._propose(seeded(7), size)
    with mpmath.workprec(200):
        wanted = [reference(law, int(a), int(b), twin) for a, b in zip(first, second, strict=True)]
    assert values(law, got).tolist() == [z for z in wanted if z is not None]
    assert 0.98 < len(got.z) / size < 1


@pytest.mark.parametrize("law", [NORMAL, LAPLACE])
def test_undecided_coins_are_decided_by_further_bits(law: StandardLaw) -> None:
    """Coins that equal the odds in all of their first bits, at magnitudes across all cells."""
    rng = np.random.default_rng(8)
    undecided = 0
    with mpmath.workprec(400):
        for trial in range(300):
            cell = int(rng.integers(0, law.cells // 2))
            part = int(rng.integers(0, 1 << PART_BITS))
            x = Fraction((cell << PART_BITS) + part, 1 << law.places)
            coin = int(law.tables.scale * height(law, x) / law.tables.weights[cell] * 2**COIN_BITS)
            column = int(np.flatnonzero((law.tables.outcomes[0::2] == cell) & (law.tables.levels > 0))[0])
            first = column << LEVEL_BITS
            second = (trial & 1) << 63 | coin << PART_BITS | part
            rest = rng.bytes(1 << 17)

            def source(count: int, first: int = first, second: int = second, rest: bytes = rest) -> bytes:
                return (first.to_bytes(4, "little") + second.to_bytes(8, "little") + rest)[:count]

            got = law._propose(Entropy(source), 1)
            twin = Entropy(source)
            twin.take(12)
            wanted = reference(law, first, second, twin)
            assert values(law, got).tolist() == ([] if wanted is None else [wanted])
            undecided += len(got.special) or wanted is None
    assert undecided > 250


@pytest.mark.parametrize("law", LAWS)
def test_the_law(law: StandardLaw) -> None:
    size = 200_000 if law in (NORMAL, LAPLACE) else 12_000
    z = values(law, law.draw(seeded(9), size))
    name = distribution(law)
    level = 1e-6 / 100
    assert stats.kstest(z, name.cdf).pvalue > level
    uniform = name.cdf(z)
    assert stats.chisquare(np.histogram(uniform, 200, (0, 1))[0]).pvalue > level
    pairs = np.histogram2d(uniform[:-1:2], uniform[1::2], 10, ((0, 1), (0, 1)))[0]
    assert stats.chisquare(pairs.ravel()).pvalue > level
    assert stats.binomtest(int((z < 0).sum()), size, 0.5).pvalue > level


@pytest.mark.parametrize("law", [NORMAL, LAPLACE])
def test_the_tails(law: StandardLaw) -> None:
    size = 2_000_000
    z = law.draw(seeded(10), size).z
    for quantile in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        edge = distribution(law).isf(quantile)
        for count in (int((z > edge).sum()), int((z < -edge).sum())):
            assert stats.binomtest(count, size, quantile).pvalue > 1e-6 / 24


@pytest.mark.parametrize("law", LOW_TOPS)
def test_what_is_beyond_the_top_has_the_right_weight_and_law(law: StandardLaw) -> None:
    size = 12_000
    z = np.abs(values(law, law.draw(seeded(11), size)))
    top = float(1 << law.top_bits)
    name = distribution(law)
    beyond = z[z >= top]
    assert stats.binomtest(len(beyond), size, 2 * name.sf(top)).pvalue > 1e-8
    assert stats.kstest(beyond, lambda x: 1 - name.sf(x) / name.sf(top)).pvalue > 1e-8


@pytest.mark.parametrize("law", [NORMAL, LAPLACE])
def test_the_far_tail_is_reached_and_not_cut(law: StandardLaw) -> None:
    """The tops are 8 and 16: force the outcome beyond them, with coins that keep it."""
    top = 1 << law.top_bits
    tables = law.tables
    column = int(np.flatnonzero((tables.outcomes[0::2] == law.cells) & (tables.levels > 0))[0])
    script = (column << LEVEL_BITS).to_bytes(4, "little") + (1 << 63).to_bytes(8, "little")
    magnitudes = []
    for seed in range(60):
        rest = np.random.default_rng(seed).bytes(1 << 17)
        got = law._propose(Entropy(lambda count, rest=rest: (script + rest)[:count]), 1)
        for sign, number in got.special.values():
            assert sign == -1
            assert number.low >= top
            magnitudes.append(float(number.low) - top)
    # a coin of 21 zeros keeps the normal number with probability 2^21 * 8e-7 or so, the Laplace one always
    assert len(magnitudes) >= (15 if law.gaussian else 60)
    if not law.gaussian:
        assert stats.kstest(magnitudes, "expon").pvalue > 1e-6


@pytest.mark.parametrize("law", [NORMAL, LAPLACE])
def test_a_draw_says_exactly_what_is_known(law: StandardLaw) -> None:
    z = law.draw(seeded(12), 2000).z
    for number, one in ((law.number(float(one)), float(one)) for one in z):
        assert number.low == Fraction(abs(one))
        assert number.places == law.places
