"""The most that the messages of a run can come to, where their size depends on what is learnt.

Fed-Sparse-BNSL sends the entries of matrices that are not 0. How many these are depends on what the rounds find, which no
rehearsal on other rows can tell. What bounds them is public: before each round the coordinator's W has at most s entries; a
party adds one with each of its K updates, so that its B has at most s + K; and the next W has no entry that no party had,
so at most s + PK of P parties, and never more than d (d - 1). s is 0 before the first round.
"""

from __future__ import annotations

from privfcd.algorithms.fed_sparse.constants import REFIT_STEPS
from privfcd.federation.protocol import BYTES_A_FLOAT, index_bytes


def most_sparse_bytes(columns: int, parties: int, rounds: int, updates: int, *, refit: bool = True) -> int:
    """Return a bound on `bytes_exchanged_` of a run of Fed-Sparse-BNSL in rounds, whatever it learns.

    Parameters
    ----------
    columns, parties, rounds, updates : int
        d, P, T and K.
    refit : bool
        Whether weights are fitted anew after the rounds.
    """
    entry = BYTES_A_FLOAT + index_bytes(columns)
    every = columns * (columns - 1)
    held, entries = 0, 0
    for _ in range(rounds):
        entries += held + min(held + updates, every)
        held = min(held + parties * updates, every)
    whole = entries * entry + held * entry  # the last message has the final W
    if refit:
        kept = min(held, every // 2)  # of two opposite entries an acyclic W has one at most
        whole += REFIT_STEPS * kept * (entry + BYTES_A_FLOAT)
    whole += BYTES_A_FLOAT * (3 * columns + 1)  # second moments there and back, their noise, and the clip
    return parties * whole
