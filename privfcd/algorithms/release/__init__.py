"""Private second moments of a federation: paid for once, learnt from as often as wanted."""

from privfcd.algorithms.release.release import MomentsRelease, MomentsWarning, release_moments

__all__ = ["MomentsRelease", "MomentsWarning", "release_moments"]
