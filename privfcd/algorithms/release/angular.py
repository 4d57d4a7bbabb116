"""From mean directions to second moments: the angular central Gaussian law, and its inverse around a guess.

Let y be Gaussian (or of any law with the same directions, such as an elliptical one) with E yy' = G, and u = y / |y|. In
G's eigenbasis E uu' is diagonal too (Tyler 1987), with

    phi_i = E [l_i z_i² / sum l_k z_k²] = 1/2 ∫ l_i / (1 + l_i t) prod_k (1 + l_k t)^(-1/2) dt over t > 0,

because 1 / s = ∫ exp(-s t) dt. It does not change with G's scale. To first order in a change D of G, off the diagonal of the
eigenbasis,

    phi(G + D)_ij - phi(G)_ij = kappa_ij D_ij,    kappa_ij = 1/2 ∫ (1 + l_i t)^(-1) (1 + l_j t)^(-1) prod (...) dt,

and on it the same less a multiple that belongs to the change of scale. The mass of the integral is where t is about
2 / trace, so that kappa_ij is nearly c_i c_j; with L = U diag(1/c) U' the equation mean uu' = phi(G) is then solved by
G = G0 + L (mean uu' - phi(G0)) L', a linear map of a known kind, so that the noise's law stays known. At G0 = I it is
G = I + (d + 2) (mean uu' - I / d).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NODES = np.exp(np.linspace(math.log(1e-9), math.log(1e9), 700))
_STEP = math.log(_NODES[1] / _NODES[0])


def mean_direction(guess: Array) -> tuple[Array, Array]:
    """Return phi(G), shape (d, d), and L for a positive definite guess G: what a mean of uu' is solved with."""
    values, vectors = np.linalg.eigh(guess)
    values = np.maximum(values, 1e-9 * values[-1])
    values = values / values.sum()
    damped = 1 / (1 + np.outer(values, _NODES))  # the trapezoid rule in log t, exponentially accurate
    mass = _NODES * np.sqrt(damped).prod(axis=0) * (_STEP / 2)
    phi = values * (damped @ mass)
    logs = np.log((damped * mass) @ damped.T)
    c = np.exp(logs.mean(axis=1) - logs.mean() / 2)
    # the guess has its own scale, which phi does not see
    back = math.sqrt(float(np.trace(guess)))
    return (vectors * phi) @ vectors.T, (vectors * (back / c)) @ vectors.T
