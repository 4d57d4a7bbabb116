"""`python -m benchmarks NAME [--quick]`: each study prints its table, with the paper's figures beside ours."""

from __future__ import annotations

import click

from benchmarks.accounting import accounting
from benchmarks.audits import audits
from benchmarks.baselines import baselines
from benchmarks.bench import bench
from benchmarks.faults.command import faults
from benchmarks.fedacd import fedacd
from benchmarks.flower import flower
from benchmarks.hostile import hostile
from benchmarks.iperi import iperi
from benchmarks.ledger import ledger
from benchmarks.moments import moments
from benchmarks.paper.convergence import figure1, figure5, figure6
from benchmarks.paper.personalisation import figure2
from benchmarks.paper.privacy import figure3, figure4, figure7, figure8
from benchmarks.paper.sachs import sachs
from benchmarks.paper.table1 import table1
from benchmarks.secure import secure
from benchmarks.stability import stability


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def studies() -> None:
    """Reproduce a table of the papers, or measure something of our own."""


studies.add_command(accounting)
studies.add_command(audits)
studies.add_command(baselines)
studies.add_command(bench)
studies.add_command(faults)
studies.add_command(flower)
studies.add_command(fedacd)
studies.add_command(hostile)
studies.add_command(iperi)
studies.add_command(ledger)
studies.add_command(moments)
studies.add_command(secure)
studies.add_command(stability)
for command in (table1, figure1, figure2, figure3, figure4, figure5, figure6, figure7, figure8, sachs):
    studies.add_command(command)

if __name__ == "__main__":
    studies(prog_name="python -m benchmarks")
