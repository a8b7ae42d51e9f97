"""In which modes agents of a provider can be: when they ask before they act. Their own words, with what they mean.

A provider's own modes are courtesy; the walls are the sandbox and the gate.
"""

from collections.abc import Mapping

from msgspec import Struct

from gatepost.core.errors import Invalid


class Mode(Struct, frozen=True):
    id: str
    label: str
    description: str = ""


_ANY = (Mode("default", "Default", "As the provider is set up."),)
MODES: Mapping[str, tuple[Mode, ...]] = {
    "claude": (
        Mode("bypassPermissions", "Bypass", "Never asks; the sandbox is the wall."),
        Mode("default", "Always ask", "Asks before it acts."),
        Mode("acceptEdits", "Accept edits", "Edits files by itself, asks for the rest."),
        Mode("plan", "Plan", "Plans first; once the plan is approved, carries it out in `acceptEdits`."),
    ),
    "codex": (
        Mode("never", "Never ask", "Never asks; the sandbox is the wall."),
        Mode("on-request", "On request", "Asks when it thinks that it should."),
        Mode("untrusted", "Untrusted", "Asks before every command that is not known to be harmless."),
        Mode("plan", "Plan", "Plans first; once the plan is approved, carries it out `on-request`."),
    ),
    "opencode": (
        Mode("allow", "Allow", "Never asks; the sandbox is the wall."),
        Mode("ask", "Ask", "Asks before it acts."),
        Mode("plan", "Plan", "Reads and plans; once the plan is approved, carries it out in `allow`."),
    ),
    "acp": (Mode("allow", "Allow", "Never asks; the sandbox is the wall."), Mode("ask", "Ask", "Asks before it acts.")),
}


def modes_of(provider: str) -> tuple[Mode, ...]:
    """The first is what a provider is in if nobody says anything."""
    return MODES.get(provider, _ANY)


def check_mode(provider: str, mode: str) -> str:
    """'' for the one that it is in anyway."""
    known = [each.id for each in modes_of(provider)]
    if mode and mode not in known:
        raise Invalid("modeId", f"{provider} has no mode {mode!r}; there are: {', '.join(known)}")
    return "" if mode == _ANY[0].id and modes_of(provider) is _ANY else mode
