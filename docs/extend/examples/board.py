"""board: cards are JSON files. A file in `<room>/out/` is a message or a card, a file in `<room>/clicks/` is a click.

Put this file into `plugins/channels/` of the home.
"""

import asyncio
import json
import re
from hashlib import sha256
from pathlib import Path

from gatepost.channels.contract import ChannelDeps, Receive, channel
from gatepost.core.errors import NotFound
from gatepost.core.settings import setting
from gatepost.messages.inbound import CLICK, Inbound
from gatepost.messages.outbound import Feature, Op, Outbound

FOLDER = setting("channels.board.folder", "", help="The folder whose subfolders are rooms.")
LOOK_S = setting("channels.board.look_s", 1.0, help="How often to look for clicks, in seconds.")


def read_click(path: Path) -> Inbound:
    """`office/clicks/ann.7.txt` holds the id of the button that ann pressed. The file's name is unique."""
    sender = path.name.partition(".")[0]
    return Inbound(
        address=f"board:{path.parent.parent.name}",
        platform_id=path.name,
        sender=f"board:user/{sender}",
        sender_name=sender,
        text="",
        event=CLICK,
        click=path.read_text(encoding="utf-8", errors="replace").strip()[:200],
        direct=True,
    )


@channel("board", settings=(FOLDER, LOOK_S), features=frozenset({Feature.CARDS, Feature.EDIT, Feature.KEYED}))
class Board:
    def __init__(self, deps: ChannelDeps) -> None:
        self._folder, self._look_s = Path(deps.config[FOLDER]), deps.config[LOOK_S]

    async def listen(self, receive: Receive) -> None:
        while True:
            for path in sorted(self._folder.glob("*/clicks/*.txt")):
                await receive(read_click(path))
                path.unlink()
            await asyncio.sleep(self._look_s)

    async def send(self, address: str, message: Outbound) -> str:
        """An edit writes its file anew: a decided card has `done`, and no buttons."""
        room = address.partition(":")[2]
        folder = self._folder / room / "out"
        if not re.fullmatch(r"[\w-]+", room) or not folder.is_dir():
            raise NotFound("room", address)
        name = message.target if message.op is Op.EDIT else f"{sha256(message.key.encode()).hexdigest()[:16]}.json"
        part = folder / f"{name}.part"
        part.write_text(json.dumps(render(message)), encoding="utf-8")
        part.rename(folder / name)
        return name


def render(message: Outbound) -> dict[str, object]:
    card = message.card
    if card is None:
        return {"text": message.text}
    return {
        "title": card.title,
        "text": card.text,
        "fields": {field.name: field.value for field in card.fields},
        "buttons": {button.id: button.label for button in card.buttons},
        "done": card.done,
    }
