"""Rules of platforms as data: the page that has each, where the adapter keeps it, and a wrong call that is refused.

An emulator refuses by the name of a rule, so that no refusal is without a source. A test makes the wrong call of each.
A rule without `read_on` is as the platform's libraries and earlier emulators have it: nobody has compared it with its
page yet.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct


class PlatformRule(Struct, frozen=True, kw_only=True):
    """`call`: a method and its arguments, which the platform refuses with `refusal`. In the arguments `$team` stands
    for a chat, `$own` for a message of the bot there, `$theirs` for one of a person, `$file` for an upload. `adapter`:
    where it is kept, '' if the adapter never makes such a call."""

    name: str
    source: str
    refusal: str
    call: tuple[str, dict[str, Any]]
    read_on: str = ""  # the day on which somebody compared it with its page
    status: int = 400
    limit: int = 0
    adapter: str = ""


def make_rule(
    name: str, status: int, refusal: str, source: str, method: str, given: dict[str, Any] | None = None, **more: Any
) -> PlatformRule:
    """Return a rule whose wrong call is a method with the arguments `given`."""
    return PlatformRule(name=name, status=status, refusal=refusal, source=source, call=(method, given or {}), **more)


def index_rules(rules: Iterable[PlatformRule]) -> dict[str, PlatformRule]:
    found: dict[str, PlatformRule] = {}
    for rule in rules:
        assert rule.name not in found, rule.name
        found[rule.name] = rule
    return found
