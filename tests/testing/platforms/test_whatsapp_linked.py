"""The emulated device, spoken to by its lines alone. No library of WhatsApp has this seam or could be its client."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from gatepost.channels.whatsapp_linked.protocol import (
    Acknowledge,
    Answer,
    AnswerState,
    Arrived,
    Begin,
    DeviceLine,
    LinkState,
    LinkStatus,
    SendText,
    parse_device_line,
    render_line,
)
from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.whatsapp_linked import WhatsAppLinkedDevice
from gatepost_testing.waiting import PATIENCE_S


@pytest.fixture
def platform() -> Iterator[WhatsAppLinkedDevice]:
    with WhatsAppLinkedDevice() as made:
        assert isinstance(made, WhatsAppLinkedDevice)
        yield made


class Lines:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def find(self, kind: type[DeviceLine]) -> DeviceLine:
        async with asyncio.timeout(PATIENCE_S):
            while not isinstance(line := parse_device_line(await self._reader.readline()), kind):
                pass
            return line


@asynccontextmanager
async def connected(platform: WhatsAppLinkedDevice) -> AsyncIterator[Lines]:
    reader, writer = await asyncio.open_connection("127.0.0.1", platform.port)
    writer.write(render_line(Begin(folder=str(platform.folder))))
    try:
        yield Lines(reader, writer)
    finally:
        writer.close()


async def test_an_event_comes_again_until_it_is_acknowledged(platform: WhatsAppLinkedDevice) -> None:
    platform.send("hello")
    for _ in range(2):
        async with connected(platform) as lines:
            event = await lines.find(Arrived)
            assert isinstance(event, Arrived) and event.text == "hello"
    async with connected(platform) as lines:
        lines.writer.write(render_line(Acknowledge(event.number)))
        await platform.until(lambda: not platform._events)


async def test_what_is_sent_is_shown_without_its_marks(platform: WhatsAppLinkedDevice) -> None:
    async with connected(platform) as lines:
        text = SendText(request=7, chat=platform.get_chat("team"), text="some *bold* word")
        lines.writer.write(render_line(text))
        answer = await lines.find(Answer)
        assert isinstance(answer, Answer) and answer.request == 7
    (shown,) = platform.list_shown("team")
    assert (shown.id, shown.text) == (f"{answer.message}.me", "some bold word")


async def test_its_faults_are_states_and_answers(platform: WhatsAppLinkedDevice) -> None:
    platform.fault(PlatformFault.CONFLICT)
    async with connected(platform) as lines:
        assert await lines.find(LinkStatus) == LinkStatus(state=LinkState.REPLACED)
        lines.writer.write(render_line(SendText(request=1, chat="4999999@s.whatsapp.net", text="x")))
        answer = await lines.find(Answer)
        assert isinstance(answer, Answer) and answer.state is AnswerState.NOT_FOUND
