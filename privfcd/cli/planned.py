"""`--dry-run`: the plan of a run or of a release, printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privfcd.cli.output import echo, print_json
from privfcd.cli.progress import progress

if TYPE_CHECKING:
    from privfcd.data import PrivateTable


def print_plan(
    model: Any,
    tables: Sequence[PrivateTable],
    configuration: dict[str, Any],
    *,
    as_json: bool,
    quiet: bool,
    sources: Sequence[str] | None = None,
) -> None:
    """Print what a run of `model` on these tables would release and cost; nothing is charged, no row is read.

    `sources` says for each table which file it is and which ledger pays for it, see `paired`.
    """
    from privfcd.runs import plan_run

    with progress("plan", quiet=quiet):
        plan = plan_run(model, tables, sources=sources)
    if as_json:
        print_json({"dry_run": True, **plan.as_dict(), "configuration": configuration})
    else:
        echo(plan)


def print_release_plan(
    asked: Mapping[str, Any],
    tables: Sequence[PrivateTable],
    configuration: dict[str, Any],
    *,
    as_json: bool,
    quiet: bool,
    sources: Sequence[str] | None = None,
) -> None:
    """Print the same for `release_moments` with these options."""
    from privfcd.algorithms.base import Estimator
    from privfcd.algorithms.release import release_moments

    class MomentsRelease(Estimator):
        """The release with an estimator's face, as plans are made of."""

        def __init__(
            self,
            release: str = "auto",
            row_norm: float | None = None,
            center: bool | None = None,
            sum: str = "per-party",
            colluders: int = 1,
            dropouts: int = 0,
            epsilon: float | None = None,
            delta: float | None = None,
        ) -> None:
            self.release, self.row_norm, self.center, self.sum = release, row_norm, center, sum
            self.colluders, self.dropouts = colluders, dropouts
            self.epsilon, self.delta = epsilon, delta

        def fit(self, source: list[PrivateTable]) -> MomentsRelease:
            """Release."""
            options = self.get_params()
            method = options.pop("release")
            released = release_moments(source, method=None if method == "auto" else method, **options)
            self.bytes_exchanged_ = released.bytes_exchanged
            return self

    options = {name: value for name, value in asked.items() if name != "method"}
    model = MomentsRelease(asked["method"] or "auto", **options)
    print_plan(model, tables, configuration, as_json=as_json, quiet=quiet, sources=sources)
