"""The e-mail channel against a real Dovecot, and SMTP by aiosmtpd."""

import asyncio
import imaplib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.contract import ChannelEnded, EndReason, MemoryCursor
from gatepost.core.errors import Invalid, Refused, Unavailable
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.servers.dovecot import find_dovecot
from gatepost_testing.servers.mail_server import PASSWORD, MailServer
from gatepost_testing.waiting import PATIENCE_S, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_dovecot() is None, reason="Dovecot is not installed: scripts/system_packages.py --all"),
]


@pytest.fixture
def server() -> Iterator[MailServer]:
    with MailServer() as platform:
        yield platform


@pytest.fixture
async def talk(server: MailServer) -> AsyncIterator[tuple[Any, ReceivedEvents]]:
    channel, _ = make_channel(server)
    async with listening(channel) as received:
        yield channel, received


def message(key: str, text: str = "", **more: Any) -> Outbound:
    return Outbound(key=key, text=text, **more)


async def test_a_mail_is_answered_in_its_thread_under_its_subject(server: MailServer, talk: Any) -> None:
    channel, received = talk
    asked = server.send("What is the plan?", subject="The plan")
    (event,) = await received.wait_for(1)
    assert (event.platform_id, event.thread, event.direct, event.verb) == (asked, asked, True, Verb.MESSAGE)
    assert event.text == "The plan\n\nWhat is the plan?"
    assert event.address == event.sender == server.get_sender("ann")

    sent = await channel.send(event.address, message("k1", "We go **north**.", thread=event.thread))
    (shown,) = server.list_shown("direct:ann")
    assert (shown.id, shown.text, shown.thread, shown.reply_to) == (sent, "We go north.", asked, asked)
    assert shown.raw["Subject"] == "Re: The plan" and shown.raw["Auto-Submitted"] == "auto-replied"

    server.send("Why north?", reply_to=sent)
    again = (await received.wait_for(2))[1]
    assert (again.thread, again.verb, again.text) == (asked, Verb.REPLY, "Why north?")


async def test_the_answer_lies_in_the_persons_mailbox(server: MailServer, talk: Any) -> None:
    channel, _ = talk
    await channel.send("email:ann@mail.test", message("k1", "hello *you*"))
    with imaplib.IMAP4("127.0.0.1", server.dovecot.imap_port) as box:
        box.login("ann", PASSWORD)
        box.select()
        _, data = box.fetch("1", "(RFC822)")
    assert b"hello" in data[0][1] and b"multipart/alternative" in data[0][1]  # type: ignore[index]


async def test_files_go_both_ways(server: MailServer, talk: Any, tmp_path: Path) -> None:
    channel, received = talk
    data = bytes(range(256)) * 500
    server.send("see this", files=[GivenFile("plän.png", data, "image/png")])
    (event,) = await received.wait_for(1)
    (given,) = event.attachments
    assert (given.name, given.mime) == ("plän.png", "image/png") and given.open is not None
    assert b"".join([chunk async for chunk in given.open()]) == data

    (tmp_path / "0").write_bytes(data)
    file = OutboundFile(name="ответ.bin", mime="application/octet-stream", path=str(tmp_path / "0"), size=len(data))
    await channel.send(event.address, message("k1", "here", op=Op.FILE, files=(file,), thread=event.thread))
    (shown,) = server.list_shown("direct:ann")
    assert (shown.files[0].name, shown.files[0].data) == ("ответ.bin", data)


async def test_a_sender_that_the_server_does_not_confirm_is_untrusted(server: MailServer, talk: Any) -> None:
    channel, received = talk
    head = b"From: ann@mail.test\r\nTo: bot@mail.test\r\nMessage-ID: <spoof@x>\r\n"
    forged = b"Authentication-Results: mx.other.test; dmarc=pass header.from=mail.test\r\n"
    server.deliver(forged + head + b"\r\npay me\r\n")
    (event,) = await received.wait_for(1)
    assert event.verb is Verb.UNTRUSTED
    await channel.send(event.address, message("k1", "no", reply_to=event.platform_id))
    assert server.list_shown("direct:ann")[0].reply_to == "spoof@x"


async def test_what_programs_send_is_left_alone_and_stays_unread(server: MailServer, talk: Any) -> None:
    _, received = talk
    server.deliver(b"From: ann@mail.test\r\nAuto-Submitted: auto-replied\r\nMessage-ID: <a@x>\r\n\r\nI am away\r\n")
    server.deliver(b"From: MAILER-DAEMON@mail.test\r\nMessage-ID: <b@x>\r\n\r\nundelivered\r\n", sender="")
    server.send("a person")
    await received.wait_for(1)
    assert received.texts == ["a person"]


async def test_what_came_while_the_channel_was_away_comes_once_and_in_order(server: MailServer) -> None:
    cursor = MemoryCursor()
    channel, _ = make_channel(server, cursor=cursor)
    async with listening(channel) as received:
        server.send("before")
        await received.wait_for(1)
        await until(lambda: cursor.saved.get("", "").endswith(":1"), "the cursor")
    for number in range(5):
        server.send(f"away {number}")
    channel, _ = make_channel(server, cursor=cursor)
    async with listening(channel) as received:
        await received.wait_for(5)
        assert received.calls == 5
    assert received.texts == [f"away {number}" for number in range(5)]


async def test_a_mail_is_kept_until_it_is_durable(server: MailServer) -> None:
    cursor = MemoryCursor()
    channel, _ = make_channel(server, cursor=cursor)
    received = ReceivedEvents()
    received.error = Unavailable("the store")
    async with listening(channel, received):
        server.send("hello")
        await until(lambda: received.calls, "the first try")
        assert not cursor.saved[""].endswith(":1")
        received.error = None
        await received.wait_for(1)
        await until(lambda: cursor.saved[""].endswith(":1"), "the cursor")


async def test_a_mail_whose_reading_never_ends_keeps_back_nobody(server: MailServer) -> None:
    cursor = MemoryCursor()
    channel, _ = make_channel(server, cursor=cursor)
    async with listening(channel) as received:
        server.send("one")
        await received.wait_for(1)
        await until(lambda: cursor.saved[""].endswith(":1"), "the cursor")
    assert cursor.saved["reading"] == ""
    validity = cursor.saved[""].partition(":")[0]
    cursor.saved["reading"] = f"uid.{validity}.2 2"  # as two restarts in the midst of it leave it
    server.send("endless")
    server.send("three")
    channel, _ = make_channel(server, cursor=cursor)
    async with listening(channel) as received:
        await received.wait_for(1)
    assert received.texts == ["three"]


async def test_a_mail_that_intake_refuses_for_good_keeps_back_nobody(server: MailServer) -> None:
    received = ReceivedEvents()
    received.error = Invalid("event", "it is refused")
    channel, _ = make_channel(server)
    async with listening(channel, received):
        server.send("refused")
        await until(lambda: received.calls, "the refusal")
        received.error = None
        server.send("two")
        await received.wait_for(1)
    assert received.texts == ["two"]


async def test_a_sent_mail_is_found_by_its_key_also_after_a_lost_answer(server: MailServer, talk: Any) -> None:
    channel, _ = talk
    room = server.get_address("direct:ann")
    assert await channel.look_up(room, "k1") is None
    sent = await channel.send(room, message("k1", "hello"))
    assert await channel.look_up(room, "k1") == sent

    server.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as lost:
        await channel.send(room, message("k2", "lost"))
    assert lost.value.uncertain
    assert await channel.look_up(room, "k2") == server.list_shown()[1].id


async def test_a_mail_that_did_not_come_back_is_not_taken_as_not_sent(server: MailServer) -> None:
    channel: Any = make_channel(server, copy=False)[0]
    server.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable):
        await channel.send("email:ann@mail.test", message("k1", "lost"))
    with pytest.raises(Unavailable, match="not known yet"):
        await channel.look_up("email:ann@mail.test", "k1")


async def test_what_the_server_refuses_is_named(server: MailServer, talk: Any) -> None:
    channel, _ = talk
    room = server.get_address("direct:ann")
    for fault in (PlatformFault.BUSY, PlatformFault.RATE_LIMIT):
        server.fault(fault)
        with pytest.raises(Unavailable) as busy:
            await channel.send(room, message("k1", "hello"))
        assert not busy.value.uncertain
    server.fault(PlatformFault.FORBIDDEN)
    with pytest.raises(Refused, match="550"):
        await channel.send(room, message("k1", "hello"))
    await channel.send(room, message("k1", "hello"))
    assert server.texts() == ["hello"]


async def test_a_connection_that_breaks_is_made_again_and_a_copy_counts_once(server: MailServer, talk: Any) -> None:
    _, received = talk
    server.send("one")
    await received.wait_for(1)
    server.fault(PlatformFault.DROPPED)
    server.fault(PlatformFault.DUPLICATE)
    server.send("two")
    server.send("three")
    await received.wait_for(3)
    assert received.texts == ["one", "two", "three"]


async def test_a_changed_password_ends_the_channel(server: MailServer) -> None:
    channel, _ = make_channel(server)
    received = ReceivedEvents()
    task = asyncio.create_task(channel.listen(received.receive))
    server.send("one")
    await received.wait_for(1)
    server.fault(PlatformFault.UNAUTHORIZED)
    with pytest.raises(ChannelEnded) as ended:
        await asyncio.wait_for(task, PATIENCE_S)
    assert ended.value.reason is EndReason.TOKEN


async def test_a_check_names_what_is_wrong(server: MailServer) -> None:
    good: Any = make_channel(server)[0]
    found = await good.check()
    assert (found.name, found.link, found.missing) == ("The Bot <bot@mail.test>", "mailto:bot@mail.test", ())
    wrong: Any = make_channel(server, secrets={"password": "wrong"})[0]
    with pytest.raises(ChannelEnded, match="refuses the password"):
        await wrong.check()
    away: Any = make_channel(server, imap_port=1)[0]
    with pytest.raises(Unavailable):
        await away.check()
    clear: Any = make_channel(server, imap_host="mail.example.org")[0]
    with pytest.raises(ChannelEnded, match="in the clear"):
        await clear.check()


async def test_a_loop_of_two_programs_ends_by_the_hourly_limit(server: MailServer) -> None:
    channel, _ = make_channel(server, most_per_hour=2)
    for number in range(2):
        await channel.send("email:ann@mail.test", message(f"k{number}", "again"))
    with pytest.raises(Unavailable) as slow:
        await channel.send("email:ann@mail.test", message("k2", "again"))
    assert slow.value.retry_after and slow.value.retry_after > 3000


async def test_a_mail_is_forwarded_to_another_person(server: MailServer, talk: Any) -> None:
    channel, received = talk
    server.send("the figures", subject="The plan", files=[GivenFile("a.csv", b"1;2", "text/csv")])
    (event,) = await received.wait_for(1)
    passed = message("k1", "look", op=Op.FORWARD, target=event.platform_id, source=event.address)
    await channel.send("email:bob@mail.test", passed)
    (shown,) = server.list_shown("direct:bob")
    assert shown.raw["Subject"] == "Fwd: The plan" and "the figures" in shown.text
    assert [(each.name, each.data) for each in shown.files] == [("a.csv", b"1;2")]
