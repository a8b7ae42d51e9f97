"""Why something is as it is in the ledger, as a sentence. The ledger and --json keep the codes, which programs know."""

import re
from collections.abc import Mapping
from typing import Any

from gatepost.store.messages.inbox import InboxState
from gatepost.store.sessions.turn_claims import RESTARTED

_SENTENCES = {
    "denied_by_the_access_list": "a row of the access list shuts the sender out (`gatepost grant list`)",
    "unknown_sender_strict": "the sender is no member of the group (policy strict)",
    "unknown_sender_request_approval": "the sender is no member of the group, and nobody was asked"
    " (policy request_approval)",
    "untrusted_sender": "the platform does not prove who sent it",
    "sender_denied": "somebody decided that the sender may not speak here",
    "sender_expired": "nobody decided about the sender in time",
    "sender_withdrawn": "nobody decided about the sender within an hour, and many others waited",
    "root_is_for_owners": "root hears owners alone",
    "budget_spent": "a budget is spent (`gatepost budget show` says which, and when it starts anew;"
    " `gatepost budget set` raises it)",
    "no_price": "nobody said what its model costs (`gatepost price set MODEL IN/OUT`)",
    "no_route": "no route leads to a group",
    "command_denied": "its sender may not give this command",
    "command_refused": "the command could not be carried out; the answer to it says why",
    "dropped command": "this gateway has no such command",
    "stale": "it was too old by then",
    "text_too_long": "the text was too long",
    "attachments_too_large": "the files were too large",
    "room_denied": "somebody decided that no agent answers there",
    "room_expired": "nobody decided in time which agent answers there",
    "room_withdrawn": "nobody decided within an hour which agent answers there, and many others waited",
    "pairing_without_code": "it had no pairing code",
    "pairing_limited": "the sender had sent too many wrong codes",
    "pairing_code_used": "the pairing code was used before",
    "pairing_code_expired": "the pairing code was too old",
    "pairing_code_unknown": "the pairing code is not known",
    "pairing_roles": "the identity has a role that the person has not",
    "paired_before": "the identity was paired with the same person before",
    "paired_elsewhere": "the identity is somebody else's, or has identities of its own",
    "pairing_links_open": "too many pairing links are open",
    "invitation_not_valid": "the invitation is unknown, used up, too old or revoked",
    "invitation_limited": "the sender had sent too many wrong codes",
    "invitation_not_needed": "the sender may write to the agent already",
    "invitation_not_direct": "the invitation is for a group of one's own, and works in a direct chat",
    "invitation_full": "no further groups can be made below that one",
    "join_without_code": "it had no code of an invitation",
    "join_queue_full": "nobody else can be put on the list",
    "join_queued": "the sender is on the list",
    "join_admitted": "the sender's group is being made",
    "join_settled": "the sender has a group of their own already",
    "join_denied": "somebody decided that the sender gets no group of their own",
    "join_failed": "the sender's group could not be made",
}
_PATTERNS = (
    (re.compile(r"dropped_by_route (\d+)\Z"), r"route \1 drops it"),
    (re.compile(r"(p-[0-9a-z]+)\Z"), r"it waits for a decision (`gatepost permit show \1`)"),
    (re.compile(r"command (/\S+)\Z"), r"the gateway answered \1 by itself"),
)
_NOTES = {
    "continued": "continued after it broke off",
    "restarted": "continued after a restart of the gateway",
    "history": "the agent is told what was said while another one spoke",
    "delivery_failed": "the agent is told that something was not delivered",
    "delivery_uncertain": "the agent is told that something may not have been delivered",
}
_NOTES_BY_ID = {"continue": "continued", "delivery": "delivery_failed"}


def render_reason(reason: str) -> str:
    """Return what a code means; anything else is a sentence already."""
    for pattern, words in _PATTERNS:
        if pattern.match(reason):
            return pattern.sub(words, reason)
    return _SENTENCES.get(reason, reason)


def render_note(event: str) -> str:
    """Return what the gateway told an agent by a row without a text."""
    return f"(note: {_NOTES.get(event, event.replace('_', ' ')) or 'from the gateway'})"


def render_note_of(content: Mapping[str, Any]) -> str:
    """The same by what the row holds."""
    event = str(content.get("event", ""))
    return render_note("restarted" if event == "continued" and content.get("cause") == "restart" else event)


def render_note_by_id(platform_id: str | None) -> str:
    """The same where only the row's id is at hand."""
    kind = (platform_id or "").partition(":")[0]
    if kind == "continue" and (platform_id or "").endswith(RESTARTED):
        kind = "restarted"
    return render_note(_NOTES_BY_ID.get(kind, kind))


def render_waiting(state: str, reason: str, asks: str = "") -> str:
    """How far something is that has not come to its end. `asks`: the request that a person has to decide."""
    if asks:
        return f"waits for a person (`gatepost permit show {asks}`)"
    if state != InboxState.RETRY:
        return f"is {state}"
    return "waits to be tried again" + (f", because {render_reason(reason)}" if reason else "")
