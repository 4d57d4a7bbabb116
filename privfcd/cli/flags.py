"""What Python calls `noise_multiplier` is `--noise-multiplier` in a shell: refusals that name the flag."""

from __future__ import annotations

import re

import click

CONFIGURED = "privfcd.cli.configured"
"""Where a context keeps what its configuration file set: the file's name, and for each parameter its key there."""

SETTINGS = "settings"
"""The parameter that holds a method's own parameters (`--set name=value`)."""

_ARGUMENT = re.compile(r"([a-z][a-z0-9_]*)(?= must )")
_WORDS = r"(?<!--set )(?<![-\w'\"=.])({names})(?![-\w'\"=.])"
_GREEK = ("epsilon", "delta", "rho")
_BEFORE = r"(?:(?<=^give )|(?<=give either )|(?<=with )|(?<=leave out )|(?<= or ))"


def flag_of(parameter: click.Parameter) -> str:
    """Return how a parameter is written in a shell."""
    if isinstance(parameter, click.Argument):
        return parameter.human_readable_name
    return next((each for each in parameter.opts if each.startswith("--")), parameter.opts[0])


def in_shell_words(message: str, context: click.Context) -> str:
    """Return a refusal with flags in the place of Python's names, and with the key where a file gave the value.

    The argument that a message begins with is replaced, and so are names that cannot be ordinary words (`row_norm`), and
    epsilon, delta and rho where only a parameter can stand ("give epsilon or rho").
    """
    flags = _flags(context)
    found = _ARGUMENT.match(message)
    if found is not None and found[1] in flags:
        name = found[1]
        message = flags[name] + _origin(name, context) + message[len(name) :]
    for name, flag in flags.items():
        if "_" in name or name in _GREEK:
            word = _WORDS.format(names=re.escape(name))
            message = re.sub(word if "_" in name else _BEFORE + word, flag, message)
    return message


def _flags(context: click.Context) -> dict[str, str]:
    """Return the flag of each Python name that a message may have, those of `--set` included."""
    flags: dict[str, str] = {}
    for parameter in context.command.params:
        if isinstance(parameter, click.Option) and parameter.name is not None:
            flag = flag_of(parameter)
            flags[parameter.name] = flag
            flags[flag[2:].replace("-", "_")] = flag
    for name in dict(context.params.get(SETTINGS) or ()):
        flags[name] = f"--set {name}"
    return flags


def _origin(name: str, context: click.Context) -> str:
    """Return where a value comes from, if a file gave it."""
    configured = context.meta.get(CONFIGURED)
    if configured is None:
        return ""
    for parameter in context.command.params:
        keys = {parameter.name, flag_of(parameter)[2:].replace("-", "_")}
        if name in keys and parameter.name in configured.keys:
            if context.get_parameter_source(parameter.name) is click.core.ParameterSource.DEFAULT_MAP:
                return f" ({configured.keys[parameter.name]} in {configured.path})"
    return ""
