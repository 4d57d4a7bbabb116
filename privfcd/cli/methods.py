"""The learner that a command's options describe."""

from __future__ import annotations

from typing import Any

import click

from privfcd.algorithms.registry import learner_class
from privfcd.cli.commands import option
from privfcd.cli.flags import SETTINGS
from privfcd.cli.options import METHOD, all_of
from privfcd.cli.settings import Setting, checked_settings

PARAMETERS = ("rounds", "updates", "clip", "step", "l1", "rho1", "rho2", "threshold", "noise_multiplier")
"""Parameters of methods that have a flag; the others are given by `--set`."""

TYPED = "privfcd.cli.typed"
"""Where a context keeps which parameters the command line gave by `--set`."""


def method_options(function: Any) -> Any:
    """Add the methods' own parameters."""
    return all_of(
        function,
        option("--rounds", type=int, default=None, section=METHOD, help="T, communication rounds."),
        option("--updates", type=int, default=None, section=METHOD, help="K, coordinate updates a round and party."),
        option("--clip", type=float, default=None, section=METHOD,
               help="C, see the documentation; chosen from released values by default."),
        option("--step", type=float, default=None, section=METHOD, help="gamma, in (0, 1]."),
        option("--l1", type=float, default=None, section=METHOD, help="lambda, weight of the l1 penalty."),
        option("--rho1", type=float, default=None, section=METHOD, help="Penalty of cycles."),
        option("--rho2", type=float, default=None, section=METHOD, help="Penalty of disagreement."),
        option("--threshold", type=float, default=None, section=METHOD,
               help="Weights up to this size are dropped at the end."),
        option("--noise-multiplier", type=float, default=None, section=METHOD,
               help="Fixed noise, instead of what the budget allows."),
        option("--set", SETTINGS, type=Setting(), multiple=True, metavar="NAME=VALUE", callback=_merged, section=METHOD,
               help="Any other parameter of the method, such as alpha=0.05, levels=3 or levels={a = 2, b = 3}. Repeatable."),
    )  # fmt: skip


def _merged(context: click.Context, parameter: click.Parameter, value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add what a file sets and the command line does not: each parameter wins or loses by itself."""
    from privfcd.cli.config import given

    names = [name for name, _ in value]
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(f"--set {name} was given more than once")
    typed = context.get_parameter_source(SETTINGS) is click.core.ParameterSource.COMMANDLINE
    context.meta[TYPED] = tuple(names) if typed else ()
    before = (context.default_map or {}).get(SETTINGS, ()) if given(context, SETTINGS) else ()
    kind = Setting()
    earlier = [kind.convert(each, parameter, context) for each in before]
    return (*(each for each in earlier if each[0] not in names), *value)


def _settle(context: click.Context, options: dict[str, Any]) -> None:
    """Let the command line win over the file where one has the flag of a parameter and the other `--set`."""
    settings, typed = dict(options[SETTINGS]), context.meta[TYPED]
    for name in PARAMETERS:
        if name not in settings or options[name] is None:
            continue
        flag_typed = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if flag_typed and name not in typed:
            del settings[name]
        elif name in typed and not flag_typed:
            options[name] = context.params[name] = None
    options[SETTINGS] = context.params[SETTINGS] = tuple(settings.items())


def parameters_of(context: click.Context, method: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that the options give the method, after a check that it has them."""
    _settle(context, options)
    kind = learner_class(method)
    known = kind().get_params()
    parameters = {name: options[name] for name in PARAMETERS if options[name] is not None}
    for name in parameters:
        if name not in known:
            raise click.UsageError(f"--{name.replace('_', '-')} does not belong to --method {method}")
    for name, value in checked_settings(method, kind, dict(options[SETTINGS])).items():
        if name in parameters:
            raise click.UsageError(f"give --{name.replace('_', '-')} or --set {name}, not both")
        parameters[name] = value
    return parameters


__all__ = ["PARAMETERS", "method_options", "parameters_of"]
