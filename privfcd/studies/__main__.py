"""`python -m privfcd.studies NAME [--quick]`: each study prints its table, with the paper's figures beside ours."""

from __future__ import annotations

import click

from privfcd.studies.accounting import accounting
from privfcd.studies.bench import bench
from privfcd.studies.ledger import ledger
from privfcd.studies.table1 import table1


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def studies() -> None:
    """Reproduce a table of the papers, or measure something of our own."""


studies.add_command(accounting)
studies.add_command(bench)
studies.add_command(ledger)
studies.add_command(table1)

if __name__ == "__main__":
    studies(prog_name="python -m privfcd.studies")
