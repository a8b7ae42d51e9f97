"""Slash commands: reading them, and who may give them. Decided on the host, before any session is made or woken.

Only what people write is read here; what an agent or the gateway says never commands.
"""

import re
from enum import StrEnum

from msgspec import Struct

from gatepost.access.senders import COMMANDING, Rights


class CommandAction(StrEnum):
    """What a command leads to."""

    STOP = "stop"  # now, before any queue
    CLEAR = "clear"
    TELL = "tell"  # the gateway answers by itself
    PASS = "pass"  # goes to the agent as it is
    DROP = "drop"
    DECIDE = "decide"  # answers a request
    PAIR = "pair"  # binds the sender to a person


_ACTS: dict[str, tuple[CommandAction, bool]] = {  # the act, and whether it takes an owner or admin of the group
    "/stop": (CommandAction.STOP, True),
    "/clear": (CommandAction.CLEAR, True),
    "/help": (CommandAction.TELL, False),
    "/ping": (CommandAction.TELL, False),
    "/chatid": (CommandAction.TELL, False),
    "/approve": (CommandAction.DECIDE, False),  # who may is judged by what it is about
    "/deny": (CommandAction.DECIDE, False),
    "/answer": (CommandAction.DECIDE, False),
    "/pair": (CommandAction.PAIR, False),  # for everybody: the code is the right
    **dict.fromkeys(("/compact", "/context", "/cost", "/files", "/remote-control"), (CommandAction.PASS, True)),
    **dict.fromkeys(("/login", "/logout", "/doctor", "/config"), (CommandAction.DROP, False)),
}

_LISTED = {  # what /help says, in this order
    "/help": "this list",
    "/ping": "whether the gateway is there, and which agent this chat goes to",
    "/chatid": "the address of this chat",
    "/approve": "allow what an agent asks: /approve ID",
    "/deny": "do not allow it: /deny ID WORDS",
    "/answer": "answer what an agent asks: /answer ID WORDS",
    "/pair": "be known here as the person whom a code of `gatepost pair` is for: /pair CODE",
    "/stop": "end what the agent is doing now",
    "/clear": "forget the conversation and start a new one",
}

_LEAD = re.compile(r"\s*(?:\[[^\]\n]{1,64}\]\s*)?(?:(?:@[^\s/]+|<@[^>\s]+>)[:,]?\s+)?")
_HEAD = re.compile(r"([/\\])([A-Za-z][A-Za-z0-9_-]{0,31})(?:@\S*)?(?=\s|\Z)")


class SlashCommand(Struct, frozen=True):
    head: str  # /stop
    text: str  # the command and what follows it, without the mention before it
    act: CommandAction
    for_admins: bool


def parse_command(text: str) -> SlashCommand | None:
    """The command that a message is, None if it is none. A backslash counts where a platform eats slashes."""
    lead = _LEAD.match(text)
    found = _HEAD.match(text, lead.end() if lead else 0)
    if found is None:
        return None
    slash, name = found.groups()
    head = f"/{name.lower()}"
    if slash == "\\" and head not in _ACTS:  # \alpha may well be meant as it stands
        return None
    act, for_admins = _ACTS.get(head, (CommandAction.PASS, False))
    return SlashCommand(head, (head + text[found.end() :]).rstrip(), act, for_admins)


def strip_mention(text: str) -> str:
    """Without the mention, or the name in brackets, before what is meant."""
    lead = _LEAD.match(text)
    return text[lead.end() :] if lead else text


def may_use(command: SlashCommand, rights: Rights) -> bool:
    return _may(command.for_admins, rights)


def render_help(rights: Rights, agent: str) -> str:
    """The answer to /help: what this person may give here. `agent`: who gets the rest, '' if nobody does."""
    given = [
        f"- {head}: {what}"
        for head, what in _LISTED.items()
        if _may(_ACTS[head][1], rights) and (agent or _ACTS[head][0] is CommandAction.TELL)
    ]
    rest = f"Everything else that you write goes to {agent}." if agent else "No agent is set up for this chat."
    return "The gateway itself understands:\n\n" + "\n".join(given) + f"\n\n{rest}"


def _may(for_admins: bool, rights: Rights) -> bool:
    return not for_admins or rights in COMMANDING
