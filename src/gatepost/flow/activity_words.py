"""Words for what happened: one sentence for a message, a call, a decision, a cost, a task or a change. Pure.

Names of people, agents and rooms come in as they are called; no sentence has an id, an operation's name or a code.
"""

from collections.abc import Mapping, Sequence

from gatepost.core.money import MICRO
from gatepost.flow.requests.choices import ACTS
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.outbox import EffectState
from gatepost.store.rights.requests import RequestKind
from gatepost.store.schedule.firings import FiringState

GATEPOST = "Gatepost"
CENT = MICRO // 100
DONE = {  # what a tool did, where `used …` would say less
    "send": "sent a message",
    "reply": "replied",
    "post": "published a post",
    "send_file": "sent a file",
    "send_voice": "sent a voice message",
    "send_card": "sent a card",
    "edit": "edited a message",
    "delete": "deleted a message",
    "forward": "passed a message on",
    "like": "reacted to a message",
    "dislike": "reacted to a message",
    "pin_message": "pinned a message",
    "unpin_message": "unpinned a message",
    "schedule_task": "scheduled a task",
    "update_task": "changed a task",
    "pause_task": "paused a task",
    "resume_task": "resumed a task",
    "cancel_task": "cancelled a task",
    "list_tasks": "looked at its tasks",
    "inspect_tasks": "looked at its tasks",
    "write_skill": "wrote a skill",
    "register_group": "made another agent",
    "send_to_agent": "gave work to another agent",
    "delegate_group": "gave work to another agent",
    "escalate_group": "asked the agent above",
    "invite_create": "invited somebody",
    "add_route": "changed who answers where",
    "set_routes": "changed who answers where",
    "delete_route": "changed who answers where",
    "network_allow": "opened a host on the network",
    "network_deny": "closed a host on the network",
    "ask_user_question": "asked a question",
    "find_messages": "searched messages",
    "inspect_messages": "looked up messages",
    "fetch_history": "looked up earlier messages",
    "get_history": "looked up earlier messages",
    "get_thread": "looked up a conversation",
    "find_tools": "looked for tools",
    "remember": "remembered something",
    "recall": "looked into its memory",
    "forget": "forgot something",
    "keep_facts": "remembered something",
    "get_work": "looked at its notes of work",
    "set_work": "wrote its notes of work",
    "fetch": "read a page of the web",
    "web_search": "searched the web",
    "read_skill": "read a skill",
}
_VERBS = {
    "add": "added",
    "set": "changed",
    "rm": "removed",
    "remove": "removed",
    "create": "made",
    "make": "made",
    "write_file": "changed a file of",
    "give_file": "gave a file to",
    "rest": "put to rest",
    "wake": "woke",
    "move": "moved",
    "link": "linked",
    "unlink": "unlinked",
    "pause": "paused",
    "resume": "resumed",
    "cancel": "cancelled",
    "run": "ran",
    "edit": "changed",
    "stop": "stopped",
    "close": "closed",
    "archive": "archived",
    "fork": "forked",
    "send": "wrote in",
    "on": "turned on",
    "off": "turned off",
    "rename": "renamed",
    "forget": "forgot",
    "block": "shut out",
    "unblock": "let in again",
    "allow": "let in",
    "member": "let in",
    "role": "gave a role to",
    "pair": "paired",
    "put_back": "put back an earlier version of",
    "choose": "chose what is asked about",
    "retry": "tried again",
    "end": "ended",
    "revoke": "took back",
    "save": "saved",
}
_THINGS = {
    "group": "an agent",
    "agent": "an agent",
    "task": "a task",
    "route": "who answers where",
    "room": "a room",
    "user": "a person",
    "budget": "a limit",
    "price": "a price",
    "channel": "a channel",
    "secret": "a secret",
    "grant": "a rule",
    "rule": "a pinned rule",
    "acl": "an access rule",
    "role": "a role",
    "memory": "a memory",
    "skill": "a skill",
    "session": "a conversation",
    "settings": "a setting",
    "token": "a link",
    "invite": "an invitation",
    "host": "a host of the network",
    "network": "the network",
    "site": "a page of an agent",
    "login": "a sign-in",
    "passkey": "a passkey",
    "worktree": "a worktree",
    "gateway": "a gateway",
    "panic": "the stop of everything",
    "connect": "what an agent runs on",
    "instructions": "the instructions",
    "keep": "what is over age",
    "backup": "a backup",
    "ledger": "a message",
    "alert": "an alert",
    "egress": "the network",
    "policy": "what is asked about",
}
_WHOLE = {  # acts that their two words would not say well
    "login.sign_in": "signed in",
    "login": "made a link to sign in",
    "login.end": "signed a browser out",
    "login.end_all": "signed browsers out",
    "panic.on": "stopped everything",
    "panic.off": "let everything go on",
    "group.rest": "put an agent to rest",
    "group.wake": "woke an agent",
    "user.add": "made a person known",
    "user.member": "let a person in",
    "user.pair": "joined two identities of a person",
    "session.stop": "stopped an agent",
    "session.stop_all": "stopped all agents",
    "agent.prompt": "gave an agent work",
    "ledger.retry": "had a message tried again",
}
_ENDS = {
    FiringState.QUEUED: "is due",
    FiringState.SENT: "was sent",
    FiringState.ANSWERED: "ran",
    FiringState.SILENT: "ran, and had nothing to say",
    FiringState.FAILED: "failed",
    FiringState.SKIPPED: "was left out",
    FiringState.CANCELLED: "was cancelled",
}
DENIED = frozenset({"denied", "refused", "unknown", "hidden", "invisible"})
WAITS = frozenset({"held", "asked", "pending"})
_AGREED = frozenset({"allowed", "allow", "done"})


def render_received(who: str, agents: Sequence[str], room: str) -> str:
    where = f" in {room}" if room else ""
    return f"{who} wrote to {join_names(agents)}{where}" if agents else f"{who} wrote{where}"


def render_outcome(agent: str, state: InboxState) -> str:
    """Return what else is to be said of a message; '' if it was answered."""
    match state:
        case InboxState.FAILED:
            return f", and {agent} failed"
        case InboxState.REFUSED:
            return ", and it was not let through"
        case InboxState.HELD:
            return ", and it waits for a decision"
        case InboxState.CANCELLED:
            return ", and it was stopped"
        case InboxState.QUEUED | InboxState.RETRY:
            return ", and it waits"
    return ""


def render_sent(who: str, room: str, state: EffectState | None) -> str:
    told = f"{who} wrote{f' in {room}' if room else ''}"
    if state is EffectState.FAILED:
        return f"{told}, and it did not arrive"
    return f"{told}, and it may not have arrived" if state is EffectState.UNCERTAIN else told


def render_call(agent: str, tool: str, verdict: str) -> str:
    act = ACTS.get(tool) or f"use {_plain(tool)}"
    if verdict in WAITS:
        return f"{agent} asked to {act}"
    if verdict in DENIED:
        return f"{agent} was not allowed to {act}"
    if verdict not in _AGREED:
        return f"{agent} could not {act}"
    return f"{agent} {DONE.get(tool) or f'used {_plain(tool)}'}"


def render_decision(by: str, agent: str, kind: str, verdict: str, *, tool: str = "", about: str = "") -> str:
    """`about`: a person, a host or an amount, by the kind of the request."""
    agreed = verdict in _AGREED
    whose = f" {agent}" if agent else ""
    match kind:
        case RequestKind.SENDER:
            who = about or "Somebody"
            return (
                f"{who} was let in{f' to{whose}' if agent else ''} by {by}" if agreed else f"{who} was kept out by {by}"
            )
        case RequestKind.BUDGET:
            return f"{by} allowed{whose} {about or 'money'} more" if agreed else f"{by} allowed{whose} no more money"
        case RequestKind.HOST:
            return f"{by} {'let' if agreed else 'did not let'}{whose or ' an agent'} reach {about or 'a host'}"
        case RequestKind.ROOM:
            return (
                f"{by} chose who answers in a new room" if agreed else f"{by} chose that nobody answers in a new room"
            )
        case RequestKind.QUESTION:
            return f"{by} answered a question of{whose or ' an agent'}"
        case RequestKind.PRICE:
            return f"{by} said what a model costs"
    act = ACTS.get(tool) or (f"use {_plain(tool)}" if tool else "go on")
    return f"{by} {'allowed' if agreed else 'did not allow'}{whose or ' an agent'} to {act}"


def render_cost(agent: str, micro: int, models: Sequence[str]) -> str:
    amount = f"${micro / MICRO:,.2f}" if micro >= CENT else "less than a cent"
    return f"{agent} spent {amount} on {join_names(models)}"


def render_firing(agent: str, title: str, state: str) -> str:
    return f"The task “{title}” of {agent} {_ENDS.get(FiringState(state), 'ran')}"


def render_change(by: str, action: str, verdict: str, about: str) -> str:
    """`about`: the agent or person that it was done to, as it is called; ''."""
    subject, _, verb = action.partition(".")
    thing = _THINGS.get(subject, _plain(subject))
    done = _WHOLE.get(action) or f"{_VERBS.get(verb, 'changed')} {thing}"
    of = f" ({about})" if about else ""
    if verdict in DENIED:
        return f"{by} was not allowed to change {thing}{of}"
    return f"{by} {done}{of}" if verdict != "failed" else f"{by} could not change {thing}{of}"


def join_names(names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    return " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:2])} and {len(shown) - 2} more"


def _plain(name: str) -> str:
    return name.replace("__", " ").replace("_", " ").strip()[:60] or "something"


_STEPS: Mapping[str, str] = {
    "accepted": "It arrived",
    "queued": "It waits for its agent",
    "working": "Its agent takes it",
    "given": "The model has it",
    "begun": "The model has it",
    "answered": "It is answered",
    "silent": "The agent chose to say nothing",
    "observed": "It was read along",
    "held": "It waits for a decision",
    "retry": "It is tried again later",
    "refused": "It was not let through",
    "cancelled": "It was stopped",
    "failed": "It failed",
    "asks a person": "A person is asked",
    "turn done": "The agent is done",
    "turn failed": "The agent failed",
    "turn interrupted": "The agent was interrupted",
    "gateway": "A gateway works on it",
}
_EFFECTS = {
    "pending": "waits to be sent",
    "sending": "is on its way",
    "sent": "has arrived",
    "failed": "did not arrive",
    "uncertain": "may not have arrived",
    "cancelled": "was not sent",
}


def render_step(what: str) -> str:
    """Return a moment of a message's life in words."""
    if what in _STEPS:
        return _STEPS[what]
    if what.startswith("call "):
        tool = what.removeprefix("call ")
        return f"The agent {DONE.get(tool) or f'used {_plain(tool)}'}"
    verb, _, state = what.rpartition(" ")
    if verb and state in _EFFECTS:
        return f"The answer {_EFFECTS[state]}"
    return (_plain(what)[:1].upper() + _plain(what)[1:]) if what else "Something happened"
