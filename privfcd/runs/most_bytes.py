"""The most that the messages of a run can come to, where their size depends on what is learnt.

No rehearsal on other rows can tell it; public numbers bound it. d is the number of columns, P that of parties. Sizes are
those of the messages' own `payload_bytes`.

- Fed-Sparse-BNSL sends the entries of matrices that are not 0. Before each round the coordinator's W has at most s entries;
  a party adds one with each of its K updates, so that its B has at most s + K; and the next W has no entry that no party
  had, so at most s + PK, and never more than d (d - 1). s is 0 before the first round. Fed-BNSL's Frank-Wolfe steps do the
  same, with one entry in each of d columns a step.
- A release of moments in rounds sends, beside numbers whose count is known, one matrix A for each round: d² entries at most.
- FedACD sends one bit a pair of variables to a party, and gets two. Layer l, for l = 0 to `max_cond_vars`, is asked
  for only where some variable has more than l neighbours, which is never more than d - 1: so there are at most
  min(max_cond_vars + 1, d - 1) layers, and one more exchange of the same size for arcs. Then it sends a bit a pair
  again, and gets a byte for each unshielded triple: at most d (d - 1)² / 8 of them. Last come two counts of tests for
  each pair, two bytes each.
- Parties that keep their moments (Fed-BNSL, PERI, I-PERI) send one copy of noisy ones with their noise's law, or of exact
  ones the columns' sizes.
- PERI and I-PERI ask for regrets of families, a node with some of the other d - 1 as parents. Each search remembers what it
  was told and asks for no family twice: at most d 2^(d - 1) of them in each. `max_parents` bounds the families that a step
  may lead to, not all that it looks at. Where PERI pays for each regret, no more families are asked for than K
  (`max_regrets`) and the party's own d, which cost nothing. Beside the searches there are two questions after the regret
  of a whole graph; and directions: each party's graph, or, by regrets, one question for each collider that is made, which
  directs one edge at least, and a last one, about at most d (d - 1) (d - 2) / 2 colliders each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privfcd.algorithms.base import Estimator
from privfcd.algorithms.fed_bnsl import FedBNSL
from privfcd.algorithms.fed_sparse import FedSparseBNSL
from privfcd.algorithms.fed_sparse.choice import COORDINATES
from privfcd.algorithms.fed_sparse.constants import REFIT_STEPS
from privfcd.algorithms.fedacd import FedACD
from privfcd.algorithms.fedacd.levels import declared_levels
from privfcd.algorithms.peri import IPERI, PERI
from privfcd.algorithms.peri.messages import AskColliders, AskRegrets, graph_bytes
from privfcd.algorithms.protocol import BYTES_A_FLOAT, index_bytes
from privfcd.algorithms.release.plan import COVARIANCE, DIFFERENCES, HISTOGRAM, MEAN, ROUND, SCALES
from privfcd.algorithms.secure.masks import KEY, SIGNATURE
from privfcd.algorithms.secure.seat import CONTEXT, NONCE, SEALED
from privfcd.algorithms.secure.shamir import SHARE
from privfcd.data.encoding import Contrasts
from privfcd.graphs.pdag import Pdag
from privfcd.moments.octaves import BINS

USEFUL = 10**12
"""A bound above this is not stated: it says nothing about the run."""

NO_BOUND = (
    "no bound on the messages is worth stating: a search asks for each family (a column with some of the others as parents) "
    "at most once, of which there are {0} x 2^{1}, and {2} bytes pass for each with each party"
)


def most_bytes(
    model: Estimator,
    columns: Sequence[str],
    parties: int,
    parameters: Mapping[str, Any],
    labels: Sequence[str] | None,
    *,
    private: bool = True,
) -> tuple[int | None, str]:
    """Return a bound on `bytes_exchanged_`, and why there is none where that is so.

    Parameters
    ----------
    model : Estimator
    columns : sequence of str
    parties : int
    parameters : mapping
        Of `defaults_of`.
    labels : sequence of str or None
        Names of one party's releases; None for moments, which were released before.
    private : bool
        Whether a table has a budget.

    Returns
    -------
    int or None
        None also where the size of the messages is known beforehand, as a rehearsal finds it.
    str
        Empty unless the size depends on what is learnt and no bound is stated.
    """
    d = len(columns)
    if isinstance(model, PERI | IPERI):
        bound, each = _most_regret_bytes(model, d, parties)
        bound += most_kept_bytes(d, parties, labels, private=private) if model.privacy == "moments" else 0
        if bound > USEFUL:
            return None, NO_BOUND.format(d, d - 1, each)
        return bound, ""
    released = 0
    if labels is not None:
        together = parameters.get("sum", "per-party")
        summed = 1 if together == "trusted" else parties
        encoded = d
        if isinstance(model, FedACD) and model.levels is not None:
            encoded = len(Contrasts(declared_levels(model.levels, columns) or ()).columns(tuple(columns)))
        released = most_release_bytes(encoded, summed, labels)
        if together == "secure":
            released += most_masking_bytes(parties, len(labels))
    if isinstance(model, FedSparseBNSL):
        rounds, updates = parameters["rounds"], parameters["updates"]
        if labels is not None and parameters["release"] == COORDINATES:
            return most_sparse_bytes(d, parties, rounds, updates, refit=model.refit_share > 0), ""
        return None, ""
    rounds_learnt = any(label.startswith(ROUND) for label in labels or ())
    if isinstance(model, FedACD):
        if parameters["combine"] == "sum":  # all moments in one place: nobody is asked for votes
            return (released if rounds_learnt else None), ""
        # without a budget moments stay at the parties, and only votes pass
        return released * private + most_vote_bytes(d, parties, model.max_cond_vars, model.variant), ""
    if isinstance(model, FedBNSL):
        if model.local_step == "closed-form":
            return None, ""
        entries = _most_entries(d, parties, model.rounds, model.steps * d)
        kept = most_kept_bytes(d, parties, labels, private=private)
        return parties * entries * (BYTES_A_FLOAT + index_bytes(d)) + kept, ""
    return (released if rounds_learnt else None), ""


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
    whole = _most_entries(columns, parties, rounds, updates) * entry
    if refit:
        kept = min(parties * updates * rounds, every // 2)  # of two opposite entries an acyclic W has one at most
        whole += REFIT_STEPS * kept * (entry + BYTES_A_FLOAT)
    whole += BYTES_A_FLOAT * (4 * columns + 1)  # second moments there and back, their noise, what cut them off, and the clip
    return parties * whole


def _most_entries(columns: int, parties: int, rounds: int, added: int) -> int:
    """Return how many entries pass between the coordinator and one party that adds so many to W in each round."""
    every = columns * (columns - 1)
    held, entries = 0, 0
    for _ in range(rounds):
        entries += held + min(held + added, every)
        held = min(held + parties * added, every)
    return entries + held  # the last message has the final W


def most_release_bytes(columns: int, parties: int, labels: Sequence[str]) -> int:
    """Return a bound on the messages of a release of moments that all parties send.

    Parameters
    ----------
    columns, parties : int
        d and P; 1 after a trusted sum.
    labels : sequence of str
        Names of the releases, of the plan.
    """
    matrix = columns * (columns + 1) // 2 + 1
    whole = 0
    for label in labels:
        if label in (HISTOGRAM, SCALES, DIFFERENCES):
            whole += BYTES_A_FLOAT * (columns + (columns + 1) * BINS + 1)
        elif label == MEAN:
            whole += BYTES_A_FLOAT * (2 * columns + 1)
        elif label == COVARIANCE:
            whole += BYTES_A_FLOAT * (1 + columns + matrix)
        elif label.startswith(ROUND):
            whole += columns**2 * (BYTES_A_FLOAT + index_bytes(columns)) + BYTES_A_FLOAT * (1 + columns + matrix)
    return parties * whole


def most_masking_bytes(parties: int, releases: int) -> int:
    """Return a bound on what keys, shares and signatures of secure sums add to the messages."""
    keys = 2 * KEY + SIGNATURE
    asked = parties * (keys + parties * SEALED + SIGNATURE)
    answered = keys + CONTEXT + parties * (SEALED + SHARE) + SIGNATURE + BYTES_A_FLOAT
    return parties * (releases * (asked + answered) + (parties + 1) * NONCE + BYTES_A_FLOAT)


def most_kept_bytes(columns: int, parties: int, labels: Sequence[str] | None, *, private: bool) -> int:
    """Return a bound on what parties say of moments that they keep: noisy ones with their law, or the columns' sizes."""
    if labels is None:
        return 0
    if not private:
        return BYTES_A_FLOAT * parties * columns
    rounds = any(label.startswith(ROUND) for label in labels)
    law = 6 * columns**2 if rounds else 1  # of rounds: of three terms the scales and what carries them
    return BYTES_A_FLOAT * parties * (columns + columns * (columns + 1) // 2 + law)


def most_vote_bytes(columns: int, parties: int, max_cond_vars: int, variant: str) -> int:
    """Return a bound on the messages of FedACD's layers and directions.

    Parameters
    ----------
    columns, parties : int
        d and P.
    max_cond_vars : int
        Size of the largest conditioning set.
    variant : str
        Whose rules: by the paper's there are no votes on v-structures.
    """
    pairs = columns * (columns - 1) // 2
    layers = (min(max_cond_vars + 1, columns - 1) + 1) * (-(-pairs // 8) + -(-2 * pairs // 8))
    layers += 4 * pairs  # how many tests of each pair were made, and how many could not say
    if variant != "stable":
        return parties * (layers + columns)
    # an unshielded triple has an edge and a gap at two of its variables; of b edges at one, b (d - 1 - b) pairs are such
    triples = columns * ((columns - 1) ** 2 // 4) // 2
    return parties * (layers + -(-pairs // 8) + triples + columns)  # the last: which columns others determine


def _most_regret_bytes(model: PERI | IPERI, d: int, parties: int) -> tuple[int, int]:
    """Return a bound on the messages of PERI or I-PERI, and the size of a family with its regret."""
    settings = model._settings()
    each = AskRegrets(((0, 0),), "none", d).payload_bytes() + BYTES_A_FLOAT
    families = d * 2 ** (d - 1)
    if model.privacy == "regret" and not settings.masked:
        families = min(families, model.max_regrets + d)
    twice = settings.masked and settings.worst == "party"
    searches = (3 if twice else 1) + settings.refine + (settings.orientation == "authors")
    whole = searches * families * each
    empty = Pdag((0,) * d, (0,) * d)

    def of_graphs(candidates: int) -> int:
        ask = AskColliders(empty, (((0, 1),),)).payload_bytes() - AskColliders(empty, ()).payload_bytes()
        return graph_bytes(d) + candidates * (ask + 2 * BYTES_A_FLOAT)

    if twice:
        whole += 2 * of_graphs(1)
    if settings.orientation == "votes":
        whole += graph_bytes(d)
    elif settings.orientation == "regret":
        whole += (d * (d - 1) // 2 + 1) * of_graphs(d * (d - 1) * (d - 2) // 2 + 1)
    return parties * whole, each
