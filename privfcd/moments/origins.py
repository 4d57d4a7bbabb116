"""Whose rows moments are of, and what stands before each party's: moments that were pooled go on saying so.

The law of the noise in a sum says nothing of its parts: noise of one party's moments in a mean over two protects that party
only. Whoever knows the noisy party's moments, which were released, subtracts them and has the exact ones of the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from privfcd import checks
from privfcd.errors import InvalidParameter
from privfcd.markup import one_line

NoiseKind = Literal["none", "secure", "simulated", "stated"]

NONE: NoiseKind = "none"
SECURE: NoiseKind = "secure"
SIMULATED: NoiseKind = "simulated"
STATED: NoiseKind = "stated"
KINDS: tuple[NoiseKind, ...] = (NONE, SECURE, SIMULATED, STATED)


@dataclass(frozen=True)
class Origin:
    """One party behind moments.

    Attributes
    ----------
    party : str
        The data set's name; empty where it is not known.
    noise : {"none", "secure", "simulated", "stated"}
        What was added to this party's moments before they were pooled with others: nothing; noise from the operating
        system's random numbers; noise from a source that is not secure, which whoever knows its seed can remove; or noise
        whose law is stated, and whose source is not known here.
    """

    party: str = ""
    noise: NoiseKind = STATED

    def __post_init__(self) -> None:
        if not isinstance(self.party, str):
            raise checks.refuse("party", self.party, "a text")
        if self.noise not in KINDS:
            raise checks.refuse("noise", self.noise, "one of " + ", ".join(KINDS))


def origin_of(party: str, *, noisy: bool, secure: bool) -> Origin:
    """Return the origin of a party's moments that its noise source made."""
    if not noisy:
        return Origin(party, NONE)
    return Origin(party, SECURE if secure else SIMULATED)


def settled(origins: Sequence[Origin], noisy: bool) -> tuple[Origin, ...]:
    """Return the origins as they must be beside a noise law that has noise or none.

    Where there is no noise, no party has any, whatever was said. Where all parties' moments were exact and there is noise,
    it was added to all of them together, and is stated.
    """
    if not noisy:
        return tuple(Origin(origin.party, NONE) for origin in origins) or (Origin("", NONE),)
    if not origins:
        return (Origin(),)
    if all(origin.noise == NONE for origin in origins):
        return tuple(Origin(origin.party, STATED) for origin in origins)
    return tuple(origins)


def unsaid(origins: Iterable[Origin], said: Iterable[str]) -> list[Origin]:
    """Return the origins that no report speaks of.

    Parameters
    ----------
    origins : iterable of Origin
    said : iterable of str
        Names of the parties whose reports say the same. Each speaks of one origin of that name, or else of one without.
    """
    names = Counter(said)
    left = []
    for origin in origins:
        if names[origin.party] > 0:
            names[origin.party] -= 1
        else:
            left.append(origin)
    spare = sum(names.values())
    kept = []
    for origin in left:
        if origin.party == "" and spare > 0:
            spare -= 1
        else:
            kept.append(origin)
    return kept


def check_once(names: Iterable[str]) -> None:
    """Refuse names of parties of which one occurs twice; those that are not known (empty) are left aside.

    Two releases of one party's rows cost the sum of both, which no report of either says, and its rows would count twice.

    Raises
    ------
    InvalidParameter
        A party is there twice.
    """
    for name, count in Counter(names).items():
        if name and count > 1:
            shown = one_line(name)
            raise InvalidParameter(
                f"{shown!r} was released twice: give one of them; both together cost the sum, and its rows would count "
                "twice. Different parties need names of their own"
            )


def origins_text(origins: Sequence[Origin]) -> str:
    """Return in words whose moments have which noise."""
    words = {
        NONE: "without noise",
        SECURE: "with noise of a secure source",
        SIMULATED: "with simulated noise",
        STATED: "with noise of a source that is not known here",
    }
    said = []
    for kind in KINDS:
        found = [origin for origin in origins if origin.noise == kind]
        if found:
            said.append(f"{counted(found)} {words[kind]}{named(found)}")
    return "; ".join(said)


def counted(origins: Sequence[Origin]) -> str:
    """Return how many parties these are."""
    return f"{len(origins)} {'party' if len(origins) == 1 else 'parties'}"


def named(origins: Sequence[Origin], most: int = 10) -> str:
    """Return their names in brackets, after a space; nothing where they are not known. A file may bring any text."""
    names = [one_line(origin.party) for origin in origins if origin.party]
    if not names:
        return ""
    beyond, unnamed = len(names) - most, len(origins) - len(names)
    more = [f"{beyond} more"] * (beyond > 0) + [f"{unnamed} without a name"] * (unnamed > 0)
    return f" ({', '.join([*names[:most], *more])})"
