"""`python -m privfcd.studies NAME [--quick]`: each study prints its table, with the paper's figures beside ours."""

from __future__ import annotations

import click

from privfcd.studies.accounting import accounting
from privfcd.studies.audits import audits
from privfcd.studies.bench import bench
from privfcd.studies.faults.command import faults
from privfcd.studies.fedacd import fedacd
from privfcd.studies.flower import flower
from privfcd.studies.iperi import iperi
from privfcd.studies.ledger import ledger
from privfcd.studies.moments import moments
from privfcd.studies.paper.convergence import figure1, figure5, figure6
from privfcd.studies.paper.personalisation import figure2
from privfcd.studies.paper.privacy import figure3, figure4, figure7, figure8
from privfcd.studies.paper.sachs import sachs
from privfcd.studies.paper.table1 import table1
from privfcd.studies.public.command import public
from privfcd.studies.stability import stability


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def studies() -> None:
    """Reproduce a table of the papers, or measure something of our own."""


studies.add_command(accounting)
studies.add_command(audits)
studies.add_command(bench)
studies.add_command(faults)
studies.add_command(flower)
studies.add_command(fedacd)
studies.add_command(iperi)
studies.add_command(ledger)
studies.add_command(moments)
studies.add_command(public)
studies.add_command(stability)
for command in (table1, figure1, figure2, figure3, figure4, figure5, figure6, figure7, figure8, sachs):
    studies.add_command(command)

if __name__ == "__main__":
    studies(prog_name="python -m privfcd.studies")
