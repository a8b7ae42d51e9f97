"""The network: which hosts an agent may reach. Only root changes that; an agent may look at what holds for it, and
ask people for more where its group's options say so."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.errors import NotFound, Refused
from gatepost.egress import rules
from gatepost.gate.tool_answers import fitting
from gatepost.store.port import Db
from gatepost.store.rights import egress
from gatepost.store.sessions import groups
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool

Host = Annotated[
    str, Meta(description="example.com (with its sub-domains), *.example.com (these alone), example.com:8443, or *.")
]
Folder = Annotated[str, Meta(description="The group it holds for, and those below it; left out: every group.")]


class NetworkRule(Struct, frozen=True):
    id: int
    host: str
    port: int  # 0: 80 and 443 if allowed, every port if denied
    allow: bool
    folder: str  # '': every group


class NetworkRules(Struct, frozen=True):
    """`more`: there are others, which do not fit one answer."""

    rules: list[NetworkRule]
    more: bool


def _render_rule(rule: egress.EgressRule) -> NetworkRule:
    return NetworkRule(rule.id, rule.host, rule.port, rule.allow, rule.folder or "")


async def _set_rule(call: ToolCall, host: str, folder: str, *, allow: bool) -> NetworkRule:
    """Never for a local address: that is the operator's alone to say."""
    name, port = rules.read_pattern(host)

    def put(db: Db) -> egress.EgressRule:
        if folder and groups.get(db, folder) is None:
            raise NotFound("group", folder)
        return egress.put(db, folder or None, name, port, allow=allow, local=False, by=call.caller.folder, now=call.now)

    return _render_rule(await call.write(put))


@tool(tier=Tier.ROOT, group="network", effects=(Subject.CHANGE_RIGHTS,), idempotent=True)
async def network_allow(call: ToolCall, host: Host, folder: Folder = "") -> NetworkRule:
    """Let a group's agents reach a host. They can then send there all that they can read: allow what is needed, no
    more.

    Hosts of this machine or of a private network cannot be allowed here. To take a host away again use network_deny.
    """
    return await _set_rule(call, host, folder, allow=True)


@tool(tier=Tier.ROOT, group="network", effects=(Subject.CHANGE_RIGHTS,), destructive=True, idempotent=True)
async def network_deny(call: ToolCall, host: Host, folder: Folder = "") -> NetworkRule:
    """Keep a group's agents from a host, whatever else allows it; also takes back what network_allow gave."""
    return await _set_rule(call, host, folder, allow=False)


@tool(tier=Tier.AGENT, group="network", quick=True, read_only=True, idempotent=True)
async def network_list(call: ToolCall) -> NetworkRules:
    """Look which hosts you may reach, when a request was refused or before you rely on one. Nothing else is reachable.

    Use network_request for what is missing.
    """
    found = await call.read(egress.list_rules)
    return NetworkRules(*fitting(_render_rule(rule) for rule in rules.list_folder_rules(found, call.caller.folder)))


class HostAnswer(Struct, frozen=True):
    """`allowed`: it can be reached now. Else `note` says what happens next."""

    host: str
    allowed: bool
    note: str


@tool(tier=Tier.AGENT, group="network", effects=(), asks_about_hosts=True, idempotent=True)
async def network_request(
    call: ToolCall,
    host: Annotated[str, Meta(description="A host's name, with its port if that is not 443: example.com:8443.")],
    why: Annotated[str, Meta(description="What you need it for, in a sentence that a person can judge.")],
) -> HostAnswer:
    """Ask a person to let you reach a host that is not allowed. You are told later what they decided; go on meanwhile.

    To look what is allowed already use network_list.
    """
    target = rules.read_target(host.strip(), 443)
    caller, asker = call.caller, call.deps.host_asker
    verdict = rules.check_target(await call.read(egress.list_rules), caller.folder, target)
    if verdict.allowed:
        return HostAnswer(str(target), True, "a rule allows it")
    if asker is not None and verdict.unsaid and rules.may_be_offered(target):
        if await asker.is_allowed(caller, str(target)):
            return HostAnswer(str(target), True, "a person allowed it for this conversation")
        await call.note()
        if said := await asker.ask(caller, str(target), tool=call.tool, why=why):
            return HostAnswer(str(target), False, said)
    raise Refused(caller.folder, call.tool, str(target), f"nobody can be asked about it: {verdict.reason}")
