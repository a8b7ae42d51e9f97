"""The scripted provider: what it does with a script, and that a later process goes on where it stopped."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from gatepost.inside.providers.contract import (
    Batch,
    ConversationStarted,
    Event,
    Item,
    ItemKind,
    Misconfigured,
    PermissionRequest,
    ProviderContext,
    Question,
    StatusLine,
    Text,
    ToolResult,
    ToolUse,
    TurnFailed,
    TurnResult,
    UsageReport,
)
from gatepost.inside.providers.scripted import LOOK_S, Scripted
from gatepost.inside.script_format import CompletedEffect, CompletedEffects, Script, ScriptStep, ScriptTurn, read_script
from gatepost.mailbox.runner_frames import TurnErrorClass
from gatepost_testing.provider_context import make_context, read_all

if TYPE_CHECKING:
    from tests.inside.conftest import Host, Router
else:
    Host = Router = object


def an_item(seq: int, text: str, kind: str = "chat", **content: Any) -> Item:
    return Item(row=seq + 100, seq=seq, kind=kind, sender="Ann", text=text, content=content)


def a_batch(*items: Item, turn: str = "t-1", continued: bool = False) -> Batch:
    return Batch(turn=turn, prompt="", items=items, continued=continued)


def continued(*said: tuple[int | None, str], seq: int = 90) -> Item:
    done = [{"op": "send", "text": text, "seq": 50, "inReplyTo": answers} for answers, text in said]
    return an_item(seq, "", "system", event="continued", done=done)


@pytest.fixture
def place(tmp_path: Path) -> ProviderContext:
    for name in ("agent", "state", "run"):
        (tmp_path / name).mkdir(exist_ok=True)
    return make_context(tmp_path)


def scripted(place: ProviderContext, script: object = None) -> Scripted:
    if script is not None:
        (place.agent / "script.json").write_bytes(msgspec.json.encode(script))
    return Scripted(place)


async def texts(events: AsyncIterator[Event]) -> list[tuple[str, int | None]]:
    return [(event.text, event.in_reply_to) async for event in events if isinstance(event, Text)]


async def test_without_a_script_every_message_is_echoed_by_itself_and_in_order(place: ProviderContext) -> None:
    events = await read_all(scripted(place).query(a_batch(an_item(3, "a"), an_item(4, "b")), ""))

    assert isinstance(events[0], ConversationStarted)
    assert events[1:] == [Text("echo: a", 3), Text("echo: b", 4), TurnResult()]


async def test_the_first_turn_that_matches_answers_and_its_groups_are_words(place: ProviderContext) -> None:
    script = {
        "turns": [
            {"when": "^add (\\d+) (\\d+)", "do": [{"say": "{1}+{2} for {sender} #{seq} {unknown}"}]},
            {"when": "once", "once": True, "do": [{"say": "only now"}]},
            {"kind": "task", "do": [{"say": "a task"}]},
        ],
        "default": [{"say": "default"}],
    }
    items = [an_item(1, "add 2 3"), an_item(2, "once"), an_item(3, "once"), an_item(4, "x", "task")]

    assert await texts(scripted(place, script).query(a_batch(*items), "")) == [
        ("2+3 for Ann #1 {unknown}", 1),
        ("only now", 2),
        ("default", 3),
        ("a task", 4),
    ]


async def test_the_words_of_recordings_are_a_word(place: ProviderContext) -> None:
    files = [{"name": "a.ogg", "transcript": "please"}, {"name": "b.txt"}, {"name": "c.ogg", "transcript": ""}]
    noted = an_item(1, "listen", attachments=[*files, {"name": "d.ogg", "transcript": "water the plants"}])
    agent = scripted(place, {"default": [{"say": "{text}: {heard}."}]})
    assert await texts(agent.query(a_batch(noted, an_item(2, "hello")), "")) == [
        ("listen: please water the plants.", 1),
        ("hello: .", 2),
    ]


async def test_a_turn_that_is_used_once_stays_used_in_the_next_process(place: ProviderContext) -> None:
    script = {"turns": [{"once": True, "do": [{"say": "first"}]}]}
    await texts(scripted(place, script).query(a_batch(an_item(1, "x")), ""))

    assert await texts(scripted(place).query(a_batch(an_item(2, "y"), turn="t-2"), "")) == [("echo: y", 2)]


async def test_notes_of_the_gateway_are_not_echoed_but_can_be_scripted(place: ProviderContext) -> None:
    note = an_item(0, "Not delivered", "system", event="undelivered")
    assert await texts(scripted(place).query(a_batch(note), "")) == []

    script = {"turns": [{"kind": "system", "when": "Not", "do": [{"say": "sorry"}]}]}
    assert await texts(scripted(place, script).query(a_batch(note), "")) == [("sorry", None)]


async def test_every_kind_of_step_becomes_its_events(place: ProviderContext, router: Router) -> None:
    steps = [
        {"status": "looking at {text}"},
        {"call": "send", "with": {"text": "hi {sender}", "replyTo": "{seq}"}},
        {"say": "{result}"},
        {"call": "nothing"},
        {"write_file": {"path": "sub/out.txt", "text": "{text}"}},
        {"usage": {"tokens": 4}},
        {"wait": 0.001},
        {"final": "bye"},
    ]
    agent = scripted(place, {"default": steps})
    events = await read_all(agent.query(a_batch(an_item(7, "this")), ""))
    await agent.close()

    assert events[1:] == [
        StatusLine("looking at this"),
        ToolUse("t-1:7:1", "send", {"text": "hi Ann", "replyTo": 7}),
        ToolResult("t-1:7:1", "sent hi Ann"),
        Text("sent hi Ann", 7),
        ToolUse("t-1:7:3", "nothing", {}),
        ToolResult("t-1:7:3", "no tool is named 'nothing'", True),
        UsageReport({"tokens": 4}),
        TurnResult("bye"),
    ]
    assert router.calls[0] == ("send", {"text": "hi Ann", "replyTo": 7})
    assert (place.agent / "sub" / "out.txt").read_text() == "this"


async def test_a_turn_waits_for_a_file_and_for_one_more_message(place: ProviderContext) -> None:
    steps = [{"wait_for": "go"}, {"say": "go"}, {"wait_for_message": True}, {"say": "done"}]
    agent = scripted(place, {"turns": [{"when": "first", "do": steps}]})
    events = agent.query(a_batch(an_item(1, "first")), "")
    assert isinstance(await anext(events), ConversationStarted)
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.wait([waiting], timeout=5 * LOOK_S)
    assert not waiting.done()
    (place.agent / "go").touch()
    assert await waiting == Text("go", 1)
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.wait([waiting], timeout=5 * LOOK_S)
    assert not waiting.done()
    await agent.push(a_batch(an_item(2, "second")))
    assert [await waiting, *await read_all(events)] == [Text("done", 1), Text("echo: second", 2), TurnResult()]


async def test_a_stop_ends_a_wait_for_a_file_and_a_continued_turn_waits_for_no_message(place: ProviderContext) -> None:
    agent = scripted(place, {"default": [{"wait_for": "never"}]})
    events = agent.query(a_batch(an_item(1, "a")), "")
    await anext(events)
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    await agent.interrupt()
    assert await waiting == TurnFailed("interrupted")

    agent = scripted(place, {"default": [{"wait_for_message": True}, {"say": "done"}]})
    batch = a_batch(continued(), an_item(1, "a"), continued=True)
    assert await texts(agent.query(batch, "c-9")) == [("done", 1)]


async def test_a_question_and_a_permission_wait_for_their_answers(place: ProviderContext) -> None:
    steps = [
        {"ask": {"question": "Deploy {text}?", "options": ["yes", "no"]}},
        {"say": "{answer}"},
        {"ask": {"permission": "Bash", "input": {"command": "ls"}}},
        {"say": "{answer}"},
    ]
    agent = scripted(place, {"default": steps})
    events = []
    async for event in agent.query(a_batch(an_item(1, "it")), ""):
        events.append(event)
        if isinstance(event, Question | PermissionRequest):
            await agent.answer(event.id, "yes" if isinstance(event, Question) else "allow", {})

    assert [type(event) for event in events] == [
        ConversationStarted,
        Question,
        Text,
        PermissionRequest,
        Text,
        TurnResult,
    ]
    assert [event.text for event in events if isinstance(event, Text)] == ["yes", "allow"]
    with pytest.raises(LookupError):
        await agent.answer("unknown", "yes", {})


async def test_an_error_ends_the_turn_and_can_be_limited(place: ProviderContext) -> None:
    error = {"kind": "retryable", "message": "overloaded", "retry_after": 2.0, "times": 1}
    agent = scripted(place, {"default": [{"error": error}, {"say": "fine"}]})

    events = await read_all(agent.query(a_batch(an_item(1, "a"), an_item(2, "b")), ""))
    assert events[1:] == [TurnFailed("overloaded", TurnErrorClass.RETRYABLE, 2.0)]
    conversation = events[0].conversation if isinstance(events[0], ConversationStarted) else ""
    again = a_batch(continued(), continued=True)
    assert (await read_all(agent.query(again, conversation)))[1:] == [
        Text("fine", 1),
        TurnFailed("overloaded", TurnErrorClass.RETRYABLE, 2.0),
    ]


async def test_a_push_joins_the_running_turn_and_is_refused_after_it(place: ProviderContext) -> None:
    agent = scripted(place)
    said = []
    async for event in agent.query(a_batch(an_item(1, "a")), ""):
        if isinstance(event, Text) and event.text == "echo: a":
            await agent.push(a_batch(an_item(2, "b")))
        if isinstance(event, Text):
            said.append(event.text)
        if isinstance(event, TurnResult):
            with pytest.raises(NotImplementedError):
                await agent.push(a_batch(an_item(3, "c")))

    assert said == ["echo: a", "echo: b"]


async def test_nanoclaw_18_a_continued_turn_answers_exactly_what_was_not_said(place: ProviderContext) -> None:
    first = scripted(place)
    events = first.query(a_batch(*(an_item(seq, f"m{seq}") for seq in (1, 2, 3))), "")
    started = await anext(events)
    assert isinstance(started, ConversationStarted)

    later = scripted(place)
    note = continued((1, "echo: m1"), (2, "echo: m2"))
    assert await texts(later.query(a_batch(note, continued=True), started.conversation)) == [("echo: m3", 3)]


async def test_a_prompt_that_stands_in_the_batch_again_is_not_taken_twice(place: ProviderContext) -> None:
    events = scripted(place).query(a_batch(an_item(1, "a"), an_item(2, "b")), "")
    started = await anext(events)
    assert isinstance(started, ConversationStarted)

    again = a_batch(an_item(1, "a"), an_item(2, "b"), an_item(3, "new"), continued((1, "echo: a")), continued=True)
    assert await texts(scripted(place).query(again, started.conversation)) == [("echo: b", 2), ("echo: new", 3)]
    afresh = a_batch(an_item(1, "a"), an_item(2, "b"), continued((1, "echo: a")), turn="t-1", continued=True)
    assert await texts(scripted(place).query(afresh, "")) == [("echo: b", 2)]


async def test_earlier_turns_of_a_conversation_are_not_answered_again(place: ProviderContext) -> None:
    agent = scripted(place)
    [started, *_] = await read_all(agent.query(a_batch(an_item(1, "old")), ""))
    assert isinstance(started, ConversationStarted)
    events = agent.query(a_batch(an_item(5, "new"), turn="t-2"), started.conversation)
    await anext(events)

    note = continued()
    assert await texts(scripted(place).query(a_batch(note, turn="t-2", continued=True), started.conversation)) == [
        ("echo: new", 5)
    ]


async def test_a_tool_that_was_used_before_the_crash_is_not_used_again(place: ProviderContext, router: Router) -> None:
    script = {"default": [{"call": "send", "with": {"text": "psst"}}, {"say": "told: {result}"}]}
    agent = scripted(place, script)
    conversation = ""
    async for event in agent.query(a_batch(an_item(1, "go")), ""):
        if isinstance(event, ConversationStarted):
            conversation = event.conversation
        if isinstance(event, ToolResult):
            break  # as a crash right after it would
    later = scripted(place)
    note = continued((None, "psst"))

    assert await texts(later.query(a_batch(note, continued=True), conversation)) == [("told: sent psst", 1)]
    assert len(router.calls) == 1


async def test_a_fork_holds_the_same_conversation_under_another_name(place: ProviderContext) -> None:
    agent = scripted(place)
    [started, *_] = await read_all(agent.query(a_batch(an_item(1, "old")), ""))
    assert isinstance(started, ConversationStarted)
    copy = await agent.fork(started.conversation)

    assert copy != started.conversation
    assert (place.state / f"{copy}.jsonl").read_bytes() == (place.state / f"{started.conversation}.jsonl").read_bytes()


async def test_a_conversation_name_cannot_leave_the_state_folder(place: ProviderContext) -> None:
    await read_all(scripted(place).query(a_batch(an_item(1, "x")), "../../evil"))

    assert (place.state / "evil.jsonl").exists()


async def test_a_script_in_the_options_wins_over_the_file(place: ProviderContext) -> None:
    (place.agent / "script.json").write_text("not even JSON")

    assert read_script({"default": [{"say": "inline"}]}, place.agent / "script.json").default == [
        ScriptStep(say="inline")
    ]
    with pytest.raises(Misconfigured, match=r"script\.json"):
        Scripted(place)


def test_system_notes_match_only_turns_that_ask_for_them() -> None:
    script = Script(turns=[ScriptTurn(do=[]), ScriptTurn(do=[], kind=ItemKind.SYSTEM)])

    assert script.choose(ItemKind.SYSTEM, "x", set())[0] == 1
    assert script.choose(ItemKind.CHAT, "x", set())[0] == 0


def test_what_was_said_accounts_for_each_step_once() -> None:
    spoken = CompletedEffects(
        [
            CompletedEffect(text="a", in_reply_to=1),
            CompletedEffect(text="long te", in_reply_to=2),
            CompletedEffect(text="b"),
        ]
    )

    assert spoken.claim_text("a", 1) and not spoken.claim_text("a", 1)
    assert spoken.claim_text("long text in two parts", 2)
    assert spoken.claim_text("b", 9) and not spoken.claim_text("b", 9)


@pytest.mark.slow
@pytest.mark.parametrize(("crash", "deaths"), [("once", 1), (2, 2)])
async def test_a_crash_happens_as_often_as_the_script_says(host: Host, crash: str | int, deaths: int) -> None:
    host.add("boom", ring=False)
    script = {"default": [{"say": "one"}, {"crash": crash}, {"say": "two"}]}
    for _ in range(deaths):
        await host.start(script=script)
        code, _ = await host.ended()
        assert code == -9
    await host.start()
    await host.until(host.answered)

    assert host.said == ["one", "two"]
