"""The moments of a table or of a federation: a matrix, its rows, and the law of its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.errors import InvalidParameter
from privfcd.markup import card, table
from privfcd.moments.noise_law import NoiseTerm, merged
from privfcd.moments.origins import NONE, Origin, check_once, origins_text, settled

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Raw second moments X'X / n, or centred ones where `mean` was taken off first.

    Attributes
    ----------
    matrix : ndarray of shape (d, d)
        Symmetric; with noise it need not be positive semidefinite.
    rows : int
        n, public.
    columns : tuple of str
        Names.
    noise : tuple of NoiseTerm
        The law of the noise, a sum of independent terms; empty for exact moments.
    mean : ndarray of shape (d,), optional
        What was taken off the rows, itself exact or released. Where each of several parties took off its own: the mean of
        all rows.
    origins : tuple of Origin
        The parties whose rows these are, and what stands before each: moments without noise that were pooled with noisy ones
        protect nobody, whatever noise the sum has. By default one party without a name, exact where there is no noise.
    differences : bool
        Whether the rows are differences of records over sqrt(2), in which no mean appears.
    """

    matrix: Array
    rows: int
    columns: tuple[str, ...]
    noise: tuple[NoiseTerm, ...] = ()
    mean: Array | None = None
    origins: tuple[Origin, ...] = ()
    differences: bool = False

    def __post_init__(self) -> None:
        d = len(self.columns)
        if self.matrix.shape != (d, d) or not np.isfinite(self.matrix).all():
            raise InvalidParameter(f"matrix must be finite and of shape ({d}, {d}), got shape {self.matrix.shape}")
        if not np.array_equal(self.matrix, self.matrix.T):
            raise InvalidParameter("matrix must be symmetric")
        if not isinstance(self.noise, tuple) or not all(isinstance(term, NoiseTerm) for term in self.noise):
            raise checks.refuse("noise", self.noise, "a tuple of NoiseTerm, empty for exact moments")
        for term in self.noise:
            term.check(d)
        if self.mean is not None and (self.mean.shape != (d,) or not np.isfinite(self.mean).all()):
            raise InvalidParameter(f"mean must be {d} finite numbers, got shape {self.mean.shape}")
        checks.count("rows", self.rows)
        if not isinstance(self.differences, bool):
            raise checks.refuse("differences", self.differences, "True or False")
        if not isinstance(self.origins, tuple) or not all(isinstance(origin, Origin) for origin in self.origins):
            raise checks.refuse("origins", self.origins, "a tuple of Origin, one for each party")
        object.__setattr__(self, "origins", settled(self.origins, any(term.present for term in self.noise)))

    @property
    def exact(self) -> bool:
        """Whether there is no noise at all; see `protected` for what that says of each party."""
        return not self.noise

    @property
    def protected(self) -> bool:
        """Whether there is noise in every party's moments; the law of a sum does not say so."""
        return all(origin.noise != NONE for origin in self.origins)

    @cached_property
    def noise_sd(self) -> Array | None:
        """Standard deviation of the noise in each entry, shape (d, d); None for exact moments."""
        if self.exact:
            return None
        d = len(self.columns)
        return np.sqrt(sum((term.entry_variances(d) for term in self.noise), np.zeros((d, d))))

    def noise_variances(self, left: Array, right: Array) -> Array:
        """Return Var(u' N v), N the noise, for each column u of `left` and v of `right`, both of shape (d, m)."""
        return sum((term.pair_variances(left, right) for term in self.noise), np.zeros(left.shape[1]))

    def form_noise_variance(self, form: Array) -> float:
        """Return Var <N, M>, N the noise, for a symmetric M of shape (d, d)."""
        return sum(term.form_variance(form) for term in self.noise)

    def _repr_html_(self) -> str:
        d = len(self.columns)
        noise = "none: exact"
        if self.noise_sd is not None:
            noise = f"standard deviation {self.noise_sd.min():.3g} to {self.noise_sd.max():.3g} in the entries"
        facts = [
            ("matrix", f"{d} x {d}"),
            ("rows (public)", self.rows),
            ("noise", noise),
            ("parties", origins_text(self.origins)),
            ("mean", self._mean_words()),
            ("columns", ", ".join(self.columns[:30]) + (f" and {d - 30} more" if d > 30 else "")),
        ]
        return card("Second moments", table(facts))

    def _mean_words(self) -> str:
        if self.differences:
            return "not in them: they are of differences of records"
        return "not taken off" if self.mean is None else "taken off first"

    def noise_draw(self, generator: np.random.Generator) -> Array:
        """Return one draw of the stated noise, symmetric, shape (d, d); zeros for exact moments."""
        d = len(self.columns)
        return sum((term.sample(generator, d) for term in self.noise), np.zeros((d, d)))

    def redrawn(self, generator: np.random.Generator) -> Moments:
        """Return these moments plus a fresh draw of their noise, stated as what it is: noise of twice the variance.

        The exact moments plus two independent draws, in law, if the stated law is the noise's own.
        """
        noise = merged([term.scaled(math.sqrt(2)) for term in self.noise])
        return replace(self, matrix=self.matrix + self.noise_draw(generator), noise=noise)

    def carried(self, linear: Array, columns: Sequence[str] | None = None) -> Moments:
        """Return the moments of the rows times `linear`': linear S linear', with the noise's law carried along."""
        matrix = linear @ self.matrix @ linear.T
        return Moments(
            (matrix + matrix.T) / 2,
            self.rows,
            self.columns if columns is None else tuple(columns),
            tuple(term.carried(linear) for term in self.noise),
            None if self.mean is None else linear @ self.mean,
            self.origins,
            self.differences,
        )

    def repaired(self, floor: float = 0.0) -> Moments:
        """Return the nearest moments whose eigenvalues are at least `floor`; the stated noise law stays."""
        values, vectors = np.linalg.eigh(self.matrix)
        lifted = (vectors * np.maximum(values, floor)) @ vectors.T
        return replace(self, matrix=(lifted + lifted.T) / 2)

    def shrunk(self) -> Moments:
        """Return the moments with all entries off the diagonal drawn to 0 by one factor that their known error suggests.

        On the scale of correlations, the least mean squared error is at the factor 1 - sum Var_ij / sum E s_ij² (Ledoit and
        Wolf 2004; Schäfer and Strimmer 2005), where the variance is that of Gaussian sampling plus the noise's, both
        known here. The noise's law keeps the entries' standard deviations and drops correlations between entries.
        """
        d = len(self.columns)
        noise = np.zeros((d, d)) if self.noise_sd is None else self.noise_sd
        scale = np.sqrt(np.maximum(np.diag(self.matrix), np.maximum(np.diag(noise), np.finfo(float).tiny)))
        units = np.outer(scale, scale)
        values, errors = self.matrix / units, (noise / units) ** 2
        off = ~np.eye(d, dtype=bool)
        squares = float((values[off] ** 2).sum())
        factor = 1.0
        if squares > 0:
            sampling = (1 + np.clip(values[off] ** 2 - errors[off], 0.0, 1.0)) / self.rows
            factor = max(0.0, 1 - float((errors[off] + sampling).sum()) / squares)
        factors = np.where(off, factor, 1.0)
        return replace(
            self,
            matrix=self.matrix * factors,
            noise=() if self.noise_sd is None else (NoiseTerm(noise * factors),),
        )

    def effective_rows(self) -> Array:
        """Return for each entry how many exact Gaussian rows would estimate it as well, shape (d, d).

        The sampling variance of entry (i, j) of Gaussian second moments is (s_ii s_jj + s_ij²) / n; the noise adds its
        own. Without noise this is n everywhere.
        """
        if self.noise_sd is None:
            return np.full(self.matrix.shape, float(self.rows))
        diagonal = np.maximum(np.diag(self.matrix), np.finfo(float).tiny)
        spread = np.outer(diagonal, diagonal) + self.matrix**2
        return np.asarray(spread / (spread / self.rows + self.noise_sd**2))


def pooled(parts: Sequence[Moments]) -> Moments:
    """Return the moments of all parties' rows together, weighted by their numbers of rows.

    Where each party took off a mean of its own, the sum is of moments within parties: how far their means lie apart is not
    in it. Noise of different parties is independent. The `origins` of all are kept: where one party's moments are exact, so
    is its part of the sum.

    Parameters
    ----------
    parts : sequence of Moments
        One for each party, over the same columns.

    Raises
    ------
    InvalidParameter
        There are no moments, their columns do not agree, some are about a mean and others are not, or a party is there twice
        (`check_different`).
    """
    parts = list(parts)
    for part in parts:
        checks.instance("parts", part, Moments, "a list of Moments, one for each party")
    if not parts:
        raise InvalidParameter("parts must hold at least one Moments, got none")
    check_different(parts)
    first = parts[0]
    for part in parts[1:]:
        if part.columns != first.columns:
            raise InvalidParameter(f"columns must agree, got {part.columns} and {first.columns}")
    about_means = [part.differences or (part.mean is not None and bool(part.mean.any())) for part in parts]
    if any(about_means) and any(part.mean is None and not part.differences for part in parts):
        raise InvalidParameter(
            "moments about a mean cannot be pooled with moments about 0: take the mean off at all parties, or at none"
        )
    rows = sum(part.rows for part in parts)
    shares = [part.rows / rows for part in parts]
    differences = any(part.differences for part in parts)
    means = [part.mean for part in parts if part.mean is not None]
    mean = None
    if means and not differences:
        mean = means[0]
        if any(not np.array_equal(_or_zero(part.mean, first), mean) for part in parts):
            mean = np.array(shares) @ np.array([_or_zero(part.mean, first) for part in parts])
    matrix = sum((share * part.matrix for share, part in zip(shares, parts, strict=True)), np.zeros_like(first.matrix))
    noise = merged([term.scaled(share) for share, part in zip(shares, parts, strict=True) for term in part.noise])
    origins = tuple(origin for part in parts for origin in part.origins)
    return Moments((matrix + matrix.T) / 2, rows, first.columns, noise, mean, origins, differences)


def check_different(parts: Sequence[Moments]) -> None:
    """Refuse moments that are not of different parties, as far as they say: their noises would not be what the sum states.

    A party is known by its name in `Moments.origins`, and noisy moments by their numbers, which no other release has. Two
    releases of one table that were made by hand, without names, cannot be told from those of two parties, nor can rows that
    were released under two names.

    Raises
    ------
    InvalidParameter
        A name occurs twice, or the same noisy moments do.
    """
    check_once(origin.party for part in parts for origin in part.origins)
    alike: dict[tuple[int, float], list[Moments]] = {}
    for place, part in enumerate(parts):
        if part.exact:
            continue
        before = alike.setdefault((part.rows, float(part.matrix[0, 0])), [])
        repeated = any(np.array_equal(part.matrix, other.matrix) for other in before)
        if repeated and part.noise_sd is not None and part.noise_sd.any():  # with all columns left out there is no noise
            raise InvalidParameter(
                f"moments {place + 1} are given twice: one noise would count as two, and the rows too"
            )
        before.append(part)


def _or_zero(mean: Array | None, like: Moments) -> Array:
    return np.zeros(len(like.columns)) if mean is None else mean
