"""A conversation never dies: the loop of our own against endpoints that take no more than a window."""

from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.inside.agent_loop import (
    COMPACTED,
    CUT_ANSWER,
    KEEP_FACTS,
    NOTHING_TO_COMPACT,
    STILL_TRYING,
    SUMMING_UP,
)
from gatepost.inside.model.conversation import (
    AssistantEntry,
    ModelConversation,
    SummaryEntry,
    ToolResultEntry,
    UserEntry,
)
from gatepost.inside.model.conversation_summary import LONGEST_FACT, MOST_FACTS, ConversationSummary, parse_summary
from gatepost.inside.model.request_size import MOST_PICTURES
from gatepost.inside.providers.contract import (
    Batch,
    ConversationStarted,
    Event,
    Item,
    ItemKind,
    StatusLine,
    ToolResult,
    TurnFailed,
    TurnResult,
)
from gatepost.inside.runner import find_provider
from gatepost_testing.models import ModelEndpoint, RecordedRequest
from gatepost_testing.provider_context import make_batch, make_context, read_all

from .conftest import Router

LONG = "and what else was said about the plums " * 40  # 1.5 kB
SUMMARY = "SUMMARY: the word is plum; the plan lies in notes/plan.md"
SCRIPT: dict[str, Any] = {"tools": True, "side": SUMMARY, "default": [{"say": "I see. " * 20}]}


class Talk:
    """One conversation after another turn, by one provider in one folder."""

    def __init__(self, path: Path, name: str, endpoint: ModelEndpoint, **options: object) -> None:
        base = endpoint.anthropic if name == "anthropic" else endpoint.openai
        self.place = make_context(path, model="small-1", options={"base_url": base, **options})
        for folder in (self.place.state, self.place.agent):
            folder.mkdir(parents=True, exist_ok=True)
        self.name, self.conversation, self.turns, self.endpoint = name, "", 0, endpoint
        self.provider = find_provider(name, None)(self.place)

    async def say(self, text: str, **content: Any) -> list[Event]:
        self.turns += 1
        batch = make_batch(text, self.turns, f"t-{self.turns}", **content)
        return await self.query(batch)

    async def query(self, batch: Batch) -> list[Event]:
        first, *events = await read_all(self.provider.query(batch, self.conversation))
        assert isinstance(first, ConversationStarted)
        self.conversation = first.conversation
        return events

    async def restart(self, name: str = "", **fields: Any) -> None:
        """Go on in another process, perhaps with another model."""
        await self.provider.close()
        for field, value in fields.items():
            self.place = make_context(self.place.workspace, model=self.place.model, options=self.place.options)
            self.place = type(self.place)(
                **{each: getattr(self.place, each) for each in self.place.__struct_fields__} | {field: value}
            )
        self.provider = find_provider(name or self.name, None)(self.place)

    @property
    def kept(self) -> ModelConversation:
        return ModelConversation(self.place.state, self.conversation)

    def summaries(self) -> list[SummaryEntry]:
        return [entry for entry in self.kept.entries if isinstance(entry, SummaryEntry)]


@pytest.fixture(params=["anthropic", "openai"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def talk(tmp_path: Path, router: Router) -> Callable[..., Any]:
    @asynccontextmanager
    async def begin(name: str, endpoint: ModelEndpoint, **options: object) -> AsyncIterator[Talk]:
        async with endpoint:
            made = Talk(tmp_path, name, endpoint, **options)
            yield made
            await made.provider.close()

    return begin


async def talk_for_long(made: Talk, messages: int) -> None:
    """Have so many turns, each with a long message; none may fail."""
    for number in range(messages):
        events = await made.say(f"message {number}: {LONG}")
        assert isinstance(events[-1], TurnResult), events[-1]


@pytest.mark.parametrize(
    ("window", "messages"),
    [
        (8192, 60),
        pytest.param(8192, 500, marks=pytest.mark.slow),
        pytest.param(32_768, 500, marks=pytest.mark.slow),
        pytest.param(200_000, 500, marks=pytest.mark.slow),
    ],
)
async def test_long_messages_are_all_answered_whatever_the_window(
    talk: Any, name: str, window: int, messages: int
) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=window)
    async with talk(name, endpoint, **({"context": window} if window == 200_000 else {})) as made:
        await talk_for_long(made, messages)

        heard = [entry for entry in made.kept.entries if isinstance(entry, UserEntry)]
        assert len(heard) == messages and made.summaries()  # the file keeps everything
        last = endpoint.calls[-1]
        assert last.count_text(f"message {messages - 1}:") == 1 and last.count_text("message 0:") == 0
        assert last.count_text("the word is plum") == 1
        refused = [call for call in endpoint.calls if len(call.raw) // 4 > window]
        assert len(refused) <= 3  # the first time it did not know


async def test_the_conversation_is_summed_up_before_it_is_full_and_people_are_told_once(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=8192, listed={"max_model_len": 8192})
    async with talk(name, endpoint) as made:
        told: list[Event] = []
        while not told:
            told = [event for event in await made.say(LONG) if isinstance(event, StatusLine)]

        assert told == [StatusLine(SUMMING_UP)] and len(made.summaries()) == 1
        assert all(len(call.raw) // 4 < 8192 for call in endpoint.calls)  # nothing was refused


async def test_the_newest_messages_stay_as_they_are_and_the_answer_is_asked_for_once(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=8192, listed={"max_model_len": 8192})
    async with talk(name, endpoint) as made:
        while not (made.conversation and made.summaries()):
            await made.say(f"message {made.turns}: {LONG}")

        last = endpoint.calls[-1]
        assert last.count_text(f"message {made.turns - 1}:") == 1
        assert last.count_text("message 0:") == 0 and last.count_text(SUMMARY) == 1
        side = next(call for call in endpoint.calls if not call.tools)
        assert side.count_text("message 0:") == 1


async def test_what_a_summary_has_is_kept_by_the_next(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=8192)
    async with talk(name, endpoint) as made:
        while not (made.conversation and len(made.summaries()) == 2):
            await made.say(LONG)

        second = [call for call in endpoint.calls if not call.tools][-1]
        assert second.count_text(SUMMARY) == 1


@pytest.mark.parametrize("read", [-5, 10**6, 10**18, 10**400])
async def test_a_figure_that_cannot_be_true_costs_a_conversation_nothing(talk: Any, name: str, read: int) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=32_768)
    async with talk(name, endpoint) as made:
        await talk_for_long(made, 2)
        made.kept.add(AssistantEntry("t-2", 4, "Yes.", (), "small-1", 9000, read))
        await talk_for_long(made, 2)

        assert not made.summaries()
        assert endpoint.calls[-1].count_text(f"message 0: {LONG}".strip()) == 2  # one of the second time


async def test_an_endpoint_that_cuts_without_a_word_is_noticed(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=4096, cuts_silently=True)
    async with talk(name, endpoint) as made:
        await talk_for_long(made, 30)
        before = len(endpoint.calls)
        await talk_for_long(made, 10)

        assert made.summaries()
        assert all(len(call.raw) // 4 <= 4096 for call in endpoint.calls[before:])  # nothing more is cut


async def test_one_message_that_is_larger_than_the_window_is_shortened_for_the_model_alone(
    talk: Any, name: str
) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=8192)
    async with talk(name, endpoint) as made:
        events = await made.say(f"beginning {'x ' * 50_000} end")

        assert isinstance(events[-1], TurnResult)
        last = endpoint.calls[-1]
        assert last.count_text("beginning") == last.count_text("end") == 1
        assert last.count_text("characters are left out here") == 1
        assert isinstance(heard := made.kept.entries[0], UserEntry) and len(heard.text) > 100_000


async def test_a_result_that_is_larger_than_the_window_is_shortened_and_its_call_has_one_effect(
    talk: Any, name: str, router: Router
) -> None:
    router.work = "seed " * 18_000
    endpoint = ModelEndpoint({**SCRIPT, "default": [{"call": "get_work"}, {"say": "that is it"}]}, window=8192)
    async with talk(name, endpoint) as made:
        events = await made.say("look")

        assert events[-1] == TurnResult("that is it")
        assert [tool for tool, _ in router.calls] == ["get_work"]


async def test_what_a_turn_is_to_answer_stays_through_a_turn_of_many_steps(
    talk: Any, name: str, router: Router
) -> None:
    router.work = "leaf " * 2500
    endpoint = ModelEndpoint({**SCRIPT, "default": [{"call": "get_work"}]}, window=8192)
    async with talk(name, endpoint) as made:
        async for event in made.provider.query(make_batch("read it twelve times"), ""):
            if isinstance(event, ConversationStarted):
                made.conversation = event.conversation
            if isinstance(event, ToolResult) and len(router.calls) == 12:
                endpoint.play({**SCRIPT, "default": [{"say": "all read"}]})

        assert event == TurnResult("all read") and len(made.summaries()) > 1
        steps = [call for call in endpoint.calls if call.tools]
        assert all(call.count_text("read it twelve times") == 1 for call in steps)


async def test_a_model_that_makes_no_summary_does_not_end_the_conversation(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint({**SCRIPT, "side": ""}, window=8192)
    async with talk(name, endpoint) as made:
        await made.say("the word is plum")
        await talk_for_long(made, 12)

        assert "- the word is plum" in made.summaries()[0].text


async def test_what_never_fits_fails_alone_and_the_next_turn_goes_well(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=300)
    async with talk(name, endpoint) as made:
        failed = (await made.say("hello"))[-1]
        endpoint.window = 0
        events = await made.say("again")

        assert isinstance(failed, TurnFailed) and failed.kind == "overflow"
        assert isinstance(events[-1], TurnResult)


async def test_a_turn_that_was_killed_behind_a_summary_goes_on_without_its_prompt_twice(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=8192, listed={"max_model_len": 8192})
    async with talk(name, endpoint) as made:
        while not (made.conversation and made.summaries()):
            await made.say(LONG)
        kept = made.kept
        line = next(index for index, entry in enumerate(kept.entries) if isinstance(entry, SummaryEntry))
        file = made.place.state / f"{kept.name}.jsonl"
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[: line + 1]))  # killed right there
        turn = kept.entries[line].turn
        await made.restart()
        note = Item(row=900, seq=9, kind=ItemKind.SYSTEM, sender="", text="", content={"event": "continued"})
        events = await made.query(Batch(turn=turn, prompt="it broke off", items=(note,), continued=True))

        assert isinstance(events[-1], TurnResult) and len(made.summaries()) == 1
        rows = [row for entry in made.kept.entries if isinstance(entry, UserEntry) for row in entry.rows]
        assert len(rows) == len(set(rows))
        assert endpoint.calls[-1].count_text("it broke off") == 1


async def test_a_kill_behind_any_line_leaves_a_conversation_that_goes_on(talk: Any, name: str, router: Router) -> None:
    turns = [{"when": "look", "do": [{"call": "get_work"}, {"say": "seen"}]}]
    endpoint = ModelEndpoint({**SCRIPT, "turns": turns}, window=8192, listed={"max_model_len": 8192})
    async with talk(name, endpoint) as made:
        while not (made.conversation and len(made.summaries()) == 2):
            await made.say(f"message {made.turns}: look {LONG}" if made.turns % 2 else f"message {made.turns}: {LONG}")
        file = made.place.state / f"{made.conversation}.jsonl"
        lines, whole = file.read_bytes().splitlines(keepends=True), made.kept.entries
        for kept in range(1, len(lines) + 1):
            file.write_bytes(b"".join(lines[:kept]) + lines[0][:20])  # and in the middle of a line
            turn = whole[kept - 1].turn
            rows = {row for entry in whole[:kept] if isinstance(entry, UserEntry) for row in entry.rows}
            await made.restart()
            note = Item(row=900 + kept, seq=9, kind=ItemKind.SYSTEM, sender="", text="", content={})
            again = [Item(row=row, seq=row, kind=ItemKind.CHAT, sender="ann", text="x") for row in rows]
            events = await made.query(Batch(turn=turn, prompt="BROKE OFF", items=(note, *again), continued=True))

            assert isinstance(events[-1], TurnResult), (kept, events[-1])
            said = [row for entry in made.kept.entries if isinstance(entry, UserEntry) for row in entry.rows]
            assert len(said) == len(set(said))
            called = [use.id for entry in made.kept.entries if isinstance(entry, AssistantEntry) for use in entry.uses]
            answered = [entry.id for entry in made.kept.entries if isinstance(entry, ToolResultEntry)]
            assert called == answered


async def test_compact_makes_the_conversation_shorter_at_once_and_says_so(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=32_768)
    async with talk(name, endpoint) as made:
        for _ in range(6):
            await made.say(LONG)
        events = await made.say("/compact the colour of the plums", command="/compact the colour of the plums")

        assert events[-1] == TurnResult(COMPACTED) and len(made.summaries()) == 1
        assert endpoint.calls[-1].count_text("the colour of the plums") == 1
        await made.say("and now?")
        assert endpoint.calls[-1].count_text(SUMMARY) == 1 and endpoint.calls[-1].count_text("/compact") == 0
        assert endpoint.calls[-1].count_text("was not answered") == 0


async def test_compact_says_so_if_there_is_nothing_to_compact(talk: Any, name: str) -> None:
    async with talk(name, ModelEndpoint(SCRIPT)) as made:
        await made.say("hello")
        await made.say("/compact", command="/compact")

        assert (await made.say("/compact", command="/compact"))[-1] == TurnResult(NOTHING_TO_COMPACT)


async def test_compact_changes_nothing_if_the_model_makes_no_summary(talk: Any, name: str) -> None:
    async with talk(name, ModelEndpoint({**SCRIPT, "side": ""})) as made:
        await made.say("hello")

        assert isinstance((await made.say("/compact", command="/compact"))[-1], TurnFailed)
        assert made.summaries() == []


async def test_a_compaction_that_was_killed_is_made_once(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=32_768)
    async with talk(name, endpoint) as made:
        for _ in range(6):
            await made.say(LONG)
        await made.say("/compact", command="/compact")
        await made.restart()
        note = Item(row=900, seq=9, kind=ItemKind.SYSTEM, sender="", text="", content={"event": "continued"})
        batch = Batch(turn=f"t-{made.turns}", prompt="it broke off", items=(note,), continued=True)
        asked = len(endpoint.calls)
        events = await made.query(batch)

        assert events[-1] == TurnResult(COMPACTED) and len(endpoint.calls) == asked
        lines = (made.place.state / f"{made.conversation}.jsonl").read_bytes().splitlines(keepends=True)
        (made.place.state / f"{made.conversation}.jsonl").write_bytes(b"".join(lines[:-1]))
        await made.restart()
        assert (await made.query(batch))[-1] == TurnResult(COMPACTED) and len(made.summaries()) == 1


async def test_an_answer_that_was_cut_is_said_with_a_note_and_can_go_on(talk: Any, name: str) -> None:
    turns = [{"when": "go on", "do": [{"say": "the other half"}]}, {"do": [{"say": "the first", "stop": "max_tokens"}]}]
    endpoint = ModelEndpoint({"turns": turns})
    async with talk(name, endpoint) as made:
        assert (await made.say("tell me all"))[-1] == TurnResult(f"the first\n\n{CUT_ANSWER}")
        assert (await made.say("go on"))[-1] == TurnResult("the other half")
        assert endpoint.calls[-1].count_text("cut off", role="assistant") == 0


async def test_a_call_that_was_cut_is_not_made(talk: Any, name: str, router: Router) -> None:
    do = [{"call": "send", "with": {"text": "x"}, "stop": "max_tokens"}, {"say": "then not"}]
    endpoint = ModelEndpoint({"default": do})
    async with talk(name, endpoint) as made:
        events = await made.say("send it")

        assert events[-1] == TurnResult("then not") and router.calls == []
        (used,) = [entry for entry in made.kept.entries if isinstance(entry, ToolResultEntry)]
        assert used.error and "was not made" in used.text


async def test_a_model_that_cuts_every_call_comes_to_an_end(talk: Any, name: str, router: Router) -> None:
    do = [{"say": "I send", "call": "send", "with": {"text": "x"}, "stop": "max_tokens"}]
    endpoint = ModelEndpoint({"default": do})
    async with talk(name, endpoint) as made:
        events = await made.say("send it")

        assert events[-1] == TurnResult(f"I send\n\n{CUT_ANSWER}")
        assert router.calls == [] and len(endpoint.calls) < 10


async def test_an_answer_without_a_word_that_reached_its_limit_is_a_failure(talk: Any, name: str) -> None:
    async with talk(name, ModelEndpoint({"default": [{"say": "", "stop": "max_tokens"}]})) as made:
        failed = (await made.say("think"))[-1]

        assert isinstance(failed, TurnFailed) and "length limit" in failed.message


async def test_trouble_is_waited_out_with_one_line_and_a_stop_ends_it_at_once(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint({"default": [{"fault": 529, "times": -1, "retry_after": 60}]})
    async with talk(name, endpoint) as made:
        events: list[Event] = []
        async for event in made.provider.query(make_batch("hello"), ""):
            events.append(event)
            if event == StatusLine(STILL_TRYING):
                await made.provider.interrupt()

        assert events[1:] == [StatusLine(STILL_TRYING), TurnFailed("interrupted")]


async def test_trouble_that_lasts_longer_than_the_patience_ends_the_turn(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint({"default": [{"fault": 529, "times": -1, "retry_after": 0.2}]})
    async with talk(name, endpoint, patience=0.5) as made:
        failed = (await made.say("hello"))[-1]

        assert isinstance(failed, TurnFailed) and failed.kind == "overload"
        assert 2 <= len(endpoint.calls) <= 4


async def test_an_endpoint_that_is_away_is_a_class_of_its_own(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint()
    async with talk(name, endpoint, patience=0) as made:
        await endpoint.__aexit__()
        failed = (await made.say("hello"))[-1]

        assert isinstance(failed, TurnFailed) and failed.kind == "network"


async def test_a_model_that_declines_is_a_class_of_its_own(talk: Any, name: str) -> None:
    async with talk(name, ModelEndpoint({"default": [{"say": "", "stop": "refusal"}]})) as made:
        failed = (await made.say("hello"))[-1]

        assert isinstance(failed, TurnFailed) and failed.kind == "refusal"


async def test_another_model_with_a_smaller_window_goes_on_with_the_conversation(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=200_000)
    async with talk(name, endpoint, context=200_000) as made:
        await talk_for_long(made, 60)
        assert made.summaries() == []
        made.place.options.pop("context")
        endpoint.window = 8192
        await made.restart(model="smaller-1")
        events = await made.say("who are you now?")

        assert isinstance(events[-1], TurnResult) and made.summaries()
        assert endpoint.calls[-1].body["model"] == "smaller-1"
        assert endpoint.calls[-1].count_text("who are you now?") == 1


async def test_the_window_that_was_learnt_is_known_to_the_next_process(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint(SCRIPT, window=8192)
    async with talk(name, endpoint) as made:
        await talk_for_long(made, 30)
        refused = sum(len(call.raw) // 4 > 8192 for call in endpoint.calls)
        await made.restart()
        await talk_for_long(made, 20)

        assert sum(len(call.raw) // 4 > 8192 for call in endpoint.calls) == refused


async def test_a_model_whose_answers_are_shorter_than_the_group_wants_is_asked_for_less(talk: Any, name: str) -> None:
    said = "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for small-1"
    endpoint = ModelEndpoint({"default": [{"fault": 400, "error": said, "say": "here I am"}]})
    async with talk(name, endpoint, context=200_000) as made:
        assert (await made.say("hello"))[-1] == TurnResult("here I am")

        limits = [call.body.get("max_tokens") or call.body.get("max_completion_tokens") for call in endpoint.calls]
        assert limits == [8192, 4096] and made.summaries() == []

        side = {"when": "takes the place of", "do": [{"fault": 400, "error": said, "say": SUMMARY}]}
        endpoint.play({"turns": [side]})
        await made.restart()
        assert (await made.say("/compact", command="/compact"))[-1] == TurnResult(COMPACTED)


async def test_what_a_request_came_to_is_kept_with_its_answer(talk: Any, name: str) -> None:
    usage = {"input": 1500, "output": 3, "cache_read": 500}
    async with talk(name, ModelEndpoint({"default": [{"say": "hi", "usage": usage}]})) as made:
        await made.say("hello")
        (said,) = [entry for entry in made.kept.entries if isinstance(entry, AssistantEntry)]

        assert said.model == "small-1" and said.sent > 100
        assert said.read == (2000 if name == "anthropic" else 1500)  # OpenAI's has the cached among them


async def test_an_endpoint_is_not_asked_for_what_the_group_says(talk: Any, name: str) -> None:
    endpoint = ModelEndpoint(SCRIPT)
    async with talk(name, endpoint, context=8192) as made:
        await made.say("hello")

        assert [request.method for request in endpoint.requests] == ["POST"]


# Pictures of tools.

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels" * 10 + b"!"
LOOKS: dict[str, Any] = {"tools": True, "turns": [{"when": "look", "do": [{"call": "look"}, {"say": "I saw it"}]}]}
BLIND = "image input is not supported by this model"


def count_pictures(call: RecordedRequest) -> int:
    return call.raw.count(b64encode(PNG))


async def test_a_picture_of_a_tool_is_shown_where_the_wire_has_a_place_for_it(
    talk: Any, name: str, router: Router
) -> None:
    router.pictures = [PNG]
    async with talk(name, ModelEndpoint(LOOKS)) as made:
        events = await made.say("look")
        assert events[-1] == TurnResult("I saw it")
        messages = (asked := made.endpoint.calls[-1]).body["messages"]
        assert count_pictures(asked) == 1
        if name == "anthropic":
            (result,) = messages[-1]["content"]
            assert (result["type"], [part["type"] for part in result["content"]]) == ("tool_result", ["text", "image"])
            assert result["content"][1]["source"]["media_type"] == "image/png"
        else:
            assert (messages[-2]["role"], messages[-2]["content"]) == ("tool", "the page")
            assert messages[-1]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
            assert "No person sent them" in messages[-1]["content"][0]["text"]


async def test_what_is_no_picture_or_too_large_or_too_many_is_said_instead(
    talk: Any, name: str, router: Router
) -> None:
    router.pictures = [b"GIF", PNG + b"x" * 3_700_000, PNG, PNG, PNG]
    async with talk(name, ModelEndpoint(LOOKS)) as made:
        await made.say("look")
        (used,) = [entry for entry in made.kept.entries if isinstance(entry, ToolResultEntry)]
        assert [block.name for block in used.blocks] == ["look 3", "look 4"]
        assert "picture 1: left out, because it is no JPEG" in used.text and "picture 2: left out" in used.text
        assert "[1 more pictures: left out]" in used.text


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_model_that_sees_nothing_teaches_it_once_and_is_told_in_words(
    talk: Any, name: str, router: Router, status: int
) -> None:
    router.pictures = [PNG]
    blind = {"say": "I saw it", "fault": status, "error": BLIND, "times": 1}
    script = {**LOOKS, "turns": [{"when": "look", "do": [{"call": "look"}, blind]}]}
    async with talk(name, ModelEndpoint(script)) as made:
        assert (await made.say("look"))[-1] == TurnResult("I saw it")
        assert [count_pictures(call) for call in made.endpoint.calls] == [0, 1, 0]
        assert b"this model takes no pictures" in made.endpoint.calls[-1].raw
        await made.restart()
        made.endpoint.play(LOOKS)
        assert (await made.say("look again"))[-1] == TurnResult("I saw it")
        assert [count_pictures(call) for call in made.endpoint.calls[3:]] == [0, 0]


async def test_one_picture_that_is_not_taken_costs_no_turn(talk: Any, name: str, router: Router) -> None:
    router.pictures = [PNG]
    refused = {"say": "I saw it", "fault": 400, "error": "Could not process image", "times": 1}
    script = {**LOOKS, "turns": [{"when": "look", "do": [{"call": "look"}, refused]}]}
    async with talk(name, ModelEndpoint(script)) as made:
        assert (await made.say("look"))[-1] == TurnResult("I saw it")
        assert b"the model's endpoint did not take it" in made.endpoint.calls[-1].raw
        router.pictures = [PNG + b"abc"]
        made.endpoint.play(LOOKS)
        await made.say("look once more")
        assert count_pictures(made.endpoint.calls[-1]) == 1  # others are shown still


async def test_old_pictures_are_left_out_and_none_is_left_behind_a_summary(
    talk: Any, name: str, router: Router
) -> None:
    router.pictures = [PNG]
    async with talk(name, ModelEndpoint({**LOOKS, "side": SUMMARY})) as made:
        for _ in range(MOST_PICTURES + 2):
            await made.say("look")
        assert count_pictures(made.endpoint.calls[-1]) == MOST_PICTURES
        assert b"newer ones are shown" in made.endpoint.calls[-1].raw
        await made.say("/compact", command="compact")
        await made.say("thanks")
        assert count_pictures(made.endpoint.calls[-1]) == 0


# Before a part of the conversation is summed up, its facts are kept.

FACTS_SCRIPT = {**SCRIPT, "side": f"{SUMMARY}\n\n# FACTS", "side_lines": r"FACT \d+ is \w+"}


def list_kept(router: Router) -> list[str]:
    return [fact for tool, given in router.calls if tool == KEEP_FACTS for fact in (*given["facts"], *given["read"])]


async def test_facts_of_what_is_summed_up_are_kept_before_the_model_is_asked_again(
    talk: Any, name: str, router: Router
) -> None:
    endpoint = ModelEndpoint(FACTS_SCRIPT, window=8192, listed={"max_model_len": 8192})
    async with talk(name, endpoint) as made:
        await made.say("FACT 1 is red")
        while not (made.conversation and made.summaries()):
            await made.say(LONG)

        (summary,) = made.summaries()
        assert (summary.text, summary.facts) == (SUMMARY, ("FACT 1 is red",))
        assert list_kept(router) == ["FACT 1 is red"]
        assert endpoint.calls[-1].count_text("FACT 1 is red") == 0  # the summary does not have it


async def test_facts_wait_for_a_gateway_that_cannot_be_reached_and_are_given_in_another_turn(
    talk: Any, name: str, router: Router
) -> None:
    endpoint = ModelEndpoint(FACTS_SCRIPT, window=32_768)
    async with talk(name, endpoint) as made:
        await made.say("FACT 1 is red")
        made.kept.add(SummaryEntry("t-1", 1, SUMMARY, ("FACT 7 is blue",), ("FACT 8 is green",)))
        await made.say("go on")
        await made.say("and on")

        assert list_kept(router) == ["FACT 7 is blue", "FACT 8 is green"]
        made.kept.add(SummaryEntry("t-3", 3, SUMMARY, ("FACT 9 is grey",)))
        await made.restart()
        assert (await made.say("/compact", command="/compact"))[-1] == TurnResult(COMPACTED)
        assert list_kept(router)[2] == "FACT 9 is grey"  # with those of the summary that took its place


@pytest.mark.slow
async def test_a_model_that_writes_facts_without_end_is_bounded(talk: Any, name: str, router: Router) -> None:
    many = "\n".join(f"- {number} {'x' * 2000}" for number in range(1000))
    endpoint = ModelEndpoint({**SCRIPT, "side": f"{SUMMARY}\n# FACTS\n{many}"}, window=200_000)
    async with talk(name, endpoint, context=200_000) as made:
        await made.say("hello")
        assert (await made.say("/compact", command="/compact"))[-1] == TurnResult(COMPACTED)

        assert len(list_kept(router)) == MOST_FACTS
        assert max(map(len, list_kept(router))) < 2 * LONGEST_FACT


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("all of it", ConversationSummary("all of it")),
        ("so far\n# FACTS\nnone", ConversationSummary("so far")),
        ("so far\n**FACTS**\n\n- a\n* b\n- Read: c\n- \n", ConversationSummary("so far", ("a", "b"), ("c",))),
        ("# FACTS\n- a", ConversationSummary("a", ("a",))),
        ("the FACTS are plain\n- a", ConversationSummary("the FACTS are plain\n- a")),
    ],
)
def test_facts_are_told_from_the_summary_that_a_model_writes(answer: str, expected: ConversationSummary) -> None:
    assert parse_summary(answer) == expected
