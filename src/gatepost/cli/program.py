"""The command group: commands are those of the table in `commands/`. A file is imported when its command is used.

The user gets an answer, or one line that says what is wrong and what to do; never a traceback.
"""

import copy
import gc
import importlib
import os
import re
import sys
from types import ModuleType, TracebackType
from typing import Any

import click

from gatepost import __version__
from gatepost.cli import commands
from gatepost.cli.commands import COMMANDS
from gatepost.core import home as homes
from gatepost.core.errors import GatepostError
from gatepost.core.terminal_text import make_visible

INTERRUPTED = 130
_MISSING = re.compile(r"\bno (group|tool|worktree|secret) (?:named )?'([^'\n]{1,200})'")
_NO_COMMAND = re.compile(r"No such command '([^'\n]{1,200})'\.?")


_EXTRA_WORD = re.compile(r"unexpected extra arguments? \(([a-z-]{1,40})\)")
OTHER_NAMES = {"approvals": "permit"}  # which help does not list


class CommandFolderGroup(click.Group):
    """A group whose commands are in files."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = OTHER_NAMES.get(cmd_name, cmd_name)
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"{commands.__name__}.{entry.subject}")
        gc.enable()
        command: click.Command = getattr(module, f"{cmd_name}_command")
        _add_home_option(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and OTHER_NAMES.get(name, name) not in self.list_commands(ctx):
            raise click.UsageError(f"No such command {name!r}.", ctx)  # `run` says which was meant
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].help) for name in self.list_commands(ctx)])


def _add_home_option(command: click.Command) -> None:
    """`--home` may stand after the command as well as before it."""
    if not any("--home" in each.opts for each in command.params):
        command.params.append(
            click.Option(["--home"], metavar="DIR", expose_value=False, callback=_set_home, help="The data folder.")
        )
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _add_home_option(each)
        _add_list_alias(command)


def _add_list_alias(command: click.Group) -> None:
    """`ls` and `list` are the same everywhere; the help names one."""
    for name, other in (("ls", "list"), ("list", "ls")):
        if name in command.commands and other not in command.commands:
            alias = copy.copy(command.commands[name])
            alias.hidden = True
            command.add_command(alias, other)
            return


def _set_home(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj = value


@click.command(
    cls=CommandFolderGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--home", metavar="DIR", help="The data folder (default: GATEPOST_HOME, else ~/.gatepost).")
@click.version_option(__version__, prog_name="gatepost", message="%(prog)s %(version)s")
@click.pass_context
def gatepost(ctx: click.Context, home: str | None) -> None:
    """A gateway between chat platforms and sandboxed agents.

    `gatepost` alone says how things stand and what to do next. Every command takes --home; those that print take
    --json.
    """
    ctx.obj = home
    if ctx.invoked_subcommand is None:
        from gatepost.cli.next_steps import print_next_steps  # heavy

        print_next_steps(homes.find(home))


def run(args: list[str]) -> int:
    """Run a command line; its exit code. 0 done, 1 refused or found wanting, 2 misused, 130 interrupted."""
    sys.excepthook = _print_unexpected_error
    try:
        answer = gatepost.main(args=args, prog_name="gatepost", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        _with_command(error).show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except GatepostError as error:
        print("gatepost: " + make_visible(_with_name(str(error)).replace("\n", "; ")), file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has enough
        return 1
    return answer if isinstance(answer, int) else 0


def _home() -> homes.Home:
    return homes.find(_given_home())


def _with_name(text: str) -> str:
    """An error's text, with the nearest name that there is. Not for people: their names share long beginnings, so that
    somebody else would always be near."""
    found = _MISSING.search(text)
    if found is None or "did you mean" in text:
        return text
    hint: str = _load_hints().find_near_name(found[1], found[2], _home())
    rest = text[found.end() :]
    return text[: found.end()] + hint + (rest.removeprefix(";") if hint else rest)


def _load_hints() -> ModuleType:
    from gatepost.cli import hints  # heavy: it reads the store

    return hints


def _with_command(error: click.ClickException) -> click.ClickException:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return error
    if (word := _EXTRA_WORD.search(error.message)) is not None:
        options = {name for each in context.command.params for name in each.opts}
        hint = f"; did you mean --{word[1]}?" if f"--{word[1]}" in options else ""
        return click.UsageError(f"{error.message}{hint}", context)
    found = _NO_COMMAND.search(error.message)
    if found is None or not isinstance(context.command, click.Group):
        return error
    path, known = context.command_path.split()[1:], context.command.list_commands(context)
    hint = _load_hints().find_command(path, found[1], known)
    return click.UsageError(f"there is no command {found[1]!r}{hint}", context)


def _given_home() -> str | None:
    """`--home` of this command line, read without click: what failed may be click's own work."""
    for at, word in enumerate(sys.argv):
        if word.startswith("--home="):
            return word.removeprefix("--home=")
        if word == "--home":
            return next(iter(sys.argv[at + 1 :]), None)
    return None


def _print_unexpected_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
    """Print one line for an unexpected error. GATEPOST_DEBUG=1 shows the traceback."""
    if os.environ.get("GATEPOST_DEBUG"):
        return sys.__excepthook__(kind, error, trace)
    log = _home().logs / "gatepost.log"
    print(
        make_visible(f"gatepost: this should not happen: {kind.__name__}: {error}; GATEPOST_DEBUG=1 shows where,")
        + f" the log is {log}",
        file=sys.stderr,
    )
    return None
