"""The demo: a first contact without a key."""

import pkgutil
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gatepost.inside import providers
from gatepost.inside.providers.contract import Batch, Item, ItemKind, Text, ToolUse
from gatepost.inside.providers.demo import Demo, _first_sentence, read_notes, write_notes
from gatepost_testing.provider_context import make_context

if TYPE_CHECKING:
    from tests.inside.conftest import Router
else:
    Router = object


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(make_context(tmp_path))


def an_item(seq: int, text: str) -> Item:
    return Item(row=seq, seq=seq, kind=ItemKind.CHAT, sender="Ann", text=text)


async def ask(demo: Demo, *texts: str) -> list[str]:
    items = tuple(an_item(number, text) for number, text in enumerate(texts, 1))
    events = [event async for event in demo.query(Batch(turn="t-1", prompt="", items=items), "")]
    return [event.text for event in events if isinstance(event, Text)]


@pytest.mark.parametrize("word", ["hello", "Hi!", "help", "/start", "?"])
async def test_a_greeting_is_answered_with_what_one_can_say(demo: Demo, word: str) -> None:
    [answer] = await ask(demo, word)

    assert "no AI model" in answer and "`notes`" in answer


async def test_it_says_plainly_what_it_is_and_how_to_connect_a_real_one(demo: Demo) -> None:
    [answer] = await ask(demo, "Who are you?")

    assert "not an AI model" in answer
    assert "gatepost group set home provider=NAME" in answer


async def test_it_names_the_providers_that_there_are(demo: Demo) -> None:
    [answer] = await ask(demo, "about")

    there = {each.name for each in pkgutil.iter_modules(providers.__path__)} - {"contract"}
    (listed,) = re.findall(r"these providers: (.*?)\. ", answer)
    assert set(re.findall(r"`(\w+)`", listed)) == there


async def test_its_texts_are_not_wrapped_because_line_breaks_show(demo: Demo) -> None:
    for answer in await ask(demo, "hello", "about"):
        paragraphs = [part for part in answer.split("\n\n") if not part.startswith("- ")]
        assert not any("\n" in part for part in paragraphs)


async def test_it_names_the_files_that_it_got(demo: Demo) -> None:
    photo = {"type": "image", "name": "a `b`\n.png", "mimeType": "image/png", "size": 34_816, "path": "in/1/a"}
    plan = {"type": "file", "name": "plan.pdf", "mimeType": "application/pdf", "size": 3_145_728, "path": "in/1/b"}
    items = (
        Item(row=1, seq=1, kind=ItemKind.CHAT, sender="Ann", text="", content={"attachments": [photo]}),
        Item(row=2, seq=2, kind=ItemKind.CHAT, sender="Ann", text="see these", content={"attachments": [photo, plan]}),
    )
    events = [event async for event in demo.query(Batch(turn="t-1", prompt="", items=items), "")]
    alone, both = [event.text for event in events if isinstance(event, Text)]

    assert alone.startswith("I got your file `a 'b' .png` (34 KB, image/png).")
    assert "You wrote" not in alone
    assert "- `plan.pdf` (3.0 MB, application/pdf)" in both and "> see these" in both


async def test_anything_else_is_read_back_each_message_for_itself(demo: Demo) -> None:
    first, second = await ask(demo, "the sky is blue", "two\nlines")

    assert "> the sky is blue" in first
    assert "> two\n> lines" in second


async def test_notes_are_kept_in_work_md_beside_what_stands_there(demo: Demo, router: Router) -> None:
    answers = await ask(
        demo, "notes", "note buy  milk", "note: call Bob", "note buy milk", "notes", "forget 1", "notes"
    )

    assert "no notes" in answers[0]
    assert "already" in answers[3]
    assert "1. buy milk\n2. call Bob" in answers[4]
    assert answers[5] == "Forgotten: buy milk"
    assert router.work == "# Work\n\nNothing is open.\n\n## Notes\n\n- call Bob\n"
    assert await ask(demo, "forget 7", "forget", "forget") == [
        "There is no note 7; I have 1.",
        "Everything forgotten.",
        "There is nothing to forget.",
    ]
    assert router.work == "# Work\n\nNothing is open.\n"
    await demo.close()


async def test_it_shows_its_tools_and_its_session_by_asking_the_gateway(demo: Demo, router: Router) -> None:
    tools, session = await ask(demo, "tools", "session")

    assert "- `send`: Say something." in tools and "- `get_work`: Read your work.md." in tools
    assert "- session id: `s-1`" in session and "- seq: `9`" in session
    await demo.close()


async def test_what_it_calls_is_on_the_timeline(demo: Demo, router: Router) -> None:
    batch = Batch(turn="t-1", prompt="", items=(an_item(1, "notes"),))
    events = [event async for event in demo.query(batch, "")]

    assert [event.tool for event in events if isinstance(event, ToolUse)] == ["get_work"]
    await demo.close()


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Say something.", "Say something."),
        ("Show a script or program with an\ninput, e.g. a file. It runs\ninside.\n\nMore.",
         "Show a script or program with an input, e.g. a file."),
        ("No end", "No end."),
    ],
)  # fmt: skip
def test_of_a_tools_description_the_first_sentence_is_told_whole(text: str, first: str) -> None:
    assert _first_sentence(text) == first


async def test_without_its_tools_it_still_answers(demo: Demo) -> None:
    [answer] = await ask(demo, "notes")

    assert "cannot reach my tools" in answer


async def test_a_continued_turn_answers_only_what_was_not_answered(demo: Demo) -> None:
    note = Item(
        row=9,
        seq=9,
        kind=ItemKind.SYSTEM,
        sender="",
        text="",
        content={"event": "continued", "done": [{"inReplyTo": 1}]},
    )
    batch = Batch(turn="t-1", prompt="", items=(an_item(1, "a"), an_item(2, "b"), note), continued=True)
    events = [event async for event in demo.query(batch, "")]

    assert [event.in_reply_to for event in events if isinstance(event, Text)] == [2]


def test_other_sections_of_work_md_stay() -> None:
    work = "# Work\n\n## Notes\n\n- a\n- b\n\n## Later\n\n- not a note\n"

    assert read_notes(work) == ["a", "b"]
    assert write_notes(work, ["c"]) == "# Work\n\n## Notes\n\n- c\n\n## Later\n\n- not a note\n"
    assert write_notes(work, []) == "# Work\n\n## Later\n\n- not a note\n"
    assert write_notes("", ["x"]) == "## Notes\n\n- x\n"
