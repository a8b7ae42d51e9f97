"""Passphrases, and what opens an encrypted backup: an identity, or the emergency kit that holds it.

A passphrase is asked for without showing it, and is never an argument, which others on the machine could read.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.core.home import expand_user
from gatepost.serve.backups.emergency_kit import SHORTEST_PASSPHRASE, EmergencyKit, open_kit, read_sealed
from gatepost.serve.backups.sealed_files import read_identity

LONGEST = 1024
WHAT = "Passphrase of the emergency kit"


class BackupOpening(Struct, frozen=True):
    """`identity`: the lines that open an encrypted backup; '' if nothing was given."""

    identity: str = ""
    kit: EmergencyKit | None = None


def opening_options(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--identity` and `--kit`."""
    path = click.Path(path_type=Path, dir_okay=False)
    fn = click.option("--kit", type=path, help="The emergency kit; its passphrase is asked for.")(fn)
    return click.option("--identity", type=path, help="The file with the identity that opens an encrypted backup.")(fn)


def read_opening(identity: Path | None, kit: Path | None) -> BackupOpening:
    found = open_kit(read_sealed(expand_user(kit)), read_passphrase()) if kit is not None else None
    text = read_identity(expand_user(identity)) if identity is not None else found.identity if found is not None else ""
    return BackupOpening(text, found)


def read_passphrase() -> str:
    """From the terminal, or a line of a pipe."""
    if sys.stdin.isatty():
        return str(click.prompt(f"{WHAT} (not shown)", hide_input=True))
    return _read_line()


def read_new_passphrase() -> str:
    """Ask twice: nobody sees what they typed, and nothing else opens the kit."""
    if sys.stdin.isatty():
        first = str(click.prompt(f"{WHAT}, {SHORTEST_PASSPHRASE} characters or more (not shown)", hide_input=True))
        again = str(click.prompt("The same again", hide_input=True))
    else:
        first, again = _read_line(), _read_line()
    if first != again:
        raise Invalid("the passphrase", "the two are not the same; nothing was written")
    return first


def _read_line() -> str:
    try:
        return sys.stdin.readline(LONGEST).removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Invalid("the passphrase", "is not text") from None
