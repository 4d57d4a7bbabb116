"""Second moments, exact or released, with the law of their noise; no rows.

Learners consume Moments. One private release serves any number of them: what is computed from it is post-processing.
"""

from privfcd.moments.noise_law import NoiseTerm
from privfcd.moments.second_moments import Moments, pooled

__all__ = ["Moments", "NoiseTerm", "pooled"]
