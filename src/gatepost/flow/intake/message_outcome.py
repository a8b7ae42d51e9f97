"""The outcome of a message, by what its targets were decided, and the reason in words for whoever wrote it. The ledger
keeps codes of reasons, which are stable; people read the sentences."""

from enum import StrEnum

SENTENCES = {
    "text_too_long": "It is longer than a message may be.",
    "attachments_too_large": "Its files are larger than a message may have.",
    "stale": "It came so long after it was written that it was left unanswered.",
    "no_route": "No agent is set up for this chat. Whoever runs this gateway adds one with `gatepost route add`.",
    "dropped_by_route": "A route drops what is written here. Whoever runs this gateway can change it.",
    "unknown_sender_strict": "This agent does not know you, and here it hears only those it knows.",
    "unknown_sender_request_approval": "This agent does not know you, and nobody has let you in yet.",
    "untrusted_sender": "The platform does not prove who wrote it, and here that counts.",
    "sender_denied": "Somebody decided that you may not speak to this agent.",
    "sender_expired": "Nobody has let you in.",
    "sender_withdrawn": "Nobody has let you in.",
    "room_denied": "Somebody decided that no agent answers here.",
    "room_expired": "Nobody has decided which agent answers here.",
    "room_withdrawn": "Nobody has decided which agent answers here.",
    "denied_by_the_access_list": "You may not speak to this agent.",
    "root_is_for_owners": "This agent hears only owners of the gateway.",
    "budget_spent": "A budget is spent. Whoever runs this gateway can raise it.",
    "command_denied": "You may not give this command here; /help lists those that you may.",
    "command_refused": "This command could not be carried out; the answer to it says why.",
    "dropped command": "This command is not passed on to an agent; /help lists those that work here.",
    "pairing_without_code": "It has no code; `gatepost pair` prints one.",
    "pairing_limited": "Too many wrong codes were sent before it; an hour later another one can be sent.",
    "pairing_code_used": "This code was used before; `gatepost pair` prints a new one.",
    "pairing_code_expired": "This code is too old; `gatepost pair` prints a new one.",
    "pairing_code_unknown": "This code is not known; `gatepost pair` prints one.",
    "pairing_roles": "An identity with a role cannot become somebody's who does not have that role.",
    "paired_before": "This identity was paired with the same person before.",
    "paired_elsewhere": "This identity is somebody else's, or has identities of its own.",
    "pairing_links_open": "Too many pairing links are open; another one can be asked for in ten minutes.",
    "invitation_not_valid": "This invitation is unknown, used up, too old or revoked.",
    "invitation_limited": "Too many wrong codes were sent before it; an hour later another one can be sent.",
    "invitation_not_needed": "You may write to this agent already.",
    "invitation_not_direct": "This invitation is for an agent of your own, and works in a direct chat.",
    "invitation_full": "No further agents can be set up there.",
    "join_without_code": "It has no code of an invitation.",
    "join_queue_full": "Nobody else can be put on the list at the moment.",
    "join_queued": "You are on the list.",
    "join_admitted": "Your agent is being set up.",
    "join_settled": "You have an agent of your own already.",
    "join_denied": "Somebody decided that you do not get an agent of your own.",
    "join_failed": "Your agent could not be set up.",
    "stopped by": "It was stopped.",
}


class MessageOutcome(StrEnum):
    """The outcome of a message, or of it in one group."""

    WAKES = "wakes"
    OBSERVES = "observes"
    HELD = "held"  # somebody is asked about its sender, its room, or a budget
    REFUSED = "refused"
    CHOSEN = "chosen"  # it only says whom its sender speaks to from now on
    ANSWERED = "answered"  # a command that the gateway itself answers


class DecidedBy(StrEnum):
    """The reason why a message goes to its groups."""

    REPLY = "reply"
    CHILD = "child"
    CHOICE = "choice"
    ENGAGEMENT = "engagement"
    ROUTE = "route"


def render_reason(code: str) -> str:
    """Return a reason as a sentence, '' if there is none. A code without an entry was written for people already."""
    code = code.strip()
    for known, words in SENTENCES.items():
        if code == known or code.startswith(known + " "):  # some codes name the thing: `dropped_by_route 7`
            return words
    if not code:
        return ""
    return code[0].upper() + code[1:] + ("" if code[-1] in ".!?…" else ".")
