"""Slash commands: what each is declared as, how one is read from a message, and who may give it.

A command is decided on the host, for each message by itself, before any session is made or woken. Only what people
write is read here; what an agent or the gateway says never commands. The commands themselves are in `commands/`.
"""

import re
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from gatepost.access.senders import COMMANDING, Rights
from gatepost.channels.contract import NativeCommand
from gatepost.core.errors import find_near
from gatepost.core.registry import Registry


class CommandAction(StrEnum):
    """The part that acts on a command."""

    RUN = "run"  # the gateway carries it out
    PASS = "pass"  # the agent gets it as it was typed
    DROP = "drop"  # nobody: it would reach into the provider
    DECIDE = "decide"  # it answers a request, before any route is looked for
    PAIR = "pair"  # it binds the sender to a person, before anything else
    JOIN = "join"  # it lets the sender in, before anything else


class CommandRight(StrEnum):
    """The people who may give a command."""

    EVERYBODY = "everybody"  # who may speak in the chat
    MEMBER = "member"
    ADMIN = "admin"


class CommandSpec(Struct, frozen=True, kw_only=True):
    """One command as it is declared. `/help`, the docs and the dispatcher come from it."""

    name: str  # without its slash
    right: CommandRight
    help: str  # one line
    usage: str = ""  # what may follow the name
    act: CommandAction = CommandAction.RUN
    urgent: bool = False  # it is not kept waiting by a store that is slow
    anywhere: bool = False  # it is answered in a chat without an agent, too
    as_word: bool = False  # the word alone behind a mention is as good: some platforms take slashes for themselves
    needs_choices: bool = False  # it must know which providers and models there are
    listed: bool = True  # in /help

    @property
    def head(self) -> str:
        return f"/{self.name}"


class SlashCommand(Struct, frozen=True):
    """A command as somebody gave it."""

    head: str  # /stop
    text: str  # the command and what follows it, without the mention before it
    act: CommandAction

    @property
    def name(self) -> str:
        return self.head[1:]

    @property
    def rest(self) -> str:
        """Return what follows its name."""
        return self.text[len(self.head) :].strip()


COMMANDS: Registry[CommandSpec] = Registry("command of chats")

NEAR = 0.8  # of a name and its slash: /hepl is near to /help, and /start, /commit are names of others
_OPENING = r"\s*(?:\[[^\]\n]{1,64}\]\s*)?"
_LEAD = re.compile(_OPENING + r"(?:(?:@(?P<name>[^\s/]+?)|<@(?P<id>[^>\s]+)>)[:,]?\s+)?")
_HEAD = re.compile(r"([/\\])([A-Za-z][A-Za-z0-9_-]{0,31})(?:@(\S*))?(?=\s|\Z)")
_WORD = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31})[.!]?\s*\Z")
_ORDER = tuple(CommandRight)


def parse_command(text: str, own_names: frozenset[str] = frozenset()) -> SlashCommand | None:
    """The command that a message is, None if it is none. A backslash counts where a platform eats slashes.

    `own_names`: what we are called on the platform, in lower case. Empty: nobody knows, so whoever is named is us."""
    start, named = _parse_opening(text, own_names)
    if not _is_own(named, own_names):
        return None
    found = _HEAD.match(text, start)
    if found is None:
        return _parse_word(text[start:]) if named and own_names else None
    slash, name, suffix = found.groups()
    if not _is_own(suffix or "", own_names):
        return None
    head = f"/{_find_declared(name.lower())}"
    spec = COMMANDS.get(head[1:])
    if slash == "\\" and spec is None:  # \alpha may well be meant as it stands
        return None
    return SlashCommand(head, (head + text[found.end() :]).rstrip(), spec.act if spec else CommandAction.PASS)


def _find_declared(name: str) -> str:
    """Return the name of a command. Some platforms have no hyphen in one, and show `_` in its place."""
    hyphened = name.replace("_", "-")
    return hyphened if name not in COMMANDS and hyphened in COMMANDS else name


def _parse_opening(text: str, own_names: frozenset[str]) -> tuple[int, str]:
    """Return where the text behind a mention begins, and the name in that mention, '' for none. Our own name may have
    blanks, and may stand without a sign, as in `Gate Post: /stop`."""
    own = _compile_own(own_names).match(text) if own_names else None
    if own is not None:
        return own.end(), " ".join(own["name"].split())
    lead = _LEAD.match(text)
    return (lead.end(), lead["name"] or lead["id"] or "") if lead else (0, "")


@lru_cache(maxsize=256)
def _compile_own(own_names: frozenset[str]) -> re.Pattern[str]:
    """Compile any of the names, the longest first, as people and platforms write a mention (Zulip: `@**Gate
    Post**`)."""
    known = sorted(own_names, key=lambda name: (-len(name), name))
    names = "|".join(r"\s+".join(map(re.escape, name.split())) for name in known if name.strip())
    return re.compile(
        rf"{_OPENING}(?:@\*\*|@|<@)?(?P<name>{names or '(?!)'})(?:\|[0-9]+)?(?:\*\*|>)?[:,]?\s+", re.IGNORECASE
    )


def _is_own(name: str, own_names: frozenset[str]) -> bool:
    return not name or not own_names or name.lower() in own_names


def _parse_word(text: str) -> SlashCommand | None:
    """Return the command of `@bot stop`, where we know that we are meant. Only declared words count, because most are
    for the agent."""
    found = _WORD.match(text)
    spec = COMMANDS.get(found[1].lower()) if found else None
    return SlashCommand(spec.head, spec.head, spec.act) if spec is not None and spec.as_word else None


def skip_own_mention(text: str, own_names: frozenset[str]) -> int:
    """Return where the text begins that is meant: behind blanks, and behind our own name if we know that it is ours."""
    start, named = _parse_opening(text, own_names)
    if named and named.lower() in own_names:
        return start
    return len(text) - len(text.lstrip())


def strip_mention(text: str, own_names: frozenset[str]) -> str:
    """Return the text without the mention, or the name in brackets, before what is meant."""
    return text[_parse_opening(text, own_names)[0] :]


def may_use(command: SlashCommand, rights: Rights) -> bool:
    """Return True if rights suffice for a command. An unknown one is for the agent, and so for everybody who may speak
    to it."""
    spec = COMMANDS.get(command.name)
    return spec is None or is_allowed(spec.right, rights)


def is_allowed(right: CommandRight, rights: Rights) -> bool:
    if right is CommandRight.ADMIN:
        return rights in COMMANDING
    return right is CommandRight.EVERYBODY or rights != "guest"


def find_near_command(command: SlashCommand) -> str:
    """Return the command that somebody may have mistyped, with its slash; '' if it is none of these, or is one. The
    first letter is right, and at most one letter is missing or too many: /work and /plan are for the agent."""
    if command.name in COMMANDS:
        return ""
    listed = (each.head for each in list_specs() if each.listed)
    like = [head for head in listed if head[1] == command.head[1] and abs(len(head) - len(command.head)) <= 1]
    return find_near(command.head, like, NEAR)


def render_mistyped(command: SlashCommand, near: str) -> str:
    return (
        f"There is no {command.head} here. Did you mean {near}? Nobody was given it: what is for the agent goes to it"
        " with a word before the slash."
    )


def is_urgent(command: SlashCommand | None) -> bool:
    spec = COMMANDS.get(command.name) if command is not None else None
    return spec is not None and spec.urgent


def render_refusal(spec: CommandSpec) -> str:
    who = "an owner or an admin" if spec.right is CommandRight.ADMIN else "a member"
    return f"Only {who} of this agent may use {spec.head}."


def render_help(rights: Rights, agent: str) -> str:
    """Return the answer to /help: what this person may give here. `agent`: who gets the rest, '' if nobody does."""
    given = [
        f"- {_render_usage(spec)}: {spec.help}"
        for spec in list_specs()
        if spec.listed and is_allowed(spec.right, rights) and (agent or spec.anywhere)
    ]
    rest = f"Everything else that you write goes to {agent}." if agent else "No agent is set up for this chat."
    return "The gateway itself understands:\n\n" + "\n".join(given) + f"\n\n{rest}"


def list_specs() -> list[CommandSpec]:
    """Return the commands by who may give them, then by name."""
    return sorted((spec for _, spec in COMMANDS.items()), key=lambda each: (_ORDER.index(each.right), each.name))


def list_native_commands() -> tuple[NativeCommand, ...]:
    """Return the commands that a platform may show in its menu: those that `/help` lists."""
    return tuple(
        NativeCommand(name=each.name, help=each.help, usage=each.usage) for each in list_specs() if each.listed
    )


def _render_usage(spec: CommandSpec) -> str:
    return f"{spec.head} {spec.usage}" if spec.usage else spec.head
