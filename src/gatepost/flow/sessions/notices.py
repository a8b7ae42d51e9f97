"""Notices to people when a message could not be answered. Plain words, no internals, always a way on."""

from gatepost.mailbox.runner_frames import TurnErrorClass

_BY_CLASS: dict[str, str] = {
    TurnErrorClass.AUTH: "the agent's account was not accepted. Whoever runs this gateway needs to renew its key.",
    TurnErrorClass.QUOTA: "the agent's account with the model's vendor has no quota left. Whoever runs this gateway"
    " can raise it; some come back alone.",
}


def render_failure(reason: str, error_class: str, count: int) -> str:
    """One notice for a turn, however many messages were in it."""
    if error_class == TurnErrorClass.BUDGET:  # says which, until when, and what an operator can do
        return (
            f"Sorry, I could not answer {_count(count)}: {reason[:1].lower()}{_plain(reason)[1:]} Send it again then."
        )
    why = _BY_CLASS.get(error_class, _plain(reason))
    again = "" if error_class in _BY_CLASS else " You can send it again."
    return f"Sorry, I could not answer {_count(count)}: {why}{again}"


def _count(count: int) -> str:
    return "your message" if count <= 1 else f"{count} messages"


def _plain(reason: str) -> str:
    sentence = reason.strip().splitlines()[0][:300] if reason.strip() else "the agent did not finish"
    return sentence if sentence.endswith((".", "!", "?")) else sentence + "."


def render_out_of_time(*, spoke: bool) -> str:
    """What it had said has been delivered before."""
    so_far = "What I have so far is above" if spoke else "I had nothing to show yet"
    return f"My time for this ran out before I was done. {so_far}; write to me, and I go on from there."


STOPPED = "Stopped."
ASLEEP = "Somebody has to decide about something before I can go on. I do as soon as they have; /stop ends it."
INTERRUPTED = "I was interrupted, and go on with your message."
NO_RESOURCES = (
    "This gateway lacks something for a while, such as space on its disk. Your message waits, and I begin with it as"
    " soon as I can."
)
NO_PLACE = "Other agents are at work, and all places are taken. I begin with your message as soon as one is free."
