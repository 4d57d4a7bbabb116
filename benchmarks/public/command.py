"""`python -m benchmarks public`: hold the package against a snapshot of its public names, or write a new one."""

from __future__ import annotations

import json
from pathlib import Path

import click

from benchmarks.public.snapshot import Snapshot, broken, snapshot
from privfcd.whole_files import write_whole


def text_of(names: Snapshot) -> str:
    """Return a snapshot as it is kept in a file."""
    return json.dumps(names, indent=1, ensure_ascii=False) + "\n"


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--renew", is_flag=True, help="Write the names of today to FILE, if all that was public still works.")
@click.option("--break", "breaking", is_flag=True, help="With --renew: also if something no longer works.")
def public(file: Path, renew: bool, breaking: bool) -> None:
    """Compare names, parameters, the commands' options and the keys of their JSON with the snapshot in FILE.

    Exit code 1 if something that was public no longer works, or if FILE is not of today.
    """
    if breaking and not renew:
        raise click.UsageError("--break belongs to --renew")
    now = snapshot()
    before: Snapshot = json.loads(file.read_text(encoding="utf-8")) if file.exists() else now
    gone = broken(before, now)
    for line in gone:
        click.echo(f"BROKEN: {line}")
    if gone and not breaking:
        click.echo(
            "Keep the former names (privfcd.deprecation), or renew with --break in a release that may break them."
        )
        raise click.exceptions.Exit(1)
    if renew:
        write_whole(file, text_of(now).encode())
        click.echo(f"{file}: {sum(map(len, now['modules'].values()))} names, {len(now['commands'])} commands")
    elif before != now or not file.exists():
        click.echo(f"Names were added: python -m benchmarks public --renew {file}")
        raise click.exceptions.Exit(1)
    else:
        click.echo("All as it was written down.")
