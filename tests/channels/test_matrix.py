"""Matrix: events as our words, our words as events, files, and invitations. Without a server."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("nio")

from gatepost.channels.matrix import InvitePolicy
from gatepost.channels.matrix.adapter import read_room
from gatepost.channels.matrix.invitations import may_invite
from gatepost.channels.matrix.receiving import find_own_arrival
from gatepost.channels.matrix.render import LARGEST_CONTENT, render_edit, render_file, render_text, render_transaction
from gatepost.channels.matrix.session import EncryptedUpload, decrypt
from gatepost.channels.matrix.wire import MatrixFile, RoomFacts, read_event, read_file, strip_fallback
from gatepost.core.errors import Invalid, NotFound
from gatepost.messages import address
from gatepost.messages.inbound import Inbound, OpenFile, Verb
from gatepost.messages.outbound import OutboundFile

BOT, ANN, ROOM = "@bot:example.org", "@ann:example.org", "!room:example.org"


def open_nothing(_: MatrixFile) -> OpenFile:
    async def read() -> AsyncIterator[bytes]:
        yield b""

    return read


def read(content: Any, kind: str = "m.room.message", room: RoomFacts | None = None, **more: Any) -> Inbound | None:
    event = {"type": kind, "sender": ANN, "event_id": "$1", "origin_server_ts": 1_700_000_000_000, "content": content}
    facts = room or RoomFacts(room_id=ROOM, own_id=BOT)
    return read_event({**event, **more}, facts, lambda user: user, open_nothing)


def text(body: str, **more: Any) -> dict[str, Any]:
    return {"msgtype": "m.text", "body": body, **more}


def test_a_message_is_read() -> None:
    got = read(text("hello"))
    assert got is not None
    assert (got.address, got.sender, got.platform_id) == (f"matrix:{ROOM}", f"matrix:user/{ANN}", "$1")
    assert (got.text, got.verb, got.own, got.at) == ("hello", Verb.MESSAGE, False, 1_700_000_000_000_000)
    own = read(text("hello"), sender=BOT)
    assert own is not None and own.own


@pytest.mark.parametrize(
    ("content", "verb"),
    [
        (text("hi", **{"m.mentions": {"user_ids": [BOT]}}), Verb.MENTION),
        (text(f"hi {BOT}"), Verb.MENTION),
        (text(f"hi {BOT}", **{"m.mentions": {}}), Verb.MESSAGE),
        (text("hi", **{"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}}), Verb.REPLY),
    ],
)
def test_what_somebody_did_is_a_verb(content: Any, verb: Verb) -> None:
    got = read(content)
    assert got is not None and got.verb is verb


def test_words_that_no_device_proves_are_untrusted() -> None:
    got = read(text("hi"), room=RoomFacts(room_id=ROOM, own_id=BOT, proved=False))
    assert got is not None and got.verb is Verb.UNTRUSTED


def test_a_thread_is_no_reply_unless_it_says_so() -> None:
    relation = {"rel_type": "m.thread", "event_id": "$root", "is_falling_back": True}
    relation |= {"m.in_reply_to": {"event_id": "$last"}}
    inside = read(text("hi", **{"m.relates_to": relation}))
    answer = read(text("hi", **{"m.relates_to": relation | {"is_falling_back": False}}))
    assert inside is not None and (inside.thread, inside.reply_to) == ("$root", None)
    assert answer is not None and answer.reply_to is not None and answer.reply_to.platform_id == "$last"


def test_the_quotation_of_old_programs_is_taken_off() -> None:
    body = "> <@bob:example.org> first\n> second\n\nmy answer\n> mine"
    assert strip_fallback(body) == ("my answer\n> mine", "@bob:example.org", "first\nsecond")
    assert strip_fallback("> not a name\n\nhello")[0] == "> not a name\n\nhello"


def test_edits_deletions_reactions_and_joins_are_events_of_their_own() -> None:
    replaced = {"rel_type": "m.replace", "event_id": "$0"}
    edit = read(text("* new", **{"m.new_content": text("new"), "m.relates_to": replaced}))
    assert edit is not None and (edit.event, edit.platform_id, edit.text, edit.verb) == (
        "edit:$1",
        "$0",
        "new",
        Verb.EDIT,
    )
    gone = read({"redacts": "$0"}, "m.room.redaction")
    old = read({}, "m.room.redaction", redacts="$0")
    assert gone is not None and (gone.event, gone.platform_id) == ("delete", "$0")
    assert old is not None and old.platform_id == "$0"
    liked = read({"m.relates_to": {"rel_type": "m.annotation", "event_id": "$0", "key": "👍"}}, "m.reaction")
    assert liked is not None and liked.event == f"reaction:👍:matrix:user/{ANN}"
    joined = read({"membership": "join"}, "m.room.member", state_key=ANN)
    renamed = read(
        {"membership": "join"}, "m.room.member", state_key=ANN, unsigned={"prev_content": {"membership": "join"}}
    )
    assert joined is not None and joined.verb is Verb.JOIN and renamed is None


def test_notices_of_other_bots_are_left_alone() -> None:
    assert read({"msgtype": "m.notice", "body": "I am a bot"}) is None


def test_a_file_has_its_caption_and_its_name() -> None:
    got = read(
        {
            "msgtype": "m.image",
            "body": "our cat",
            "filename": "cat.png",
            "url": "mxc://example.org/abc",
            "info": {"size": 7},
        }
    )
    assert got is not None and got.text == "our cat"
    assert [(each.name, each.size) for each in got.attachments] == [("cat.png", 7)]
    bare = read({"msgtype": "m.file", "body": "a.txt", "url": "mxc://example.org/abc"})
    assert bare is not None and (bare.text, bare.attachments[0].name) == ("", "a.txt")


@pytest.mark.parametrize("url", ["mxc://example.org/../secret", "https://evil.test/x", "mxc://evil@host/x", None, 5])
def test_a_file_elsewhere_than_on_a_homeserver_is_not_fetched(url: object) -> None:
    assert read_file({"url": url}) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        "body",
        "msgtype",
        "m.relates_to",
        "m.mentions",
        "m.new_content",
        "url",
        "file",
        "info",
        "key",
        "rel_type",
        "event_id",
        "membership",
    ]
)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    content=st.dictionaries(NAMES, JSON | st.sampled_from(["m.image", "m.text", "m.replace", "$0"]), max_size=6),
    kind=st.sampled_from(["m.room.message", "m.reaction", "m.room.redaction", "m.room.member", "m.sticker"]),
    sender=st.sampled_from([ANN, "ann", "@a b:c", "@x:y\n", None, 3]),
)
def test_no_event_breaks_the_reading_and_every_address_is_one(content: Any, kind: str, sender: Any) -> None:
    got = read(content, kind, sender=sender, state_key=sender)
    if got is not None:
        address.parse(got.address)
        address.parse(got.sender)


def test_a_room_that_is_none_is_refused() -> None:
    assert read_room(f"matrix:{ROOM}") == ROOM
    for wrong in ("matrix:room", "matrix:!a/../b", "telegram:!a", "matrix:!a b"):
        with pytest.raises(NotFound):
            read_room(wrong)


def test_what_we_say_names_nobody_and_fits() -> None:
    content = render_text("hello @room", thread="$root")
    assert content["m.mentions"] == {}
    assert (
        content["m.relates_to"]["m.in_reply_to"] == {"event_id": "$root"} and content["m.relates_to"]["is_falling_back"]
    )
    long = render_edit("$1", "&" * 13_000)
    assert len(str(long)) < LARGEST_CONTENT + 1000 and long["m.new_content"]["body"] == "&" * 13_000


def test_one_key_is_one_transaction_and_parts_have_their_own() -> None:
    assert render_transaction("k") == render_transaction("k") != render_transaction("k", 1)


def test_a_voice_note_says_that_it_is_one() -> None:
    file = OutboundFile(name="v.ogg", mime="audio/ogg", path="", size=3)
    assert "org.matrix.msc3245.voice" in render_file(file, {"url": "mxc://a/b"}, "", voice=True)
    assert "org.matrix.msc3245.voice" not in render_file(file, {"url": "mxc://a/b"}, "", voice=False)


async def test_a_file_is_encrypted_and_decrypted_and_a_changed_one_is_found(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"secret" * 100_000)
    upload = EncryptedUpload(tmp_path / "0")
    hidden = b"".join([chunk async for chunk in upload.chunks()])
    where = read_file({"file": upload.render("mxc://example.org/abc")})
    assert where is not None and b"secret" not in hidden

    async def serve(data: bytes) -> AsyncIterator[bytes]:
        for at in range(0, len(data), 1000):
            yield data[at : at + 1000]

    assert b"".join([chunk async for chunk in decrypt(serve(hidden), where)]) == b"secret" * 100_000
    with pytest.raises(Invalid, match="changed"):
        async for _ in decrypt(serve(hidden[:-1] + bytes([hidden[-1] ^ 1])), where):
            pass


@pytest.mark.parametrize(
    ("inviter", "policy", "listed", "may"),
    [
        (ANN, InvitePolicy.NOBODY, (ANN,), False),
        (ANN, InvitePolicy.LISTED, (), False),
        (ANN, InvitePolicy.LISTED, (ANN,), True),
        (ANN, InvitePolicy.LISTED, ("*:example.org",), True),
        ("@ann:example.org.evil.test", InvitePolicy.LISTED, ("*:example.org", ANN), False),
        ("@x:evil.test", InvitePolicy.LISTED, ("*:example.org",), False),
        ("@x:evil.test", InvitePolicy.ANYBODY, (), True),
    ],
)
def test_only_who_is_listed_may_invite(inviter: str, policy: InvitePolicy, listed: tuple[str, ...], may: bool) -> None:
    assert may_invite(inviter, policy, listed) is may


def test_what_was_said_between_invitation_and_arrival_was_said_to_us() -> None:
    class Seen:
        def __init__(self, **source: Any) -> None:
            self.source = source

    def member(how: str) -> Any:
        return Seen(type="m.room.member", state_key=BOT, content={"membership": how})

    words: Any = Seen(type="m.room.message", content={})
    assert find_own_arrival([words, member("invite"), words, member("join"), words], BOT) == 1
    assert find_own_arrival([words, member("join")], BOT) == 1
    assert find_own_arrival([words], BOT) is None


def test_a_text_of_control_signs_fits_into_an_event() -> None:
    """As JSON each has six bytes, and an event has at most 65,536."""
    content = render_text("\x1b" * 13_000 + "the end")
    assert len(json.dumps(content)) < LARGEST_CONTENT and content["body"].endswith("the end")
