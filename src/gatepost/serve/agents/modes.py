"""The modes of a provider's agents: when they ask before they act.

Modes are a courtesy. The walls are the sandbox and the gate.
"""

from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.flow.sessions.sandbox.provider_specs import find_spec
from gatepost.inside.provider_spec import Mode

_ANY = (Mode("default", "Default", "As the provider is set up."),)


def modes_of(home: Home, provider: str) -> tuple[Mode, ...]:
    """The first is what a provider is in if nobody says anything."""
    return find_spec(home, provider).modes or _ANY


def check_mode(home: Home, provider: str, mode: str) -> str:
    """'' for the one that it is in anyway."""
    modes = modes_of(home, provider)
    known = [each.id for each in modes]
    if mode and mode not in known:
        raise Invalid("modeId", f"{provider} has no mode {mode!r}; there are: {', '.join(known)}")
    return "" if mode == _ANY[0].id and modes is _ANY else mode
