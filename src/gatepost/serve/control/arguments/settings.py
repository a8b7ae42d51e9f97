"""Settings: what is set, what the running gateway uses, and a change of gatepost.toml."""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.declaration import OperationArgs, declares

LONGEST_VALUE = 20_000  # characters


class SettingOrigin(StrEnum):
    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"


class SettingShape(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    LIST = "list"
    TABLE = "table"  # of tables: changed in the file alone
    SECRET = "secret"


class SettingView(Struct, frozen=True, kw_only=True):
    """`value`: as the next start would find it. `in_use`: what a running gateway has, if that is another."""

    name: str
    value: Any
    in_use: Any
    is_pending: bool  # the two differ
    origin: SettingOrigin
    default: Any
    shape: SettingShape
    choices: tuple[str, ...]
    variable: str
    help: str


class SettingChange(Struct, frozen=True, kw_only=True):
    name: str
    diff: list[str]  # of the file; empty: nothing changes
    is_written: bool
    needs_restart: bool
    text: str


@declares("settings.in_use", right="status.read", offline=False)
class SettingsInUseArgs(OperationArgs[dict[str, Any]], frozen=True):
    """List the settings that the running gateway uses, which it read when it started."""


@declares("settings.list", right="settings.read")
class ListSettingsArgs(OperationArgs[list[SettingView]], frozen=True):
    """List every setting: its value, where that comes from, its meaning, and what a running gateway uses instead."""


@declares("settings.set", right="settings.write")
class SetSettingArgs(OperationArgs[SettingChange], frozen=True):
    """Write a setting into gatepost.toml. Everything else in the file stays, comments too.

    The value is checked as a start would check it. A running gateway takes it up with its next start, unless the answer
    says otherwise. Secrets and tables are not set here. People with this right decide what the gateway runs and how:
    give it to nobody whom you would not give the machine.
    """

    name: Annotated[str, argument("The setting.", examples=("log.level",)), Meta(max_length=200)]
    value: Annotated[
        str,
        argument("Its value; several are parted by commas.", "value", examples=("debug",)),
        Meta(max_length=LONGEST_VALUE),
    ] = ""
    dry_run: Annotated[bool, option("Only show what would change in the file.")] = False


@declares("settings.unset", right="settings.write")
class UnsetSettingArgs(OperationArgs[SettingChange], frozen=True):
    """Remove a setting from gatepost.toml: it has its default again. Everything else in the file stays, comments too.

    The rest of the file is checked as a start would check it. A running gateway takes it up with its next start, unless
    the answer says otherwise.
    """

    name: Annotated[str, argument("The setting.", examples=("log.level",)), Meta(max_length=200)]
    dry_run: Annotated[bool, option("Only show what would change in the file.")] = False
