"""Which operations somebody may run, where: the rows of the access list, read once for many questions."""

from collections.abc import Mapping, Sequence

from gatepost.access import acl
from gatepost.access.acl import RoleMemberships
from gatepost.access.tiers import is_path
from gatepost.store.rights.acl import OPERATOR, ROLE, AclRow


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
