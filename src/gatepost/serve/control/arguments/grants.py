"""Grants: what groups, people and roles may do."""

from typing import Annotated, Any

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option
from gatepost.store.rights.acl import ANYWHERE, OPERATOR

READ, WRITE = "grants.read", "grants.write"
Child = Annotated[str, argument("A principal, or a role.")]
Role = Annotated[str, argument("The role.", examples=("role:ops",))]


class GrantRuleArgs(OperationArgs[Any], frozen=True):
    folder: Annotated[str, argument("The group.", scope=True)]
    rule: Annotated[
        str,
        argument(
            "[!|hold |hold[2] ]tool[(param=glob, !param, param)]. A subject may stand for the tool.",
            examples=("schedule_task", "!speak(jid=discord:*)"),
        ),
    ]


@declares("grant.add", right=WRITE)
class AddGrantRuleArgs(GrantRuleArgs, frozen=True):
    """Append RULE to the rules of FOLDER."""


@declares("grant.rm", right=WRITE)
class RemoveGrantRuleArgs(GrantRuleArgs, frozen=True):
    """Remove a rule of a group."""


@declares("grant.list", right=READ, reads=True)
class ListGrantsArgs(OperationArgs[Any], frozen=True):
    """Every rule, row and membership."""

    folder: Annotated[str, option("Only the rules of this group.")] = ""


@declares("acl.add", right=WRITE)
class AddAclRowArgs(OperationArgs[Any], frozen=True):
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
class RemoveAclRowArgs(OperationArgs[Any], frozen=True):
    """Remove a row of the access list by its number."""

    id: Annotated[int, argument("The row's number.", "row")]


@declares("role.add", right=WRITE)
class AddRoleMemberArgs(OperationArgs[Any], frozen=True):
    """Make CHILD (a principal, or a role) a member of ROLE, such as role:ops."""

    child: Child
    role: Role


@declares("role.rm", right=WRITE)
class RemoveRoleMemberArgs(OperationArgs[Any], frozen=True):
    """End a membership."""

    child: Child
    role: Role
