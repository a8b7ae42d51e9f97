"""Rights to run operations: of a person or a group by the rows of the access list, read once for many questions, and
the scopes of an API token.

A scope is a right such as `tasks.read`, of which a part may be `*`. A token never has more than its maker.
"""

from collections.abc import Iterable, Mapping, Sequence

from gatepost.access import acl
from gatepost.access.acl import RoleMemberships
from gatepost.access.tiers import is_path
from gatepost.core.errors import Invalid
from gatepost.store.rights.acl import OPERATOR, ROLE, AclRow

MOST_SCOPES = 50
MANAGING = "api_tokens"  # a token makes, sees and ends no tokens: it could outlive or outgrow itself


class OperationRights:
    """Rights of a person or a group; a role has members and is none. Members of the operator's role may run
    everything."""

    def __init__(self, caller: str, rows: Sequence[AclRow], members: RoleMemberships) -> None:
        self._space, _, name = caller.partition(":")
        is_somebody = bool(name) and not caller.startswith(ROLE)
        self._claims = {"user": caller, "platform": self._space}
        self._members = members
        self._who = acl.expand_roles([caller], members) if is_somebody else frozenset()
        self.is_operator = OPERATOR in self._who
        # A row that does not concern the caller says nothing about any act.
        self._rows = [row for row in acl.list_valid_rows(rows, members) if acl.concerns(row, self._who)]

    @property
    def has_any(self) -> bool:
        """Return True if any row at all may speak for the caller."""
        return self.is_operator or any(row.action.startswith("op:") for row in self._rows)

    def allows(self, action: str, scope: str, params: Mapping[str, str] | None = None) -> bool:
        """A scope that is no path could leave its group (`..`). Without parameters: whether it may be offered; a row
        that is about them is judged when they are known."""
        if self.is_operator:
            return True
        given, who, claims = params or {}, self._who, self._claims
        if any(acl.denies_by_other_name(row, who, action, scope, given, claims, self._members) for row in self._rows):
            return False
        return is_path(scope) and acl.authorize(self._rows, who, action, scope, given, claims) is True


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
