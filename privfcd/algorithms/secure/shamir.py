"""Shamir's secret sharing (1979): any `threshold` shares give the secret, fewer say nothing of it.

The secret is a_0 of a polynomial of degree threshold - 1 over the integers modulo a prime, whose other coefficients are
uniform; share x is its value at x. Any threshold - 1 values at points other than 0 are uniform and independent of a_0, for
through them and any a_0 passes exactly one such polynomial.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

PRIME = 2**256 + 297
"""The smallest prime above 2^256: secrets are 32 bytes."""

SECRET, SHARE = 32, 33
"""Bytes of a secret and of a share."""


def split(secret: bytes, points: Sequence[int], threshold: int) -> dict[int, bytes]:
    """Return the shares of a secret of 32 bytes at `points`, different whole numbers from 1 on.

    Any `threshold` of them give it back.
    """
    if len(secret) != SECRET or not 1 <= threshold <= len(points) or len({*points, 0}) != len(points) + 1:
        raise ValueError("a secret has 32 bytes, and different points above 0, at least as many as the threshold")
    polynomial = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    shares = {}
    for x in points:
        value = 0
        for coefficient in reversed(polynomial):
            value = (value * x + coefficient) % PRIME
        shares[x] = value.to_bytes(SHARE, "big")
    return shares


def join(shares: Mapping[int, bytes]) -> bytes:
    """Return the secret of as many shares as the threshold, by their points; ValueError where they give no 32 bytes."""
    total = 0
    for x, share in shares.items():
        # Lagrange's polynomial of this point, at 0
        above = below = 1
        for other in shares:
            if other != x:
                above = above * other % PRIME
                below = below * (other - x) % PRIME
        total += int.from_bytes(share, "big") * above * pow(below, -1, PRIME)
    total %= PRIME
    if total >= 2**256:
        raise ValueError("these shares belong to no secret of 32 bytes")
    return total.to_bytes(SECRET, "big")
