"""Whether a text may still be said when its time comes. Rules were asked when its agent scheduled it; what they forbid
since then is forbidden for it, too."""

from collections.abc import Iterable

from gatepost.access.policy import AccessRequest, GroupPolicy
from gatepost.access.tiers import Tier, tier_of
from gatepost.gate.policies import load_policy_facts
from gatepost.store import tasks
from gatepost.store.origins import Origin
from gatepost.store.port import Db
from gatepost.store.tasks import Task

SEND = "send"  # the tool that says now what a text says later
BY_AGENT = "agent:"


def find_denied_texts(db: Db, due: Iterable[Task]) -> dict[str, str]:
    """By task: why it is not said. What people and operators made is theirs to say."""
    found = [each for each in due if each.text and each.created_by.startswith(BY_AGENT)]
    if not found:
        return {}
    facts, denied = load_policy_facts(db), dict[str, str]()
    for each in found:
        policy = GroupPolicy(each.created_by.removeprefix(BY_AGENT), facts)
        if policy.has_rules_for(SEND) and not _may_send(policy, each, tasks.list_origins(db, each.id)):
            denied[each.id] = f"a rule of this gateway forbids {policy.folder} to send there"
    return denied


def _may_send(policy: GroupPolicy, task: Task, behind: Iterable[Origin]) -> bool:
    """As for a call: for the agent, and for everybody on whose behalf it would speak."""
    params = {"text": task.text, "jid": task.address, "chatJid": task.address}
    claims = {"folder": policy.folder, "tier": str(int(tier_of(policy.folder)))}
    asks = [AccessRequest(SEND, Tier.AGENT, task.folder, params, claims, (task.address,))]
    for each in behind:
        known = {**claims, "room": each.address, "topic": each.thread, "user": each.person}
        also = (each.address, each.person) if each.person else (each.address,)
        asks.append(AccessRequest(SEND, Tier.AGENT, task.folder, params, known, also))
    return all(map(policy.decide, asks))
