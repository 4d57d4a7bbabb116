"""Second moments, exact or released, with the law of their noise; no rows.

Learners consume Moments. One private release serves any number of them: what is computed from it is post-processing.
"""

from privfcd.moments.files import StoredMoments, load_moments, save_moments
from privfcd.moments.noise_law import NoiseTerm
from privfcd.moments.origins import Origin
from privfcd.moments.second_moments import Moments, pooled
from privfcd.moments.statistics import contrasts, partial_correlation, residual, residual_effective_rows

__all__ = [
    "Moments",
    "NoiseTerm",
    "Origin",
    "StoredMoments",
    "contrasts",
    "load_moments",
    "partial_correlation",
    "pooled",
    "residual",
    "residual_effective_rows",
    "save_moments",
]
