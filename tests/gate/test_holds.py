"""Attempts of an agent to get around a hold, and what an answer that lasts does not lift."""

import asyncio
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.grants import find_syntax_error, parse
from gatepost.access.tiers import Tier
from gatepost.core.clock import HOUR
from gatepost.core.errors import Invalid
from gatepost.core.records import replace
from gatepost.core.registry import Registry, load_package
from gatepost.core.settings import Config
from gatepost.flow import grant_changes
from gatepost.flow.requests.ask_approver import MOST_AN_HOUR, MOST_WAITING, MOST_WAITING_IN_GROUP, read_rules
from gatepost.flow.requests.choices import (
    ALLOW_ALWAYS,
    ALLOW_ONCE,
    ALLOW_SESSION,
    BLOCK,
    DENY,
    AnswerChoice,
    list_choices,
)
from gatepost.flow.requests.decide import decide, notify_agent
from gatepost.flow.requests.held_calls import HeldCalls, choose_quorum, get_arguments, make_caller
from gatepost.flow.sessions.runner.results import ResultLimits, record_results
from gatepost.gate.dispatch import Dispatch
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.mailbox.runner_frames import ResultFrame
from gatepost.messages.outbound import Op
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.memory import memories
from gatepost.store.memory.memories import MemoryFilter, MemoryTrust
from gatepost.store.messages import destinations, messages, outbox
from gatepost.store.messages.messages import NewMessage
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.sessions import groups, sessions, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turns import Turn, TurnState
from gatepost.tools.call import Caller, PageFetcher, ToolCall, WebPage
from gatepost.tools.contract import TOOLS, Body, Tool, ToolListing, tool
from gatepost_testing.clock import NOON
from gatepost_testing.gate_agent import PLATFORM, ROOM, GateAgent

load_package("gatepost.tools")
OTHER = "fake:room/2"
SMALL: Registry[Tool] = Registry("tool")


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def echo(call: ToolCall, text: Body, times: int = 1) -> str:
    """Say it again."""
    return text * times


@tool(tier=Tier.WORKER, group="x", effects=(), scoped_by="chatJid", registry=SMALL)
async def where(call: ToolCall, text: str = "", chatJid: str | None = None) -> str:
    """Tell the place."""
    place = call.place
    return f"{place.instance} {place.address} {place.thread}"


@tool(tier=Tier.WORKER, group="x", effects=(), scoped_by="folder", registry=SMALL)
async def visit(call: ToolCall, folder: str | None = None) -> str:
    """Go to a group."""
    return folder or "here"


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def ring(call: ToolCall) -> str:
    """Take nothing."""
    return "rung"


class HeldAgent:
    """An agent whose calls can be held, and somebody who decides about them."""

    def __init__(self, agent: GateAgent, tools: Registry[Tool]) -> None:
        deps = agent.deps
        holder = HeldCalls(agent.store, deps.clock, deps.config, deps.events, deps.channels, "", deps.home.media)  # type: ignore[arg-type]
        self.agent, self.deps = agent, replace(deps, holder=holder)
        agent.dispatch = Dispatch(tools, self.deps)

    @classmethod
    async def create(
        cls,
        home: Path,
        store: SqliteStore,
        *rules: str,
        tools: Registry[Tool] = SMALL,
        above: tuple[str, ...] = (),
        folder: str = "acme/eng",
        pages: PageFetcher | None = None,
        config: Config | None = None,
    ) -> "HeldAgent":
        agent = await GateAgent.create(home, store, folder, tools=tools, pages=pages, config=config)

        def add(db: Db) -> None:
            db.run(
                "INSERT INTO groups (folder, name, provider, created_at) VALUES ('acme', 'Acme', 'scripted', ?)"
                " ON CONFLICT DO NOTHING",
                (NOON,),
            )
            for group, given in ((folder, rules), ("acme", above)):
                for rule in given:
                    grant_changes.add_rule(db, group, rule, "test", NOON)

        await store.write(add)
        return cls(agent, tools)

    async def call(self, name: str, **arguments: Any) -> ToolAnswer:
        return await self.agent.call(name, **arguments)

    async def is_held(self, name: str, **arguments: Any) -> bool:
        answer = await self.call(name, **arguments)
        return "waits for a person's decision" in answer.text

    async def last(self) -> Request:
        return (await self.agent.store.read(waiting_requests.list_pending))[-1]

    async def decide(self, choice: AnswerChoice, given: dict[str, Any] | None = None) -> Request:
        request = await self.last()
        now, channels = self.deps.clock.now(), self.deps.channels
        await self.agent.store.write(
            lambda db: decide(db, channels, request.id, choice, "operator", now, given=given)  # type: ignore[arg-type]
        )
        self.deps.events.tools()
        found = await self.agent.store.read(requests.get, request.id)
        assert found is not None
        return found

    def write(self, text: str, name: str = "report.txt") -> Path:
        """A file in the agent's folder."""
        path = self.deps.home.group("acme/eng") / name
        path.write_text(text)
        return path

    async def say(self, text: str, files: Sequence[dict[str, Any]] = ()) -> OutboxEffect:
        """Something that the agent said before."""
        session = self.agent.session
        new = NewEffect(
            key=f"said/{text}",
            op=Op.SEND,
            origin=EffectOrigin.TOOL,
            instance=session.instance,
            address=session.address,
            text=text,
            payload={"text": text, "files": files} if files else {"text": text},
            folder=session.folder,
            session_id=session.id,
        )
        return await self.agent.store.write(outbox.add, new, NOON)

    async def deliver(self, address: str) -> None:
        """All that waits to be said in a room reaches its platform."""

        def send(db: Db) -> None:
            while (each := outbox.claim_head(db, PLATFORM, address, "pump", NOON + HOUR, HOUR)) is not None:
                outbox.record_outcome(db, each.id, EffectState.SENT, "", NOON + HOUR, platform_id=f"x{each.id}")

        await self.agent.store.write(send)

    async def sent(self) -> list[OutboxEffect]:
        return await self.agent.store.read(lambda db: outbox.OUTBOX.list(db, "ORDER BY id"))

    async def run(self, request: Request, turn: Turn | None = None) -> ToolAnswer:
        session = await self.agent.store.read(sessions.get, request.session_id or "")
        assert session is not None
        return await self.agent.dispatch.call(
            make_caller(session, turn), request.tool, get_arguments(request), request.id, approved=request
        )


async def test_a_group_that_is_not_named_is_the_callers_own(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold visit(folder=acme/eng)")
    assert await agent.is_held("visit", folder="acme/eng")
    assert await agent.is_held("visit")


async def test_a_value_that_is_left_out_is_the_usual_one(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold echo(times=1)")
    assert await agent.is_held("echo", text="a", times=1)
    assert await agent.is_held("echo", text="a")
    assert (await agent.call("echo", text="a", times=2)).text == "aa"


async def test_always_does_not_lift_what_is_denied(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "!where(text=*secret*)", "hold where")
    assert await agent.is_held("where", text="hello")
    await agent.decide(ALLOW_ALWAYS)
    assert (await agent.call("where", text="hello")).text == f"{PLATFORM} {ROOM} "
    assert "forbids it" in (await agent.call("where", text="the secret")).text


@pytest.mark.parametrize("choice", [ALLOW_ALWAYS, ALLOW_SESSION])
async def test_an_answer_that_lasts_does_not_lift_another_hold(
    tmp_path: Path, store: SqliteStore, choice: AnswerChoice
) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold where(text=*invoice*)", f"hold where(chatJid={ROOM})")
    assert await agent.is_held("where", text="hello")
    await agent.decide(choice)
    assert not await agent.is_held("where", text="hello")
    assert await agent.is_held("where", text="an invoice")


@pytest.mark.parametrize("choice", [ALLOW_ALWAYS, ALLOW_SESSION])
async def test_an_answer_that_lasts_speaks_of_the_values_that_the_hold_names(
    tmp_path: Path, store: SqliteStore, choice: AnswerChoice
) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold where(text=prod*)")
    assert await agent.is_held("where", text="prod1")
    await agent.decide(choice)
    assert not await agent.is_held("where", text="prod1", chatJid=ROOM)
    assert await agent.is_held("where", text="prod2")


async def test_an_answer_for_the_session_does_not_lift_a_hold_above_that_came_later(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold where")
    assert await agent.is_held("where", text="hello")
    await agent.decide(ALLOW_SESSION)
    await store.write(grant_changes.add_rule, "acme", "hold where", "test", NOON)
    agent.deps.events.tools()
    assert await agent.is_held("where", text="hello")


async def test_no_rule_is_offered_for_a_value_that_no_rule_can_name(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold where(text=prod*)")
    for text in ("prod*", "prod, x", "prod(1)", "prod ", "prod\n1", "prod" + "x" * 2000):
        assert await agent.is_held("where", text=text)
        assert (await agent.last()).rule == ""


async def test_a_forward_takes_the_message_that_was_seen(tmp_path: Path, store: SqliteStore) -> None:
    """Its source is the room of the turn, which is over when it runs."""
    agent = await HeldAgent.create(tmp_path, store, "hold forward", tools=TOOLS)
    await store.write(destinations.add_room, "acme/eng", "other", PLATFORM, OTHER, "", NOON)
    seq = await agent.agent.receive("look", "in-9")
    assert await agent.is_held("forward", sourceMsgId=seq, targetJid=OTHER)
    assert (await agent.last()).input["sourceJid"] == ROOM


async def test_an_allowed_call_runs_where_it_was_asked(tmp_path: Path, store: SqliteStore) -> None:
    """Two bots of one platform see the same room, and a room has threads."""
    agent = await HeldAgent.create(tmp_path, store, "hold where")

    def move(db: Db) -> None:
        db.run("UPDATE turns SET thread = 'topic' WHERE session_id = ?", (agent.agent.session.id,))
        destinations.add_room(db, "acme/eng", "twin", "fake2", ROOM, "", NOON)

    await store.write(move)
    assert await agent.is_held("where")
    request = await agent.decide(ALLOW_ONCE)
    turn = await store.read(turns.find_open, agent.agent.session.id)
    assert turn is not None
    await store.write(turns.cancel, turn.id, "over", NOON)
    assert (await agent.run(request)).text == f"{PLATFORM} {ROOM} topic"


@pytest.mark.parametrize("address", [ROOM, OTHER])
async def test_an_allowed_call_goes_by_the_bot_that_was_meant(tmp_path: Path, store: SqliteStore, address: str) -> None:
    """Of two that share an address, also where one of these is the room of the turn."""
    agent = await HeldAgent.create(tmp_path, store, "hold where")
    for name, bot in (("a-first", PLATFORM), ("twin", "fake2")):
        await store.write(destinations.add_room, "acme/eng", name, bot, address, "", NOON)
    assert await agent.is_held("where", chatJid="twin")
    request = await agent.decide(ALLOW_ONCE)
    assert (request.input["chatJid"], request.rooms) == (address, {"chatJid": "fake2"})
    assert (await agent.run(request)).text.strip() == f"fake2 {address}"


async def test_a_room_that_a_person_put_in_its_place_is_looked_for_anew(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold where")
    await store.write(destinations.add_room, "acme/eng", "twin", "fake2", ROOM, "", NOON)
    await store.write(destinations.add_room, "acme/eng", "other", PLATFORM, OTHER, "", NOON)
    assert await agent.is_held("where", chatJid="twin")
    request = replace(await agent.decide(ALLOW_ONCE), answer={"chatJid": OTHER})
    assert (await agent.run(request)).text.strip() == f"{PLATFORM} {OTHER}"


@pytest.mark.parametrize(
    "rule",
    [
        *("hold\tsend", "Hold send", "!hold send", "hold !send", "hold hold send", "hold"),
        *("hold[0] send", "hold[x] send", "hold[] send", "hold[2]send", "hold[21] send", "hold[2] ", "hold [2] send"),
        *("hold[-1] send", "hold[²] send", "hold[2][3] send", "hold[2]"),
    ],
)
def test_a_hold_with_a_slip_is_no_rule(rule: str) -> None:
    assert find_syntax_error(rule) != ""


@pytest.mark.parametrize("rule", ["hold[x] send", "hold[] send(jid=a)", "hold[0] send", "hold[99] send", "hold[2]send"])
def test_a_hold_whose_number_cannot_be_read_holds_all_the_same(rule: str) -> None:
    read = parse(rule)
    assert (read.action, read.hold, read.deny, read.quorum) == ("send", True, False, 0)


async def test_a_rule_says_how_many_must_agree_and_the_strictest_counts(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold[2] echo(text=prod*)", above=("hold[3] echo(text=*main)",))
    wanted = {"prod": 2, "prod main": 3, "main": 3}
    for text, quorum in wanted.items():
        assert await agent.is_held("echo", text=text)
        assert (await agent.last()).quorum == quorum
    assert not await agent.is_held("echo", text="test")


@pytest.mark.parametrize(("quorums", "wanted"), [((), 4), ((0,), 4), ((2,), 2), ((2, 0), 4), ((5, 0), 5), ((1,), 1)])
def test_where_a_rule_names_no_number_the_gateways_counts(quorums: tuple[int, ...], wanted: int) -> None:
    assert choose_quorum(quorums, 4) == wanted


async def test_what_is_edited_is_judged_anew(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "!echo(text=*evil*)", "hold echo(text=a*)", "hold[2] echo(text=b*)")
    outcomes = {}
    for text in ("a better one", "not held at all", "evil", "b: two must agree"):
        assert await agent.is_held("echo", text="a", times=len(outcomes) + 1)
        request = await agent.decide(ALLOW_ONCE, given={"text": text})
        outcomes[text] = (await agent.run(request)).text
    assert outcomes["a better one"] == "a better one" and outcomes["not held at all"] == "not held at all"
    assert "forbids" in outcomes["evil"] and "2 people must agree" in outcomes["b: two must agree"]


async def test_a_rule_for_more_people_holds_for_what_was_asked_before_it(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold echo")
    assert await agent.is_held("echo", text="a")
    await store.write(grant_changes.add_rule, "acme", "hold[2] echo", "test", NOON)
    request = await agent.decide(ALLOW_ONCE)
    answer = await agent.run(request)
    assert answer.failed and "2 people must agree to it by now" in answer.text
    assert await agent.is_held("echo", text="a") and (await agent.last()).quorum == 2


async def test_what_several_must_agree_to_is_not_edited_by_one_of_them(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold[2] echo", "hold where")
    assert await agent.is_held("echo", text="a")
    with pytest.raises(Invalid, match="2 people must agree"):
        await agent.decide(ALLOW_ONCE, given={"text": "b"})
    assert await agent.is_held("where", text="a")
    with pytest.raises(Invalid, match="once"):
        await agent.decide(ALLOW_ALWAYS, given={"text": "b"})


async def test_many_sessions_of_one_group_do_not_flood_who_decides(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold echo")

    def ask_elsewhere(db: Db) -> None:
        for number in range(MOST_WAITING_IN_GROUP):
            room = f"fake:room/{number // 8 + 10}"
            session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/eng", "fake", room, "", NOON)
            new = NewRequest(
                kind=RequestKind.CALL, name=str(number), folder="acme/eng", session_id=session.id, tool="echo", input={}
            )
            requests.add(db, new, NOON)

    await store.write(ask_elsewhere)
    refused = await agent.call("echo", text="x")
    assert refused.failed and f"{MOST_WAITING_IN_GROUP} requests of this group wait" in refused.text


async def test_what_a_person_reads_is_what_runs(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold echo")
    assert await agent.is_held("echo", text="a")
    assert json.loads(get_arguments(await agent.last()))["text"] == "a"


@pytest.mark.slow
async def test_a_session_asks_people_so_often_in_an_hour_and_no_more(tmp_path: Path, store: SqliteStore) -> None:
    """The same call with other arguments replaces the one before it, which then does not wait: that is no way out."""
    agent = await HeldAgent.create(tmp_path, store, "hold echo")
    answers = [await agent.agent.call("echo", "same-id", text=str(number)) for number in range(MOST_AN_HOUR + 3)]
    assert [each.failed for each in answers] == [False] * MOST_AN_HOUR + [True] * 3
    assert "in an hour" in answers[-1].text
    assert len(await store.read(waiting_requests.list_pending)) == 1


@pytest.mark.slow
async def test_what_was_asked_before_costs_nothing_of_it(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold echo")
    for number in range(MOST_WAITING):
        assert await agent.is_held("echo", text=str(number))
    first = await agent.agent.call("echo", "again", text="x")
    assert first.failed and "wait for a decision already" in first.text
    repeated = await agent.agent.call("echo", "call-1", text="0")
    assert not repeated.failed


async def test_the_access_list_calls_a_hold_a_hold(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await store.write(grant_changes.add_rule, "acme", "hold send(chatJid=x)", "test", NOON)
    await store.write(grant_changes.add_rule, "acme", "hold[2] send", "test", NOON)
    rows = json.loads((await agent.call("list_acl", folder="acme")).text)["acl"]
    assert [(row["action"], row["effect"]) for row in rows] == [("send(chatJid=x)", "hold"), ("send", "hold[2]")]


async def test_a_denial_that_lasts_lifts_nothing(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold where")
    assert await agent.is_held("where", text="a")
    assert (await agent.last()).rule  # which "always allow" would write
    await agent.decide(BLOCK)
    assert await agent.is_held("where", text="b")


SPEAKING = {
    "send": {"text": "hi"},
    "reply": {"text": "hi"},
    "post": {"content": "hi"},
    "send_card": {"title": "hi"},
    "send_file": {"filepath": "report.txt"},
    "edit": {"targetId": 2, "content": "hi"},
    "like": {"targetId": 1, "reaction": "👍"},
    "pin_message": {"targetId": 1},
    "quote": {"sourceMsgId": 1, "comment": "hi"},
    "repost": {"sourceMsgId": 1},
    "forward": {"sourceMsgId": 1, "targetJid": ROOM},
    "pane_set_title": {"title": "hi"},
    "ask_user_question": {"questions": [{"question": "hi?"}]},
}


@pytest.mark.parametrize("name", SPEAKING)
async def test_a_hold_on_speaking_in_a_room_holds_every_tool_that_speaks_there(
    tmp_path: Path, store: SqliteStore, name: str
) -> None:
    agent = await HeldAgent.create(tmp_path, store, f"hold speak(jid={ROOM})", tools=TOOLS)
    agent.write("figures")
    await agent.say("own words")  # message 2
    assert await agent.is_held(name, **SPEAKING[name])
    assert (await agent.last()).why == f"the rule “hold speak(jid={ROOM})” of acme/eng asks for a person"


async def test_a_hold_on_speaking_in_another_room_holds_nothing_here(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, f"hold speak(jid={OTHER})", tools=TOOLS)
    assert not (await agent.call("reply", text="hi")).failed
    assert not await agent.is_held("reply", text="hello")
    await store.write(destinations.add_room, "acme/eng", "other", PLATFORM, OTHER, "", NOON)
    assert await agent.is_held("reply", text="hi", chatJid="other")


async def test_a_denial_of_speaking_hides_every_tool_that_speaks(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "!speak", tools=TOOLS)
    seen = {each.name for each in await agent.agent.dispatch.visible_to(agent.agent.caller)}
    assert not seen & {*SPEAKING, "send_voice"} and "get_work" in seen


@pytest.mark.parametrize(
    ("rule", "hidden"),
    [("!spend", "log_external_cost"), ("!speak", "delete"), ("!instruct", "register_group")],
)
async def test_a_denial_of_a_subject_hides_what_has_that_effect_in_the_end(
    tmp_path: Path, store: SqliteStore, rule: str, hidden: str
) -> None:
    """A report uses up a budget, a message taken back changes what people read, a prototype has words for an agent."""
    agent = await HeldAgent.create(tmp_path, store, tools=TOOLS, folder="acme")
    assert hidden in {each.name for each in await agent.agent.dispatch.visible_to(agent.agent.caller)}
    await store.write(grant_changes.add_rule, "acme", rule, "test", NOON)
    ruled = HeldAgent(agent.agent, TOOLS)
    assert hidden not in {each.name for each in await ruled.agent.dispatch.visible_to(agent.agent.caller)}


async def test_always_allow_of_a_subjects_hold_writes_the_rule_of_one_tool(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, f"hold speak(jid={ROOM})", tools=TOOLS)
    assert await agent.is_held("send", text="hi")
    assert (await agent.decide(ALLOW_ALWAYS)).rule == f"send(chatJid={ROOM})"
    assert not await agent.is_held("send", text="hello")
    assert await agent.is_held("reply", text="hello")


async def test_a_task_that_says_a_text_is_held_by_what_holds_speaking(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "schedule_task", f"hold speak(jid={ROOM})", tools=TOOLS, above=())
    assert await agent.is_held("schedule_task", targetJid=ROOM, cron="0 9 * * *", text="good morning")


async def test_a_file_that_is_rewritten_after_the_card_is_sent_as_it_was_seen(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold send_file", tools=TOOLS)
    path = agent.write("harmless figures")
    assert await agent.is_held("send_file", filepath="report.txt")
    request = await agent.decide(ALLOW_ONCE)
    assert "File report.txt: 16 bytes, sha256 " in request.preview and "· harmless figures" in request.preview
    assert hashlib.sha256(b"harmless figures").hexdigest() in request.preview

    path.write_text("everybody's passwords")
    assert not (await agent.run(request)).failed

    (file,) = (await agent.sent())[-1].payload["files"]
    assert Path(file["path"]).read_text() == "harmless figures"
    assert (file["name"], file["size"]) == ("report.txt", 16)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("post", {"content": "news", "media": ["report.txt"]}),
        ("send_to_agent", {"group": "acme/eng/sre", "text": "look", "files": ["report.txt"]}),
    ],
)
async def test_files_of_other_tools_go_as_they_were_seen_as_well(
    tmp_path: Path, store: SqliteStore, name: str, arguments: dict[str, Any]
) -> None:
    agent = await HeldAgent.create(tmp_path, store, f"hold {name}", tools=TOOLS)
    await store.write(lambda db: groups.add(db, "acme/eng/sre", "SRE", "scripted", NOON))
    path = agent.write("seen")
    assert await agent.is_held(name, **arguments)
    request = await agent.decide(ALLOW_ONCE)
    path.write_text("another thing")
    done = await agent.run(request)
    assert not done.failed, done.text
    given = [each for each in (tmp_path / "media").rglob("*") if each.is_file() and "held" not in each.parts]
    assert [each.read_text() for each in given] == ["seen"]


async def test_a_path_that_a_person_put_in_is_shown_to_them_before_its_file_goes(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold send_file", tools=TOOLS)
    agent.write("seen")
    agent.write("nobody has seen this", "other.txt")
    assert await agent.is_held("send_file", filepath="report.txt")
    first = await agent.decide(ALLOW_ONCE, given={"filepath": "other.txt", "chatJid": ROOM})
    asked = await agent.run(first)
    assert asked.failed and "people are asked again" in asked.text
    assert not [each for each in await agent.sent() if each.op is Op.SEND]
    request = await agent.last()
    assert request.id != first.id and "· nobody has seen this" in request.preview
    assert not (await agent.run(await agent.decide(ALLOW_ONCE))).failed


async def test_copies_of_a_held_call_go_when_it_ends_and_not_before(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold send_file", tools=TOOLS)
    agent.write("seen")
    kept = tmp_path / "media" / "held"
    for caption in ("a", "b"):
        assert await agent.is_held("send_file", filepath="report.txt", caption=caption)
    assert await agent.is_held("send_file", filepath="report.txt", caption="b")  # another call, with its own copy
    for folder in kept.iterdir():
        os.utime(folder, (1, 1))
    holder = agent.deps.holder
    assert isinstance(holder, HeldCalls) and len(list(kept.iterdir())) == 3
    await holder.remove_unused_copies()
    assert len(list(kept.iterdir())) == 3
    await agent.decide(DENY)
    await store.write(lambda db: db.run("UPDATE requests SET notified_at = 1 WHERE state = 'denied'"))
    await holder.remove_unused_copies()
    assert len(list(kept.iterdir())) == 2


async def test_files_of_held_calls_count_like_files_that_are_sent(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold send_file", tools=TOOLS)
    agent.write("x" * 700_000)
    agent.deps = replace(agent.deps, config=Config({"files.turn_mb": 1}))
    agent.agent.dispatch = Dispatch(TOOLS, agent.deps)
    assert await agent.is_held("send_file", filepath="report.txt", caption="a")
    refused = await agent.call("send_file", filepath="report.txt", caption="b")
    assert refused.failed and "files.turn_mb" in refused.text
    assert len(list((tmp_path / "media" / "held").iterdir())) == 1


async def test_a_message_that_was_edited_after_the_card_is_not_forwarded(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold forward", tools=TOOLS)
    await store.write(destinations.add_room, "acme/eng", "other", PLATFORM, OTHER, "", NOON)
    seq = await agent.agent.receive("harmless", "in-9")
    assert await agent.is_held("forward", sourceMsgId=seq, targetJid=OTHER)
    request = await agent.decide(ALLOW_ONCE)
    assert f"Message {seq}: harmless" in request.preview
    found = await store.read(messages.find_by_seq, agent.agent.session.id, seq)
    assert found is not None
    edited = NewMessage(
        instance=found.instance,
        address=found.address,
        direction=found.direction,
        platform_id="in-9",
        event="edit:1",
        sender=found.sender,
        text="harmful",
        at=NOON,
    )
    await store.write(messages.accept, edited, NOON)
    asked = await agent.run(request)
    assert asked.failed and "people are asked again" in asked.text
    assert f"Message {seq}: harmful" in (await agent.last()).preview


async def test_what_was_allowed_is_not_edited_or_deleted_without_a_person(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold send", tools=TOOLS)
    assert await agent.is_held("send", text="as agreed")
    request = await agent.decide(ALLOW_ONCE)
    assert not (await agent.run(request)).failed
    await agent.say("not asked about")
    agreed, free = [each.seq for each in await agent.sent() if each.op is Op.SEND]

    assert not await agent.is_held("edit", targetId=free, content="changed")
    assert await agent.is_held("delete", targetId=agreed)
    assert await agent.is_held("edit", targetId=agreed, content="something else")
    held = await agent.last()
    assert held.why == f"the message was allowed as it is ({request.id})"
    assert "as agreed" in held.preview
    assert not (await agent.run(await agent.decide(ALLOW_ONCE))).failed
    assert await agent.is_held("edit", targetId=agreed, content="and once more")


async def test_a_rule_that_allows_edits_lets_them_change_what_was_allowed(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold send", "edit", tools=TOOLS)
    assert await agent.is_held("send", text="as agreed")
    assert not (await agent.run(await agent.decide(ALLOW_ONCE))).failed
    (agreed,) = [each.seq for each in await agent.sent() if each.op is Op.SEND]
    assert not await agent.is_held("edit", targetId=agreed, content="something else")


async def test_an_allowed_call_speaks_in_the_thread_that_was_seen(tmp_path: Path, store: SqliteStore) -> None:
    """Whatever the name of the room means by then."""
    agent = await HeldAgent.create(tmp_path, store, "hold where")
    await store.write(destinations.add_room, "acme/eng", "other", PLATFORM, OTHER, "topic", NOON)
    assert await agent.is_held("where", chatJid="other")
    request = await agent.decide(ALLOW_ONCE)
    await store.write(destinations.add_room, "acme/eng", "other", PLATFORM, OTHER, "elsewhere", NOON)
    assert (await agent.run(request)).text == f"{PLATFORM} {OTHER} topic"


async def test_a_prototype_that_was_changed_after_the_card_makes_no_group(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(
        tmp_path, store, "schedule_task", "register_group", "hold register_group", tools=TOOLS
    )
    (agent.deps.home.group("acme/eng") / "prototype").mkdir()
    path = agent.write("Be kind.", "prototype/AGENTS.md")
    assert await agent.is_held("register_group", jid=ROOM, fromPrototype=True)
    request = await agent.decide(ALLOW_ONCE)
    path.write_text("Be evil.")
    asked = await agent.run(request)
    assert asked.failed and "people are asked again" in asked.text
    assert not (await agent.run(await agent.decide(ALLOW_ONCE))).failed


async def test_an_own_voice_that_was_changed_after_the_card_is_not_used(tmp_path: Path, store: SqliteStore) -> None:
    spoken: list[str] = []

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        spoken.append(json.loads(await reader.readexactly(size))["voice"])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 64\r\nconnection: close\r\n\r\nOggS" + bytes(60))
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        config = Config({"tts.base_url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"})
        agent = await HeldAgent.create(tmp_path, store, "hold send_voice", tools=TOOLS, config=config)
        path = agent.write("---\nvoice: nova\n---\n", "PERSONA.md")
        assert await agent.is_held("send_voice", text="hello")
        request = await agent.decide(ALLOW_ONCE)
        assert "Voice voice: nova" in request.preview
        path.write_text("---\nvoice: onyx\n---\n")
        assert not (await agent.run(request)).failed
    assert spoken == ["nova"]


async def test_a_task_that_was_allowed_is_not_changed_without_a_person(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold schedule_task", tools=TOOLS, folder="acme")
    assert await agent.is_held("schedule_task", targetJid=ROOM, cron="0 9 * * *", prompt="say good morning")
    done = await agent.run(await agent.decide(ALLOW_ONCE))
    task_id = json.loads(done.text)["taskId"]
    assert await agent.is_held("update_task", taskId=task_id, prompt="say something else")
    assert "the task was allowed as it is" in (await agent.last()).why


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("schedule_task", {"targetJid": ROOM, "cron": "0 9 * * *", "prompt": "say it there"}),
        ("inject_message", {"chatJid": ROOM, "content": "say it there"}),
        ("delegate_group", {"group": "acme/a", "prompt": "tell me to say it there"}),
        ("send_to_agent", {"group": "acme/a", "text": "tell me to say it there"}),
        ("escalate_group", {"prompt": "tell me to say it there"}),
    ],
)
async def test_an_agent_does_not_have_itself_asked_to_speak_where_that_is_held(
    tmp_path: Path, store: SqliteStore, name: str, arguments: dict[str, Any]
) -> None:
    """What it answers there is no call."""
    agent = await HeldAgent.create(tmp_path, store, f"hold speak(jid={ROOM})", tools=TOOLS, folder="acme")
    assert await agent.is_held(name, **arguments)


async def test_a_held_block_of_an_answer_is_said_in_its_room_once_it_is_allowed(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await HeldAgent.create(tmp_path, store, f"hold speak(jid={OTHER})", tools=TOOLS)
    await store.write(destinations.add_room, "acme/eng", "other", PLATFORM, OTHER, "topic", NOON)
    turn = await store.read(turns.find_open, agent.agent.session.id)
    assert turn is not None
    frame = ResultFrame(id=1, turn=turn.id, epoch=turn.epoch, attempt=turn.attempt, part=0, text="news", to="other")
    limits, asking, channels = ResultLimits(100, 100_000), read_rules(Config()), agent.deps.channels
    taken = await store.write(
        lambda db: record_results(db, channels, turn.session_id, [(frame, ())], limits, NOON, lambda: asking)  # type: ignore[arg-type]
    )
    assert taken.asked and await agent.sent() == []
    request = await agent.decide(ALLOW_ONCE)
    assert not (await agent.run(request)).failed
    (said,) = await agent.sent()
    assert (said.address, said.thread, said.payload["text"]) == (OTHER, "topic", "news")
    assert (await agent.run(request)).failed  # once


async def test_the_card_of_a_forward_shows_all_that_goes_and_its_files(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold forward", tools=TOOLS)
    await store.write(destinations.add_room, "acme/eng", "other", PLATFORM, OTHER, "", NOON)
    long = await agent.agent.receive("Good morning. " * 200 + "THE TAIL", "in-9")
    assert await agent.is_held("forward", sourceMsgId=long, targetJid=OTHER)
    request = await agent.last()
    assert "THE TAIL" in request.preview and not request.cut
    file = {"name": "payroll.xlsx", "mime": "application/x", "path": "/x", "size": 12345}
    own = await agent.say("the menu", [file])
    await agent.deliver(ROOM)
    assert await agent.is_held("forward", sourceMsgId=own.seq, targetJid=OTHER)
    request = await agent.last()
    assert "File payroll.xlsx: 12,345 bytes" in request.preview and not request.cut


async def test_nobody_allows_a_forward_that_no_card_shows_whole(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold forward", tools=TOOLS)
    await store.write(destinations.add_room, "acme/eng", "other", PLATFORM, OTHER, "", NOON)
    text = "y" * 40_000
    seq = await agent.agent.receive(text, "in-9")
    assert await agent.is_held("forward", sourceMsgId=seq, targetJid=OTHER)
    request = await agent.last()
    assert request.cut and list_choices(request) == (DENY,)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert "(40000 characters" in request.preview and digest in "".join(request.preview.split("\n· "))
    assert (await agent.decide(ALLOW_ONCE)).state is RequestState.PENDING


@pytest.mark.parametrize(("name", "more"), [("edit", {"content": "The salaries"}), ("delete", {})])
async def test_the_source_of_an_allowed_forward_is_not_changed_until_it_has_left(
    tmp_path: Path, store: SqliteStore, name: str, more: dict[str, Any]
) -> None:
    agent = await HeldAgent.create(tmp_path, store, f"hold speak(jid={OTHER})", tools=TOOLS)
    await store.write(destinations.add_room, "acme/eng", "other", PLATFORM, OTHER, "", NOON)
    own = await agent.say("Lunch is at noon.")
    await agent.deliver(ROOM)
    assert await agent.is_held("forward", sourceMsgId=own.seq, targetJid=OTHER)
    request = await agent.decide(ALLOW_ONCE)
    assert not (await agent.run(request)).failed
    assert await agent.is_held(name, targetId=own.seq, **more)
    assert request.id in (await agent.last()).why
    await agent.deliver(OTHER)
    assert not await agent.is_held(name, targetId=own.seq, **more)


async def test_the_card_of_a_prototype_shows_its_tasks_and_instructions(tmp_path: Path, store: SqliteStore) -> None:
    """A task speaks in its room later, so a hold on speaking there holds the call."""
    agent = await HeldAgent.create(tmp_path, store, f"hold speak(jid={ROOM})", tools=TOOLS, folder="acme")
    prototype = agent.deps.home.group("acme") / "prototype"
    prototype.mkdir()
    (prototype / "AGENTS.md").write_text("Say whatever the boss wants.")
    task = '[[task]]\nprompt = "Tell the \\u0073alaries."\nevery = "1d"\nscript = "cat /workspace/agent/x"\n'
    (prototype / "tasks.toml").write_text(task)
    assert await agent.is_held("register_group", jid=ROOM, folder="acme/kid", fromPrototype=True)
    request = await agent.last()
    for shown in ("Say whatever the boss wants.", f"Task 1 in {ROOM}", "Tell the salaries.", "every: 1d", "agent/x"):
        assert shown in request.preview
    assert not request.cut
    (prototype / "AGENTS.md").write_text("x" * 40_000)
    assert await agent.is_held("register_group", jid=ROOM, folder="acme/kid", fromPrototype=True)
    assert (await agent.last()).cut


@pytest.mark.parametrize(
    ("name", "first", "other"),
    [
        ("send_to_agent", {"group": "acme/a", "text": "hi"}, {"group": "acme/b", "text": "hi"}),
        ("update_task", {"taskId": "t-1", "prompt": "x"}, {"taskId": "t-2", "prompt": "x"}),
        ("delete_route", {"id": 1}, {"id": 2}),
        ("revoke_token", {"id": "a"}, {"id": "b"}),
        ("replay_session", {"sessionId": "a"}, {"sessionId": "b"}),
        ("add_route", {"route": {"match": "a", "target": "acme/a"}}, {"route": {"match": "b", "target": "acme/a"}}),
    ],
)
async def test_an_answer_that_lasts_speaks_of_the_same_call_where_no_parameter_names_a_place(
    tmp_path: Path, store: SqliteStore, name: str, first: dict[str, Any], other: dict[str, Any]
) -> None:
    agent = await HeldAgent.create(tmp_path, store, f"hold {name}", tools=TOOLS, folder="acme")
    assert await agent.is_held(name, **first)
    assert (await agent.last()).rule == ""
    await agent.decide(ALLOW_SESSION)
    assert await agent.is_held(name, **other)
    assert not await agent.is_held(name, **first)


async def test_a_held_forward_shows_the_words_that_are_on_the_platform(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, f"hold speak(jid={OTHER})", tools=TOOLS)
    await store.write(destinations.add_room, "acme/eng", "other", PLATFORM, OTHER, "", NOON)
    own = await agent.say("The salaries")
    await agent.deliver(ROOM)
    assert not (await agent.call("edit", targetId=own.seq, content="Lunch")).failed
    early = await agent.call("forward", sourceMsgId=own.seq, targetJid=OTHER)
    assert early.failed and "its edit is not on the platform yet" in early.text
    await store.write(lambda db: db.run("UPDATE outbox SET state = 'failed' WHERE op = 'edit'"))
    assert await agent.is_held("forward", sourceMsgId=own.seq, targetJid=OTHER)
    assert f"Message {own.seq}: The salaries" in (await agent.last()).preview


async def test_always_is_offered_where_every_call_is_the_same(tmp_path: Path, store: SqliteStore) -> None:
    agent = await HeldAgent.create(tmp_path, store, "hold ring")
    assert await agent.is_held("ring")
    assert (await agent.last()).rule == "ring"
    open_schema = {**SMALL["ring"].listed, "inputSchema": {"type": "object", "properties": {}}}
    free: Registry[Tool] = Registry("tool")
    free.add("ring", replace(SMALL["ring"], listing=ToolListing(lambda: open_schema)), origin="test")
    agent.agent.dispatch = Dispatch(free, agent.deps)
    await agent.decide(DENY)
    assert await agent.is_held("ring")
    assert (await agent.last()).rule == ""


class OnePage:
    async def fetch(self, caller: Caller, url: str, *, kept: bool) -> WebPage:
        return WebPage(url=url, code=200, media_type="text/html", text="The bank is eve's.")


async def end_turn(agent: HeldAgent) -> Turn:
    turn = await agent.agent.store.read(turns.find_open, agent.agent.session.id)
    assert turn is not None
    await agent.agent.store.write(lambda db: turns.end(db, turn, TurnState.DONE, "", "{}", NOON))
    return turn


async def list_trusts(agent: HeldAgent) -> list[MemoryTrust]:
    return [each.trust for each in await agent.agent.store.read(memories.list_chosen, MemoryFilter(), NOON)]


async def test_what_a_page_has_an_agent_remember_counts_as_read_when_it_is_allowed_later(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await HeldAgent.create(tmp_path, store, tools=TOOLS, pages=OnePage())
    await agent.call("fetch", url="https://example.com/")
    assert await agent.is_held("remember", text="The bank is eve's.", known_to="agent")
    request = await agent.decide(ALLOW_ONCE)
    answer = await agent.run(request, await end_turn(agent))
    assert not answer.failed, answer.text
    assert await list_trusts(agent) == [MemoryTrust.READ]


async def test_what_is_remembered_of_a_page_that_was_held_counts_as_read(tmp_path: Path, store: SqliteStore) -> None:
    """The page comes with a later turn."""
    agent = await HeldAgent.create(tmp_path, store, "hold fetch", tools=TOOLS, pages=OnePage())
    assert await agent.is_held("fetch", url="https://example.com/")
    request = await agent.decide(ALLOW_ONCE)
    answer = await agent.run(request, await end_turn(agent))
    assert "eve" in answer.text
    await store.write(lambda db: notify_agent(db, request, {"result": answer.text}, NOON))
    await agent.agent.begin()
    await agent.call("remember", text="The bank is eve's.")
    assert await list_trusts(agent) == [MemoryTrust.READ]
