"""`python -m benchmarks faults`: how often each fault is caught, and how long it takes."""

from __future__ import annotations

import time
from dataclasses import dataclass

import click

from benchmarks.common import run_parallel
from benchmarks.faults.case import ALPHA
from benchmarks.faults.wall import WALL
from privfcd.audits import clopper_pearson_lower

DETECTION = 0.95
LONGEST = 60.0


@dataclass(frozen=True)
class Row:
    """What repeated audits of one fault and its right twin came to."""

    caught: int
    alarms: int
    repeats: int
    seconds: float
    words: str

    @property
    def certain(self) -> float:
        """Return the rate of detection that is certain at 95 %."""
        return float(clopper_pearson_lower(self.caught, self.repeats, 0.05))


def examine(job: tuple[int, int, int]) -> Row:
    """Audit one case so many times, from a first seed on."""
    index, repeats, first = job
    case = WALL[index]
    began = time.process_time()
    wrong = [case.find(first + seed) for seed in range(repeats)]
    seconds = (time.process_time() - began) / repeats
    right = [case.find(first + seed, right=True) for seed in range(repeats)]
    return Row(sum(one.caught for one in wrong), sum(one.caught for one in right), repeats, seconds, wrong[0].words)


@click.command()
@click.option("--quick", is_flag=True, help="5 audits of each instead of 40.")
@click.option("--repeats", type=click.IntRange(min=1), default=None, help="Audits of each fault and of its twin.")
@click.option("--seed", type=click.IntRange(min=0), default=1000, show_default=True, help="The first seed.")
@click.option("--only", default="", help="Only faults with this text in their name.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
def faults(quick: bool, repeats: int | None, seed: int, only: str, jobs: int) -> None:
    """Audit every seeded fault and its right twin.

    Exit code 1 if a fault is caught in less than 95 % of the audits or takes more than 60 s, or if twins raise more
    alarms than 5 % allow (at 0.1 % over all).
    """
    from scipy.stats import binom

    repeats = repeats or (5 if quick else 40)
    chosen = [index for index, case in enumerate(WALL) if only in case.name]
    if not chosen:
        raise click.UsageError(f"no fault has {only!r} in its name")
    rows = run_parallel(examine, [(index, repeats, seed) for index in chosen], jobs)
    print(f"{repeats} audits of each fault and of its right twin at alpha = {ALPHA}; seconds of one audit, on one core")
    print(
        f"{'fault':42} {'runs':>9} {'at most':>9} {'caught':>7} {'at 95 %':>8} {'twin':>5} {'seconds':>8}  first audit"
    )
    fine = True
    for index, row in zip(chosen, rows, strict=True):
        case = WALL[index]
        good = row.caught >= DETECTION * repeats and row.seconds <= LONGEST
        fine &= good
        most = f"{case.table:,}" if case.table else "-"
        runs = f"{case.runs:,}" + ("" if case.unit == "runs" else f" {case.unit[:1]}")
        print(
            f"{case.name:42} {runs:>9} {most:>9} {row.caught:>3}/{repeats:<3} {row.certain:>8.2f} {row.alarms:>5}"
            f" {row.seconds:>8.2f}  {row.words}{'' if good else '   MISSED'}"
        )
    alarms, audits = sum(row.alarms for row in rows), repeats * len(rows)
    quiet = float(binom.sf(alarms - 1, audits, ALPHA)) > 1e-3
    print(f"false alarms: {alarms} of {audits} ({'within' if quiet else 'ABOVE'} what alpha = {ALPHA} allows)")
    print('p: pairs of tables; d: draws; "at 95 %": rate of detection that the audits make certain')
    if not (fine and quiet):
        raise click.exceptions.Exit(1)
