"""Pinned rules: what an agent is told in every turn."""

from typing import Annotated

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.sessions.pinned_rules import PinnedRule

READ, WRITE = "rules.read", "rules.write"
Folder = Annotated[str, argument("The group.", scope=True, examples=("acme/eng",))]


@declares("rule.add", right=WRITE)
class AddPinnedRuleArgs(OperationArgs[PinnedRule], frozen=True):
    """Pin a rule for the agent of FOLDER: it has TEXT in every conversation, also after a compaction.

    It tells the agent something and enforces nothing: what an agent may do is said by `gatepost grant`.
    """

    folder: Folder
    text: Annotated[str, argument("The rule, in words for the agent.")]
    room: Annotated[str, option("Only in this room.", metavar="ADDRESS", examples=("telegram:group/-100",))] = ""


@declares("rule.list", right=READ, reads=True)
class ListPinnedRulesArgs(OperationArgs[list[PinnedRule]], frozen=True):
    """The pinned rules, by group."""

    folder: Annotated[str, option("Only of this group.", scope=True)] = ""


@declares("rule.rm", right=WRITE)
class RemovePinnedRuleArgs(OperationArgs[PinnedRule], frozen=True):
    """Take a pinned rule back."""

    folder: Folder
    id: Annotated[int, argument("The rule's id, as `gatepost rule list` shows it.", "rule")]
