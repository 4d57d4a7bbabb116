"""privfcd party: look at what a study asks and costs, then answer it from this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from privfcd.cli.commands import Group, option
from privfcd.cli.interrupts import held, may_charge
from privfcd.cli.options import all_of, json_option
from privfcd.cli.output import print_json, say

if TYPE_CHECKING:
    from privfcd.runs.desk import Desk

Function = TypeVar("Function", bound=Callable[..., Any])


@click.group(cls=Group)
def party() -> None:
    """Take part in a study with a table that stays on this machine.

    A study is one file that all parties and the coordinator have. It says which method runs on which columns, and what each
    party spends at most. A party answers for the file that its owner has seen, once, within its ledger's budget.

    \b
    Examples:
      privfcd party keygen north.key
      privfcd party preview study.toml --name north --table north.csv --ledger north.sqlite
      privfcd party serve study.toml --name north --table north.csv --ledger north.sqlite \\
        --superlink link.example.org:8000 --root-certificates ca.pem --key north.key
    """


@party.command()
@click.argument("key", type=click.Path(dir_okay=False))
def keygen(key: str) -> None:
    """Make this party's key pair. KEY is the private half, KEY.pub the public one.

    The private key says who this party is. It stays on this machine, where its owner alone can read it; the public half goes
    to the coordinator, who registers it.

    \b
    Example:
      privfcd party keygen north.key
    """
    from pathlib import Path

    from privfcd.algorithms.secure.masks import write_identity
    from privfcd.errors import InvalidParameter
    from privfcd.runs.flower import be_quiet
    from privfcd.runs.flower.keys import make_party_key
    from privfcd.runs.wire.study_file import ED25519

    be_quiet()
    if Path(f"{key}.identity").exists():
        raise InvalidParameter(f"{key + '.identity'!r} is there already, and nothing is written over a key: name another")
    make_party_key(Path(key))
    identity = write_identity(Path(f"{key}.identity"))
    say(f"{key}: the private key; it never leaves this machine")
    say(f"{key}.pub: the public half; send it to the coordinator, who registers it under this party's name")
    say(f"{key}.identity: the private key for secure sums; it never leaves this machine")
    say(f"{ED25519}{identity.hex()}: its public half, for [identities] in the file of a study of secure sums")


def _party_options(function: Function) -> Function:
    return all_of(
        function,
        click.argument("study", type=click.Path(dir_okay=False)),
        option("--name", required=True, help="Which of the study's parties this one is."),
        option("--table", required=True, type=click.Path(), metavar="FILE", help="CSV or Parquet."),
        option("--ledger", required=True, type=click.Path(dir_okay=False), metavar="FILE",
               help="Made by `privfcd ledger init`."),
        option("--schema", type=click.Path(dir_okay=False), default=None, metavar="FILE",
               help="How this party writes its cells (units, spellings, gaps), where otherwise than the study says."),
        option("--data-set", default=None, metavar="NAME",
               help="Whose budget pays, where the ledger has several data sets."),
        option("--identity", type=click.Path(dir_okay=False), default=None, metavar="FILE",
               help="Secure sums: this party's KEY.identity (`privfcd party keygen`)."),
        option("--most-alone", type=float, default=None, metavar="EPSILON",
               help="Secure sums: take no part above this epsilon if all other parties collude."),
        option("--simulated-noise", type=int, default=None, metavar="SEED",
               help="For trials: seeded noise, which protects nobody; ledger and report say so."),
    )  # fmt: skip


@party.command()
@_party_options
@json_option
def preview(as_json: bool, **options: Any) -> None:
    """Show what a study asks of this party and what it will cost. Nothing is charged, nobody is asked.

    \b
    Example:
      privfcd party preview study.toml --name north --table north.csv --ledger north.sqlite
    """
    shown = _desk(options).preview()
    if as_json:
        print_json(shown)
    else:
        _show(shown)


@party.command()
@_party_options
@option("--superlink", default=None, metavar="HOST:PORT", help="Where the coordinator's SuperLink is.")
@option("--relay", type=click.Path(), default=None, metavar="SOCKET",
              help="Instead: listen here for the app of a flower-supernode (PRIVFCD_RELAY=SOCKET).")  # fmt: skip
@option("--root-certificates", type=click.Path(dir_okay=False), default=None, metavar="FILE",
              help="Who signed the SuperLink's certificate (PEM); this system's authorities by default.")  # fmt: skip
@option("--key", "private_key", type=click.Path(dir_okay=False), default=None, metavar="FILE",
              help="This node's private key (`privfcd party keygen`); the public half is registered there.")  # fmt: skip
@option("--insecure", is_flag=True, help="No TLS and no key: on 127.0.0.1 only.")
@option("--accept", is_flag=True, help="Take part without being asked.")
@option("--attempt", type=int, default=1, show_default=True,
              help="2, 3, ... allows the study another run, which is charged again.")  # fmt: skip
@option("--poll", type=float, default=0.25, show_default=True, help="Seconds between looks for questions.")
@option("--linger", type=float, default=60.0, show_default=True,
              help="Seconds to go on answering repeated questions after the end of the run.")  # fmt: skip
def serve(
    superlink: str | None,
    relay: str | None,
    root_certificates: str | None,
    private_key: str | None,
    insecure: bool,
    accept: bool,
    attempt: int,
    poll: float,
    linger: float,
    **options: Any,
) -> None:
    """Take part in a study: answer its questions, after a yes.

    What it asks and costs is shown first. The process is the party: it must run until the study ends. If it ends after
    the charge, what was charged stays spent and this run cannot go on with it. The connection may break and come back.

    \b
    Example:
      privfcd party serve study.toml --name north --table north.csv --ledger north.sqlite \\
        --superlink link.example.org:8000 --root-certificates ca.pem --key north.key
    """
    from privfcd.runs.flower.connection import SuperLink
    from privfcd.runs.flower.node import serve as answer
    from privfcd.runs.flower.relay import listen

    if (superlink is None) == (relay is None):
        raise click.UsageError("give --superlink, or --relay for a standard SuperNode, and not both")
    where = None if superlink is None else SuperLink(superlink, root_certificates, insecure)
    desk = _desk(options)
    _show(desk.preview())
    if not accept and not click.confirm("Take part?", err=True):
        raise click.Abort
    may_charge()
    ending = _Ending(linger)
    half = desk.party(attempt=attempt, log=_log)

    def over() -> bool:
        return ending.reached(half.finished)

    try:
        if where is not None:
            answer(half.handle, where, private_key=private_key, poll=poll, until=over, log=_log)
        else:
            assert relay is not None
            listen(half.handle, relay, until=over, log=_log)
    finally:
        with held():  # also if it is interrupted: the owner must know what was spent
            _report(desk)


class _Ending:
    """When a party may stop: some seconds after the run has ended."""

    def __init__(self, linger: float) -> None:
        self._linger = linger
        self._since: float | None = None

    def reached(self, finished: bool) -> bool:
        """Return whether it is time."""
        if not finished:
            return False
        if self._since is None:
            self._since = time.monotonic()
        return time.monotonic() - self._since >= self._linger


def _desk(options: dict[str, Any]) -> Desk:
    from privfcd.mechanisms import SecureNoise, SimulatedNoise
    from privfcd.runs.desk import Desk
    from privfcd.runs.wire.study_file import read_study

    seed = options["simulated_noise"]
    return Desk.open(
        read_study(options["study"]),
        options["name"],
        options["table"],
        options["ledger"],
        data_set=options["data_set"],
        schema=options["schema"],
        identity=options["identity"],
        most_alone=options["most_alone"],
        noise=SecureNoise() if seed is None else SimulatedNoise(seed),
    )


def _show(shown: dict[str, Any]) -> None:
    for name, value in shown.items():
        say(f"{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}", stderr=True)
    cost = shown["epsilon"]
    if isinstance(cost, float):
        say(
            f"COST: at most epsilon = {cost:g}, delta = {shown['delta']:g}, from the ledger of {shown['ledger']!r}, charged "
            "once and as a whole before any row is read. What is sent is noisy; the rows stay here.",
            stderr=True,
        )
    else:
        say("COST: NO PRIVACY. Exact statistics of the rows are used, and some are sent.", stderr=True)


def _log(line: str) -> None:
    say(f"{time.strftime('%H:%M:%S')} {line}", stderr=True)


def _report(desk: Desk) -> None:
    report = desk.report()
    if report is not None:
        say(f"{report}\n", stderr=True)
    say(f"spent in all: {desk.ledger.spent()}; left: {desk.ledger.left() or 'nothing'}", stderr=True)
    say(f"ledger of {desk.ledger.name!r}: head {desk.ledger.head()}", stderr=True)
    if not desk.noise.secure and not desk.ledger.open:
        say(f"noise: {desk.noise.label}", stderr=True)
