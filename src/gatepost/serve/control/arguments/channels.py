"""Channels: the instances that run, what they are made of, and whether their platforms accept them."""

from typing import Annotated, Any

from msgspec import field

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option

READ, WRITE = "channel.read", "channel.write"
Instance = Annotated[str, argument("The instance.", "instance", examples=("telegram",))]
Settings = Annotated[
    dict[str, str],
    option("A setting of its kind, by its last name; may be repeated.", "set", metavar="KEY=VALUE"),
]
Secrets = Annotated[
    dict[str, str], option("Its keys and passwords, by the last names of their settings.", secret=True, hidden=True)
]


@declares("channel.list", right=READ, needs_home=True)
class ListChannelsArgs(OperationArgs[Any], frozen=True):
    """Every channel, with its state and the last sign of life."""


@declares("channel.kinds", right=READ)
class ListChannelKindsArgs(OperationArgs[Any], frozen=True):
    """Every kind of channel that can be added, what it asks for and what it was tested against."""


@declares("channel.add", right=WRITE)
class AddChannelArgs(OperationArgs[Any], frozen=True):
    """Add a channel: ask its platform whether it accepts us, write down its settings and secrets, and start it.

    If the platform says no, or cannot be reached, nothing is written.
    """

    kind: Annotated[str, argument("Which platform; `gatepost channel kinds` lists them.")]
    instance: Annotated[str, option("Its name here (default: that of the kind).", "name", examples=("work",))] = ""
    settings: Settings = field(default_factory=dict)
    secrets: Secrets = field(default_factory=dict)


@declares("channel.set", right=WRITE)
class SetChannelArgs(OperationArgs[Any], frozen=True):
    """Change the settings or secrets of a channel, ask its platform whether they are right, and start it anew.

    If the platform says no, or cannot be reached, everything stays as it was.
    """

    instance: Instance
    settings: Settings = field(default_factory=dict)
    unset: Annotated[list[str], option("A setting that gets its default again; may be repeated.", metavar="KEY")] = (
        field(default_factory=list)
    )
    secrets: Secrets = field(default_factory=dict)
    on: Annotated[bool, option("Switch it on.")] = False
    off: Annotated[bool, option("Switch it off; it stays as it is, and does not run.")] = False


@declares("channel.remove", right=WRITE)
class RemoveChannelArgs(OperationArgs[Any], frozen=True):
    """Stop a channel and remove its settings, its secrets, its cursor and its folder.

    The conversations stay. Messages that wait to be sent there stay, too, until they are too old.
    """

    instance: Instance


@declares("channel.restart", right=WRITE, offline=False)
class RestartChannelArgs(OperationArgs[Any], frozen=True):
    """Start a channel anew, without touching the others. One that has ended gets another chance."""

    instance: Instance


@declares("channel.test", right=WRITE)
class CheckChannelArgs(OperationArgs[Any], frozen=True):
    """Ask the platform of a channel whether it accepts us, who we are there and what we lack. Nothing changes."""

    instance: Instance
