"""The meaning of a state of the device, or of an answer of it, for the channel: decisions without I/O."""

from pathlib import Path

from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.whatsapp_linked.device_process import WHAT
from gatepost.channels.whatsapp_linked.protocol import Answer, AnswerState, LinkState, LinkStatus
from gatepost.core.errors import NotFound, Refused, Unavailable

MOST_REPLACED = 3  # times in a row; once may be a process of ours that is left over
ENDS = {
    LinkState.NO_LIBRARY: (
        EndReason.SETTING,
        "neonize, the library of the linked device, is not installed",
        "pip install 'gatepost[whatsapp-linked]'",
    ),
    LinkState.LOGGED_OUT: (
        EndReason.TOKEN,
        "the phone has removed this linked device",
        "start the channel again and link it anew, with the code in `gatepost channel logs`",
    ),
    LinkState.REPLACED: (
        EndReason.SECOND_POLLER,
        "another program uses the session of this linked device",
        "end that program, then start the channel again",
    ),
    LinkState.BANNED: (
        EndReason.RIGHTS,
        "WhatsApp has banned this number for a while",
        "look at the phone for how long; use the Cloud API (`gatepost channel add whatsapp`)",
    ),
    LinkState.OUTDATED: (
        EndReason.SETTING,
        "WhatsApp does not accept this version of neonize any more",
        "update gatepost, which pins it",
    ),
}


NO_PERSON = "no lid found"  # as the library writes that a number has no account


def find_end(status: LinkStatus) -> ChannelEnded | None:
    """None: it goes on."""
    found = ENDS.get(status.state)
    if found is None:
        return None
    reason, why, way_out = found
    detail = " ".join(status.detail.split())
    return ChannelEnded(reason, f"{why} ({detail})" if detail else why, way_out)


def render_pairing(status: LinkStatus, picture: Path) -> str:
    """How to link the device now; one line."""
    where = "on the phone, open Settings > Linked devices > Link a device"
    if status.code:
        return f"{where} > Link with phone number, and enter {status.code}"
    return f"{where}, and scan what `cat {picture}` shows"


def raise_for(answer: Answer, address: str) -> None:
    """Raises what an answer stands for, unless it was done."""
    detail = " ".join(answer.detail.split())
    match answer.state:
        case AnswerState.UNAVAILABLE:
            wait = answer.retry_after or None
            raise Unavailable(WHAT, detail, retry_after=wait, everywhere=wait is not None)
        case AnswerState.UNCERTAIN:
            raise Unavailable(WHAT, detail, uncertain=True)
        case AnswerState.REFUSED:
            raise Refused("this account", "do this", address, detail)
        case AnswerState.NOT_FOUND:
            is_person = NO_PERSON in detail.lower()
            raise NotFound("room or file", address, "this number is not on WhatsApp" if is_person else detail)
