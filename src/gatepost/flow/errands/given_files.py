"""Files that go along with an errand: the host's copies become attachments of its message."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gatepost.core import ids
from gatepost.core.errors import Unavailable
from gatepost.flow.errands.finish import find_kind
from gatepost.flow.intake.attachments import StoredAttachment, flush_folder, make_safe_names
from gatepost.messages.inbound import Attachment
from gatepost.messages.outbound import OutboundFile


def make_attachments(media: Path, files: Sequence[OutboundFile]) -> tuple[StoredAttachment, ...]:
    """Move them to where files lie that come with a message; what no message names there is removed in time."""
    if not files:
        return ()
    folder = f"in/{ids.new('f')}"
    names = make_safe_names([Attachment(name=each.name, mime=each.mime) for each in files])
    try:
        (media / folder).mkdir(mode=0o700, parents=True)
        for name, each in zip(names, files, strict=True):
            os.rename(each.path, media / folder / name)
        for path in (media / folder, media / "in"):
            flush_folder(path)
    except OSError as error:
        shutil.rmtree(media / folder, ignore_errors=True)
        raise Unavailable("the disk", f"the files could not be kept: {error.strerror}") from None
    return tuple(
        StoredAttachment(name, each.mime, find_kind(each.mime), each.size, f"{folder}/{name}")
        for name, each in zip(names, files, strict=True)
    )
