"""What a turn that broke off is continued with."""

from pathlib import Path

import pytest

from gatepost.inside.prompts.sent_prompts import SentPromptLog
from gatepost.inside.providers.contract import Batch, Item, ItemKind, ProviderContext
from gatepost_testing.provider_context import make_context

NAME = "0b6990b3-f394-4189-80ae-3d4fcb891849"


@pytest.fixture
def transcript(tmp_path: Path) -> SentPromptLog:
    (tmp_path / "projects" / "agent").mkdir(parents=True)
    return SentPromptLog(tmp_path / "handed.json", tmp_path / "projects")


@pytest.fixture
def place(tmp_path: Path) -> ProviderContext:
    return make_context(tmp_path, agent=tmp_path, start=tmp_path, state=tmp_path, router=tmp_path / "router.sock")


def item(row: int, text: str, kind: str = "chat") -> Item:
    content = {"text": text, "event": "continued"} if kind == "system" else {"text": text, "sender": "ann"}
    return Item(row=row, seq=row, kind=kind, sender="ann", text=text, content=content)


def batch(*items: Item, continued: bool = False) -> Batch:
    return Batch(turn="t-1", prompt=" ".join(each.text for each in items), items=items, continued=continued)


def keep(tmp_path: Path, *ids: str) -> None:
    """As the client would have written it."""
    (tmp_path / "projects" / "agent" / f"{NAME}.jsonl").write_text("\n".join(f'{{"uuid":"{each}"}}' for each in ids))


def test_what_the_conversation_holds_is_not_said_again(
    tmp_path: Path, transcript: SentPromptLog, place: ProviderContext
) -> None:
    first = transcript.begin(batch(item(1, "plums")), NAME, place)
    follow = transcript.follow(batch(item(2, "pears")))
    keep(tmp_path, first.id, follow.id)
    broken = batch(item(1, "plums"), item(2, "pears"), item(3, "note", "system"), continued=True)
    again = transcript.begin(broken, NAME, place)

    assert again.rows == (3,)
    assert "broke off" in again.text and "plums" not in again.text and "pears" not in again.text


def test_what_it_lacks_is_said_again_even_if_the_host_does_not_know(
    tmp_path: Path, transcript: SentPromptLog, place: ProviderContext
) -> None:
    first = transcript.begin(batch(item(1, "plums")), NAME, place)
    transcript.follow(batch(item(2, "pears")))
    keep(tmp_path, first.id)
    note = batch(item(3, "note", "system"), continued=True)
    again = transcript.begin(note, NAME, place)
    once_more = transcript.begin(batch(item(4, "note", "system"), continued=True), NAME, place)

    assert again.rows == (2, 3) and again.text.count("pears") == 1 and "plums" not in again.text
    assert once_more.rows == (2, 3, 4) and once_more.text.count("pears") == 1


def test_a_conversation_that_was_never_written_gets_everything(
    transcript: SentPromptLog, place: ProviderContext
) -> None:
    transcript.begin(batch(item(1, "plums")), NAME, place)
    again = transcript.begin(batch(item(2, "note", "system"), continued=True), NAME, place)

    assert transcript.path(NAME) is None
    assert again.text.startswith("plums\n")


def test_another_turn_begins_with_its_own_words(transcript: SentPromptLog, place: ProviderContext) -> None:
    transcript.begin(batch(item(1, "plums")), NAME, place)
    other = Batch(turn="t-2", prompt="pears", items=(item(2, "pears"),))

    assert transcript.begin(other, NAME, place).text == "pears"


def test_what_came_with_lost_words_comes_again_by_name_and_what_is_held_does_not(
    tmp_path: Path, transcript: SentPromptLog, place: ProviderContext
) -> None:
    def with_file(row: int) -> Item:
        content = {"text": "look", "attachments": [{"name": "a.png"}]}
        return Item(row=row, seq=row, kind=ItemKind.CHAT, sender="ann", text="look", content=content)

    first = transcript.begin(batch(with_file(1)), NAME, place)
    follow = transcript.follow(batch(with_file(2)))
    keep(tmp_path, first.id)
    again = transcript.begin(batch(item(3, "", "system"), continued=True), NAME, place)

    assert (first.files, follow.files, again.files) == (("1/a.png",), ("2/a.png",), ("2/a.png",))
