"""Said twice, or taken for unsent."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from gatepost.channels.contract import ChannelDeps, ChannelEnded, EndReason, SupportsClose
from gatepost.channels.kit.http import PlatformAnswer
from gatepost.channels.slack.sending import SlackSender
from gatepost.channels.telegram.sending import run_steps
from gatepost.channels.whatsapp.adapter import read_error
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost_testing.platforms.base import Asgi, EmulatedPlatform, PlatformFault
from gatepost_testing.platforms.bluesky import BlueskyPlatform
from gatepost_testing.platforms.mastodon import MastodonPlatform
from gatepost_testing.platforms.mattermost import MattermostPlatform
from gatepost_testing.platforms.reddit import RedditPlatform
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.platforms.whatsapp import WhatsAppPlatform
from gatepost_testing.platforms.wiring import make_channel
from gatepost_testing.platforms.x import XPlatform
from gatepost_testing.platforms.zulip import ZulipPlatform


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
    deps = ChannelDeps(instance="slack", config=Config(), clock=SystemClock())

    async def get_http() -> Any:
        return slack

    sender = SlackSender(deps, get_http, {})
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


def tell_wait(platform_class: type[EmulatedPlatform]) -> type[EmulatedPlatform]:
    """Return the platform as it is when a proxy before it says for how long it is away."""

    class Away(platform_class):  # type: ignore[misc, valid-type]
        def make_app(self) -> Asgi:
            inner = super().make_app()

            async def app(scope: Any, receive: Any, send: Any) -> None:
                async def tell(event: Any) -> None:
                    if event["type"] == "http.response.start" and event["status"] >= 500:
                        event = {**event, "headers": [*event["headers"], (b"retry-after", b"30")]}
                    await send(event)

                await inner(scope, receive, tell)

            return app

    return Away


@pytest.mark.parametrize(
    "platform_class",
    [BlueskyPlatform, MastodonPlatform, MattermostPlatform, RedditPlatform, XPlatform, ZulipPlatform, TelegramPlatform],
)
async def test_a_service_that_says_for_how_long_it_is_away_may_have_taken_the_message(
    platform_class: type[EmulatedPlatform],
) -> None:
    """A wait is told of limits, too, and those certainly took nothing: the two must not be mixed up."""
    with tell_wait(platform_class)() as platform:
        channel, _ = make_channel(platform)
        platform.fault(PlatformFault.BUSY)
        with pytest.raises(Unavailable) as raised:
            await channel.send(platform.get_address("direct:ann"), Outbound(key="k", text="x"))
        assert (raised.value.retry_after, raised.value.uncertain) == (30.0, True)
        if isinstance(channel, SupportsClose):
            await channel.close()
