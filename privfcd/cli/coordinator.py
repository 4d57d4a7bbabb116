"""privfcd coordinator: run a study with parties on other machines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from privfcd.cli.commands import Group, option
from privfcd.cli.interrupts import may_charge
from privfcd.cli.options import json_option
from privfcd.cli.output import check_apart, check_writable, jsonable, print_json, say

if TYPE_CHECKING:
    from privfcd.runs.wire.study_file import Study


@click.group(cls=Group)
def coordinator() -> None:
    """Run a study with parties on other machines: see only what they send, and learn the graph.

    \b
    Example:
      privfcd coordinator run --config study.toml --superlink link.example.org:8000 \\
        --root-certificates ca.pem --secret coordinator.secret
    """


@coordinator.command()
@click.argument("folder", type=click.Path(file_okay=False))
@option("--host", default="127.0.0.1", show_default=True, metavar="NAME",
              help="The SuperLink's name or IP address, as parties reach it.")  # fmt: skip
def keys(folder: str, host: str) -> None:
    """Make the coordinator's own keys.

    An authority's and a server's certificate, and the coordinator's secret.

    Parties get ca.pem; the rest stays here. No party's key is among them: each party makes its own (`privfcd party keygen`).

    \b
    Example:
      privfcd coordinator keys keys --host link.example.org
    """
    from pathlib import Path

    from privfcd.runs.flower import be_quiet
    from privfcd.runs.flower.keys import DAYS, make_coordinator_keys

    be_quiet()
    make_coordinator_keys(Path(folder), host)
    say(f"{folder}/ca.pem: give it to every party")
    say(
        f"{folder}/server.pem, {folder}/server.key: the SuperLink's certificate for {host}, for {DAYS} days, and its key"
    )
    say(f"{folder}/coordinator.secret: who has it may coordinate")


@coordinator.command()
@click.argument("name")
@click.argument("public_key", type=click.Path(dir_okay=False))
@option("--superlink", required=True, metavar="HOST:PORT", help="A flower-superlink that runs.")
@option("--root-certificates", type=click.Path(dir_okay=False), default=None, metavar="FILE",
              help="Who signed the SuperLink's certificate (PEM).")  # fmt: skip
def register(name: str, public_key: str, superlink: str, root_certificates: str | None) -> None:
    """Register a party's public key.

    With the SuperLink, under the party's name in the study.

    The coordinator believes the nodes that are registered under its parties' names, and no others: get the key from
    the party itself, over a way that nobody else can write to.

    \b
    Example:
      privfcd coordinator register north north.key.pub --superlink link.example.org:8000 \\
        --root-certificates keys/ca.pem
    """
    from pathlib import Path

    from privfcd.runs.flower import be_quiet
    from privfcd.runs.flower.connection import SuperLink
    from privfcd.runs.flower.grid import register as registered
    from privfcd.runs.flower.keys import public_key as public_key_in

    be_quiet()
    registered(SuperLink(superlink, root_certificates), public_key_in(Path(public_key)), name)
    say(f"{name}: registered")


@coordinator.command()
@option("--config", required=True, type=click.Path(dir_okay=False), metavar="STUDY", help="The study's TOML file.")
@option("--superlink", required=True, metavar="HOST:PORT",
              help="A flower-superlink that runs with --isolation process.")  # fmt: skip
@option("--root-certificates", type=click.Path(dir_okay=False), default=None, metavar="FILE",
              help="Who signed the SuperLink's certificate (PEM).")  # fmt: skip
@option("--secret", type=click.Path(dir_okay=False), default=None, metavar="FILE",
              help="The SuperLink's --superexec-auth-secret-file: who may coordinate.")  # fmt: skip
@option("--insecure", is_flag=True, help="No TLS and no secret: on 127.0.0.1 only.")
@option("--checkpoint", type=click.Path(dir_okay=False), default=None, metavar="FILE",
              help="Questions and answers so far: a run that stopped goes on from there.")  # fmt: skip
@option("--timeout", type=float, default=90.0, show_default=True,
              help="Seconds that a party has for an answer; at least 75, when Flower notices a dead node.")  # fmt: skip
@option("--tries", type=int, default=2, show_default=True, help="How often a party is asked the same question.")
@option("--wait", type=float, default=120.0, show_default=True, help="Seconds to wait for parties at the start.")
@option("--poll", type=float, default=0.25, show_default=True, help="Seconds between looks for answers.")
@option("--graph", "graphs", type=click.Path(dir_okay=False), multiple=True, metavar="FILE",
              help="Write the graph: .graphml, .dot, .json or .csv. May be repeated.")  # fmt: skip
@option("--dry-run", is_flag=True,
        help="Print the study and end: nobody is asked. Costs and noise depend on a party's rows: `privfcd party preview` "
             "says them there.")  # fmt: skip
@json_option
def run(
    config: str,
    superlink: str,
    root_certificates: str | None,
    secret: str | None,
    insecure: bool,
    checkpoint: str | None,
    timeout: float,
    tries: int,
    wait: float,
    poll: float,
    graphs: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run a study, and print the graph.

    Parties that are missing, refuse or answer nonsense before anything is charged are left out, as long as the study's
    min_parties are there. After the charge too the run goes on with those who are left; with fewer it stops, says who and
    why, and can go on from its checkpoint.

    \b
    Example:
      privfcd coordinator run --config study.toml --superlink link.example.org:8000 --root-certificates ca.pem \\
        --secret coordinator.secret --checkpoint study.sqlite --graph graph.json
    """
    from privfcd.runs.flower.connection import SuperLink
    from privfcd.runs.flower.grid import FlowerTransport
    from privfcd.runs.study_run import run_study
    from privfcd.runs.wire.remote import LEAST_TIMEOUT
    from privfcd.runs.wire.study_file import read_study

    if timeout < LEAST_TIMEOUT:
        raise click.UsageError(f"--timeout must be at least {LEAST_TIMEOUT:g} seconds, got {timeout:g}")
    study = read_study(config)
    where = SuperLink(superlink, root_certificates, insecure)
    for path in graphs:
        if not path.lower().endswith((".graphml", ".dot", ".json", ".csv")):
            raise click.UsageError(f"file {path!r} must end in .graphml, .dot, .json or .csv")
        check_writable(path)
    check_apart(graphs, [each for each in (config, root_certificates, secret, checkpoint) if each is not None])
    if dry_run:
        _print_study(study, as_json)
        return
    may_charge()
    try:
        with FlowerTransport(where, secret=secret, poll=poll, log=_log) as transport:
            absent = dict(transport.find(study, study.parties, wait))
            found = run_study(
                study,
                transport,
                checkpoint=checkpoint,
                absent=absent,
                timeout=timeout,
                tries=tries,
                on_round=_on_round,
                log=_log,
            )
    except KeyboardInterrupt:
        on = f"; the same command goes on from {checkpoint}" if checkpoint else ", and without --checkpoint it is lost"
        _log(f"the study was stopped: what its parties were charged stays spent{on}")
        raise
    for path in graphs:
        from privfcd.graphs import write_graph

        write_graph(found.model.causal_graph_, path)
    if as_json:
        print_json(summary(study.name, found))
    else:
        _print(found)


def _print_study(study: Study, as_json: bool) -> None:
    """Print what is agreed on, and what a party would spend at most."""
    from dataclasses import asdict

    shown = {**asdict(study), "digest": study.digest}
    if as_json:
        print_json({"dry_run": True, **shown})
        return
    say(f"Study {study.name!r}: nobody was asked, nothing was charged")
    for name, value in shown.items():
        say(f"{name}: {', '.join(map(str, value)) if isinstance(value, list | tuple) else value}")
    if study.private:
        say(
            f"COST: at most epsilon = {study.epsilon:g}, delta = {study.delta:g} of each party, charged before a row is read"
        )
    else:
        say("COST: NO PRIVACY. Exact statistics of the rows are used, and some are sent.")


def summary(name: str, found: Any) -> dict[str, Any]:
    """Return a run as plain data; epsilon and delta are what the study allows each party to spend."""
    from privfcd.reports.run import where_paid

    epsilon, delta = found.model.privacy_spent_
    edges = [
        {"from": cause, "to": effect, **{key: float(value) for key, value in data.items()}}
        for cause, effect, data in found.model.causal_graph_.edges(data=True)
    ]
    return {
        "study": name,
        "parties": list(found.parties),
        "absent": found.absent,
        "edges": edges,
        "privacy": {"paid": where_paid(found.model), "epsilon": jsonable(epsilon), "delta": delta},
        "questions": found.questions,
        "bytes": found.paper_bytes,
        "wire_bytes": found.wire_bytes,
        "seconds": found.seconds,
        "seconds_a_question": found.seconds_a_question,
    }


def _print(found: Any) -> None:
    from privfcd.reports.run import notes_of

    graph = found.model.causal_graph_
    say(f"Graph, number of edges: {graph.number_of_edges()}")
    for cause, effect, data in sorted(graph.edges(data=True), key=lambda edge: -abs(edge[2].get("weight", 0.0))):
        say(f"  {cause} -> {effect}" + "".join(f"  {key} {value:.4g}" for key, value in data.items()))
    for note in notes_of(found.model):
        say(note)
    epsilon, delta = found.model.privacy_spent_
    if math.isfinite(epsilon):
        say(
            f"Privacy: each party paid at most epsilon = {epsilon:g}, delta = {delta:g} from its own ledger, and has the "
            "report on it"
        )
    for name, why in found.absent.items():
        say(f"without {name}: {why}")
    say(
        f"{found.questions} questions to {len(found.parties)} parties, {found.seconds_a_question:.2f} seconds each; "
        f"{found.paper_bytes:,} bytes by the paper's rule, {found.wire_bytes:,} on the wire (without Flower's own)"
    )


def _log(line: str) -> None:
    say(line, stderr=True)


def _on_round(record: Any) -> None:
    _log(f"round {record.number} of {record.rounds}: {record.edges} edges, h = {record.h:.2e}")
