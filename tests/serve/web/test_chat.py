"""Saying, hearing, files: the page's side of the web channel, over HTTP."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.serve.web.test_people import ANN, HERS, signed_in_as, write

from gatepost.messages.inbound import Direction, MessageKind
from gatepost.messages.outbound import Op, Outbound, OutboundFile
from gatepost.serve.web.chat import make_query
from gatepost.store.messages import messages as ledger
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost_testing.waiting import PATIENCE_S

HOME = "web:home"
PIXEL = bytes.fromhex("89504e470d0a1a0a")


async def say(browser: httpx2.AsyncClient, text: str, key: str = "key-00001", **fields: Any) -> httpx2.Response:
    files = fields.pop("files", None) or [("none", ("", b""))]
    return await browser.post("/api/messages", data={"text": text, "id": key, "room": HOME, **fields}, files=files)


@asynccontextmanager
async def events(browser: httpx2.AsyncClient, **how: Any) -> AsyncIterator[AsyncIterator[tuple[str, Any, str]]]:
    async def read(answer: httpx2.Response) -> AsyncIterator[tuple[str, Any, str]]:
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                yield fields["event"], json.loads(fields["data"]), fields.get("id", "")
                fields = {}

    async with browser.stream("GET", "/api/events", **how) as answer:
        assert answer.status_code == 200
        yield read(answer)


async def until(stream: AsyncIterator[tuple[str, Any, str]], wanted: Any) -> list[tuple[str, Any, str]]:
    """Everything up to the first event that `wanted` holds for, and the cursor after it."""
    got: list[tuple[str, Any, str]] = []
    found = False
    async with asyncio.timeout(PATIENCE_S):
        async for event in stream:
            got.append(event)
            found = found or wanted(*event[:2])
            if found and event[0] in ("cursor", "replaced"):
                return got
    raise AssertionError(f"the stream ended: {got}")


def reply_of(text: str) -> Any:
    return lambda kind, data: kind == "message" and not data["mine"] and data["text"] == text


async def test_a_message_is_accepted_answered_and_seen(site: Any) -> None:
    async with site.signed_in() as browser:
        answer = await say(browser, "**hello**")
        page = (await browser.get("/api/messages", params={"room": HOME})).json()

    assert answer.json()["ok"] and answer.json()["new"]
    assert [(one["mine"], one["text"], one["state"]) for one in page["messages"]] == [
        (True, "**hello**", "answered"),
        (False, "You said: **hello**", "sent"),
    ]
    assert page["messages"][1]["html"] == "<p>You said: <strong>hello</strong></p>"
    assert page["more"] is False


async def test_a_retry_under_the_same_id_is_accepted_once(site: Any) -> None:
    async with site.signed_in() as browser:
        first, again = (await say(browser, "hello")).json(), (await say(browser, "hello")).json()

    assert (first["new"], again["new"]) == (True, False)
    assert first["id"] == again["id"]
    assert len(site.answerer.accepted) == 1


async def test_a_reply_comes_over_the_stream_and_a_resumed_one_misses_nothing(site: Any) -> None:
    async with site.signed_in() as browser:
        start = (await browser.get("/api/start")).json()
        async with events(browser, params={"after": start["cursor"]}) as stream:
            await say(browser, "one", "key-00001")
            cursor = (await until(stream, reply_of("You said: one")))[-1][2]
        await say(browser, "two", "key-00002")
        await say(browser, "three", "key-00003")
        async with events(browser, headers={"last-event-id": cursor}) as stream:
            got = await until(stream, reply_of("You said: three"))

    texts = [
        data["text"] for kind, data, _ in got if kind == "message" and not data["mine"] and "one" not in data["text"]
    ]
    assert texts == ["You said: two", "You said: three"]


@pytest.mark.slow
async def test_a_reply_that_waits_for_its_delivery_is_not_passed_over_by_what_comes_later(site: Any) -> None:
    async with site.signed_in() as browser:
        await site.answerer.say(HOME, "", "late", key="late", delivered=False)
        async with events(browser, params={"after": "0"}) as stream:
            await say(browser, "hello")
            got = await until(stream, reply_of("You said: hello"))
            assert "late" not in [data.get("text") for _, data, _ in got]
            cursor = got[-1][2]
        await site.answerer.deliver(HOME, "late")
        async with events(browser, headers={"last-event-id": cursor}) as stream:
            await until(stream, reply_of("late"))


async def test_what_was_superseded_is_never_shown(site: Any) -> None:
    async with site.signed_in() as browser:
        await site.answerer.say(HOME, "", "never", key="never", delivered=False)
        effect = await site.store.read(outbox.find_by_key, "never")
        await site.store.write(lambda db: outbox.record_outcome(db, effect.id, EffectState.SUPERSEDED, "continued", 1))
        await say(browser, "hello")
        async with events(browser, params={"after": "0"}) as stream:
            got = await until(stream, reply_of("You said: hello"))
        page = (await browser.get("/api/messages")).json()

    assert "never" not in [data.get("text") for _, data, _ in got]
    assert "never" not in [one["text"] for one in page["messages"]]


@pytest.mark.slow
async def test_states_follow_a_message_from_queued_to_its_end(site: Any) -> None:
    site.answerer.by_itself = False
    async with site.signed_in() as browser:
        async with events(browser, params={"after": "0"}) as stream:

            async def state(wanted: str) -> None:
                await until(stream, lambda kind, data: kind == "message" and data["mine"] and data["state"] == wanted)

            sent = (await say(browser, "hello")).json()["id"]
            await state("queued")
            await site.answerer.begin(sent)
            await state("working")
            refused = await say(browser, "refuse me", "key-00002")
            assert refused.json()["reason"] == "Nobody is wired to this room."


@pytest.mark.slow
async def test_typing_edits_and_reactions_are_told(site: Any) -> None:
    async with site.signed_in() as browser:
        async with events(browser, params={"after": "0"}) as stream:
            await site.answerer.hub.typing(HOME, "t1", True)
            await until(stream, lambda kind, data: kind == "typing" and data["on"] and data["thread"] == "t1")
            await site.answerer.hub.typing(HOME, "t1", False)
            await until(stream, lambda kind, data: kind == "typing" and not data["on"])
            said = await site.answerer.say(HOME, "", "first", key="k1")
            await site.answerer.say(HOME, "", "second", key="k2", op=Op.EDIT, target_id=said)
            await site.answerer.say(HOME, "", "", key="k3", op=Op.REACT, target_id=said, reaction="👍")
            got = await until(stream, lambda kind, data: kind == "message" and data["verb"] == "react")

    changes = {data["verb"]: data for kind, data, _ in got if kind == "message"}
    assert (changes["edit"]["target"], changes["edit"]["text"]) == (said, "second")
    assert (changes["react"]["target"], changes["react"]["reaction"]) == (said, "👍")


@pytest.mark.slow
async def test_a_browsers_second_stream_ends_its_first_and_no_other_browsers(site: Any) -> None:
    async with site.signed_in() as browser, site.signed_in() as other:
        async with events(browser) as first, events(other) as theirs:
            await until(first, lambda kind, data: True)
            await until(theirs, lambda kind, data: True)
            async with events(browser) as second:
                await until(first, lambda kind, data: kind == "replaced")
                await say(browser, "hello")
                await until(second, reply_of("You said: hello"))
                await until(theirs, reply_of("You said: hello"))


async def test_signing_out_ends_the_stream(site: Any) -> None:
    async with site.signed_in() as browser:
        async with events(browser) as stream:
            await until(stream, lambda kind, data: True)
            await browser.post("/logout")
            await until(stream, lambda kind, data: kind == "replaced")


@pytest.mark.slow
async def test_threads_have_their_own_history_and_are_listed(site: Any) -> None:
    async with site.signed_in() as browser:
        await say(browser, "main", "key-00001")
        await say(browser, "aside", "key-00002", thread="t-1")
        main = (await browser.get("/api/messages", params={"room": HOME})).json()
        aside = (await browser.get("/api/messages", params={"room": HOME, "thread": "t-1"})).json()
        start = (await browser.get("/api/start")).json()

    assert [one["text"] for one in main["messages"]] == ["main", "You said: main"]
    assert [one["text"] for one in aside["messages"]] == ["aside", "You said: aside"]
    assert start["rooms"][0]["threads"] == [{"id": "t-1", "title": "aside", "last": 4, "mark": ""}]


async def test_a_conversation_is_not_named_after_a_command_or_what_the_agent_said(site: Any) -> None:
    async with site.signed_in() as browser:
        await say(browser, "/help", "key-00001", thread="t-1")
        await say(browser, "", "key-00002", thread="t-2", files=[("file", ("plan.pdf", b"x", "application/pdf"))])
        await say(browser, "/ping", "key-00003", thread="t-3")
        await say(browser, "the roof", "key-00004", thread="t-3")
        [room] = (await browser.get("/api/start")).json()["rooms"]

    assert {one["id"]: one["title"] for one in room["threads"]} == {"t-1": "", "t-2": "plan.pdf", "t-3": "the roof"}


async def test_an_agent_is_called_by_its_name_and_the_gateway_by_its_own(site: Any) -> None:
    async with site.signed_in() as browser:
        await say(browser, "hello")
        notice = NewEffect(key="n", op=Op.SEND, origin=EffectOrigin.NOTICE, instance="web", address=HOME, payload={})
        await site.store.write(outbox.add, notice, 1)
        await site.answerer.deliver(HOME, "n")
        page = (await browser.get("/api/messages")).json()

    assert [(one["name"], one["notice"]) for one in page["messages"]][1:] == [("Home", False), ("Gatepost", True)]


async def test_a_page_knows_how_long_a_text_may_be(site: Any) -> None:
    async with site.signed_in() as browser:
        assert (await browser.get("/api/start")).json()["maxText"] == 65536


@pytest.mark.slow
async def test_a_long_history_comes_in_pages(site: Any) -> None:
    for number in range(130):
        await site.answerer.say(HOME, "", f"m{number}", key=f"k{number}")
    got: list[str] = []
    before = None
    async with site.signed_in() as browser:
        while True:
            params = {"room": HOME} | ({"before": before} if before else {})
            page = (await browser.get("/api/messages", params=params)).json()
            got = [one["text"] for one in page["messages"]] + got
            if not page["more"]:
                break
            before = str(page["messages"][0]["id"])

    assert got == [f"m{number}" for number in range(130)]


@pytest.mark.slow
async def test_a_stream_from_the_beginning_tells_everything_however_long(site: Any) -> None:
    for number in range(450):
        await site.answerer.say(HOME, "", f"m{number}", key=f"k{number}")
    async with site.signed_in() as browser:
        async with events(browser, params={"after": "0"}) as stream:
            got = await until(stream, reply_of("m449"))

    assert [data["text"] for kind, data, _ in got if kind == "message"] == [f"m{number}" for number in range(450)]


async def test_stranger_e_a_route_that_an_agent_made_puts_no_room_on_the_owners_page(site: Any) -> None:
    def add(db: Any) -> None:
        for match in ("platform=web room=pay-here", "chat_jid=web:bank"):
            routes.add(db, routes.Route(seq=1, match=match, target="drop", created_by="agent:acme", created_at=1))

    await site.store.write(add)
    async with site.signed_in() as browser:
        listed = (await browser.get("/api/start")).json()["rooms"]

    assert [one["room"] for one in listed] == ["web:home"]


async def test_rooms_are_those_with_messages_and_those_that_a_route_names(site: Any) -> None:
    def add(db: Any) -> None:
        for match in ("platform=web room=ops", "chat_jid=web:acme/eng", "platform=telegram room=x", "room=*"):
            routes.add(db, routes.Route(seq=1, match=match, target="drop", created_by="operator", created_at=1))

    await site.store.write(add)
    async with site.signed_in() as browser:
        await say(browser, "hi", room="web:garden")
        listed = (await browser.get("/api/start")).json()["rooms"]

    assert [one["room"] for one in listed] == ["web:home", "web:garden", "web:ops", "web:acme/eng"]
    assert listed[1]["name"] == "garden"


@pytest.mark.parametrize(
    "fields",
    [
        {"text": " "},
        {"key": "short"},
        {"key": "with space in"},
        {"room": "telegram:group/1"},
        {"room": "nonsense"},
        {"room": "web:a b"},
    ],
)
async def test_what_cannot_be_a_message_is_refused_in_words(site: Any, fields: dict[str, str]) -> None:
    async with site.signed_in() as browser:
        answer = await say(browser, **{"text": "hello", **fields})
    assert answer.status_code == 400
    assert answer.json()["error"]["text"]
    assert site.answerer.accepted == []


async def test_files_go_up_with_a_message_and_come_down_as_they_were(site: Any) -> None:
    uploads = [
        ("file", ("note.txt", b"some text", "text/plain")),
        ("file", ("pixel.png", PIXEL, "image/png")),
        ("file", ("page.html", b"<script>alert(1)</script>", "text/html")),
        ("file", ("drawing.svg", b"<svg onload=alert(1)>", "image/svg+xml")),
    ]
    async with site.signed_in() as browser:
        await say(browser, "", files=uploads)
        message = (await browser.get("/api/messages")).json()["messages"][0]
        answers = [await browser.get(file["url"]) for file in message["files"]]

    assert [answer.content for answer in answers] == [upload[1][1] for upload in uploads]
    assert [file["picture"] for file in message["files"]] == [False, True, False, False]
    kinds = [answer.headers["content-type"] for answer in answers]
    assert kinds == ["application/octet-stream", "image/png", *["application/octet-stream"] * 2]
    assert [answer.headers["content-disposition"].partition(";")[0] for answer in answers] == [
        "attachment",
        "inline",
        "attachment",
        "attachment",
    ]
    assert all("sandbox" in answer.headers["content-security-policy"] for answer in answers)


@pytest.mark.slow
async def test_a_file_name_cannot_break_out_of_its_header(site: Any) -> None:
    name = 'a"; filename=evil.exe; x="<img src=x onerror=alert(1)>é.txt'
    async with site.signed_in() as browser:
        await say(browser, "see", files=[("file", (name, b"x", "text/plain"))])
        message = (await browser.get("/api/messages")).json()["messages"][0]
        answer = await browser.get(message["files"][0]["url"])

    assert "<img" in message["files"][0]["name"]  # as it was; the page sets it as text
    header = answer.headers["content-disposition"]
    assert header.startswith("attachment; filename*=")
    assert "filename=evil" not in header and "<" not in header and '"' not in header


@pytest.mark.slow
async def test_what_an_agent_sends_is_kept_when_its_delivery_is_done(site: Any, tmp_path: Any) -> None:
    source = tmp_path / "report.csv"
    source.write_bytes(b"a,b\n")
    site.answerer.files = ({"name": "report.csv", "mime": "text/csv", "path": str(source), "size": 4},)
    file = OutboundFile(name="report.csv", mime="text/csv", path=str(source), size=4)
    await site.answerer.hub.send(HOME, Outbound(key="k1", files=(file,)))
    await site.answerer.hub.send(HOME, Outbound(key="k1", files=(file,)))
    source.unlink()
    await site.answerer.say(HOME, "", "the report", key="k1")

    async with site.signed_in() as browser:
        message = (await browser.get("/api/messages")).json()["messages"][0]
        answer = await browser.get(message["files"][0]["url"])

    assert answer.content == b"a,b\n"
    assert 'filename="report.csv"' in answer.headers["content-disposition"]


async def test_files_of_other_places_are_not_served(site: Any, tmp_path: Any) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")

    def add(db: Any) -> list[int]:
        made = []
        for instance, path in (("web", str(secret)), ("web", "../gatepost.db"), ("telegram", "in/1")):
            content = json.dumps({"attachments": [{"name": "x", "path": path}]})
            new = ledger.NewMessage(
                instance=instance,
                address=HOME,
                direction=Direction.IN,
                kind=MessageKind.CHAT,
                sender="x:y",
                text="",
                at=1,
                content=content,
            )
            made.append(ledger.accept(db, new, 1))
        return made

    made = await site.store.write(add)
    async with site.signed_in() as browser:
        for message in (*made, 99):
            assert (await browser.get(f"/api/files/{message}/0")).status_code == 404
        assert (await browser.get(f"/api/files/{made[0]}/7")).status_code == 404


async def test_a_file_that_is_no_longer_kept_is_said_to_be_so(
    site: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site.signed_in() as browser:
        sent = (await say(browser, "look", files=[("file", ("a.bin", b"x", "application/octet-stream"))])).json()
        place = f"/api/files/{sent['id']}/0"
        assert (await browser.get(place)).content == b"x"
        (kept,) = [each for each in site.home.media.rglob("*") if each.is_file()]
        kept.unlink()
        assert (await browser.get(place)).status_code == 404
        kept.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_text("not this")
        assert (await browser.get(place)).status_code == 404
        kept.unlink()
        os.mkfifo(kept)
        assert (await browser.get(place)).status_code == 404
    assert "Traceback" not in caplog.text


async def test_a_message_beyond_the_limit_is_refused_with_the_setting(site: Any) -> None:
    async with site.signed_in() as browser:
        answer = await say(browser, "big", files=[("file", ("big.bin", b"x" * 1_200_000, "application/octet-stream"))])

        assert answer.status_code == 413
        assert "web.max_upload_mb" in answer.json()["error"]["text"]
        assert (await say(browser, "ok", files=[("file", ("ok.bin", b"x" * 900_000, "x/y"))])).status_code == 200


async def test_something_that_is_no_form_is_refused(site: Any) -> None:
    async with site.signed_in() as browser:
        assert (await browser.post("/api/messages", json={"text": "x"})).status_code == 400
        kind = {"content-type": "multipart/form-data"}
        assert (await browser.post("/api/messages", content=b"rubbish", headers=kind)).status_code == 400


def add_ann(db: Db) -> None:
    users.add(db, ANN, "Ann", 1)


async def find(browser: Any, words: str, **more: str) -> list[dict[str, Any]]:
    answer = await browser.get("/api/search", params={"q": words, **more})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["hits"])


async def test_what_was_said_last_is_found_by_the_beginnings_of_its_words(site: Any) -> None:
    async with site.signed_in() as browser:
        await write(browser, "zebra-crossing", HOME)
        hits = await find(browser, "zeb cross")
        assert {(each["mine"], each["room"], each["thread"]) for each in hits} == {(True, HOME, ""), (False, HOME, "")}
        assert all("«zebra" in each["snippet"] for each in hits)
        assert await find(browser, "zebra unicorn") == []


async def test_nobody_finds_what_was_said_in_a_room_that_she_does_not_see(site: Any) -> None:
    await site.store.write(add_ann)
    async with site.signed_in() as owner, signed_in_as(site, ANN) as browser:
        await write(owner, "secretplan", HOME)
        await write(browser, "herplan")
        assert await find(browser, "secretplan") == []
        assert {each["room"] for each in await find(browser, "herplan")} == {HERS}
        assert (await browser.get("/api/search", params={"q": "secretplan", "room": HOME})).status_code == 400
        assert {each["room"] for each in await find(owner, "herplan")} == {HERS}
        assert await find(owner, "herplan", room=HOME) == []


async def test_a_reply_that_was_not_said_yet_is_not_found(site: Any) -> None:
    async with site.signed_in() as browser:
        await write(browser, "hello", HOME)
        await site.answerer.say(HOME, "", "premature", key="early", delivered=False)
        assert await find(browser, "premature") == []
        await site.answerer.deliver(HOME, "early")
        assert len(await find(browser, "premature")) == 1


@pytest.mark.slow
async def test_a_hit_leads_to_a_page_that_has_it_and_some_that_came_after(site: Any) -> None:
    async with site.signed_in() as browser:
        wanted = await site.answerer.say(HOME, "", "the needle", key="needle")
        for number in range(100):
            await site.answerer.say(HOME, "", f"hay {number}", key=f"hay{number}")
        page = (await browser.get("/api/messages", params={"room": HOME, "around": wanted})).json()
    assert [each["text"] for each in page["messages"]] == ["the needle", *(f"hay {number}" for number in range(20))]


@pytest.mark.parametrize(
    ("typed", "query"),
    [
        ("", ""),
        ('" -- *', ""),
        ("one two", '"one"* AND "two"*'),
        ("a OR b", '"a" AND "OR"* AND "b"'),
        ('say "hi" NEAR(x', '"say"* AND "hi"* AND "NEAR(x"*'),
    ],
)
def test_what_is_typed_is_words_and_no_query(typed: str, query: str) -> None:
    assert make_query(typed) == query


async def test_no_sign_that_somebody_types_breaks_the_search(site: Any) -> None:
    async with site.signed_in() as browser:
        for typed in ("NEAR(", 'a"b', "x:y", "^z", "{a b}", "-", "日本", "\x00a", "a" * 500, "*", "(((("):
            await find(browser, typed)
