"""Recognise the same rows under another name, without keeping them."""

from __future__ import annotations

import hashlib
import hmac
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting.journal_errors import SameRows


def rows_fingerprint(key: bytes, rows: NDArray[np.float64]) -> str:
    """Return a keyed hash of the rows that does not depend on their order.

    The key keeps it from telling anything to who sees fingerprints only. Who has the key as well can test guesses of
    the whole table.
    """
    table = np.ascontiguousarray(rows, dtype="<f8") + 0.0  # -0.0 becomes 0.0
    if table.ndim != 2:
        raise checks.refuse("rows", table.shape, "of shape (n, d)")
    lines = np.sort(table.view(f"V{8 * table.shape[1]}").ravel()) if table.size else table
    return hmac.new(key, repr(table.shape).encode() + lines.tobytes(), hashlib.sha256).hexdigest()


def warn_of_same_rows(scope: str, others: Sequence[str]) -> None:
    """Warn the owner that the rows of `scope` are known under other names."""
    if others:
        names = ", ".join(map(repr, others))
        warnings.warn(
            f"the rows of {scope!r} are also those of {names}: each name has a budget of its own, and what is learnt "
            "under all of them adds up",
            SameRows,
            stacklevel=3,
        )
