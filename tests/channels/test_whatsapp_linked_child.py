"""The process that runs neonize, as far as it goes without WhatsApp: none of these tests connects to anything."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.whatsapp_linked.device_events import (
    OwnIds,
    judge_error,
    read_joins,
    read_message,
    strip_device,
)
from gatepost.channels.whatsapp_linked.device_lines import LineWriter
from gatepost.channels.whatsapp_linked.device_process import CHILD, running
from gatepost.channels.whatsapp_linked.protocol import (
    Answer,
    AnswerState,
    Arrived,
    Begin,
    DeviceEvent,
    DeviceLine,
    DeviceMedia,
    LinkState,
    LinkStatus,
    MessageKey,
    Revoke,
    SendFile,
    SendText,
)
from gatepost_testing.platform_rules.whatsapp_linked import JUDGE, RULES
from gatepost_testing.waiting import PATIENCE_S

ANN, BOB, ME = "491511111@s.whatsapp.net", "491522222@s.whatsapp.net", "491577777@s.whatsapp.net"
GROUP = "12036300000@g.us"
OWN = OwnIds(frozenset({ME, "777777@lid"}))


async def test_without_the_library_it_says_so(tmp_path: Path) -> None:
    """A module of the same name, in the folder in which it is started, fails as a missing one does."""
    (tmp_path / "neonize.py").write_text("raise ImportError('not here')")
    run = "import sys; sys.path.insert(0, ''); from gatepost.channels.whatsapp_linked.child import main; main()"
    command = (sys.executable, "-c", run)
    async with asyncio.timeout(PATIENCE_S), running(command, Begin(folder=str(tmp_path), connect=False)) as device:
        assert [line async for line in device.list_lines()] == [LinkStatus(state=LinkState.NO_LIBRARY)]


@pytest.mark.slow
async def test_it_starts_says_that_it_needs_to_be_linked_and_ends_with_its_input(tmp_path: Path) -> None:
    pytest.importorskip("neonize")
    begin = Begin(folder=str(tmp_path), connect=False)
    async with asyncio.timeout(PATIENCE_S), running(CHILD, begin) as device:
        lines = device.list_lines()
        assert await anext(lines) == LinkStatus(state=LinkState.PAIRING)
        process = device._process
        assert process.stdin is not None
        process.stdin.close()
        assert await process.wait() == 0


@pytest.mark.slow
async def test_a_session_has_one_process(tmp_path: Path) -> None:
    pytest.importorskip("neonize")
    begin = Begin(folder=str(tmp_path), connect=False)
    async with asyncio.timeout(PATIENCE_S), running(CHILD, begin) as first:
        await anext(first.list_lines())
        async with running(CHILD, begin) as second:
            assert [line async for line in second.list_lines()] == []
            assert await second.read_last_words() == "another process uses this session"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("server returned error 403", AnswerState.REFUSED),
        ("server returned error 404", AnswerState.NOT_FOUND),
        ("info query returned status 429: rate-overlimit", AnswerState.UNAVAILABLE),
        ("failed to get user devices: timeout", AnswerState.UNAVAILABLE),
        ("timed out waiting for message send response", AnswerState.UNCERTAIN),
        ("websocket disconnected before response", AnswerState.UNCERTAIN),
        ("websocket not connected", AnswerState.UNCERTAIN),  # also between the two tries of a message
        ("failed to get group members: you're not participating in that group", AnswerState.REFUSED),
        ("failed to get group members: that group does not exist", AnswerState.NOT_FOUND),
        ("can't send message to unknown server nowhere.test", AnswerState.REFUSED),
        ("message recipient must be a user JID with no device part", AnswerState.REFUSED),
        ("server returned error 463", AnswerState.REFUSED),
        ("server returned error 503", AnswerState.UNCERTAIN),
        ("info query returned status 405: not-allowed", AnswerState.REFUSED),
        ("info query returned status 410: gone", AnswerState.NOT_FOUND),
        ("download failed with status code 410", AnswerState.NOT_FOUND),
        ("a message 3EB0429 was odd", AnswerState.UNCERTAIN),
    ],
)
def test_an_error_of_the_library_that_is_not_known_is_uncertain(text: str, state: AnswerState) -> None:
    found, wait = judge_error(text)
    assert found is state and (wait > 0) == ("rate" in text)


def test_the_words_of_every_rule_are_read_as_it_says() -> None:
    for rule in RULES:
        if rule.adapter == JUDGE:
            state, _, words = rule.refusal.partition(": ")
            assert (rule.name, judge_error(words)[0]) == (rule.name, state)


def test_the_device_of_somebody_is_no_part_of_the_name() -> None:
    assert strip_device("491511111:7@s.whatsapp.net") == ANN
    assert strip_device("491511111.0:7@s.whatsapp.net") == ANN
    assert strip_device("") == ""


# What the library's own messages become. Its module is loaded by these tests alone.


def make_jid(name: str, device: int = 0) -> Any:
    from neonize.proto.Neonize_pb2 import JID

    user, _, server = name.partition("@")
    return JID(User=user, RawAgent=0, Device=device, Integrator=0, Server=server, IsEmpty=not name)


def make_event(content: dict[str, Any], *, chat: str = GROUP, sender: str = ANN, alt: str = "", **more: Any) -> Any:
    from neonize.proto import Neonize_pb2 as neonize
    from neonize.proto.waE2E import WAWebProtobufsE2E_pb2 as e2e

    source = neonize.MessageSource(
        Chat=make_jid(chat),
        Sender=make_jid(sender, 3),
        IsFromMe=more.get("own", False),
        IsGroup=chat == GROUP,
        SenderAlt=make_jid(alt),
        RecipientAlt=make_jid(""),
    )
    info = neonize.MessageInfo(
        MessageSource=source,
        ID="3EB0AA",
        ServerID=0,
        Type="text",
        Pushname="Ann",
        Timestamp=1_790_000_000_123,
        Category="",
        Multicast=False,
        MediaType="",
        Edit="",
    )
    # The library's messages have required fields that do not matter here, so none of this is serialized.
    return neonize.Message(Info=info, Message=e2e.Message(**content))


def read(event: Any) -> Arrived:
    found = read_message(event, OWN)
    assert found is not None
    return found


@pytest.fixture
def e2e() -> Any:
    return pytest.importorskip("neonize.proto.waE2E.WAWebProtobufsE2E_pb2")


@pytest.mark.slow
def test_words_are_read_with_who_said_them_and_when(e2e: Any) -> None:
    found = read(make_event({"conversation": "hello"}))
    assert (found.kind, found.chat, found.sender, found.text) == (DeviceEvent.MESSAGE, GROUP, ANN, "hello")
    assert (found.message, found.at, found.sender_name) == (MessageKey("3EB0AA", ANN), 1_790_000_000, "Ann")


@pytest.mark.slow
def test_a_hidden_person_is_named_by_the_number_where_it_is_known(e2e: Any) -> None:
    found = read(make_event({"conversation": "hello"}, chat="12345678@lid", sender="12345678@lid", alt=ANN))
    assert (found.chat, found.sender, found.message) == (ANN, ANN, MessageKey("3EB0AA"))
    found = read(make_event({"conversation": "hello"}, sender="12345678@lid", alt=ANN))
    assert (found.sender, found.message.author) == (ANN, "12345678@lid")


@pytest.mark.slow
def test_quotes_and_mentions_are_read(e2e: Any) -> None:
    context = e2e.ContextInfo(
        stanzaID="3EB0BB", participant=ME, quotedMessage=e2e.Message(conversation="before"), mentionedJID=["777777@lid"]
    )
    said = e2e.ExtendedTextMessage(text="yes", contextInfo=context)
    found = read(make_event({"extendedTextMessage": said}))
    assert (found.quoted, found.quoted_text, found.mentioned) == (MessageKey("3EB0BB", own=True), "before", True)


@pytest.mark.slow
def test_edits_revokes_and_reactions_name_their_message(e2e: Any) -> None:
    key = type(e2e.ProtocolMessage().key)
    theirs = key(ID="3EB0CC", fromMe=True, remoteJID=GROUP)
    edit = e2e.ProtocolMessage(key=theirs, type=14, editedMessage=e2e.Message(conversation="better"))
    wrapped = {"editedMessage": e2e.FutureProofMessage(message=e2e.Message(protocolMessage=edit))}
    found = read(make_event(wrapped))
    assert (found.kind, found.message, found.text) == (DeviceEvent.EDIT, MessageKey("3EB0CC", ANN), "better")

    found = read(make_event({"protocolMessage": e2e.ProtocolMessage(key=theirs, type=0)}))
    assert (found.kind, found.message) == (DeviceEvent.REVOKE, MessageKey("3EB0CC", ANN))

    for participant, wanted in ((ME, MessageKey("3EB0DD", own=True)), (BOB, MessageKey("3EB0DD", BOB))):
        target = key(ID="3EB0DD", fromMe=False, remoteJID=GROUP, participant=participant)
        found = read(make_event({"reactionMessage": e2e.ReactionMessage(key=target, text="👍")}))
        assert (found.kind, found.message, found.text) == (DeviceEvent.REACTION, wanted, "👍")

    ours = key(ID="3EB0EE", fromMe=False, remoteJID=ME)
    found = read(make_event({"reactionMessage": e2e.ReactionMessage(key=ours, text="👍")}, chat=ANN))
    assert found.message == MessageKey("3EB0EE", own=True)


@pytest.mark.slow
def test_a_file_has_a_token_by_which_it_is_fetched_and_that_holds_no_words(e2e: Any) -> None:
    image = e2e.ImageMessage(
        mimetype="image/jpeg", caption="look", fileLength=9, JPEGThumbnail=b"x" * 90_000, directPath="/d"
    )
    found = read(make_event({"imageMessage": image}))
    (file,) = found.files
    assert (found.text, file.kind, file.mime, file.size) == ("look", DeviceMedia.IMAGE, "image/jpeg", 9)
    assert len(file.media) < 200
    voice = e2e.AudioMessage(mimetype="audio/ogg; codecs=opus", PTT=True, fileLength=5)
    assert read(make_event({"audioMessage": voice})).files[0].kind is DeviceMedia.VOICE


@pytest.mark.slow
def test_wrapping_without_an_end_is_left(e2e: Any) -> None:
    content = e2e.Message(conversation="deep")
    for _ in range(20):
        content = e2e.Message(ephemeralMessage=e2e.FutureProofMessage(message=content))
    assert read_message(make_event({"ephemeralMessage": e2e.FutureProofMessage(message=content)}), OWN) is None


@pytest.mark.slow
def test_each_person_who_joins_is_an_event(e2e: Any) -> None:
    from neonize.proto.Neonize_pb2 import GroupInfoEvent

    event = GroupInfoEvent(JID=make_jid(GROUP), Timestamp=1_790_000_000, Join=[make_jid(ANN), make_jid(BOB)])
    found = read_joins(event)
    assert [(each.kind, each.chat, each.sender) for each in found] == [
        (DeviceEvent.JOIN, GROUP, ANN),
        (DeviceEvent.JOIN, GROUP, BOB),
    ]
    assert found[0].message.id == "join-1790000000-491511111"


class FakeClient:
    """In the place of the library's client: it keeps what it is given to send, and speaks to nobody."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.sent: list[Any] = []
        self.event = self
        self.connected = True

    def __call__(self, event: Any) -> Any:
        return lambda handler: None

    def qr(self, handler: Any) -> None:
        pass

    def is_connected(self) -> bool:
        return self.connected

    def get_me(self) -> Any:
        from neonize.proto.Neonize_pb2 import Device

        return Device(JID=make_jid(ME, 5))

    def upload(self, data: bytes, kind: Any) -> Any:
        from neonize.proto.Neonize_pb2 import UploadResponse

        return UploadResponse(url="https://u", DirectPath="/d", FileLength=len(data))

    def send_message(self, chat: Any, message: Any) -> Any:
        from neonize.proto.Neonize_pb2 import SendResponse

        self.sent.append(message)
        return SendResponse(ID="3EB0FF")


class KeptLines(LineWriter):
    def __init__(self) -> None:
        self.lines: list[DeviceLine] = []

    def write(self, line: DeviceLine) -> None:
        self.lines.append(line)


def make_device(begin: Begin, writer: LineWriter) -> Any:
    from gatepost.channels.whatsapp_linked.linked_device import LinkedDevice

    return LinkedDevice(begin, writer, FakeClient)


@pytest.mark.slow
def test_requests_become_the_messages_of_the_library(e2e: Any, tmp_path: Path) -> None:
    written = KeptLines()
    device = make_device(Begin(folder=str(tmp_path), largest_file=5), written)
    sound = tmp_path / "voice.ogg"
    sound.write_bytes(b"sound")
    device.answer(SendText(request=1, chat=GROUP, text="yes", quoted=MessageKey("3EB0AA", ANN)))
    device.answer(SendText(request=2, chat=GROUP, text="better", edits="3EB0FF"))
    device.answer(Revoke(request=3, chat=GROUP, message=MessageKey("3EB0FF", own=True)))
    device.answer(SendFile(request=4, chat=GROUP, path=str(sound), kind=DeviceMedia.VOICE))
    assert written.lines == [Answer(request=number, message="3EB0FF") for number in (1, 2, 3, 4)]

    reply, edit, revoke, voice = device.client.sent
    context = reply.extendedTextMessage.contextInfo
    assert (context.stanzaID, context.participant) == ("3EB0AA", ANN)
    change = edit.editedMessage.message.protocolMessage
    assert (change.key.ID, change.editedMessage.conversation) == ("3EB0FF", "better")
    assert (revoke.protocolMessage.key.ID, revoke.protocolMessage.key.fromMe) == ("3EB0FF", True)
    assert (voice.audioMessage.PTT, voice.audioMessage.fileLength) == (True, 5)


@pytest.mark.slow
def test_what_is_too_large_or_comes_too_early_is_not_sent(e2e: Any, tmp_path: Path) -> None:
    written = KeptLines()
    device = make_device(Begin(folder=str(tmp_path), largest_file=4), written)
    (tmp_path / "a").write_bytes(b"sound")
    device.answer(SendFile(request=1, chat=GROUP, path=str(tmp_path / "a"), kind=DeviceMedia.DOCUMENT))
    device.client.connected = False
    device.answer(SendText(request=2, chat=GROUP, text="hello"))
    states = [line.state for line in written.lines if isinstance(line, Answer)]
    assert states == [AnswerState.REFUSED, AnswerState.UNAVAILABLE] and device.client.sent == []
