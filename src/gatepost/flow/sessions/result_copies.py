"""The delivery's own copies of the files that a result names, their bytes counted before anything is copied."""

from gatepost.core import log
from gatepost.core.error_classification import is_passing
from gatepost.core.errors import GatepostError
from gatepost.flow.delivery import file_limits
from gatepost.flow.delivery.outgoing_messages import MOST_RESULTS
from gatepost.flow.sessions import results
from gatepost.flow.sessions.result_files import copy_files, measure_files
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.mailbox.runner_frames import ResultFrame
from gatepost.messages.outbound import OutboundFile
from gatepost.store import outbox, replays, sent_files
from gatepost.store.sent_files import NewSentFiles
from gatepost.store.turns import Turn

_log = log.get("sessions")


async def copy_result_files(
    parts: SessionDeps, session_id: str, turn: Turn | None, frame: ResultFrame
) -> tuple[OutboundFile, ...]:
    """Only for what will be taken: the ledger judges the rest, and it has no files."""
    if not frame.files or turn is None or turn.instance == replays.INSTANCE:  # what is not sent needs no copies
        return ()
    ours = (turn.id, turn.epoch, turn.attempt) == (frame.turn, frame.epoch, frame.attempt)
    if not ours or frame.part >= parts.config[MOST_RESULTS]:
        return ()
    if await parts.store.read(outbox.find_by_key, results.key_of(frame)) is not None:
        return ()  # it was taken, and its files with it
    try:
        return await _reserve_and_copy(parts, session_id, turn, frame)
    except (GatepostError, OSError) as error:
        if is_passing(error):
            raise  # the result is not acknowledged, so it comes again with its files
        _log.warning("files of a result were not taken", session=session_id, error=str(error))
        return ()


async def _reserve_and_copy(
    parts: SessionDeps, session_id: str, turn: Turn, frame: ResultFrame
) -> tuple[OutboundFile, ...]:
    counted = results.key_of(frame)
    key, names = counted.replace("/", "-"), frame.files
    sizes = await parts.files.run(session_id, measure_files, parts.home, session_id, key, names)
    new = NewSentFiles(key=counted, folder=turn.folder, session_id=session_id, turn_id=turn.id, bytes=sum(sizes))
    now = parts.clock.now()
    await parts.store.write(file_limits.reserve_bytes, parts.config, new, "send files", now, durable=False)
    try:
        return await parts.files.run(session_id, copy_files, parts.home, session_id, key, names, sizes)
    except (GatepostError, OSError):
        parts.store.post(sent_files.remove, counted, lane=session_id)
        raise
