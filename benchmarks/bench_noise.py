"""Secure noise against OpenDP's and NumPy's, and what it costs a whole run.

All figures are ratios of medians measured in turns within one process. OpenDP is measured on fewer values and scaled up
(its time is proportional to their number).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from privfcd.audits.sampler import check_sampler
from privfcd.cli.demonstration import run_demo
from privfcd.mechanisms import NoiseSource, OpenDPNoise, SecureNoise, SimulatedNoise, grid

SCALE = 1.5
FASTER = 50.0
"""How many times as fast as OpenDP secure noise must be."""
SAME = 0.10
"""By how much selections among flat and spiked scores may differ in time."""
DEMO = 1.5
"""How many times as long as with simulated noise the demonstration may take."""
KINDS = ("Gaussian", "Laplace")


def in_turns(works: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Return the median seconds of each work, all measured in turns so that drifts of the machine hit all alike."""
    times: list[list[float]] = [[] for _ in works]
    for work in works:
        work()
    for turn in range(repeats):
        order = range(len(works)) if turn % 2 == 0 else reversed(range(len(works)))
        for index in order:
            began = time.perf_counter()
            works[index]()
            times[index].append(time.perf_counter() - began)
    return [median(measured) for measured in times]


def numbers(kind: str, size: int, opendp_size: int, repeats: int) -> tuple[float, float, float]:
    """Return the seconds for `size` values of secure, OpenDP's (scaled up) and NumPy's noise."""
    secure, other, numpy = (source.stream() for source in (SecureNoise(), OpenDPNoise(), SimulatedNoise(0)))
    draw = kind.lower()
    many, few = np.zeros(size), np.zeros(opendp_size)
    measured = in_turns(
        [
            lambda: getattr(secure, draw)(many, SCALE),
            lambda: getattr(other, draw)(few, SCALE),
            lambda: getattr(numpy, draw)(many, SCALE),
        ],
        repeats,
    )
    return measured[0], measured[1] * size / opendp_size, measured[2]


def scores_of(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return flat scores, and the same with one far winner."""
    flat = np.full(size, 1.0)
    spiked = np.full(size, 1.0)
    spiked[size // 3] = 1000.0
    return flat, spiked


def selections(source: NoiseSource, size: int, repeats: int, calls: int = 1) -> tuple[float, float]:
    """Return the median seconds of a selection from flat scores and from scores with one far winner."""
    stream = source.stream()
    flat, spiked = scores_of(size)

    def work(scores: np.ndarray) -> Callable[[], object]:
        return lambda: [stream.select(scores, 1.0) for _ in range(calls)]

    first, second = in_turns([work(flat), work(spiked)], repeats)
    return first / calls, second / calls


def on_grid(size: int) -> bool:
    """Return whether all released numbers lie on the declared grid, and NumPy's global generator is untouched."""
    stream = SecureNoise().stream()
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    inside = True
    for scale in (1e-3, 0.7, SCALE, 41.7, 1e6):
        for draw in (stream.gaussian, stream.laplace):
            inside &= bool((np.mod(draw(np.full(size, 0.1), scale), grid.spacing(scale)) == 0).all())
    after = np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
    return inside and bool((before == after).all())


def main(quick: bool = False) -> bool:
    """Measure and print; return whether every aim holds."""
    size, few, repeats = (10**5, 1_000, 3) if quick else (10**6, 10_000, 7)
    fine = []
    print(f"{size:,} values of scale {SCALE}; OpenDP measured on {few:,} and scaled up")
    print(f"{'':10} {'secure':>10} {'OpenDP':>10} {'NumPy':>10} {'OpenDP/secure':>14} {'secure/NumPy':>13}")
    for kind in KINDS:
        secure, other, numpy = numbers(kind, size, few, repeats)
        print(
            f"{kind:10} {secure:>8.3f} s {other:>8.2f} s {numpy:>8.3f} s {other / secure:>14.0f} {secure / numpy:>13.1f}"
        )
        fine.append(_verdict(f"{kind}: at least {FASTER:.0f} times OpenDP's speed", other >= FASTER * secure))

    print("\none selection by the exponential mechanism, medians in turns")
    print(f"{'candidates':>10} {'flat':>12} {'far winner':>12} {'far/flat':>9}")
    plans = ((400, 201, 20), (40_000, 201, 1), (10**6, 3 if quick else 31, 1))
    secure_at = {}
    for count, turns, calls in plans:
        flat, far = selections(SecureNoise(), count, turns, calls)
        secure_at[count] = (flat, far)
        print(f"{count:>10,} {flat * 1e3:>9.3f} ms {far * 1e3:>9.3f} ms {far / flat:>9.3f}")
        fine.append(_verdict(f"{count:,} candidates: the same within {SAME:.0%}", abs(far / flat - 1) <= SAME))
    count = 40_000
    flat, far = selections(OpenDPNoise(), count, 5)
    ratios = (flat / secure_at[count][0], far / secure_at[count][1])
    print(
        f"OpenDP's noisy max at {count:,}: flat {flat * 1e3:.1f} ms, far winner {far * 1e3:.1f} ms; "
        f"{ratios[0]:.0f} and {ratios[1]:.0f} times as long"
    )
    fine.append(_verdict(f"{count:,} candidates: at least {FASTER:.0f} times OpenDP's speed", min(ratios) >= FASTER))

    print()
    secure_check, plain_check = check_sampler(SecureNoise()), check_sampler(SimulatedNoise(0))
    print(secure_check, plain_check, sep="\n")
    fine.append(_verdict("laws right at a family-wise level of 1e-6", secure_check.right_laws))
    fine.append(_verdict("reachability audit: passes for secure noise", secure_check.safe_digits))
    fine.append(_verdict("reachability audit: fails for floating point", not plain_check.safe_digits))
    fine.append(_verdict("outputs on the declared grid, NumPy's generator not touched", on_grid(size // 10)))

    if not quick:
        secure, simulated = in_turns(
            [lambda: run_demo(noise=SecureNoise()), lambda: run_demo(noise=SimulatedNoise(0))], 3
        )
        print(f"\ndemonstration: secure {secure:.2f} s, simulated {simulated:.2f} s, ratio {secure / simulated:.2f}")
        fine.append(_verdict(f"demonstration at most {DEMO} times as slow", secure <= DEMO * simulated))
    return all(fine)


def _verdict(text: str, holds: bool) -> bool:
    print(f"  {text}: {'yes' if holds else 'NO'}")
    sys.stdout.flush()
    return holds
