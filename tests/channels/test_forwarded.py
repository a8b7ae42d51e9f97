"""Messages that were passed on, and kinds without words, on the platforms that tell."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gatepost.channels.discord import wire as discord
from gatepost.channels.signal import wire as signal
from gatepost.channels.slack import wire as slack
from gatepost.channels.whatsapp import wire as whatsapp
from gatepost.channels.whatsapp_linked import wire as linked
from gatepost.channels.whatsapp_linked.protocol import Arrived, DeviceEvent, MessageKey
from gatepost.messages.inbound import Inbound, OpenFile

UUID = "11111111-2222-3333-4444-555555555555"


def open_nothing(*given: Any) -> OpenFile:
    async def read() -> AsyncIterator[bytes]:
        yield b""

    return read


def read_discord(**message: Any) -> Inbound:
    room = discord.DiscordRoom("discord:channel/1", "Team", False)
    given = {"id": "100000000000000001", "author": {"id": "5", "username": "ann"}, **message}
    found = discord.read_message(given, room, discord.DiscordSelf(), open_nothing)
    assert found is not None
    return found


def read_whatsapp(kind: str, body: Any, **more: Any) -> Inbound:
    message = {"from": "4917012345", "id": "wamid.1", "type": kind, kind: body, **more}
    (found,) = whatsapp.read_messages({"messages": [message]}, open_nothing)
    return found


def read_signal(**data: Any) -> Inbound | None:
    envelope = {"sourceUuid": UUID, "sourceName": "Ann", "dataMessage": {"timestamp": 1_700_000_000_000, **data}}
    own = signal.OwnAccount(account="+4917099", names=frozenset({"+4917099"}))
    return signal.read_event({"envelope": envelope}, own, open_nothing)


def test_a_forward_on_discord_has_the_words_of_somebody_else() -> None:
    snapshot = [{"message": {"content": "/stop", "attachments": []}}]
    forwarded, said = read_discord(content="", message_snapshots=snapshot), read_discord(content="mine")
    assert (forwarded.text, forwarded.forwarded, said.forwarded) == ("/stop", True, False)


@pytest.mark.parametrize("mark", ["forwarded", "frequently_forwarded"])
def test_a_forward_on_whatsapp_has_the_words_of_somebody_else(mark: str) -> None:
    assert read_whatsapp("text", {"body": "/stop"}, context={mark: True}).forwarded
    assert not read_whatsapp("text", {"body": "/stop"}).forwarded


def test_a_forward_to_a_linked_device_has_the_words_of_somebody_else() -> None:
    arrived = Arrived(
        number=1,
        kind=DeviceEvent.MESSAGE,
        chat="4917012345@s.whatsapp.net",
        message=MessageKey("3EB0AA"),
        sender="4917012345@s.whatsapp.net",
        text="/stop",
        forwarded=True,
    )
    found = linked.read_event(arrived, open_nothing)
    assert found is not None and found.forwarded


def test_a_shared_message_on_slack_names_its_author() -> None:
    me, names = slack.SlackSelf(team="T1"), slack.SlackNames()
    event = {"ts": "1700000000.000100", "user": "U1", "text": ""}
    shared = [{"is_share": True, "text": "/stop", "author_name": "Bob"}]
    found = slack.read_message({**event, "attachments": shared}, "C1", me, names, open_nothing)
    assert found is not None and (found.text, found.forwarded, found.forward_from) == ("/stop", True, "Bob")


def test_kinds_without_words_get_a_line() -> None:
    poll = {"question": {"text": "When?"}, "answers": [{"poll_media": {"text": "now"}}]}
    assert read_discord(content="", poll=poll).text == "[poll: When? — now]"
    assert "not understood here: embeds" in read_discord(content="", embeds=[{}]).text
    contact = [{"name": {"formatted_name": "Bob"}, "phones": [{"phone": "+1"}]}]
    assert read_whatsapp("contacts", contact).text == "[contact: Bob, +1]"
    found = read_signal(contacts=[{"name": {"display": "Bob"}, "phone": [{"value": "+1"}]}])
    assert found is not None and found.text == "[contact: Bob, +1]"
    unknown = read_signal(payment={"receipt": "x"})
    assert unknown is not None and "not understood here: payment" in unknown.text
    assert read_signal() is None
