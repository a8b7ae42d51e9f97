"""Grants: what groups, people and roles may do."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rights.acl import ANYWHERE, OPERATOR, AclRow, GrantRow

READ, WRITE = "grants.read", "grants.write"


class GrantRuleFields(Struct, frozen=True):
    folder: Annotated[str, argument("The group.", scope=True)]
    rule: Annotated[
        str,
        argument(
            "[!|hold |hold[2] ]tool[(param=glob, !param, param)]. A subject may stand for the tool.",
            examples=("schedule_task", "!speak(jid=discord:*)"),
        ),
    ]


class NewGrantRule(GrantRuleFields, frozen=True, kw_only=True):
    """`not_covered`: what it leaves free, of a rule that denies or holds."""

    id: int
    not_covered: list[str]


class GrantRuleRemoval(GrantRuleFields, frozen=True, kw_only=True):
    removed: int


class RoleMemberFields(Struct, frozen=True):
    child: Annotated[str, shown("Member", ShownAs.CODE, head="member"), argument("A principal, or a role.")]
    role: Annotated[str, shown("Of", ShownAs.CODE, head="of"), argument("The role.", examples=("role:ops",))]


class RoleMember(RoleMemberFields, frozen=True):
    pass


class NewRoleMember(RoleMember, frozen=True):
    new: bool


class AclListItem(AclRow, frozen=True, kw_only=True):
    """`counts`: whoever gave it can give it."""

    counts: Annotated[bool, shown("Counts", ShownAs.BADGE, render=lambda counts: "" if counts else "void")]


class AllGrants(Struct, frozen=True):
    rules: list[GrantRow]  # in their order
    rows: list[AclListItem]
    members: list[RoleMember]


@declares("grant.add", right=WRITE)
class AddGrantRuleArgs(GrantRuleFields, OperationArgs[NewGrantRule], frozen=True):
    """Append RULE to the rules of FOLDER."""


@declares("grant.rm", right=WRITE)
class RemoveGrantRuleArgs(GrantRuleFields, OperationArgs[GrantRuleRemoval], frozen=True):
    """Remove a rule of a group."""


@declares("grant.list", right=READ, reads=True)
class ListGrantsArgs(OperationArgs[AllGrants], frozen=True):
    """Every rule, row and membership."""

    folder: Annotated[str, option("Only the rules of this group.")] = ""


@declares("acl.add", right=WRITE)
class AddAclRowArgs(OperationArgs[AclRow], frozen=True):
    """Allow ACTION (mcp:<tool>, mcp:*, op:<right>, op:*, interact, admin, *) to PRINCIPAL (folder:…, role:…,
    telegram:user/9 …)."""

    principal: Annotated[
        str, argument("A principal, or a pattern.", examples=("folder:acme/eng", "role:ops", "telegram:user/9"))
    ]
    action: Annotated[
        str,
        argument(
            "The action: mcp:<tool>, mcp:*, op:<right>, op:*, interact, admin or *.",
            examples=("mcp:send", "op:routes.read"),
        ),
    ]
    scope: Annotated[str, option("The groups that it is about, a glob.", examples=("acme", "acme/**"))] = ANYWHERE
    deny: Annotated[bool, option("Deny it, whatever else allows it.")] = False
    params: Annotated[str, option("Only for calls that carry this.", examples=("jid=telegram:*, !topic",))] = ""
    predicate: Annotated[
        str, option("Only when this is known of the caller.", "when", examples=("platform=slack",))
    ] = ""
    grant_option: Annotated[bool, option("They may give it on.")] = False
    by: Annotated[str, option("The giver, who must be able to give it on.")] = OPERATOR


@declares("acl.rm", right=WRITE)
class RemoveAclRowArgs(OperationArgs[AclRow], frozen=True):
    """Remove a row of the access list by its number."""

    id: Annotated[int, argument("The row's number.", "row")]


@declares("role.add", right=WRITE)
class AddRoleMemberArgs(RoleMemberFields, OperationArgs[NewRoleMember], frozen=True):
    """Make CHILD (a principal, or a role) a member of ROLE, such as role:ops."""


@declares("role.rm", right=WRITE)
class RemoveRoleMemberArgs(RoleMemberFields, OperationArgs[RoleMember], frozen=True):
    """End a membership."""
