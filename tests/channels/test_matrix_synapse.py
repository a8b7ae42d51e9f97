"""The Matrix channel against a real Synapse, in encrypted rooms, with people who are other programs than ours."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from nio import AsyncClient, AsyncClientConfig
from nio.store import SqliteMemoryStore

from gatepost.channels.contract import CHANNELS, MYSELF, Channel, ChannelEnded, EndReason, MemoryCursor
from gatepost.core.errors import Refused, Unavailable
from gatepost.messages.inbound import Attachment, Verb
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.servers import synapse
from gatepost_testing.servers.matrix_server import MatrixServer
from gatepost_testing.servers.matrix_view import UNREADABLE
from gatepost_testing.waiting import PATIENCE_S, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not synapse.is_installed(), reason="Synapse is not installed: scripts/system_packages.py --all"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[MatrixServer]:
    with MatrixServer() as platform:
        yield platform


@pytest.fixture
async def talk(server: MatrixServer) -> AsyncIterator[tuple[Any, ReceivedEvents]]:
    """A bot that listens from now on."""
    server.heal()
    channel, _ = make_channel(server)
    async with listening(channel) as received:
        yield channel, received
        server.heal()


def message(key: str, text: str = "", **more: Any) -> Outbound:
    return Outbound(key=key, text=text, **more)


async def read(attachment: Attachment) -> bytes:
    assert attachment.open is not None
    return b"".join([chunk async for chunk in attachment.open()])


async def post(server: MatrixServer, channel: Channel, said: Outbound, room: str = "team") -> str:
    """Send, and wait until people see it."""
    sent = await channel.send(server.get_address(room), said)
    await server.until(lambda: any(each.id == sent for each in server.record))
    return sent


async def test_words_go_both_ways_and_the_server_sees_none(server: MatrixServer, talk: Any) -> None:
    channel, received = talk
    asked = server.send("hello", mention=True)
    (event,) = await received.wait_for(1)
    assert (event.platform_id, event.verb, event.direct) == (asked, Verb.MENTION, False)
    assert (event.address, event.sender) == (server.get_address("team"), server.get_sender("ann"))

    server.requests.clear()
    sent = await post(server, channel, message("both/1", "hello **back**"))
    assert server.find(sent).text == "hello back" and server.find(sent).text != UNREADABLE
    kinds = {path.split("/")[7] for method, path in server.requests if method == "PUT" and "/send/" in path}
    assert kinds == {"m.room.encrypted"}


async def test_one_key_sent_twice_is_one_message_even_without_an_answer(server: MatrixServer, talk: Any) -> None:
    channel, _ = talk
    first = await post(server, channel, message("twice/1", "only once"))
    assert await channel.send(server.get_address("team"), message("twice/1", "only once")) == first

    server.fault(PlatformFault.NO_ANSWER)
    with pytest.raises(Unavailable) as caught:
        await channel.send(server.get_address("team"), message("twice/2", "lost answer"))
    assert caught.value.uncertain
    await post(server, channel, message("twice/2", "lost answer"))
    await post(server, channel, message("twice/3", "the end"))
    assert server.texts("team").count("only once") == server.texts("team").count("lost answer") == 1


async def test_edits_deletions_and_reactions_go_both_ways(server: MatrixServer, talk: Any) -> None:
    channel, received = talk
    room = server.get_address("team")
    said = server.send("first words")
    server.edit("team", said, "better words")
    server.react("team", said, "👍", sender="bob")
    await received.wait_for(3)
    server.delete("team", said)
    events = await received.wait_for(4)
    assert [(each.verb, each.platform_id) for each in events] == [
        (verb, said) for verb in (Verb.MESSAGE, Verb.EDIT, Verb.LIKE, Verb.DELETE)
    ]
    assert events[1].text == "better words" and events[1].event.startswith("edit:$")
    assert events[2].event == f"reaction:👍:{server.get_sender('bob')}"

    sent = await post(server, channel, message("verbs/1", "draft"))
    assert await channel.send(room, message("verbs/2", "final", op=Op.EDIT, target=sent)) == sent
    await channel.send(room, message("verbs/3", op=Op.REACT, target=sent, reaction="🎉"))
    await channel.send(room, message("verbs/4", op=Op.REACT, target=sent, reaction="🎉"))
    await server.until(lambda: server.find(sent).reactions == [("🎉", "bot")] and server.find(sent).text == "final")
    await channel.send(room, message("verbs/5", op=Op.DELETE, target=sent))
    await server.until(lambda: server.find(sent).deleted)


async def test_an_edit_by_somebody_else_changes_nothing(server: MatrixServer, talk: Any) -> None:
    _, received = talk
    said = server.send("pay 10", sender="ann")
    server.edit("team", said, "pay 1000", sender="bob")
    server.send("the end", sender="bob")
    assert [each.text for each in await received.wait_for(2)] == ["pay 10", "the end"]


async def test_threads_and_replies_go_both_ways(server: MatrixServer, talk: Any) -> None:
    channel, received = talk
    root = server.send("a topic")
    server.send("inside", thread=root)
    server.send("an answer", reply_to=root)
    events = await received.wait_for(3)
    assert [each.thread for each in events] == ["", root, ""]
    assert events[2].verb is Verb.REPLY and events[2].reply_to and events[2].reply_to.platform_id == root

    sent = await post(server, channel, message("thread/1", "there", thread=root))
    assert (server.find(sent).thread, server.find(sent).reply_to) == (root, "")
    sent = await post(server, channel, message("thread/2", "to you", reply_to=root))
    assert (server.find(sent).thread, server.find(sent).reply_to) == ("", root)


async def test_files_go_both_ways_encrypted(server: MatrixServer, talk: Any, tmp_path: Path) -> None:
    channel, received = talk
    data = bytes(range(256)) * 3000
    server.send("see this", files=[GivenFile("plan.png", data, "image/png")])
    (event,) = await received.wait_for(1)
    (given,) = event.attachments
    assert (event.text, given.name, given.mime, given.kind) == ("see this", "plan.png", "image/png", "image")
    assert await read(given) == data

    (tmp_path / "0").write_bytes(data)
    file = OutboundFile(name="answer.bin", mime="application/octet-stream", path=str(tmp_path / "0"), size=len(data))
    sent = await post(server, channel, message("file/1", "here", op=Op.FILE, files=(file,)))
    assert (server.find(sent).text, server.find(sent).files[0].name) == ("here", "answer.bin")
    assert server.find(sent).files[0].data == data
    voice = OutboundFile(name="voice.ogg", mime="audio/ogg", path=str(tmp_path / "0"), size=len(data))
    sent = await post(server, channel, message("file/2", op=Op.VOICE, files=(voice,)))
    assert server.find(sent).voice


async def test_a_private_chat_is_known_as_one_and_can_be_opened(server: MatrixServer, talk: Any) -> None:
    channel, received = talk
    server.send("in private", room="direct:ann")
    (event,) = await received.wait_for(1)
    assert event.direct and event.address == server.get_address("direct:ann")
    assert await channel.open_direct(server.get_sender("ann")) == event.address
    sent = await post(server, channel, message("private/1", "between us"), "direct:ann")
    assert server.find(sent).text == "between us"


async def test_pins_typing_and_history(server: MatrixServer, talk: Any) -> None:
    channel, received = talk
    room = server.get_address("team")
    said = server.send("remember this")
    await received.wait_for(1)
    sent = await post(server, channel, message("pin/1", "and this"))
    await channel.send(room, message("pin/2", op=Op.PIN, target=said))
    await server.until(lambda: server.find(said).pinned)
    await channel.send(room, message("pin/3", op=Op.UNPIN_ALL))
    await server.until(lambda: not server.find(said).pinned)

    await channel.typing(room, "", True)
    await server.until(lambda: "team" in server.get_typing())

    await channel.mark_read(room, "", (said,))
    assert server.receipts[-1] == (said, "main")

    past = await channel.history(room, None, 2)
    assert [(each.platform_id, each.text) for each in past] == [(said, "remember this"), (sent, "and this")]
    assert past[1].sender == MYSELF
    assert past[1].at is not None
    assert [each.text for each in await channel.history(room, past[1].at, 1)] == ["remember this"]


async def test_what_was_said_while_the_bot_was_away_comes_once_and_in_order(
    server: MatrixServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the server gives with one sync: the rest is fetched."""
    from gatepost.channels.matrix import receiving

    monkeypatch.setitem(receiving.FILTER["room"]["timeline"], "limit", 4)  # type: ignore[index]
    cursor = MemoryCursor()
    channel, _ = make_channel(server, cursor=cursor)
    async with listening(channel) as received:
        server.send("before")
        await received.wait_for(1)
        await until(lambda: cursor.saved.get(""), "the cursor")
    for number in range(11):
        server.send(f"away {number}")

    channel, _ = make_channel(server, cursor=cursor)
    async with listening(channel) as received:
        server.send("back")
        await received.wait_for(lambda events: any(each.text == "back" for each in events))
    assert [each for each in received.texts if each != "before"] == [*(f"away {at}" for at in range(11)), "back"]


async def test_a_message_whose_key_comes_late_is_counted_and_then_received(server: MatrixServer, talk: Any) -> None:
    channel, received = talk

    async def share_late() -> None:
        ann, room = server._people["ann"], server._rooms["team"]
        assert ann.olm is not None and server._bot is not None
        ann.olm.create_outbound_group_session(room)
        session = ann.olm.outbound_group_sessions[room]
        content = {
            "algorithm": "m.megolm.v1.aes-sha2",
            "room_id": room,
            "session_id": session.id,
            "session_key": session.session_key,
        }
        session.shared = True  # nobody was given it
        await ann.room_send(room, "m.room.message", {"msgtype": "m.text", "body": "late"}, None, True)
        await until(lambda: channel._receiver.undecryptable, "the message that cannot be decrypted")
        (device,) = ann.device_store.active_user_devices(server._bot.user_id)
        pair = ann.olm.session_store.get(device.curve25519)
        hidden = ann.olm._olm_encrypt(pair, device, "m.room_key", content)
        from nio import ToDeviceMessage

        await ann.to_device(ToDeviceMessage("m.room.encrypted", device.user_id, device.id, hidden))
        ann.invalidate_outbound_session(room)

    server.send("first")  # makes the pair of keys between the two devices
    await received.wait_for(1)
    task = asyncio.run_coroutine_threadsafe(share_late(), server._loop)
    await received.wait_for(2)
    await asyncio.wrap_future(task)
    assert (await channel.check()).notes[1:] == ("messages that came without their key: 1",)
    assert received.texts == ["first", "late"]


async def test_what_the_server_refuses_is_named(server: MatrixServer, talk: Any) -> None:
    channel, _ = talk
    room = server.get_address("team")
    await post(server, channel, message("faults/0", "ready"))
    server.fault(PlatformFault.RATE_LIMIT)
    with pytest.raises(Unavailable) as limited:
        await channel.send(room, message("faults/1", "too fast"))
    assert limited.value.retry_after == pytest.approx(server.retry_after) and not limited.value.uncertain
    server.fault(PlatformFault.FORBIDDEN)
    with pytest.raises(Refused):
        await channel.send(room, message("faults/2", "forbidden"))
    server.fault(PlatformFault.BUSY)
    with pytest.raises(Unavailable):
        await channel.send(room, message("faults/3", "busy"))


async def test_a_connection_that_breaks_and_an_event_that_comes_twice(server: MatrixServer, talk: Any) -> None:
    _, received = talk
    server.send("one")
    await received.wait_for(1)
    server.fault(PlatformFault.DROPPED)
    server.fault(PlatformFault.DUPLICATE)
    server.send("two")
    await received.wait_for(2)
    server.send("three")
    await received.wait_for(3)
    assert received.texts == ["one", "two", "three"]


async def test_a_revoked_token_ends_the_channel(server: MatrixServer) -> None:
    channel, _ = make_channel(server)
    server.fault(PlatformFault.UNAUTHORIZED)
    try:
        with pytest.raises(ChannelEnded) as ended:
            async with asyncio.timeout(PATIENCE_S):
                await channel.listen(ReceivedEvents().receive)
    finally:
        server.heal()
        await channel.close()  # type: ignore[attr-defined]
    assert ended.value.reason is EndReason.TOKEN


async def test_a_password_logs_in_once_and_keeps_its_device(server: MatrixServer, tmp_path: Path) -> None:
    from msgspec.structs import replace

    from gatepost.channels.matrix.adapter import Matrix

    assert server._bot is not None
    _, deps = make_channel(server, secrets={"password": "password"}, user=server._bot.user_id)
    deps = replace(deps, folder=tmp_path / "kept")
    notes = []
    for _ in range(2):
        bot = Matrix(deps)
        notes.append((await bot.check()).notes)
        await bot.close()
    assert notes[0] == notes[1] and "as the device" in notes[0][0]
    assert ((tmp_path / "kept" / "login.json").stat().st_mode & 0o777) == 0o600

    _, wrong = make_channel(server, secrets={"password": "wrong"}, user=server._bot.user_id)
    with pytest.raises(ChannelEnded, match="refuses the password"):
        await Matrix(replace(wrong, folder=tmp_path / "other")).check()


async def test_a_token_whose_devices_keys_are_lost_is_refused(server: MatrixServer, tmp_path: Path) -> None:
    """As after a restore: the same device with other keys would be taken for an impostor."""
    from msgspec.structs import replace

    from gatepost.channels.matrix.adapter import Matrix

    channel, deps = make_channel(server)
    async with listening(channel):
        await until(lambda: channel._receiver.synced.is_set())  # type: ignore[attr-defined]
    restored = Matrix(replace(deps, folder=tmp_path / "restored"))
    assert await restored.check()  # which asks from a folder of its own
    with pytest.raises(ChannelEnded, match="are not in this home, as after a restore; log in") as ended:
        async with asyncio.timeout(PATIENCE_S):
            await restored.listen(ReceivedEvents().receive)
    await restored.close()
    assert ended.value.reason is EndReason.TOKEN


async def test_with_a_password_lost_keys_make_it_a_new_device(server: MatrixServer, tmp_path: Path) -> None:
    from msgspec.structs import replace

    from gatepost.channels.matrix.adapter import Matrix

    assert server._bot is not None
    _, deps = make_channel(server, secrets={"password": "password"}, user=server._bot.user_id)
    deps = replace(deps, folder=tmp_path / "kept")
    devices = []
    for _ in range(2):
        bot = Matrix(deps)
        async with listening(bot):
            await until(bot._receiver.synced.is_set)
            devices.append(bot._session.client.device_id)
        (tmp_path / "kept" / "keys.db").unlink()
    assert devices[0] != devices[1]


async def test_an_invitation_by_somebody_who_is_not_listed_is_left_alone(server: MatrixServer) -> None:
    channel, _ = make_channel(server, inviters=())
    async with listening(channel) as received:
        made = asyncio.run_coroutine_threadsafe(
            server._people["ann"].room_create(name="trap", invite=[server._bot.user_id]),  # type: ignore[union-attr]
            server._loop,
        )
        room_id = (await asyncio.wrap_future(made)).room_id
        server.send("the end")
        await received.wait_for(1)
        joined = asyncio.run_coroutine_threadsafe(server._people["ann"].joined_members(room_id), server._loop)
        assert len((await asyncio.wrap_future(joined)).members) == 1


async def test_where_the_first_devices_are_trusted_a_later_one_is_not(server: MatrixServer) -> None:
    channel, _ = make_channel(server, devices="first")

    async def write_from_another_device() -> None:
        ann, room = server._people["ann"], server._rooms["team"]
        config = AsyncClientConfig(store=SqliteMemoryStore, encryption_enabled=True)
        other = AsyncClient(ann.homeserver, ann.user_id, config=config)
        try:
            await other.login("password")
            await other.sync(full_state=True)
            await other.keys_upload()
            await other.joined_members(room)
            await other.keys_query()
            content = {"msgtype": "m.text", "body": "from elsewhere"}
            await other.room_send(room, "m.room.message", content, None, True)
        finally:
            await other.close()

    async with listening(channel) as received:
        server.send("from the first device")
        await received.wait_for(1)
        work = asyncio.run_coroutine_threadsafe(write_from_another_device(), server._loop)
        await received.wait_for(2)
        await asyncio.wrap_future(work)
    assert [each.verb for each in received.events] == [Verb.MESSAGE, Verb.UNTRUSTED]


@pytest.mark.parametrize("sign", ["д", "😀", '"', "\x1b"])
async def test_the_longest_text_of_any_signs_is_taken_in_an_encrypted_room(
    server: MatrixServer, talk: tuple[Any, ReceivedEvents], sign: str
) -> None:
    channel, _ = talk
    text = sign * (CHANNELS["matrix"].max_text // len(sign.encode()))
    sent = await post(server, channel, message(f"long {ord(sign)}", text))
    assert server.find(sent).text.count("?" if sign == "\x1b" else sign) == len(text)
    edit = message(f"edit {ord(sign)}", text, op=Op.EDIT, target=sent)
    await channel.send(server.get_address("team"), edit)
