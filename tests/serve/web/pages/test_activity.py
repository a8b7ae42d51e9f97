"""The page of what happened: from the operation's answer to sentences, filters and the way of one message."""

import pytest

from gatepost.core.clock import iso
from gatepost.core.records import replace
from gatepost.messages.inbound import Direction
from gatepost.serve.control.arguments.activity import ActivityEntry, ActivityKind, ActivityPage
from gatepost.serve.control.arguments.ledger import MessageTraceView, TraceMoment
from gatepost.serve.web.dashboard.view import Filter, Link, Note, PageView, TimelineBlock, Tone
from gatepost.serve.web.pages.activity import FURTHER, NOT_FOUND, NOTHING, make_story, make_view
from gatepost.store.messages.messages import Message

NOON = 1_800_000_000_000_000
EVIL = '"><script>alert(1)</script>'
ENTRY = ActivityEntry(
    at=NOON,
    what="Ada wrote to Home in General",
    said="do it",
    kind=ActivityKind.MESSAGE,
    is_trouble=False,
    agent="home",
    person="telegram:user/9",
    person_name="Ada",
    room="fake:room/1",
    room_name="General",
    message=42,
)


def view(*entries: ActivityEntry, more: str = "", story: bool = True, **given: str) -> PageView:
    found = ActivityPage(entries=list(entries), more=more, agents={"home": "Home"})
    return make_view(found, given, has_story=story)


def test_an_entry_is_a_sentence_with_its_words_and_the_way_of_its_message() -> None:
    [block] = view(ENTRY, replace(ENTRY, is_trouble=True, message=None)).blocks
    assert isinstance(block, TimelineBlock)
    first, second = block.entries
    assert (first.at, first.what, first.text, first.tone) == (iso(NOON), ENTRY.what, "do it", Tone.PLAIN)
    assert first.link == Link("How it went", "/dashboard/activity/42")
    assert (second.tone, second.link) == (Tone.BAD, None)
    [hidden] = view(ENTRY, story=False).blocks
    assert isinstance(hidden, TimelineBlock) and hidden.entries[0].link is None


def test_what_stands_on_the_page_can_be_chosen_and_what_is_chosen_taken_back() -> None:
    filters: dict[str, Filter] = {each.name: each for each in view(ENTRY, person="slack:user/7").filters}
    assert filters["agent"].choices == (("", "Every agent"), ("home", "Home"))
    assert filters["room"].choices == (("", "Every room"), ("fake:room/1", "General"))
    assert filters["person"].choices == (("", "Everybody"), ("slack:user/7", "7"), ("telegram:user/9", "Ada"))
    assert filters["person"].chosen == "slack:user/7" and len(filters["kind"].choices) == len(ActivityKind) + 1


def test_the_next_page_keeps_what_was_chosen() -> None:
    [block] = view(ENTRY, more="m1.a2.c3.f4", kind="message", q="a b", before="m9.a9.c9.f9").blocks
    assert isinstance(block, TimelineBlock) and block.more == "?kind=message&q=a+b&before=m1.a2.c3.f4"


@pytest.mark.parametrize(("given", "said"), [({}, NOTHING), ({"kind": "task"}, NOT_FOUND)])
def test_an_empty_page_says_what_would_be_here_or_what_to_do(given: dict[str, str], said: str) -> None:
    [block] = view(**given).blocks
    assert isinstance(block, TimelineBlock) and block.empty == said


def test_a_look_that_found_nothing_yet_offers_to_look_further_back() -> None:
    [note] = view(more="m1.a2.c3.f4", agent="home").blocks
    assert isinstance(note, Note) and note.text == FURTHER
    assert note.link == Link("Look further back", "?agent=home&before=m1.a2.c3.f4")


def make_trace(*moments: str) -> MessageTraceView:
    message = Message(
        id=42,
        instance="fake",
        address="fake:room/1",
        thread="",
        direction=Direction.IN,
        platform_id="p",
        event="message",
        kind="chat",
        verb="message",
        sender="telegram:user/9",
        sender_name="Ada",
        text=EVIL,
        content={},
        reply_to="",
        folder="",
        at=NOON,
        accepted_at=NOON,
    )
    steps = [TraceMoment(NOON, each, "a detail", offset_ms=2000.0) for each in moments]
    return MessageTraceView(message, [], steps, [], [], "0")


def test_the_way_of_a_message_is_told_in_words_each_step_once() -> None:
    said = ("accepted", "queued", "working", "given", "begun", "call find_messages", "turn failed")
    note, block = make_story(make_trace(*said)).blocks
    assert isinstance(note, Note) and note.link == Link("See it exactly", "/dashboard/ledger/42")
    assert note.text == "It took 2 seconds, and cost nothing."
    assert isinstance(block, TimelineBlock)
    assert [each.what for each in block.entries] == [
        "Ada wrote",
        "It waits for its agent",
        "Its agent takes it",
        "The model has it",
        "The agent searched messages",
        "The agent failed",
    ]
    assert block.entries[-1].tone is Tone.BAD and "a detail" not in str(block.entries)


async def test_the_page_is_shown_and_its_entries_are_exported(site: object) -> None:
    async with site.signed_in() as browser:  # type: ignore[attr-defined]
        page = await browser.get("/dashboard/activity")
        assert page.status_code == 200 and "<h1>Activity</h1>" in page.text
        for odd in ("kind=no", "before=x", f"person={'x' * 900}", "time=9y", "q=%22)("):
            assert (await browser.get(f"/dashboard/activity?{odd}")).status_code in (200, 400)
        [row] = (await browser.get("/dashboard/activity?format=json")).json()
        assert row["what"] == "owner signed in"
        assert (await browser.get("/dashboard/activity/999")).status_code == 404
