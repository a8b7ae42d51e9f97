"""Channels: the instances that run, what they are made of, whether their platforms accept them, and the token of a
program that is an adapter."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Struct, field

from gatepost.channels.contract import ChannelState, EndReason, SpecOrigin
from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares

READ, WRITE = "channel.read", "channel.write"
Instance = Annotated[str, argument("The instance.", "instance", examples=("telegram",))]
Settings = Annotated[
    dict[str, str],
    option("A setting of its kind, by its last name; may be repeated.", "set", metavar="KEY=VALUE"),
]
Secrets = Annotated[
    dict[str, str], option("Its keys and passwords, by the last names of their settings.", secret=True, hidden=True)
]


class ChannelListItem(Struct, frozen=True, kw_only=True):
    """`state` is null while no gateway runs. `next_at`: when it is started anew. `waiting`: messages of the outbox."""

    instance: Annotated[str, shown("Channel", ShownAs.CODE)]
    kind: Annotated[str, shown("Kind")]
    origin: SpecOrigin
    state: Annotated[ChannelState | None, shown("State", ShownAs.BADGE, empty="down")]
    since_at: Annotated[int | None, shown("Since", ShownAs.MOMENT, head="since")] = None
    error: Annotated[str, shown("Trouble")] = ""
    remedy: Annotated[str, shown("What to do")] = ""
    reason: EndReason | None = None
    next_at: Annotated[int | None, shown("Next try", ShownAs.MOMENT, head="next try")] = None
    note: Annotated[str, shown("Note")] = ""
    beat_at: Annotated[int | None, shown("Alive", ShownAs.MOMENT, head="last sign")] = None
    event_at: Annotated[int | None, shown("Last message", ShownAs.MOMENT, head="last message")] = None
    waiting: Annotated[int, shown("Waiting", ShownAs.NUMBER)] = 0
    restarts: Annotated[int, shown("Restarts", ShownAs.NUMBER)] = 0
    tested_against: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


class AskedSetting(Struct, frozen=True, kw_only=True):
    name: str
    help: str
    default: Any
    choices: tuple[str, ...]
    is_secret: bool
    is_optional: bool


def _render_names(asked: Sequence[AskedSetting]) -> str:
    return ", ".join(each.name for each in asked)


class ChannelKindItem(Struct, frozen=True, kw_only=True):
    """`before`: what is done on the platform first. `extra`: the package's extra that it needs."""

    name: Annotated[str, shown("Kind", head="kind")]
    title: Annotated[str, shown("Platform", head="platform")]
    before: Annotated[str, shown("First")]
    asks: Annotated[list[AskedSetting], shown("Asks for", head="asks for", render=_render_names)]
    settings: list[AskedSetting]
    tested_against: Annotated[str, shown("Tested against", head="tested against")]
    extra: Annotated[str, shown("Extra", ShownAs.CODE)]


class ChannelAnswer(Struct, frozen=True, kw_only=True):
    """The outcome of a change to a channel. `is_checked`: its platform was asked; some kinds cannot be."""

    instance: str
    kind: str
    is_checked: bool
    is_running: bool
    bot: str = ""
    link: str = ""
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    after: str = ""


class ChannelRemoval(Struct, frozen=True, kw_only=True):
    instance: str
    secrets: list[str]
    waiting: int


@declares("channel.list", right=READ, needs_home=True)
class ListChannelsArgs(OperationArgs[list[ChannelListItem]], frozen=True):
    """Every channel, with its state and the last sign of life."""


@declares("channel.kinds", right=READ)
class ListChannelKindsArgs(OperationArgs[list[ChannelKindItem]], frozen=True):
    """Every kind of channel that can be added, what it asks for and what it was tested against."""


@declares("channel.add", right=WRITE)
class AddChannelArgs(OperationArgs[ChannelAnswer], frozen=True):
    """Add a channel: ask its platform whether it accepts us, write down its settings and secrets, and start it.

    If the platform says no, or cannot be reached, nothing is written.
    """

    kind: Annotated[str, argument("Which platform; `gatepost channel kinds` lists them.")]
    instance: Annotated[str, option("Its name here (default: that of the kind).", "name", examples=("work",))] = ""
    settings: Settings = field(default_factory=dict)
    secrets: Secrets = field(default_factory=dict)


@declares("channel.set", right=WRITE)
class SetChannelArgs(OperationArgs[ChannelAnswer], frozen=True):
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
class RemoveChannelArgs(OperationArgs[ChannelRemoval], frozen=True):
    """Stop a channel and remove its settings, its secrets, its cursor and its folder.

    The conversations stay. Messages that wait to be sent there stay, too, until they are too old.
    """

    instance: Instance


@declares("channel.restart", right=WRITE, offline=False)
class RestartChannelArgs(OperationArgs[ChannelListItem], frozen=True):
    """Start a channel anew, without touching the others. One that has ended gets another chance."""

    instance: Instance


@declares("channel.test", right=WRITE)
class CheckChannelArgs(OperationArgs[ChannelAnswer], frozen=True):
    """Ask the platform of a channel whether it accepts us, who we are there and what we lack. Nothing changes."""

    instance: Instance


class ChannelTokenView(Struct, frozen=True, kw_only=True):
    """`secret`: it is shown once, because only its hash is kept."""

    secret: str
    instance: str
    url: str
    is_new: bool  # the channel was made for it
    revoked: int  # tokens that it had before
    features: list[str]
    max_text: int


@declares("channel.token", right=WRITE)
class AddChannelTokenArgs(OperationArgs[ChannelTokenView], frozen=True):
    """Make a channel whose adapter is a program elsewhere, in any language, and print its token.

    NAME is also the platform's name in its addresses. If there is such a channel, it gets a new token and the old one
    works no longer. docs/extend/adapter-protocol.md says what the program does with it.
    """

    instance: Annotated[str, argument("The channel's name.", "name", examples=("irc-bridge",))]
    features: Annotated[
        list[str],
        option("Something that the program can do, such as edit or keyed; may be repeated.", "feature", metavar="NAME"),
    ] = field(default_factory=list)
    max_text: Annotated[int | None, option("The longest text of one message, in characters (0: no limit).")] = None
