"""Grants: what groups, people and roles may do."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rights.acl import ANYWHERE, OPERATOR, AclRow, GrantRow

READ, WRITE = "grants.read", "grants.write"
Child = Annotated[str, argument("A principal, or a role.")]
Folder = Annotated[str, argument("The group.", scope=True)]
Rule = Annotated[
    str,
    argument(
        "[!|hold |hold[2] ]tool[(param=glob, !param, param)]. A subject may stand for the tool.",
        examples=("schedule_task", "!speak(jid=discord:*)"),
    ),
]
Role = Annotated[str, argument("The role.", examples=("role:ops",))]


class NewGrantRule(Struct, frozen=True):
    """`not_covered`: what it leaves free, of a rule that denies or holds."""

    id: int
    folder: str
    rule: str
    not_covered: list[str]


class GrantRuleRemoval(Struct, frozen=True):
    removed: int
    folder: str
    rule: str


class RoleMember(Struct, frozen=True):
    child: str
    role: str


class NewRoleMember(RoleMember, frozen=True):
    new: bool


class AclListItem(AclRow, frozen=True, kw_only=True):
    counts: bool  # whoever gave it can give it


class AllGrants(Struct, frozen=True):
    rules: list[GrantRow]  # in their order
    rows: list[AclListItem]
    members: list[RoleMember]


@declares("grant.add", right=WRITE)
class AddGrantRuleArgs(OperationArgs[NewGrantRule], frozen=True):
    """Append RULE to the rules of FOLDER."""

    folder: Folder
    rule: Rule


@declares("grant.rm", right=WRITE)
class RemoveGrantRuleArgs(OperationArgs[GrantRuleRemoval], frozen=True):
    """Remove a rule of a group."""

    folder: Folder
    rule: Rule


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
class AddRoleMemberArgs(OperationArgs[NewRoleMember], frozen=True):
    """Make CHILD (a principal, or a role) a member of ROLE, such as role:ops."""

    child: Child
    role: Role


@declares("role.rm", right=WRITE)
class RemoveRoleMemberArgs(OperationArgs[RoleMember], frozen=True):
    """End a membership."""

    child: Child
    role: Role
