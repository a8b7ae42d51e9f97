"""A conversation, and what an agent has in it: its words, its tools, its memory."""

from typing import Any

from gatepost.flow.skills.skill_files import SkillFile
from gatepost.store.messages.inbox import InboxState
from gatepost.store.money import costs, reservations
from gatepost.store.rights import audit
from gatepost.store.sessions import groups
from gatepost_testing.agent_profiles import KEY
from gatepost_testing.agent_suite.trial import AgentTrial, expect
from gatepost_testing.agreed_skills import agree_to_skill
from gatepost_testing.grading import WorksPartly
from gatepost_testing.model_api_formats import count_tokens

HELLO: dict[str, Any] = {"when": "hello you", "do": [{"say": "here"}]}
PLUM: dict[str, Any] = {"when": r"remember the word (\w+)", "do": [{"say": "I will remember {1}."}]}
RECALL: dict[str, Any] = {
    "when": "which word",
    "recall": r"remember the word (\w+)",
    "do": [{"say": "The word is {1}."}],
}
SUMMARY = "They spoke of a plum."
SUM_UP: dict[str, Any] = {
    "when": "summary of the conversation|about to be made shorter",
    "do": [{"say": f"<summary>{SUMMARY}</summary>"}],
}
RAMBLING = "and what else there is to say about the cellar "
SKILL = "---\nname: bake\ndescription: How bread-is-baked.\n---\nRun scripts/bake.sh.\n"
BAKE = SkillFile("scripts/bake.sh", True, b"#!/bin/sh\necho baked-by-the-script\n")


async def check_first_answer(trial: AgentTrial) -> None:
    """A first message is answered, by an agent that knows who it is."""
    async with trial.running(HELLO) as gateway:
        (gateway.home.group("home") / "PERSONA.md").write_text("You like plums.")
        expect(await trial.ask("hello you"), ["here"])
    first = trial.asked[0]
    assert b"You like plums." in first.raw and b"How you are reached" in first.raw


async def check_tool(trial: AgentTrial) -> None:
    """It uses a tool of the gateway; the calls of its model are booked, and no key is inside."""
    noted = [{"call": "set_work", "with": {"content": "word: {1}"}}, {"say": "I will remember {1}."}]
    async with trial.running(RECALL, {**PLUM, "do": noted}) as gateway:
        expect(await trial.ask("please remember the word plum"), ["I will remember plum."])
        expect(await trial.ask("which word was it?"), ["The word is plum."])
        assert (gateway.home.group("home") / "work.md").read_text() == "word: plum"
        (live,) = gateway.sessions.awake
        assert sum(each.micro for each in await gateway.store.read(costs.list_sums, "group")) > 0
        assert await gateway.store.read(reservations.sum_reserved) == 0
        for folder in (gateway.home.session(live.session.id), gateway.home.group("home")):
            with_key = [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
            assert not with_key, f"the key is in {with_key}"
    first, last = trial.asked[0], trial.asked[-1]
    keys = [first.headers.get(name, "") for name in ("x-api-key", "x-goog-api-key", "authorization")]
    assert KEY in [each.removeprefix("Bearer ") for each in keys]
    offered = {name.removeprefix(trial.agent.tool.format("")) for name in first.tools}
    assert {"find_tools", "call_tool", "reply"} <= offered and "set_work" not in offered
    assert last.count_text("remember the word plum") == 1


async def check_no_key_inside(trial: AgentTrial) -> None:
    """Nothing that runs in its sandbox finds a key."""
    look = trial.agent.run("env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'")
    async with trial.running({"when": "look around", "do": [look, {"say": "looked"}]}):
        expect(await trial.ask("look around"), ["looked"])
    last = trial.asked[-1]
    assert last.count_text("gatepost", "tool") > 0 and KEY.encode() not in last.raw


async def check_follow_up(trial: AgentTrial) -> None:
    """A message that comes during a turn joins it. The agent may go on with the first plan or the new one."""
    follow = {"when": "plus pears", "do": [{"say": "both done"}]}
    start = {"when": "start with plums", "do": [{"hold": True, "call": "get_work"}, {"say": "both done"}]}
    async with trial.running(follow, start):
        first = await trial.send("start with plums")
        await trial.wait_for_call(1)
        second = await trial.send("plus pears")
        if trial.agent.pushes:
            await trial.wait_until_given(second)
        trial.endpoint.release()
        said = await trial.settle()
        before, after = await trial.get_entry(first), await trial.get_entry(second)
        assert said[-1] == "both done" and before.state is after.state is InboxState.ANSWERED
        assert trial.endpoint.calls[-1].raw.count(b"plus pears") == 1
        if not trial.agent.pushes:
            raise WorksPartly("the protocol has no way to add to a turn: the message is answered in the next one")
        assert before.turn_id == after.turn_id


async def check_model_switch(trial: AgentTrial) -> None:
    """The group gets another model in the middle of a conversation, which goes on."""
    async with trial.running(RECALL, PLUM) as gateway:
        expect(await trial.ask("remember the word plum"), ["I will remember plum."])
        await gateway.store.write(groups.update, "home", {"model": trial.agent.other_model})
        gateway.events.group("home")
        expect(await trial.ask("which word was it?"), ["The word is plum."])
    first, last = trial.asked[0].body["model"], trial.asked[-1].body["model"]
    assert last != first and last.rpartition("/")[2].startswith(trial.agent.other_model.rpartition("/")[2]), last


async def check_compaction(trial: AgentTrial) -> None:
    """`/compact` makes a conversation shorter, and it goes on from the summary."""
    async with trial.running(SUM_UP, HELLO, PLUM, side=SUMMARY):
        await trial.make_owner()
        await trial.ask(f"remember the word plum {RAMBLING * 40}")
        said = await trial.ask("/compact keep the plum")
        assert any("ompact" in each for each in said), said
        expect(await trial.ask("hello you"), ["here"])
    last = trial.asked[-1]
    assert SUMMARY.encode() in last.raw and RAMBLING.encode() * 3 not in last.raw


async def check_overflow(trial: AgentTrial) -> None:
    """The model's endpoint refuses a request as too large: the conversation is made shorter, and goes on."""
    length = 2_000 if trial.agent.window else 40_000
    trial.endpoint.window, trial.endpoint.listed = 0, {}
    async with trial.running(SUM_UP, HELLO, side=SUMMARY):
        for number in range(5):
            said = await trial.ask(f"part {number} {RAMBLING * (length // len(RAMBLING))}")
            assert said == ["I see."], said
        trial.endpoint.window = count_tokens(len(trial.asked[-1].raw)) - length // 20
        if not trial.agent.shortens:
            said = await trial.ask("hello you")
            assert len(said) == 1 and "more than the model can read at once" in said[0], said
            raise WorksPartly(
                "the program does not make a conversation shorter that the endpoint refuses: the sender is told."
                " It does so by itself once half of a Google model's context is full"
            )
        expect(await trial.ask("hello you"), ["here"])
    last = trial.asked[-1]
    assert len(last.raw) < 4 * trial.endpoint.window and SUMMARY.encode() in last.raw


async def check_memory(trial: AgentTrial) -> None:
    """It remembers by a tool, and knows that in a new conversation."""
    keep = {"call": "remember", "with": {"text": "Ann is allergic to walnuts."}}
    async with trial.running({"when": "no walnuts", "do": [keep, {"say": "kept"}]}):
        await trial.make_owner()
        expect(await trial.ask("remember: no walnuts"), ["kept"])
        await trial.ask("/new")
        expect(await trial.ask("which walnuts may I eat?"), ["I see."])
    last = trial.asked[-1]
    assert last.raw.count(b"allergic to walnuts") == 1 and last.count_text("no walnuts") == 0


async def check_skill_with_script(trial: AgentTrial) -> None:
    """It is told of an agreed skill, reads it, and runs its script."""
    read, bake = (
        trial.agent.run(f"{command} /workspace/skills/bake/{name}")
        for command, name in (
            ("cat", "SKILL.md"),
            ("sh", "scripts/bake.sh"),
        )
    )
    async with trial.running({"when": "bread please", "do": [read, bake, {"say": "baked"}]}) as gateway:
        await agree_to_skill(gateway.store, "", "bake", SKILL, BAKE)
        expect(await trial.ask("bread please"), ["baked"])
    first, last = trial.asked[0], trial.asked[-1]
    assert b"bread-is-baked" in first.raw and b"/workspace/skills/bake/SKILL.md" in first.raw
    assert last.count_text("Run scripts/bake.sh", "tool") == 1 and last.count_text("baked-by-the-script", "tool") == 1


async def check_refused_host(trial: AgentTrial) -> None:
    """A command asks for a host that is not allowed: it is told why, and that is written down."""
    look = trial.agent.run("curl -sSi https://example.com; curl -sS http://example.com")
    async with trial.running({"when": "look around", "do": [look, {"say": "looked"}]}) as gateway:
        expect(await trial.ask("look around"), ["looked"])
        rows = [row for row in await gateway.store.read(audit.list_latest, 20) if "example.com" in str(row)]
        assert len(rows) == 2, f"{rows} are not one for each port"
    last = trial.asked[-1]
    assert last.count_text("example.com:443 is not allowed for home", "tool")
    assert last.count_text("example.com:80 is not allowed for home", "tool")
