"""Words for what happened: one sentence for a message, a call, a decision, a cost, a task or a change. Pure.

Names of people, agents and rooms come in as they are called; no sentence has an id, an operation's name or a code. It
is in the language that is set for what is under way: each part has an entry of its own in the catalogue.
"""

from collections.abc import Mapping, Sequence

from gatepost.core.languages.catalogue import fill_text, localize
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
    "add": "added {Thing}",
    "set": "changed {Thing}",
    "rm": "removed {Thing}",
    "remove": "removed {Thing}",
    "create": "made {Thing}",
    "make": "made {Thing}",
    "write_file": "changed a file of {Thing}",
    "give_file": "gave a file to {Thing}",
    "rest": "put to rest {Thing}",
    "wake": "woke {Thing}",
    "move": "moved {Thing}",
    "link": "linked {Thing}",
    "unlink": "unlinked {Thing}",
    "pause": "paused {Thing}",
    "resume": "resumed {Thing}",
    "cancel": "cancelled {Thing}",
    "run": "ran {Thing}",
    "edit": "changed {Thing}",
    "stop": "stopped {Thing}",
    "close": "closed {Thing}",
    "archive": "archived {Thing}",
    "fork": "forked {Thing}",
    "send": "wrote in {Thing}",
    "on": "turned on {Thing}",
    "off": "turned off {Thing}",
    "rename": "renamed {Thing}",
    "forget": "forgot {Thing}",
    "block": "shut out {Thing}",
    "unblock": "let in again {Thing}",
    "allow": "let in {Thing}",
    "member": "let in {Thing}",
    "role": "gave a role to {Thing}",
    "pair": "paired {Thing}",
    "put_back": "put back an earlier version of {Thing}",
    "choose": "chose what is asked about",
    "retry": "tried again {Thing}",
    "end": "ended {Thing}",
    "revoke": "took back {Thing}",
    "save": "saved {Thing}",
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
    "api_token": "a token of a program",
    "connector": "a connector",
    "onboarding": "an entrance for strangers",
    "prices": "a price",
}
MADE_PAIRING = "user.pair_code"  # what `user.pair` of the operator is: nobody is paired by it yet
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
    MADE_PAIRING: "made a code or a link for one more identity of a person",
    "user.unpair": "took an identity from a person",
    "user.language": "chose the language of a person",
    "invite.accept": "accepted an invitation",
    "onboarding.open": "opened an entrance for strangers",
    "onboarding.close": "closed an entrance for strangers",
    "onboarding.allow": "let a newcomer in",
    "onboarding.deny": "kept a newcomer out",
    "alert.test": "had a test alert sent",
    "alert.mute": "muted an alert",
    "keep.run": "removed what is over age",
    "backup.prune": "removed old backups",
    "session.stop": "stopped an agent",
    "session.stop_all": "stopped all agents",
    "agent.prompt": "gave an agent work",
    "ledger.retry": "had a message tried again",
}
_NAMED = {  # acts that say what they were done to
    "egress.allow": "let {Agent} reach {Name}",
    "egress.deny": "kept {Agent} from {Name}",
    "egress.rm": "took {Name} off the list of hosts of {Agent}",
    "group.give_file": "gave {Agent} the file {Name}",
    "group.write_file": "changed the file {Name} of {Agent}",
}
_REFUSED = {  # acts of somebody who came with something that is not valid
    "door.token": "{By} came with a link or a token that is not valid",
    "user.pair": "{By} sent a code that paired nobody",
    "invite.accept": "{By} sent an invitation that let nobody in",
}
CHANGED = "changed {Thing}"  # where no word says more
_ENDS = {
    FiringState.QUEUED: "The task “{Title}” of {Agent} is due",
    FiringState.SENT: "The task “{Title}” of {Agent} was sent",
    FiringState.ANSWERED: "The task “{Title}” of {Agent} ran",
    FiringState.SILENT: "The task “{Title}” of {Agent} ran, and had nothing to say",
    FiringState.FAILED: "The task “{Title}” of {Agent} failed",
    FiringState.SKIPPED: "The task “{Title}” of {Agent} was left out",
    FiringState.CANCELLED: "The task “{Title}” of {Agent} was cancelled",
}
DENIED = frozenset({"denied", "refused", "unknown", "hidden", "invisible"})
WAITS = frozenset({"held", "asked", "pending"})
_AGREED = frozenset({"allowed", "allow", "done"})


def render_received(who: str, agents: Sequence[str], room: str) -> str:
    if not agents:
        return render_sent(who, room, None)
    pattern = "{Who} wrote to {Agents} in {Room}" if room else "{Who} wrote to {Agents}"
    return fill_text(pattern, who=who, agents=join_names(agents), room=room)


def render_outcome(agent: str, state: InboxState) -> str:
    """Return what else is to be said of a message; '' if it was answered."""
    match state:
        case InboxState.FAILED:
            return fill_text(", and {Agent} failed", agent=agent)
        case InboxState.REFUSED:
            return fill_text(", and it was not let through")
        case InboxState.HELD:
            return fill_text(", and it waits for a decision")
        case InboxState.CANCELLED:
            return fill_text(", and it was stopped")
        case InboxState.QUEUED | InboxState.RETRY:
            return fill_text(", and it waits")
    return ""


def render_sent(who: str, room: str, state: EffectState | None) -> str:
    told = fill_text("{Who} wrote in {Room}" if room else "{Who} wrote", who=who, room=room)
    if state is EffectState.FAILED:
        return told + fill_text(", and it did not arrive")
    return told + fill_text(", and it may not have arrived") if state is EffectState.UNCERTAIN else told


def render_call(agent: str, tool: str, verdict: str) -> str:
    act = _render_act(tool)
    if verdict in WAITS:
        return fill_text("{Agent} asked to {Act}", agent=agent, act=act)
    if verdict in DENIED:
        return fill_text("{Agent} was not allowed to {Act}", agent=agent, act=act)
    if verdict not in _AGREED:
        return fill_text("{Agent} could not {Act}", agent=agent, act=act)
    return f"{agent} {_render_done(tool)}"


def _render_act(tool: str) -> str:
    return fill_text(ACTS[tool]) if tool in ACTS else fill_text("use {Tool}", tool=_plain(tool))


def _render_done(tool: str) -> str:
    return fill_text(DONE[tool]) if tool in DONE else fill_text("used {Tool}", tool=_plain(tool))


def render_decision(by: str, agent: str, kind: str, verdict: str, *, tool: str = "", about: str = "") -> str:
    """`about`: a person, a host or an amount, by the kind of the request."""
    agreed, whose = verdict in _AGREED, agent or fill_text("an agent")
    match kind:
        case RequestKind.SENDER:
            who = about or fill_text("Somebody")
            let_in = "{Who} was let in to {Agent} by {By}" if agent else "{Who} was let in by {By}"
            return fill_text(let_in if agreed else "{Who} was kept out by {By}", who=who, agent=agent, by=by)
        case RequestKind.BUDGET:
            more = about or fill_text("money")
            raised = "{By} allowed {Agent} {More} more" if agent else "{By} allowed {More} more"
            kept = "{By} allowed {Agent} no more money" if agent else "{By} allowed no more money"
            return fill_text(raised if agreed else kept, by=by, agent=agent, more=more)
        case RequestKind.HOST:
            pattern = "{By} let {Agent} reach {Host}" if agreed else "{By} did not let {Agent} reach {Host}"
            return fill_text(pattern, by=by, agent=whose, host=about or fill_text("a host"))
        case RequestKind.ROOM:
            if agreed:
                return fill_text("{By} chose who answers in a new room", by=by)
            return fill_text("{By} chose that nobody answers in a new room", by=by)
        case RequestKind.QUESTION:
            return fill_text("{By} answered a question of {Agent}", by=by, agent=whose)
        case RequestKind.PRICE:
            return fill_text("{By} said what a model costs", by=by)
    act = _render_act(tool) if tool else fill_text("go on")
    return fill_text(
        "{By} allowed {Agent} to {Act}" if agreed else "{By} did not allow {Agent} to {Act}",
        by=by,
        agent=whose,
        act=act,
    )


def render_cost(agent: str, micro: int, models: Sequence[str]) -> str:
    amount = localize(f"${micro / MICRO:,.2f}") if micro >= CENT else fill_text("less than a cent")
    return fill_text("{Agent} spent {Amount} on {Models}", agent=agent, amount=amount, models=join_names(models))


def render_firing(agent: str, title: str, state: str) -> str:
    pattern = _ENDS.get(FiringState(state), _ENDS[FiringState.ANSWERED])
    return fill_text(pattern, title=title, agent=agent)


def render_change(by: str, action: str, verdict: str, about: str, *, name: str = "") -> str:
    """`about`: the agent or person that it was done to, as it is called; ''. `name`: how the thing is called."""
    subject, _, verb = action.partition(".")
    thing = fill_text(_THINGS[subject]) if subject in _THINGS else _plain(subject)
    if verdict in DENIED and action in _REFUSED:
        return fill_text(_REFUSED[action], by=by)
    if verdict in DENIED:
        said = fill_text("{By} was not allowed to change {Thing}", by=by, thing=thing)
    elif verdict == "failed":
        said = fill_text("{By} could not change {Thing}", by=by, thing=thing)
    elif name and action in _NAMED:
        whose = about or fill_text("all agents")
        return f"{by} {fill_text(_NAMED[action], name=name, agent=whose)}"
    elif action in _WHOLE:
        said = f"{by} {fill_text(_WHOLE[action])}"
    else:
        said = f"{by} {fill_text(_VERBS.get(verb, CHANGED), thing=thing)}"
    told = ", ".join(filter(None, (name, about)))
    return f"{said} ({told})" if told else said


def join_names(names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    if len(shown) > 2:
        return fill_text("{First}, {Second} and {Count} more", first=shown[0], second=shown[1], count=len(shown) - 2)
    return fill_text("{First} and {Second}", first=shown[0], second=shown[1]) if len(shown) == 2 else "".join(shown)


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
        return fill_text(_STEPS[what])
    if what.startswith("call "):
        return fill_text("The agent {Did}", did=_render_done(what.removeprefix("call ")))
    verb, _, state = what.rpartition(" ")
    if verb and state in _EFFECTS:
        return fill_text("The answer {Did}", did=fill_text(_EFFECTS[state]))
    return (_plain(what)[:1].upper() + _plain(what)[1:]) if what else fill_text("Something happened")
