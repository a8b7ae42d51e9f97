"""Said twice, or taken for unsent."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from gatepost.channels.contract import ChannelDeps, ChannelEnded, EndReason
from gatepost.channels.kit.http import PlatformAnswer
from gatepost.channels.slack.sending import SlackSender
from gatepost.channels.telegram.sending import run_steps
from gatepost.channels.whatsapp.adapter import read_error
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost.testing.platforms.whatsapp import WhatsAppPlatform
from gatepost.testing.platforms.wiring import make_channel


def make_file(folder: Path, name: str) -> OutboundFile:
    (folder / name).write_bytes(b"data")
    return OutboundFile(name=name, mime="image/png", path=str(folder / name), size=4)


class LateSlack:
    """Slack as it is: a completed file appears in its channel a moment later. The answer to the completion is lost."""

    def __init__(self) -> None:
        self.completed = 0

    async def ask(self, method: str, action: str = "", **arguments: Any) -> dict[str, Any]:
        if method == "files.getUploadURLExternal":
            return {"upload_url": "https://files.slack.com/upload/1", "file_id": "F1"}
        return {"file": {"id": "F1", "shares": {}}}

    async def call(self, *args: Any, **more: Any) -> str:
        return "OK"

    async def act(self, method: str, body: dict[str, Any], action: str = "", **more: Any) -> dict[str, Any]:
        self.completed += 1
        raise Unavailable("Slack", "the connection broke", uncertain=True)


async def test_a_file_that_does_not_appear_yet_is_not_certainly_unsent(tmp_path: Path) -> None:
    """`look_up` answers None, "it certainly is not there", and the file is shared a second time."""
    slack = LateSlack()
    around = ChannelDeps(instance="slack", config=Config(), clock=SystemClock())

    async def get_http() -> Any:
        return slack

    sender = SlackSender(around, get_http, {})
    message = Outbound(key="k1", op=Op.FILE, text="", files=(make_file(tmp_path, "a.png"),))
    with pytest.raises(Unavailable):
        await sender.send("C1", message)
    assert slack.completed == 1
    with pytest.raises(Unavailable):
        await sender.look_up("C1", "k1")


def test_an_unknown_error_of_meta_leaves_open_whether_it_was_sent() -> None:
    """The kit takes every 5xx for uncertain; the table BUSY makes 500 with code 131000 or 1 a certain no."""
    answer = {"error": {"code": 131000, "message": "Something went wrong"}}
    error = read_error(
        PlatformAnswer(response=httpx2.Response(500), body=answer, action="send", effect=True, retry_after=None)
    )
    assert isinstance(error, Unavailable) and error.uncertain


async def test_the_words_of_a_message_with_two_files_go_out_once_as_a_template(tmp_path: Path) -> None:
    """More than a day after the person's last message each part is refused, and each becomes the same template."""
    with WhatsAppPlatform() as platform:
        assert isinstance(platform, WhatsAppPlatform)
        channel, _ = make_channel(platform, template="notice")
        ann = platform.get_address("direct:ann")
        platform.close_window("ann")
        files = (make_file(tmp_path, "a.png"), make_file(tmp_path, "b.png"))
        await channel.send(ann, Outbound(key="k1", op=Op.FILE, text="your invoice", files=files))
        said = [each.text for each in platform.list_shown("direct:ann")]
        await channel.close()  # type: ignore[attr-defined]
    assert said == ["your invoice"]


async def test_a_token_that_is_revoked_between_two_parts_leaves_no_certain_no() -> None:
    """Delivery takes ChannelEnded for "it did not happen": once the token is mended, the first part is said again."""

    async def say() -> str:
        return "1"

    async def end() -> str:
        raise ChannelEnded(EndReason.TOKEN, "Telegram no longer accepts the token", "get a new one")

    with pytest.raises(Unavailable) as raised:
        await run_steps([say, end])
    assert raised.value.uncertain
