"""Every party's own weights on a learnt graph: the edges are shared, their weights are refitted.

Each variable is regressed on its parents by least squares (Fassy et al. 2025, B.2.2), which needs the second moments of each
family, a variable with its parents, and nothing else. There are three ways, and they promise different things:

- `personalise` on tables: the weights are meant to leave the party, so its moments are released: with noise that is paid
  for, or exact and charged as non-private on an open table.
- `personalise` on Moments that were released before: post-processing, free.
- `personalise_for_owner` on the owner's own rows: exact and without any promise; the result must stay with the owner.
"""

from privfcd.algorithms.personalisation.owner import personalise_for_owner, prediction_error_for_owner
from privfcd.algorithms.personalisation.release import personalise
from privfcd.algorithms.personalisation.weights import PersonalWeights, refit

__all__ = ["PersonalWeights", "personalise", "personalise_for_owner", "prediction_error_for_owner", "refit"]
