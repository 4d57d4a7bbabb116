"""The commands' classes: options in sections, refusals in the shell's words, and sub-commands that are imported late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, TypeVar

import click

from privfcd.cli.flags import CONFIGURED, flag_of, in_shell_words
from privfcd.cli.interrupts import CHARGING, NOTHING_YET, Interrupted, was_interrupted
from privfcd.errors import InvalidParameter

Function = TypeVar("Function", bound=Callable[..., Any])

OTHER = "Other options"
MOST_COUNTED = 2**53
SEEDS = ("seed", "simulated_noise")
HELP_NAMES: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class Option(click.Option):
    """An option with the section of the help that it stands in."""

    def __init__(self, *arguments: Any, section: str = "Options", **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.section = section

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Add the option to click's parser; a second value is added to a list, and refused of what has one value."""
        super().add_to_parser(parser, ctx)
        if self.multiple or self.count:
            return
        known = {**parser._long_opt, **parser._short_opt}
        for each in {id(known[name]): known[name] for name in (*self.opts, *self.secondary_opts)}.values():
            each.process = self._once(each.process)

    def _once(self, process: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def processed(value: Any, state: Any) -> None:
            before = state.opts.get(self.name)
            process(value, state)
            if before is None or before == state.opts[self.name]:
                return
            if not self.is_flag and hasattr(self.type, "joined"):
                state.opts[self.name] = self.type.joined(before, state.opts[self.name])
                return
            flags = " and ".join([flag_of(self), *self.secondary_opts])
            raise click.UsageError(f"give {flags} once, got {before!r} and {state.opts[self.name]!r}")

        return processed

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        """Return what the help says in brackets: a default in words has no others of its own; ranges are for refusals."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        if isinstance(self.show_default, str) and "default" in extra:
            extra["default"] = self.show_default
        return extra

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the value; counts that no float holds exactly are nobody's, while seeds may be as long as wanted."""
        made = super().type_cast_value(ctx, value)
        if type(made) is int and abs(made) > MOST_COUNTED and self.name not in SEEDS:
            raise click.BadParameter(f"must be at most 2**53, got {str(value)[:30]}", ctx=ctx, param=self)
        return made


def option(*declarations: str, **more: Any) -> Callable[[Function], Function]:
    """Add an `Option` to a command; as `click.option`, with `section`."""
    return click.option(*declarations, cls=Option, **more)


class Argument(click.Argument):
    """An argument that may come from a configuration too, in all versions of click 8."""

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, click.core.ParameterSource]:
        """Return the value, and where it comes from; none given is not an empty list."""
        return super().consume_value(ctx, {name: value for name, value in opts.items() if value or name != self.name})

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Return the value and what is left; where a configuration does not have it, say that it is missing there."""
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.MissingParameter:
            configured = ctx.meta.get(CONFIGURED)
            if configured is None:
                raise
            raise click.UsageError(
                f"{configured.path}: [study] has no `{self.name}`; name them there, or after the options", ctx
            ) from None


class Command(click.Command):
    """A command whose help has a section for each kind of option."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section in the order in which sections first appear, other ones last."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(parameter, "section", OTHER), []).append(record)
        for title in sorted(sections, key=lambda title: title == OTHER):
            with formatter.section(title):
                formatter.write_dl(sections[title])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it refuses is named as it is written in the shell."""
        try:
            return super().invoke(ctx)
        except InvalidParameter as error:
            error.args = (in_shell_words(str(error), ctx), *error.args[1:])
            raise


class Group(click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named; of one that is not there say which is meant, probably."""
        name = args[0]
        if name.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        known = self.list_commands(ctx)
        close = get_close_matches(name.lower(), known, 1, 0.6)
        hint = f"Did you mean {close[0]!r}?" if close else f"Commands are {', '.join(known)}."
        raise click.UsageError(f"No such command {name!r}. {hint}", ctx)


class LazyGroup(Group):
    """The group at the top: its commands are imported when they are called, and its help is a screen.

    Parameters
    ----------
    places : mapping of str to str
        Where each command is: `module:name`.
    sections : sequence of (title, rows)
        The help: each row has the words of a command and what it does.
    ending : sequence of str
        Lines that end the help.
    """

    def __init__(
        self,
        *arguments: Any,
        places: Mapping[str, str],
        sections: Sequence[tuple[str, Sequence[tuple[str, str]]]],
        ending: Sequence[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(*arguments, **more)
        self.places, self.sections, self.ending = places, sections, ending

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names, without importing them."""
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now."""
        place = self.places.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        found: click.Command = getattr(import_module(module), name)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an interruption before it could have charged anything says so."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, Exception) as error:
            if not (isinstance(error, click.Abort) or was_interrupted(error)):
                raise
            raise click.Abort from error if ctx.meta.get(CHARGING) else Interrupted(NOTHING_YET, [])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections and how to go on; compact, so that all fits a terminal of 80 columns and 24 lines."""
        width = max(len(words) for _, rows in self.sections for words, _ in rows)
        formatter.write_paragraph()
        for title, rows in self.sections:
            formatter.write(f"{title}\n")
            formatter.write("".join(f"  {words:<{width}}  {text}\n" for words, text in rows))
        formatter.write_paragraph()
        formatter.write("".join(f"{line}\n" for line in self.ending))
