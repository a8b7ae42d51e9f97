"""Trouble of the model's endpoint: what passes is waited out, everything else is told in plain words."""

import asyncio
from typing import Any

from gatepost.flow.notices import INTERRUPTED
from gatepost.inside.agent_loop import CUT_ANSWER, STILL_TRYING
from gatepost_testing.agent_suite.checks.conversation import HELLO
from gatepost_testing.agent_suite.trial import AgentTrial, expect
from gatepost_testing.models import GARBAGE

SORRY = "Sorry, I could not answer your message: "
BUSY = f"{SORRY}the model has too much to do at the moment."
LONG = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen."
SHORT_OUTAGE_S, LONG_OUTAGE_S = 5, 45
# Nothing of these is for people: names of classes, statuses, addresses, the vendor's own JSON.
INTERNALS = ("{", "http", "Error", "<html", "status", "127.0.0.1", "egress", "gatepost")


def check_plain(said: list[str], beginning: str) -> None:
    """Hold one notice against how it must begin, and against what people must not read."""
    assert len(said) == 1 and said[0].startswith(beginning), said
    found = [each for each in INTERNALS if each in said[0]]
    assert not found, f"{said[0]!r} has {found}"


async def check_401(trial: AgentTrial) -> None:
    """A key that is not accepted is told at once."""
    trial.endpoint.key = "another"
    async with trial.running(HELLO):
        check_plain(await trial.ask("hello you"), f"{SORRY}the agent's account was not accepted.")


async def _check_busy(trial: AgentTrial, status: int) -> None:
    soon = {"when": "are you busy", "do": [{"fault": status, "times": 2, "retry_after": 0.1, "say": "there you are"}]}
    never = {"when": "still at it", "do": [{"fault": status, "times": -1, "retry_after": 0.1}]}
    async with trial.running(soon):  # with the usual patience: a program may pause for seconds
        expect(await trial.ask("are you busy"), ["there you are"])
    async with trial.running(HELLO, never, **trial.agent.short_patience):
        said = await trial.ask("still at it")  # a program that starts slowly is given its message a second time
        check_plain([each for each in said if each != INTERRUPTED], BUSY)
        expect(await trial.ask("hello you"), ["here"])


async def check_429(trial: AgentTrial) -> None:
    """Too many requests: waited out, or told if it does not end."""
    await _check_busy(trial, 429)


async def check_529(trial: AgentTrial) -> None:
    """An overloaded model: likewise."""
    await _check_busy(trial, 529)


async def check_credit(trial: AgentTrial) -> None:
    """The vendor's account is empty, as each vendor says it."""
    async with trial.running({"when": "hello you", "do": [{"fault": "credit", "times": -1}]}):
        check_plain(await trial.ask("hello you"), f"{SORRY}the agent's account with the model's vendor has no quota")


async def check_refusal(trial: AgentTrial) -> None:
    """The model declines to answer; the next message is answered."""
    async with trial.running(HELLO, {"when": "do harm", "do": [{"stop": "refusal"}]}):
        check_plain(await trial.ask("do harm"), f"{SORRY}the model declined to answer it.")
        expect(await trial.ask("hello you"), ["here"])


async def check_cut_stream(trial: AgentTrial) -> None:
    """An answer breaks off: it is asked for again, and nothing of the first is said."""
    async with trial.running({"when": "hello you", "do": [{"fault": "cut", "say": LONG}]}):
        expect(await trial.ask("hello you"), [LONG])


async def check_malformed_stream(trial: AgentTrial) -> None:
    """An answer turns into something else in its middle: likewise."""
    async with trial.running({"when": "hello you", "do": [{"fault": "malformed", "say": LONG}]}):
        said = await trial.ask("hello you")
        assert GARBAGE not in str(said) and said == [LONG], said


async def check_slow_stream(trial: AgentTrial) -> None:
    """An answer that comes drop by drop is waited for, and asked for once."""
    async with trial.running({"when": "hello you", "do": [{"pause": 0.5, "say": LONG}]}):
        expect(await trial.ask("hello you"), [LONG])
    assert len(trial.asked) == 1


async def _check_away(trial: AgentTrial, seconds: float) -> list[str]:
    """Return the interim lines that people saw."""
    async with trial.running(HELLO):
        expect(await trial.ask("hello you"), ["here"])
        before = len(trial.channel.sent)
        async with trial.endpoint.away():
            await trial.send("hello you again")
            await asyncio.sleep(seconds)
        expect(await trial.settle(before), ["here"])
        return trial.list_interim_lines()


async def check_endpoint_down_5_s(trial: AgentTrial) -> None:
    """An outage of seconds costs nobody an answer."""
    assert await _check_away(trial, SHORT_OUTAGE_S) == []


async def check_endpoint_down_5_min(trial: AgentTrial) -> None:
    """An outage of minutes: people are told once that it is still tried, and then answered."""
    lines = await _check_away(trial, LONG_OUTAGE_S)
    assert lines == [STILL_TRYING], lines
    trial.note = f"shown with {LONG_OUTAGE_S} s; the usual options wait for 300 s"


async def check_truncated_answer(trial: AgentTrial) -> None:
    """An answer that reaches its length limit is delivered, says so, and can go on."""
    more: dict[str, Any] = {"when": "token limit hit", "do": [{"say": "A piece", "stop": "max_tokens"}]}
    cut: dict[str, Any] = {"when": "tell me all", "do": [{"say": "The first half", "stop": "max_tokens"}]}
    async with trial.running({"when": "go on then", "do": [{"say": "the second half"}]}, more, cut):
        said = await trial.ask("tell me all")
        whole = "\n\n".join(said)
        assert whole in (f"The first half\n\n{CUT_ANSWER}", f"The first half\n\nA piece\n\n{CUT_ANSWER}"), said
        expect(await trial.ask("go on then"), ["the second half"])
    if "A piece" in said:
        trial.note = "the program first goes on by itself, a few times"
