"""The scopes of an API token: rights such as `tasks.read`, of which a part may be `*`. Never more than its maker
may."""

from collections.abc import Iterable, Sequence

from gatepost.core.errors import Invalid

MOST_SCOPES = 50
MANAGING = "api_tokens"  # a token makes, sees and ends no tokens: it could outlive or outgrow itself


def includes(scopes: Iterable[str], right: str) -> bool:
    """Return True if one of the scopes is this right, or has `*` where they differ."""
    if right.partition(".")[0] == MANAGING:
        return False
    return any(_matches(scope, right) for scope in scopes)


def _matches(scope: str, right: str) -> bool:
    if scope == "*":
        return True
    wanted, given = scope.split("."), right.split(".")
    return len(wanted) == len(given) and all(part in ("*", other) for part, other in zip(wanted, given, strict=True))


def check_scopes(scopes: Sequence[str], rights: Iterable[str]) -> tuple[str, ...]:
    """The scopes, each once. One that no right fits is a mistake."""
    known = sorted(set(rights))
    if not scopes:
        raise Invalid("scopes", "name at least one, like tasks.read, *.read or *")
    if len(scopes) > MOST_SCOPES:
        raise Invalid("scopes", f"there are more than {MOST_SCOPES}")
    for scope in scopes:
        if not any(_matches(scope, right) for right in known if not right.startswith(MANAGING)):
            raise Invalid("scopes", f"no right is {scope[:80]!r}; there are {', '.join(known)}")
    return tuple(dict.fromkeys(scopes))
