"""Agents as a service: what the store takes for them."""

import pytest
from tests.store.conftest import Desk

from gatepost.core.errors import Invalid
from gatepost.store.messages import inbox, messages
from gatepost.store.sessions import agents
from gatepost.store.sessions.agents import LARGEST_PROMPTS, MOST_PROMPTS, NewAgent
from gatepost.store.sessions.sessions import Session


def _prompt(desk: Desk, agent: Session, text: str) -> int:
    return agents.add_prompt(desk.db, agent, text, "terminal:owner", "Owner", inbox.InboxMode.NEXT, desk.now)


def test_stranger_new_an_agent_has_so_many_prompts_waiting_and_no_more(desk: Desk) -> None:
    agent = agents.create(desk.db, NewAgent(folder="acme", provider="scripted"), desk.now)
    numbers = [_prompt(desk, agent, f"sweep {number}") for number in range(MOST_PROMPTS)]
    with pytest.raises(Invalid, match=r"100 such messages wait there .* when the agent has answered some"):
        _prompt(desk, agent, "once more")
    assert messages.get(desk.db, numbers[-1] + 1) is None

    inbox.cancel_waiting(desk.db, agent.id, "", desk.now)
    assert _prompt(desk, agent, "there is room again")


def test_stranger_new_an_agent_has_so_much_waiting_and_no_more(desk: Desk) -> None:
    agent = agents.create(desk.db, NewAgent(folder="acme", provider="scripted"), desk.now)
    for _ in range(LARGEST_PROMPTS // 1_000_000):
        _prompt(desk, agent, "x" * 1_000_000)
    with pytest.raises(Invalid, match="may have 4000000 characters together at most"):
        _prompt(desk, agent, "once more")
