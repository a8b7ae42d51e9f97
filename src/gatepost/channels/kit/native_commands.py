"""Chat commands in a platform's own menu: how they are called there, and when the platform is told of them.

One function decides for every platform. A hyphen is replaced if names have none there, and a name that the platform
reserves gets a prefix. A command that still does not fit is left out, and is typed as before.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from msgspec import Struct

from gatepost.channels.contract import ChannelDeps, NativeCommand
from gatepost.core import log
from gatepost.core.errors import GatepostError
from gatepost.messages.text import one_line

LOG = log.get("channels")
REGISTERED = "commands"  # the name of the cursor that keeps what the platform was told last


class CommandRules(Struct, frozen=True, kw_only=True):
    """The limits of a platform for commands of a bot."""

    name: str  # a pattern, for the whole name
    longest_help: int  # characters
    most: int
    hyphen: str = "-"  # what stands in its place
    reserved: frozenset[str] = frozenset()
    prefix: str = ""  # of names that are reserved; '': these are left out


class ShownCommand(Struct, frozen=True):
    """A command as the platform shows it. `name` is what it is called here."""

    shown: str
    name: str
    help: str
    usage: str = ""


def fit_commands(commands: Iterable[NativeCommand], rules: CommandRules) -> tuple[ShownCommand, ...]:
    """Return the commands that fit the platform, as it shows them."""
    found: dict[str, ShownCommand] = {}
    for each in commands:
        shown, words = each.name.lower().replace("-", rules.hyphen), one_line(each.help)
        if shown in rules.reserved:
            shown = rules.prefix + shown if rules.prefix else ""
        if words and shown not in found and re.fullmatch(rules.name, shown):
            found[shown] = ShownCommand(shown, each.name, _shorten(words, rules.longest_help), one_line(each.usage))
    return tuple(found.values())[: rules.most]


def _shorten(words: str, longest: int) -> str:
    return words if len(words) <= longest else words[: longest - 1].rstrip() + "…"


def render_given(commands: Iterable[ShownCommand], shown: str, words: str) -> str:
    """Return a command that somebody gave by the menu as they would have typed it."""
    name = next((each.name for each in commands if each.shown == shown), shown)
    return f"/{name} {words}".rstrip()


async def register_commands(
    deps: ChannelDeps, bot: str, commands: tuple[ShownCommand, ...], tell: Callable[[], Awaitable[object]]
) -> None:
    """Tell the platform the commands of a bot, unless it was told the same before. If it refuses, the channel runs on
    and its report says so; the next start tries again."""
    if not commands:
        return
    digest = hashlib.sha256(msgspec.json.encode((bot, commands))).hexdigest()
    if await deps.cursor.load(REGISTERED) == digest:
        return
    note = ""
    try:
        await tell()
    except GatepostError as error:
        note = f"its menu of commands could not be set, they can be typed all the same: {error}"
        LOG.warning("the commands could not be registered", instance=deps.instance, error=str(error))
    else:
        await deps.cursor.save(digest, REGISTERED)
    if deps.pulse is not None:
        deps.pulse.note = note
