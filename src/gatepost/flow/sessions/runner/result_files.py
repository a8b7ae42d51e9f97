"""Files that a runner names in its results, taken out of what its sandbox can write to. Their bytes are counted before
anything is copied."""

import mimetypes
import shutil

from gatepost.core import log
from gatepost.core.error_classification import is_transient
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.flow.delivery import outgoing_messages
from gatepost.flow.delivery.outgoing_messages import LARGEST_FILE, MOST_RESULTS
from gatepost.flow.sessions.runner import results
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.mailbox.runner_frames import ResultFrame
from gatepost.messages.outbound import OutboundFile
from gatepost.store.messages import outbox, sent_files
from gatepost.store.messages.sent_files import NewSentFiles
from gatepost.store.sessions import replays
from gatepost.store.sessions.turns import Turn

MOST_FILES = 20  # of one result

_log = log.get("sessions")


def measure_files(home: Home, session_id: str, key: str, names: list[str]) -> list[int]:
    """Return how large their copies will be: holes count."""
    if len(names) > MOST_FILES:
        raise Invalid(key, f"{len(names)} files are more than {MOST_FILES}, which one message takes")
    with open_untrusted(home.mailbox(session_id)) as root:
        sizes = [root.stat(f"out/files/{key}/{name.rsplit('/', 1)[-1]}").st_size for name in names]
    if any(size > LARGEST_FILE for size in sizes):
        raise Invalid(key, f"a file is larger than {LARGEST_FILE} bytes")
    return sizes


def copy_files(home: Home, session_id: str, key: str, names: list[str], sizes: list[int]) -> tuple[OutboundFile, ...]:
    """Make the delivery's own copies: what the sandbox does to its files afterwards does not matter. Each is at most as
    large as it was when its bytes were set aside."""
    target = home.media / "out" / key
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    copied = []
    try:
        with open_untrusted(home.mailbox(session_id)) as root:
            for number, (name, most) in enumerate(zip(names, sizes, strict=True)):
                plain = name.rsplit("/", 1)[-1]
                size = root.copy_out(f"out/files/{key}/{plain}", target / str(number), most)
                mime = mimetypes.guess_type(plain)[0] or "application/octet-stream"
                copied.append(OutboundFile(name=plain, mime=mime, path=str(target / str(number)), size=size))
            root.remove_tree(f"out/files/{key}")
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return tuple(copied)


async def copy_result_files(
    deps: SessionDeps, session_id: str, turn: Turn | None, frame: ResultFrame
) -> tuple[OutboundFile, ...]:
    """Copy the files of a result that will be taken: the ledger judges the rest, and it has no files."""
    if turn is None or turn.instance == replays.INSTANCE:  # what is not sent needs no copies
        return ()
    ours = (turn.id, turn.epoch, turn.attempt) == (frame.turn, frame.epoch, frame.attempt)
    if not ours or frame.part >= deps.config[MOST_RESULTS]:
        return ()
    if await deps.store.read(outbox.find_by_key, results.key_of(frame)) is not None:
        return ()  # it was taken, and its files with it
    try:
        return await _reserve_and_copy(deps, session_id, turn, frame)
    except (GatepostError, OSError) as error:
        if is_transient(error):
            raise  # the result is not acknowledged, so it comes again with its files
        _log.warning("files of a result were not taken", session=session_id, error=str(error))
        return ()


async def _reserve_and_copy(
    deps: SessionDeps, session_id: str, turn: Turn, frame: ResultFrame
) -> tuple[OutboundFile, ...]:
    counted = results.key_of(frame)
    key, names = counted.replace("/", "-"), frame.files
    sizes = await deps.files.run(session_id, measure_files, deps.home, session_id, key, names)
    new = NewSentFiles(key=counted, folder=turn.folder, session_id=session_id, turn_id=turn.id, bytes=sum(sizes))
    now = deps.clock.now()
    await deps.store.write(outgoing_messages.reserve_file_bytes, deps.config, new, "send files", now, durable=False)
    try:
        copies = await deps.files.run(session_id, copy_files, deps.home, session_id, key, names, sizes)
        if deps.passing is not None:
            await deps.passing.put_sent(copies)
        return copies
    except (GatepostError, OSError):
        deps.store.post(sent_files.remove, counted, lane=session_id)
        raise
