"""Files that a runner names in its results, taken out of what its sandbox can write to."""

import mimetypes
import shutil

from gatepost.core.untrusted import open_root
from gatepost.flow.sessions.parts import Parts
from gatepost.messages.outbound import File

LARGEST_FILE = 100 * 1024 * 1024


def copy_files(parts: Parts, session_id: str, key: str, names: list[str]) -> tuple[File, ...]:
    """The delivery's own copies: what the sandbox does to its files afterwards does not matter."""
    target = parts.home.media / "out" / key
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    copied = []
    try:
        with open_root(parts.home.session(session_id)) as root:
            for number, name in enumerate(names):
                plain = name.rsplit("/", 1)[-1]
                size = root.copy_out(f"out/files/{key}/{plain}", target / str(number), LARGEST_FILE)
                mime = mimetypes.guess_type(plain)[0] or "application/octet-stream"
                copied.append(File(name=plain, mime=mime, path=str(target / str(number)), size=size))
            root.remove_tree(f"out/files/{key}")
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return tuple(copied)
