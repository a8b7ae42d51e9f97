"""Files that a runner names in its results, taken out of what its sandbox can write to."""

import mimetypes
import shutil

from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.core.untrusted_files import open_untrusted
from gatepost.flow.delivery.file_limits import LARGEST_FILE
from gatepost.messages.outbound import OutboundFile

MOST_FILES = 20  # of one result


def measure_files(home: Home, session_id: str, key: str, names: list[str]) -> list[int]:
    """As large as their copies will be: holes count."""
    if len(names) > MOST_FILES:
        raise Invalid(key, f"{len(names)} files are more than {MOST_FILES}, which one message takes")
    with open_untrusted(home.mailbox(session_id)) as root:
        sizes = [root.stat(f"out/files/{key}/{name.rsplit('/', 1)[-1]}").st_size for name in names]
    if any(size > LARGEST_FILE for size in sizes):
        raise Invalid(key, f"a file is larger than {LARGEST_FILE} bytes")
    return sizes


def copy_files(home: Home, session_id: str, key: str, names: list[str], sizes: list[int]) -> tuple[OutboundFile, ...]:
    """The delivery's own copies: what the sandbox does to its files afterwards does not matter. Each is at most as
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
