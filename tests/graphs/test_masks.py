"""The consensus masks, pair by pair from their rules."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd.errors import InvalidParameter
from privfcd.graphs import Pdag, directed_consensus, skeleton_consensus, undirected_consensus

NONE, FORTH, BACK, BOTH = (0, 0), (1, 0), (0, 1), (1, 1)
STATES = (NONE, FORTH, BACK, BOTH)


def pair(state: tuple[int, int]) -> Pdag:
    return Pdag.from_matrix([[0, state[0]], [state[1], 0]])


def mu(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    if NONE in (a, b) or {a, b} == {FORTH, BACK}:
        return NONE
    return b if a == BOTH else a


def nu(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    if NONE in (a, b):
        return NONE
    return a if a == b else BOTH


@pytest.mark.parametrize(("a", "b"), list(product(STATES, repeat=2)))
def test_rules_on_one_pair(a: tuple[int, int], b: tuple[int, int]) -> None:
    opposite = {a, b} == {FORTH, BACK}
    assert directed_consensus(pair(a), pair(b)) == pair(mu(a, b))
    assert directed_consensus(pair(a), pair(b), conflict="undirect") == pair(BOTH if opposite else mu(a, b))
    assert undirected_consensus(pair(a), pair(b)) == pair(nu(a, b))
    assert undirected_consensus(pair(a), pair(b), conflict="drop") == pair(NONE if opposite else nu(a, b))
    assert skeleton_consensus(pair(a), pair(b)) == pair(NONE if b == NONE else a)


@given(st.integers(2, 6), st.integers(0, 2**32))
def test_masks_work_pair_by_pair(p: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    first, second = generator.random((2, p, p)) < 0.5
    np.fill_diagonal(first, False)
    np.fill_diagonal(second, False)
    for mask in (directed_consensus, undirected_consensus, skeleton_consensus):
        whole = mask(first, second).matrix()
        for i in range(p):
            for j in range(i):
                cut = np.ix_([i, j], [i, j])
                assert (mask(first[cut], second[cut]).matrix() == whole[cut]).all()
    assert directed_consensus(first, second) == directed_consensus(second, first)
    assert undirected_consensus(first, second) == undirected_consensus(second, first)
    assert directed_consensus(first, first) == undirected_consensus(first, first) == Pdag.from_matrix(first)


def test_refusals() -> None:
    with pytest.raises(InvalidParameter, match="party must have 2 nodes, got 3"):
        directed_consensus(np.zeros((2, 2)), np.zeros((3, 3)))
    with pytest.raises(InvalidParameter, match="conflict must be 'drop' or 'undirect', got 'keep'"):
        undirected_consensus(np.zeros((2, 2)), np.zeros((2, 2)), conflict="keep")  # type: ignore[arg-type]
