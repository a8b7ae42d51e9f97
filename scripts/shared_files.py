"""What packages install beside the program: the page of the manual and the completion of three shells. They are made
from the commands; `make docs` writes them to `ops/share`, and the wheel brings them from there."""

import re

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from gatepost.cli.commands import COMMANDS
from gatepost.cli.program import gatepost as program

COMPLETIONS: dict[str, type[ShellComplete]] = {
    "bash-completion/completions/gatepost": BashComplete,
    "zsh/site-functions/_gatepost": ZshComplete,
    "fish/vendor_completions.d/gatepost.fish": FishComplete,
}
HEAD = r"""
.TH GATEPOST 1 "" "" "Gatepost"
.SH NAME
gatepost \- a gateway between chat platforms and sandboxed agents
.SH SYNOPSIS
.B gatepost
.RI [ options ]
.I command
.RI [ arguments ]
"""
TAIL = r"""
.SH ENVIRONMENT
Every setting has a variable, such as GATEPOST_LISTEN; `gatepost settings` lists them.
.TP
.B GATEPOST_HOME
The data folder.
.TP
.B GATEPOST_DEBUG
Where it is set, unexpected errors are shown with a traceback.
.SH FILES
.TP
.I ~/.gatepost
The home: settings (gatepost.toml), the store, the folders of agents, and the log.
.SH EXIT STATUS
0: done. 1: refused, or found wanting. 2: misused. 130: interrupted.
.SH SEE ALSO
.BR bwrap (1),
.BR systemctl (1)
"""


def list_files() -> dict[str, str]:
    """Return each file's text by its path below `share`."""
    return {"man/man1/gatepost.1": render_manual(), **{path: complete(made) for path, made in COMPLETIONS.items()}}


def complete(shell: type[ShellComplete]) -> str:
    """Without a look at this machine's own shell, which need not be here."""
    text = ShellComplete.source(shell(program, {}, "gatepost", "_GATEPOST_COMPLETE"))
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


def render_manual() -> str:
    """One page: what each command takes, it says itself."""
    context = click.Context(program, info_name="gatepost", **program.context_settings)
    words = " ".join((program.help or "").split())
    out = [HEAD.strip(), ".SH DESCRIPTION", _escape(words), ".PP"]
    out += ["`gatepost COMMAND \\-\\-help` says what a command does and takes.", ".SH OPTIONS"]
    for parameter in program.get_params(context):
        record = parameter.get_help_record(context)
        out += [".TP", f".B {_escape(record[0])}", _escape(record[1])] if record else []
    out.append(".SH COMMANDS")
    for name in program.list_commands(context):
        out += [".TP", f".B {_escape(name)}", _escape(COMMANDS[name].help)]
    return "\n".join([*out, TAIL.strip()]) + "\n"


def _escape(text: str) -> str:
    """Text for roff: a dot or a quote at the beginning of a line would be a request of it."""
    return re.sub(r"^(?=[.'])", r"\\&", text.replace("\\", r"\e").replace("-", r"\-"), flags=re.MULTILINE)
