"""Egress: which hosts sandboxes may reach."""

from typing import Annotated

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rights.egress import EgressAttempt, EgressRule

READ, WRITE = "egress.read", "egress.write"


class EgressRuleArgs(OperationArgs[EgressRule], frozen=True):
    host: Annotated[
        str, argument("A host, host:port, *.host or *.", examples=("example.com", "*.example.com", "example.com:8443"))
    ]
    folder: Annotated[str, option("For this group and those below it (default: every group).", scope=True)] = ""


@declares("egress.allow", right=WRITE)
class AllowHostArgs(EgressRuleArgs, frozen=True):
    """Allow HOST: example.com (with its sub-domains), *.example.com (these alone), example.com:8443 or *.

    Without a port: 80 and 443. A host of this machine or of a private network must be named exactly, with its port.
    """

    def get_scope(self) -> str:
        """The right is needed at the root for a host with its port: only such a rule can open a local host."""
        return "" if ":" in self.host and "*" not in self.host else self.folder


@declares("egress.deny", right=WRITE)
class DenyHostArgs(EgressRuleArgs, frozen=True):
    """Deny HOST, whatever else allows it; written as for allow. Without a port: every one."""


@declares("egress.rm", right=WRITE)
class RemoveEgressRuleArgs(OperationArgs[EgressRule], frozen=True):
    """Remove a rule by the id that `gatepost egress list` shows."""

    id: Annotated[int, argument("The rule's id.", "rule")]


@declares("egress.list", right=READ, reads=True)
class ListEgressRulesArgs(OperationArgs[list[EgressRule]], frozen=True):
    """Every rule."""

    folder: Annotated[str, option("Only what holds for this group, inherited rules too.", scope=True)] = ""


@declares("egress.log", right=READ, reads=True)
class EgressLogArgs(OperationArgs[list[EgressAttempt]], frozen=True):
    """Hosts that agents tried to reach, oldest first; the same try of a session is counted."""

    folder: Annotated[str, option("Only of this group.", scope=True)] = ""
    denied: Annotated[bool, option("Only what was denied.")] = False
    limit: Annotated[int, option("The newest N.", least=1, most=100_000)] = 50
