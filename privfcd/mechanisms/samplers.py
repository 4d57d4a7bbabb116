"""The secure stream of samples: exact laws, the operating system's randomness, no seed.

`gaussian` and `laplace` release R(value + scale * Z), where Z has exactly the standard normal (Laplace) law
on the real numbers (`cells`) and R rounds the exact sum to a grid that depends on the scale only (`grid`). By
the data-processing inequality the accounting of the continuous mechanism holds as it is: mu-Gaussian-DP with
mu = sensitivity / scale, and sensitivity / scale for Laplace. `select` is the exponential mechanism on the
scores as given, in exact arithmetic (`selection`). The proofs are in those modules.

What is assumed: the operating system's generator is indistinguishable from uniform bits; NumPy's +, -, * on
doubles are rounded correctly to nearest (IEEE 754), and conversions between integers and doubles are exact
where that is possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import coins, grid, selection
from privfcd.mechanisms.cells import LAPLACE, NORMAL, Draws, StandardLaw
from privfcd.mechanisms.entropy import Entropy, Pool
from privfcd.mechanisms.exact import Exact
from privfcd.mechanisms.lazy import Lazy
from privfcd.mechanisms.noise import held_by_doubles, plain
from privfcd.mechanisms.staged import ExactTable, Mask, SelectionTable

Array = NDArray[np.float64]

_RESERVE = 2048
_MOST = 2**31


class _Reserve:
    """Draws made ahead, each handed out once: they do not depend on the values that they will be added to."""

    def __init__(self, law: StandardLaw) -> None:
        self.law = law
        self._draws = Draws(np.empty(0), {})
        self._used = 0

    def one(self, entropy: Entropy) -> tuple[float, tuple[int, Lazy] | None]:
        """Return one draw: z, or what `Draws.special` says instead."""
        if self._used >= len(self._draws.z):
            self._draws, self._used = self.law.draw(entropy, _RESERVE), 0
        position = self._used
        self._used = position + 1
        return self._draws.z.item(position), self._draws.special.get(position)

    def many(self, entropy: Entropy, size: int) -> Draws:
        """Return `size` draws."""
        if size > _RESERVE // 2:
            return self.law.draw(entropy, size)
        if self._used + size > len(self._draws.z):
            self._draws, self._used = self.law.draw(entropy, _RESERVE), 0
        start = self._used
        self._used = start + size
        special = {i - start: x for i, x in self._draws.special.items() if start <= i < start + size}
        return Draws(self._draws.z[start : start + size], special)


class SecureSampler:
    """A stream of exact samples from the operating system's randomness; satisfies `NoiseStream`.

    It has no seed and no state that could be repeated: copies, pickles, forked processes and threads never
    share noise.

    Parameters
    ----------
    _source : callable, private
        Where bytes come from, for tests only. A copy or a pickle always reads the operating system.
    """

    secure = True

    def __init__(self, *, _source: Callable[[int], bytes] | None = None) -> None:
        self._entropy = Entropy() if _source is None else Entropy(_source)
        self._normal: Pool[_Reserve] = Pool(lambda: _Reserve(NORMAL))
        self._laplace: Pool[_Reserve] = Pool(lambda: _Reserve(LAPLACE))

    def __reduce__(self) -> tuple[Any, ...]:
        return (SecureSampler, ())

    def gaussian(self, value: ArrayLike | Exact, scale: float | Array) -> Array:
        """Return `value` plus Gaussian noise of standard deviation `scale`, rounded to the grid of the scale.

        Parameters
        ----------
        value : array_like or Exact
            Finite numbers, taken as doubles; a NaN or an infinity is refused before any noise is drawn. An exact answer is
            not rounded to doubles first.
        scale : float or ndarray
            Standard deviation in the units of `value`, finite and at least 0; an array must broadcast to the
            shape of `value`. Where it is 0 the value is returned as it is.

        Returns
        -------
        ndarray
            In the shape of `value`; multiples of 2^(floor(log2 scale) - 20) (see `grid`).

        Raises
        ------
        InvalidParameter
            For values or scales that are not accepted.
        """
        return self._noisy(self._normal, value, scale)

    def laplace(self, value: ArrayLike | Exact, scale: float | Array) -> Array:
        """Return `value` plus Laplace noise of scale `scale`, rounded to its grid; else as `gaussian`."""
        return self._noisy(self._laplace, value, scale)

    def _noisy(self, pool: Pool[_Reserve], value: ArrayLike | Exact, scale: float | Array) -> Array:
        if isinstance(value, Exact):
            return value.noisy(lambda low, scales: self._noisy(pool, low, scales), scale)
        if isinstance(value, float) and isinstance(scale, float):
            if not math.isfinite(value):
                raise _not_finite("value")
            if not 0.0 <= scale < math.inf:
                raise _bad_scale(scale)
            if scale == 0.0:
                return np.asarray(value, dtype=np.float64)
            reserve = pool.lend()
            z, special = reserve.one(self._entropy)
            pool.give_back(reserve)
            noisy = grid.add_one(self._entropy, reserve.law, float(value), float(scale), z, special)
            return np.asarray(noisy)
        offset = _doubles("value", value)
        if not np.isfinite(offset).all():
            raise _not_finite("value")
        scales = _scales(scale, offset.shape)
        flat = offset.ravel()
        if isinstance(scales, float):
            row = self._row(pool, flat, scales) if scales else flat.copy()
        else:
            row = flat.copy()
            noised = scales > 0
            row[noised] = self._row(pool, flat[noised], scales[noised])
        return row.reshape(offset.shape)

    def _row(self, pool: Pool[_Reserve], value: Array, scale: float | Array) -> Array:
        reserve = pool.lend()
        draws = reserve.many(self._entropy, len(value))
        pool.give_back(reserve)
        return grid.add(self._entropy, reserve.law, value, scale, draws)

    def select(self, scores: ArrayLike, scale: float) -> int:
        """Return index i with probability exp(scores[i]/scale) / sum_j exp(scores[j]/scale), exactly.

        Parameters
        ----------
        scores : array_like (n,)
            Doubles; -inf is never chosen, NaN and +inf are refused; n in 1..2^31.
        scale : float
            b, one finite number of at least 0; 0 takes the largest score, the first of equal ones.

        Raises
        ------
        InvalidParameter
            For scores or scales that are not accepted, and where all scores are -inf.
        """
        array, peak = _scores(scores)
        if _one_scale(scale) == 0.0:
            return int(array.argmax())
        return selection.select(self._entropy, array, float(scale), peak)

    def select_many(self, scores: ArrayLike, scale: float, size: int) -> NDArray[np.int64]:
        """Return `size` independent selections, for audits; each one costs what `select` costs."""
        array, peak = _scores(scores)
        checks.count("size", size, least=0)
        if _one_scale(scale) == 0.0:
            return np.full(size, array.argmax(), dtype=np.int64)
        return selection.select_many(self._entropy, array, float(scale), peak, size)

    def table(self, candidates: Mask, scale: float) -> SelectionTable:
        """Return a table of candidates whose selections have the law of `select`, exactly (see `staged`).

        Parameters
        ----------
        candidates : ndarray of bool, shape (columns, rows)
            Which may be selected; at least one in each column.
        scale : float
            b, one finite number above 0.
        """
        return ExactTable(self._entropy, candidates, checks.positive("scale", scale))

    def permute_and_flip(self, scores: ArrayLike, scale: float) -> int:
        """Return one selection by permute-and-flip, exactly on the scores as given; arguments as for `select`.

        The first head in a random order is a uniform pick among all heads, so that all coins are tossed at once. The
        time varies slightly with how many coins need exact arithmetic, about one in 1400 of those near the maximum.
        """
        array, peak = _scores(scores)
        if _one_scale(scale) == 0.0:
            return int(array.argmax())
        heads = np.flatnonzero(coins.heads(self._entropy, array, float(scale), peak))
        return int(heads[self._entropy.below(len(heads))])


def _not_finite(name: str) -> InvalidParameter:
    return InvalidParameter(f"{name} must be finite numbers, got NaN or an infinity")


def _bad_scale(scale: object) -> InvalidParameter:
    return checks.refuse("scale", scale, "finite and at least 0")


def _doubles(name: str, value: ArrayLike) -> Array:
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    array = plain(name, value)
    if not held_by_doubles(array):
        raise InvalidParameter(f"{name} must be doubles, got integers beyond 2^53 that doubles cannot hold")
    return array.astype(np.float64)


def _scales(scale: float | Array, shape: tuple[int, ...]) -> float | Array:
    """Return one scale, or one for each of the values in a row."""
    if isinstance(scale, float) or np.ndim(scale) == 0:
        return _one_scale(scale)
    scales = _doubles("scale", scale)
    if not ((scales >= 0.0) & (scales < np.inf)).all():
        raise InvalidParameter("scale must be finite and at least 0, got an array where it is not")
    try:
        return np.broadcast_to(scales, shape).ravel()
    except ValueError:
        raise InvalidParameter(
            f"scale must be one number or broadcast to the shape of value, got {scales.shape} and {shape}"
        ) from None


def _one_scale(scale: float | Array) -> float:
    if isinstance(scale, float):
        if 0.0 <= scale < math.inf:
            return float(scale)
        raise _bad_scale(scale)
    return checks.scale("scale", scale.item() if isinstance(scale, np.ndarray) and scale.ndim == 0 else scale)


def _scores(scores: ArrayLike) -> tuple[Array, float]:
    array = _doubles("scores", scores)
    if array.ndim != 1 or not 0 < array.size < _MOST:
        raise InvalidParameter(f"scores must be one row of 1 to 2^31 candidates, got shape {array.shape}")
    peak = float(array.max())
    if not peak < math.inf:
        raise InvalidParameter("scores must be finite or -inf, got NaN or +inf")
    if peak == -math.inf:
        raise InvalidParameter("scores must hold at least one finite number, got -inf only")
    return array, peak
