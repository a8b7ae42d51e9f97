"""Whether another program receives as the bot is found out without disturbing that program: it gets every event, and
goes on. `tests/channels/test_xmpp_prosody.py` has the same for XMPP."""

from typing import Any

import pytest

from gatepost.channels.contract import ChannelEnded, EndReason, SupportsCheck, SupportsPollerCheck
from gatepost.channels.telegram import polling
from gatepost.channels.whatsapp.number_state import check_hooks
from gatepost.core.errors import Unavailable
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.irc import IrcPlatform
from gatepost_testing.platforms.slack import SlackPlatform
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.platforms.whatsapp import WhatsAppPlatform
from gatepost_testing.platforms.wiring import listening, make_channel
from gatepost_testing.waiting import until


async def find_poller(platform: EmulatedPlatform, **more: Any) -> ChannelEnded | None:
    """As `gatepost channel add` asks: who we are first, with a channel made for the question alone."""
    asked, _ = make_channel(platform, **more)
    assert isinstance(asked, SupportsCheck) and isinstance(asked, SupportsPollerCheck)
    try:
        await asked.check()
        await asked.check_poller()
    except ChannelEnded as error:
        return error
    finally:
        await asked.close()  # type: ignore[attr-defined]
    return None


@pytest.mark.parametrize("make", [TelegramPlatform, SlackPlatform, IrcPlatform, WhatsAppPlatform])
async def test_a_bot_that_nobody_runs_has_no_second_poller(make: type[EmulatedPlatform]) -> None:
    with make() as platform:
        assert await find_poller(platform) is None


@pytest.mark.parametrize("make", [TelegramPlatform, SlackPlatform, IrcPlatform])
async def test_a_channel_that_runs_elsewhere_is_found_and_goes_on(
    make: type[EmulatedPlatform], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "CONFLICT_WAIT_S", 0.01)
    with make() as platform:
        running, deps = make_channel(platform)
        async with listening(running) as received:
            await until(lambda: deps.pulse is not None and deps.pulse.beats > 0)
            found = await find_poller(platform)
            platform.send("and still there")
            await received.wait_for(1)
        assert found is not None and found.reason is EndReason.SECOND_POLLER
        assert received.texts == ["and still there"]


async def test_what_waits_on_telegram_is_not_confirmed_and_its_filter_stays() -> None:
    with TelegramPlatform() as platform:
        assert isinstance(platform, TelegramPlatform)
        platform.send("for whoever comes")
        wanted = platform._asked_for
        assert await find_poller(platform) is None
        assert [each["message"]["text"] for each in platform.updates] == ["for whoever comes"]
        assert platform._asked_for == wanted


async def test_an_event_that_came_by_the_asking_socket_is_not_acknowledged() -> None:
    with SlackPlatform() as platform:
        assert isinstance(platform, SlackPlatform)
        platform.send("for whoever comes")
        assert await find_poller(platform) is None
        assert platform.socket.acknowledged == [] and len(platform.socket.waiting) == 1


async def test_slack_in_http_mode_opens_no_socket() -> None:
    with SlackPlatform() as platform:
        assert isinstance(platform, SlackPlatform)
        assert await find_poller(platform, mode="http") is None
        assert platform.socket.opened == 0


@pytest.mark.parametrize("level", ["phone_number", "whatsapp_business_account"])
def test_an_alternate_address_of_a_number_is_another_program_unless_it_is_ours(level: str) -> None:
    with pytest.raises(ChannelEnded, match=r"at other\.example") as ended:
        check_hooks({"webhook_configuration": {level: "https://other.example/in?key=hush"}}, "wa")
    assert ended.value.reason is EndReason.SECOND_POLLER and "hush" not in str(ended.value)
    check_hooks({"webhook_configuration": {level: "https://gate.example/channels/wa"}}, "wa")
    check_hooks({"webhook_configuration": {"application": "https://other.example/in"}}, "wa")
    for strange in (None, [], {}, {"webhook_configuration": [1]}, {"webhook_configuration": {level: 3}}):
        check_hooks(strange, "wa")


async def test_a_socket_that_cannot_be_opened_is_no_second_poller(monkeypatch: pytest.MonkeyPatch) -> None:
    with SlackPlatform() as platform:
        channel, _ = make_channel(platform)
        assert isinstance(channel, SupportsPollerCheck)
        monkeypatch.setattr("gatepost.channels.slack.socket_mode.OPEN_S", 0.0)
        with pytest.raises(Unavailable, match="socket"):
            await channel.check_poller()
        await channel.close()  # type: ignore[attr-defined]
