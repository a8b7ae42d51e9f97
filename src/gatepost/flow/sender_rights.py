"""The rights of whoever wrote or clicked something: those of the person, by all of their identities. Everybody who asks
what a sender may do, or which operations a person or a group may run, asks here."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from gatepost.access import senders
from gatepost.access.acl import RoleMemberships, expand_roles, list_valid_rows
from gatepost.access.operation_rights import OperationRights
from gatepost.access.senders import Rights
from gatepost.messages.inbound import OPERATOR, get_claimed, is_person, is_untrusted
from gatepost.store.people import users
from gatepost.store.people.users import SenderRoles
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclRow

NOBODY = SenderRoles(known=False)


class SenderAccess(Struct, frozen=True):
    """A person's roles by group, and the rows of the access list. `names`: their identities and the roles of these.
    Both are empty if no row is about people."""

    roles: SenderRoles
    rows: tuple[AclRow, ...] = ()
    names: frozenset[str] = frozenset()
    trusted: bool = True  # False: nothing is given to who only claims to be somebody, but what is denied stays denied

    def judge(self, folder: str) -> Rights | None:
        """Return what the person is in a group. None: a row shuts one of their identities out."""
        if not self.trusted:
            shut_out = senders.rights_by_acl("guest", self.rows, self.names, folder) is None
            return None if shut_out else "guest"
        rights = senders.rights_of(self.roles, folder)
        return senders.rights_by_acl(rights, self.rows, self.names, folder) if self.names else rights


def read_access(db: Db, sender: str) -> SenderAccess:
    """Return the roles of a sender, and the access list if it has rows about people. They change rarely: a caller that
    asks with every message keeps them (`RuleCache`)."""
    if not acl.has_people_rows(db):
        return SenderAccess(_get_roles(db, sender), trusted=not is_untrusted(sender))
    return read_access_with_rows(db, sender)


def read_access_with_rows(db: Db, sender: str) -> SenderAccess:
    """Return the same with every row of the access list, also if none is about who may speak."""
    members = acl.list_members(db)
    return _make_access(db, sender, list_valid_rows(acl.list_rows(db), members), members)


def _make_access(db: Db, sender: str, rows: tuple[AclRow, ...], members: RoleMemberships) -> SenderAccess:
    if is_untrusted(sender):
        return SenderAccess(NOBODY, rows, expand_roles([sender, get_claimed(sender)], members), trusted=False)
    return SenderAccess(users.get_roles(db, sender), rows, expand_roles([sender], members))


def _get_roles(db: Db, sender: str) -> SenderRoles:
    return NOBODY if is_untrusted(sender) else users.get_roles(db, sender)


def find_rights(db: Db, sender: str, folder: str) -> Rights | None:
    """Return a sender's rights in a group by what is stored now; None if they are shut out."""
    return read_access(db, sender).judge(folder)


def list_shut_out(db: Db, asked: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return those of (person, group) in which the person may not speak to the group. Somebody who is shut out reaches
    it by nobody else, and at no other time.

    The access list is read once, and each person's roles. Without a row about people nobody is shut out.
    """
    known = {each for each in asked if each[0] and each[0] != OPERATOR and is_person(each[0])}
    if not known or not acl.has_people_rows(db):
        return set()
    members = acl.list_members(db)
    rows = list_valid_rows(acl.list_rows(db), members)
    known_access = {person: _make_access(db, person, rows, members) for person in sorted({each[0] for each in known})}
    return {(person, folder) for person, folder in known if known_access[person].judge(folder) is None}


def read_operation_rights(db: Db, caller: str) -> OperationRights:
    """For several questions about one caller."""
    return OperationRights(caller, acl.list_rows(db), acl.list_members(db))


def has_operation_right(db: Db, caller: str, action: str, scope: str, params: Mapping[str, str]) -> bool:
    """As for a tool call."""
    return read_operation_rights(db, caller).allows(action, scope, params)
