"""What Fed-BNSL's messages give away: the party's second moments, exactly (Fassy et al. 2025, A.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.errors import InvalidParameter
from privfcd.graphs.dag import square_matrix

Array = NDArray[np.float64]


def reconstructed_moments(local: Array, consensus: Array, dual: Array, rho2: float) -> Array:
    """Return S, computed from one closed-form answer B: S = (rho2 (W - B) - beta)(B - I)⁻¹.

    From B = (S + rho2 I)⁻¹(rho2 W - beta + S): S (B - I) = rho2 (W - B) - beta. In the first round W and beta are 0 and
    B - I = -rho2 (S + rho2 I)⁻¹, which can always be inverted. Whoever sees that message (the coordinator, or anyone on the
    way) has the party's second moments; Fed-BNSL on open tables is not private.

    Parameters
    ----------
    local, consensus, dual : ndarray of shape (d, d)
        B, the W that it was computed from, and the party's beta, which follows from earlier messages.
    rho2 : float
        Public.

    Raises
    ------
    InvalidParameter
        The matrices differ in shape, or B - I cannot be inverted (possible after the first round only).
    """
    local, consensus, dual = (
        square_matrix(name, value) for name, value in (("local", local), ("consensus", consensus), ("dual", dual))
    )
    rho2 = checks.moderate("rho2", rho2)
    if not local.shape == consensus.shape == dual.shape:
        raise InvalidParameter(f"matrices must have one shape, got {local.shape}, {consensus.shape}, {dual.shape}")
    right = rho2 * (consensus - local) - dual
    try:
        found = np.linalg.solve((local - np.eye(len(local))).T, right.T).T
    except np.linalg.LinAlgError:
        raise InvalidParameter("local must differ from the identity by an invertible matrix") from None
    return np.asarray((found + found.T) / 2)
