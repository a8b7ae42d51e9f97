"""spool: rooms are folders. A file in `<room>/in/` is a message, a file in `<room>/out/` is an answer.

Put this file into `plugins/channels/` of the home.
"""

import asyncio
import re
from hashlib import sha256
from pathlib import Path

from gatepost.channels.contract import ChannelDeps, Receive, channel
from gatepost.core.errors import NotFound, Unavailable
from gatepost.core.settings import setting
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Feature, Outbound

FOLDER = setting("channels.spool.folder", "", help="The folder whose subfolders are rooms.")
LOOK_S = setting("channels.spool.look_s", 1.0, help="How often to look for new files, in seconds.")


def read_file(path: Path) -> Inbound:
    """`office/in/ann.7.txt` is what ann wrote in the room `office`. The file's name is the platform's id."""
    sender = path.name.partition(".")[0]
    return Inbound(
        address=f"spool:{path.parent.parent.name}",
        platform_id=path.name,
        sender=f"spool:user/{sender}",
        sender_name=sender,
        text=path.read_text(encoding="utf-8", errors="replace"),
    )


@channel("spool", settings=(FOLDER, LOOK_S), features=frozenset({Feature.MARKDOWN, Feature.KEYED, Feature.LOOKUP}))
class Spool:
    def __init__(self, deps: ChannelDeps) -> None:
        self._folder, self._look_s = Path(deps.config[FOLDER]), deps.config[LOOK_S]

    async def listen(self, receive: Receive) -> None:
        while True:
            for path in sorted(self._folder.glob("*/in/*.txt")):
                await receive(read_file(path))
                path.unlink()  # only now is the message ours: before, a crash must find it again
            await asyncio.sleep(self._look_s)

    async def send(self, address: str, message: Outbound) -> str:
        path = self._answer(address, message.key)
        try:
            part = path.with_suffix(".part")
            part.write_text(message.text, encoding="utf-8")
            part.rename(path)
        except OSError as error:
            raise Unavailable("the spool folder", error.strerror or "", uncertain=True) from None
        return path.name

    async def look_up(self, address: str, key: str) -> str | None:
        path = self._answer(address, key)
        return path.name if path.exists() else None

    def _answer(self, address: str, key: str) -> Path:
        """One key is one file: sent twice, it is there once. An address may come from an agent, so it is checked."""
        room = address.partition(":")[2]
        folder = self._folder / room / "out"
        if not re.fullmatch(r"[\w-]+", room) or not folder.is_dir():
            raise NotFound("room", address)
        return folder / f"{sha256(key.encode()).hexdigest()[:16]}.txt"
