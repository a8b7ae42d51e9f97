"""Access: the grants of groups, people and roles; why a group's agent may call a tool, or not; and pinned rules, which
an agent is told in every turn."""

from typing import Annotated, Any

from msgspec import Struct, field

from gatepost.access.choices import Permission
from gatepost.access.policy import PolicyStep
from gatepost.access.subjects import Subject
from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rights.acl import ANYWHERE, OPERATOR, AclRow, GrantRow
from gatepost.store.sessions.pinned_rules import PinnedRule

GRANTS_READ, GRANTS_WRITE = "grants.read", "grants.write"
RULES_READ, RULES_WRITE = "rules.read", "rules.write"
RuleFolder = Annotated[str, argument("The group.", scope=True, examples=("acme/eng",))]


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
    """`new` is false for one that held already. `not_covered`: what it leaves free, of a rule that denies or holds."""

    id: int
    new: bool
    not_covered: list[str]


class GrantRuleRemoval(GrantRuleFields, frozen=True, kw_only=True):
    """`was_last`: no other rule of the group stood behind it, so it can be added again as it was."""

    removed: int
    was_last: bool = False


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


@declares("grant.add", right=GRANTS_WRITE)
class AddGrantRuleArgs(GrantRuleFields, OperationArgs[NewGrantRule], frozen=True):
    """Append RULE to the rules of FOLDER."""


class GroupPermission(Struct, frozen=True, kw_only=True):
    """`rules`: the group's rules about it, in their order."""

    folder: str
    subject: Subject
    permission: Permission
    rules: list[str]


@declares("grant.choose", right=GRANTS_WRITE)
class ChoosePermissionArgs(OperationArgs[GroupPermission], frozen=True):
    """Say whether the agent of FOLDER may do a kind of thing: yes, ask first, or no. Rules about single tools or rooms
    stay, as exceptions. With --room the answer is such an exception itself."""

    folder: Annotated[str, argument("The group.", scope=True, examples=("acme/eng",))]
    subject: Annotated[Subject, argument("What it does.")]
    permission: Annotated[Permission, argument("The answer.")]
    room: Annotated[str, option("Only in this room.", metavar="ADDRESS", examples=("telegram:group/1",))] = ""


class PermissionPreview(Struct, frozen=True, kw_only=True):
    """The effect that an answer would have had on the calls of the last week. `exact`: the rules that it would write.
    `calls`: how many it is about; `more`: there may be more, which are older or of which only the number was kept."""

    calls: int
    more: bool
    exact: str
    text: str


@declares("grant.preview", right=GRANTS_READ, needs_home=True)
class PreviewPermissionArgs(OperationArgs[PermissionPreview], frozen=True):
    """Say what an answer would have done to the calls of the last week, and the exact rule. Nothing is changed."""

    folder: Annotated[str, argument("The group.", scope=True, examples=("acme/eng",))]
    subject: Annotated[Subject, argument("What it does.")]
    permission: Annotated[Permission, argument("The answer.")]
    room: Annotated[str, option("Only in this room.", metavar="ADDRESS", examples=("telegram:group/1",))] = ""


@declares("grant.rm", right=GRANTS_WRITE)
class RemoveGrantRuleArgs(GrantRuleFields, OperationArgs[GrantRuleRemoval], frozen=True):
    """Remove a rule of a group."""


@declares("grant.list", right=GRANTS_READ, reads=True)
class ListGrantsArgs(OperationArgs[AllGrants], frozen=True):
    """Every rule, row and membership."""

    folder: Annotated[str, option("Only the rules of this group.")] = ""


@declares("acl.add", right=GRANTS_WRITE)
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


@declares("acl.rm", right=GRANTS_WRITE)
class RemoveAclRowArgs(OperationArgs[AclRow], frozen=True):
    """Remove a row of the access list by its number."""

    id: Annotated[int, argument("The row's number.", "row")]


@declares("role.add", right=GRANTS_WRITE)
class AddRoleMemberArgs(RoleMemberFields, OperationArgs[NewRoleMember], frozen=True):
    """Make CHILD (a principal, or a role) a member of ROLE, such as role:ops."""


@declares("role.rm", right=GRANTS_WRITE)
class RemoveRoleMemberArgs(RoleMemberFields, OperationArgs[RoleMember], frozen=True):
    """End a membership."""


class CallExplanation(Struct, frozen=True):
    """`notes`: what the rules about this tool leave free."""

    folder: str
    tool: str
    allowed: bool
    steps: list[PolicyStep]
    notes: list[str] = []


class VisibleTool(Struct, frozen=True):
    """`group`: of tools. `effects`: the subjects that rules may name. `held`: the rules by which a person is asked
    first."""

    name: Annotated[str, shown("Tool", ShownAs.CODE)]
    group: Annotated[str, shown("Group of tools")]
    effects: Annotated[list[Subject], shown("What it does outside")]
    summary: Annotated[str, shown("What for")]
    held: Annotated[list[str], shown("Waits for a person")]


@declares("policy.explain", right=GRANTS_READ, needs_home=True)
class ExplainCallArgs(OperationArgs[CallExplanation], frozen=True):
    """Print everything that has a say about FOLDER calling TOOL, in its order, and the verdict.

    A subject, such as speak, in place of TOOL is every tool that does it.
    """

    # No scope: rules and rows of the groups above have a say.
    folder: Annotated[str, argument("The group.")]
    tool: Annotated[str, argument("The tool, or a subject.")]
    arguments: Annotated[
        dict[str, Any],
        option(
            "The call's arguments, for rules about them.",
            "args",
            metavar="JSON",
            examples=({"chatJid": "telegram:group/1"},),
        ),
    ] = field(default_factory=dict)


@declares("policy.tools", right=GRANTS_READ, needs_home=True)
class ListToolsArgs(OperationArgs[list[VisibleTool]], frozen=True):
    """The tools that the agent of FOLDER sees: by its tier, as rules and rows change it."""

    folder: Annotated[str, argument("The group.")]


class NewPinnedRule(PinnedRule, frozen=True, kw_only=True):
    """`new` is false for one that was pinned there already."""

    new: bool


@declares("rule.add", right=RULES_WRITE)
class AddPinnedRuleArgs(OperationArgs[NewPinnedRule], frozen=True):
    """Pin a rule for the agent of FOLDER: it has TEXT in every conversation, also after a compaction.

    It tells the agent something and enforces nothing: what an agent may do is said by `gatepost grant`.
    """

    folder: RuleFolder
    text: Annotated[str, argument("The rule, in words for the agent.")]
    room: Annotated[str, option("Only in this room.", metavar="ADDRESS", examples=("telegram:group/-100",))] = ""


@declares("rule.list", right=RULES_READ, reads=True)
class ListPinnedRulesArgs(OperationArgs[list[PinnedRule]], frozen=True):
    """The pinned rules, by group."""

    folder: Annotated[str, option("Only of this group.", scope=True)] = ""


@declares("rule.rm", right=RULES_WRITE)
class RemovePinnedRuleArgs(OperationArgs[PinnedRule], frozen=True):
    """Take a pinned rule back."""

    folder: RuleFolder
    id: Annotated[int, argument("The rule's id, as `gatepost rule list` shows it.", "rule")]
