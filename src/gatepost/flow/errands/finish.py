"""The end of an errand: its result goes to whoever gave it out, as a message of the gateway's own, once."""

from typing import Any

from gatepost.channels.contract import get_file_folder_name
from gatepost.flow.errands.start import render_attachments
from gatepost.flow.intake.attachments import StoredAttachment, make_safe_names
from gatepost.messages.inbound import Attachment, AttachmentKind
from gatepost.store.messages import inbox, messages
from gatepost.store.port import Db
from gatepost.store.rooms import origins
from gatepost.store.sessions import errands, sessions
from gatepost.store.sessions.errands import Errand, ErrandOutcome, ErrandState

EVENT = "errand"  # also how the keys of such messages begin


def return_result(db: Db, errand: Errand, now: int) -> str | None:
    """The session to wake; None if there is nothing to return, or nobody left. Judged in the transaction that returns
    it: something may have come meanwhile."""
    if not errands.is_finished(db, errand.id):
        return None
    outcome = errands.get_outcome(db, errand)
    caller = sessions.get(db, errand.caller_session)
    if caller is None or caller.closed_at is not None:
        errands.finish(db, errand.id, outcome, None, now)
        return None
    message_id = messages.add_system(db, errand, f"{EVENT}:{errand.id}", _render(errand, outcome), now, outcome.text)
    assert message_id is not None  # one that is finished has not returned
    chain = origins.get_inherited(db, errand.message_id)
    origins.put(db, message_id, chain.origins, chain.depth)
    inbox.enqueue(db, message_id, caller.id, caller.folder, errand.rights, now)
    errands.finish(db, errand.id, outcome, message_id, now)
    return caller.id


def _render(errand: Errand, outcome: ErrandOutcome) -> dict[str, Any]:
    content: dict[str, Any] = {
        "event": EVENT,
        "errand": errand.id,
        "group": errand.folder,
        "state": outcome.state,
        "text": outcome.text,
    }
    if outcome.state is ErrandState.FAILED:
        content["error"] = outcome.reason
    if outcome.files:
        content["attachments"] = render_attachments(_list_attachments(outcome))
    return content


def _list_attachments(outcome: ErrandOutcome) -> list[StoredAttachment]:
    """Return where the channel of errands keeps them."""
    names = make_safe_names([Attachment(name=each.name, mime=each.mime) for each in outcome.files])
    return [
        StoredAttachment(
            name,
            each.mime,
            find_kind(each.mime),
            each.size,
            f"{errands.PLATFORM}/{get_file_folder_name(each.key)}/{each.place}",
        )
        for name, each in zip(names, outcome.files, strict=True)
    ]


def find_kind(mime: str) -> AttachmentKind:
    kind = mime.partition("/")[0]
    return AttachmentKind(kind) if kind in ("image", "audio", "video") else AttachmentKind.FILE
