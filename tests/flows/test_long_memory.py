"""Twenty facts and 500 long messages through the whole gateway: each fact is answered at the end, from memory alone.

The script of the model answers a question about a fact only with words that the gateway has sent it for that question,
in the turn or as the result of `recall`. The summary that it writes of older messages has none of the facts.
"""

import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gatepost.inside.agent_loop import SUMMING_UP
from gatepost.store.memory import memories
from gatepost.store.memory.memories import MemoryFilter, MemoryTrust
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost_testing.agent_profiles import AGENTS, PATIENCE, run_agent_gateway
from gatepost_testing.channel import FakeChannel, SentMessage
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint, RecordedRequest

ANN = "fake:user/ann"
MESSAGES, FACTS = 500, 20
LONG = "and what else there is to say about the plums and the cellar " * 34  # 2 kB
COLOURS = ("amber", "black", "crimson", "denim", "ebony", "fawn", "green", "hazel", "indigo", "jade")
DOORS = {f"door {number + 100}": f"{COLOURS[number % 10]}{number}" for number in range(FACTS)}


def add_member(db: Db) -> None:
    users.add(db, ANN, "", 1)
    users.add_member(db, ANN, "home", "test", 1)


def write_fact(door: str) -> str:
    return f"The colour of {door} is {DOORS[door]}"


def make_script() -> dict[str, Any]:
    """A fact is known from an entry that came with the question; else from what `recall` finds."""
    turns = []
    for door in DOORS:
        fact = rf"The colour of {door} is (\w+)"
        told = f"<known[^>]*>{fact}.*which colour has {door}\\?"
        turns.append({"when": told, "do": [{"say": f"{door}: {{1}}"}]})
        look = [{"call": "recall", "with": {"query": f"colour of {door}"}}, {"say": "{result}"}]
        turns.append({"when": rf"which colour has {door}\?", "do": look})
    side_lines = r"The colour of door \d+ is \w+"
    return {
        "tools": True,
        "side": "SUMMARY: they spoke of plums.\n\n# FACTS",
        "side_lines": side_lines,
        "turns": turns,
        "default": [{"say": "I see. " * 10}],
    }


def count_answers(sent: list[SentMessage]) -> int:
    return sum(each.message.text not in ("", SUMMING_UP) for each in sent)


def list_sources(call: RecordedRequest, fact: str) -> list[str]:
    """Return what stands before a fact each time that a model is shown it."""
    return [line.text[: at.start()] for line in call.lines for at in re.finditer(fact, line.text)]


@pytest.mark.slow
@pytest.mark.parametrize("window", [8192, 32_768, 200_000])
async def test_twenty_facts_are_answered_right_after_500_long_messages(
    window: int, tmp_path: Path, record_property: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    channel = FakeChannel()
    endpoint = ModelEndpoint(make_script(), window=window, listed={"max_model_len": window})
    async with (
        endpoint,
        run_agent_gateway(AGENTS["openai"], tmp_path / "h", channel, endpoint, context=window) as gateway,
    ):
        await gateway.store.write(add_member)
        texts = [f"{write_fact(door)}. {LONG}" for door in DOORS]
        texts += [f"message {number}: {LONG}" for number in range(FACTS, MESSAGES)]
        for count, text in enumerate(texts, 1):
            await channel.say(text, sender=ANN)
            await channel.wait_for(lambda sent, count=count: count_answers(sent) >= count, timeout=PATIENCE)
        talked, from_turn = len(endpoint.calls), 0
        for count, door in enumerate(DOORS, MESSAGES + 1):
            await channel.say(f"which colour has {door}?", sender=ANN)
            await channel.wait_for(lambda sent, count=count: count_answers(sent) >= count, timeout=PATIENCE)
            answer = [text for text in channel.texts() if text][-1]
            assert DOORS[door] in answer, (door, answer)
            from_turn += answer == f"{door}: {DOORS[door]}"
            sources = list_sources(endpoint.calls[-1], write_fact(door))
            assert sources and all("<known" in each or '"memories"' in each for each in sources)
        await wait_until_settled(gateway)

        def count_failed(db: Db) -> int:
            row = db.row("SELECT COUNT(*) FROM turns WHERE state <> 'done' OR attempt > 1")
            return int(row[0]) if row is not None else -1

        assert await gateway.store.read(count_failed) == 0
        found = await gateway.store.read(memories.list_chosen, MemoryFilter(), gateway.clock.now())
        facts = [each for each in found if each.text.startswith("The colour of door")]
        assert len(facts) == FACTS and {each.trust for each in facts} == {MemoryTrust.CONCLUDED}
    sums = sum(not call.tools for call in endpoint.calls)
    figures = {"window": window, "messages": MESSAGES, "requests": talked, "summaries": sums, "answered": FACTS}
    figures |= {"with the turn": from_turn, "by recall": FACTS - from_turn, "seconds": round(time.monotonic() - began)}
    record_property("long_memory", figures)
    with capsys.disabled():
        sys.stdout.write(f"\n{figures}\n")
