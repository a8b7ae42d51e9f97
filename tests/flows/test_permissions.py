"""An agent's provider asks before it acts in a chat: whoever may decide about the group gets a card, and the answer
reaches the provider."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.keyring import Keyring
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import secrets, waiting_requests
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups, sessions
from gatepost_testing.agent_profiles import AGENTS, PATIENCE, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, reply_to_card, running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.waiting import PATIENCE_S

ROOM, BOSS, DIRECT = "fake:room/1", "fake:user/boss", "fake:direct/boss"


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


def settle_people(db: Db, now: int) -> None:
    users.add(db, BOSS, "Ada", now)
    users.add_role(db, BOSS, UserRole.OWNER, "", "test", now)
    direct_rooms.add(db, BOSS, "fake", DIRECT, now)


async def wait_for_card(channel: FakeChannel) -> str:
    """The card's text."""
    sent = await channel.wait_for(lambda sent: any("asks to use" in each.message.text for each in sent), PATIENCE_S)
    return next(each.message.text for each in sent if "asks to use" in each.message.text)


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "heard"), [("allow once", "allow"), ("deny", "deny")])
async def test_whoever_may_decide_gets_a_card_and_the_provider_their_answer(
    tmp_path: Path, channel: FakeChannel, answer: str, heard: str
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        ask = {"ask": {"permission": "Bash", "input": {"command": "make cake"}}}
        script = {"turns": [{"when": "may I", "do": [ask, {"say": "they said {answer}"}]}]}
        (gateway.home.group("home") / "script.json").write_text(json.dumps(script))
        await gateway.store.write(groups.update, "home", {"options": {"mode": "default"}})
        await gateway.store.write(settle_people, gateway.clock.now())
        await open_room(gateway, "fake", ROOM)
        await channel.say("may I")
        card = await wait_for_card(channel)
        assert "make cake" in card and "home" in card.lower()
        assert channel.texts(ROOM) == []

        await reply_to_card(gateway, channel, answer, sender=BOSS)
        await channel.wait_for(lambda sent: any(each.address == ROOM for each in sent), PATIENCE_S)
        await wait_until_settled(gateway)
        assert channel.texts(ROOM) == [f"they said {heard}"]
        assert await gateway.store.read(waiting_requests.list_pending) == []


@pytest.mark.slow
async def test_nobody_decides_and_the_provider_is_told_so(tmp_path: Path, channel: FakeChannel) -> None:
    given: dict[str, Any] = {"approvals__expire_s": 1}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        ask = {"ask": {"permission": "Bash", "input": {"command": "make cake"}}}
        script = {"turns": [{"when": "may I", "do": [ask, {"say": "they said {answer}"}]}]}
        (gateway.home.group("home") / "script.json").write_text(json.dumps(script))
        await gateway.store.write(groups.update, "home", {"options": {"mode": "default"}})
        await open_room(gateway, "fake", ROOM)
        await channel.say("may I")
        await channel.wait_for(1, PATIENCE_S)
        assert channel.texts(ROOM) == ["they said deny"]


async def test_a_turn_that_ends_withdraws_what_it_asked_and_its_card_says_so(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        ask = {"ask": {"permission": "Bash", "input": {"command": "make cake"}}}
        script = {"turns": [{"when": "may I", "do": [ask]}]}
        (gateway.home.group("home") / "script.json").write_text(json.dumps(script))
        await gateway.store.write(groups.update, "home", {"options": {"mode": "default"}})
        await gateway.store.write(settle_people, gateway.clock.now())
        await open_room(gateway, "fake", ROOM)
        await channel.say("may I")
        await wait_for_card(channel)
        await channel.say("/stop", sender=BOSS)
        await channel.wait_for(lambda sent: any("Withdrawn" in each.message.text for each in sent), PATIENCE_S)
        assert await gateway.store.read(waiting_requests.list_pending) == []


@pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed")
@pytest.mark.skipif(
    importlib.util.find_spec("claude_agent_sdk") is None,
    reason="claude-agent-sdk is not installed: pip install '.[claude]'",
)
@pytest.mark.parametrize(("answer", "made"), [("1", True), ("2", False)])
@pytest.mark.slow
async def test_claude_in_its_default_mode_asks_and_does_as_it_is_answered(
    tmp_path: Path, channel: FakeChannel, answer: str, made: bool
) -> None:
    write = {"call": "Write", "with": {"file_path": "/workspace/agent/made.txt", "content": "x"}}
    script = {"tools": True, "turns": [{"when": "make", "do": [write, {"say": "That is all."}]}]}
    tmp_path.chmod(0o711)
    async with ModelEndpoint(script) as endpoint:
        given: dict[str, Any] = {
            "sandbox__kind": "bubblewrap",
            "sessions__provider": "claude",
            "anthropic__base_url": endpoint.anthropic,
        }
        async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
            await gateway.store.write(
                groups.update, "home", {"model": "claude-sonnet-4-5", "options": {"mode": "default"}}
            )
            keyring, now = Keyring(gateway.home), gateway.clock.now()
            await gateway.store.write(
                secrets.put, keyring, SecretOwner(), secrets.ANTHROPIC_API_KEY, "sk-for-tests", now
            )
            await gateway.store.write(settle_people, now)
            await open_room(gateway, "fake", ROOM)
            await channel.say("make a file")
            assert "made.txt" in await wait_for_card(channel)
            await reply_to_card(gateway, channel, answer, sender=BOSS)
            await channel.wait_for(lambda sent: any(each.address == ROOM for each in sent), PATIENCE_S)
            await wait_until_settled(gateway)

            assert channel.texts(ROOM) == ["That is all."]
            assert (gateway.home.group("home") / "made.txt").exists() is made


@pytest.mark.slow
async def test_a_plan_that_is_approved_by_a_card_goes_on_with_its_prompt_once(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        ask = {"ask": {"plan": "1. sweep", "follow_up": "Now sweep the hall."}}
        turns = [{"when": "plan it", "do": [ask, {"say": "planned: {answer}"}]}]
        script = {"turns": [*turns, {"when": "Now sweep the hall", "kind": "system", "do": [{"say": "swept"}]}]}
        (gateway.home.group("home") / "script.json").write_text(json.dumps(script))
        await gateway.store.write(settle_people, gateway.clock.now())
        await open_room(gateway, "fake", ROOM)
        await channel.say("plan it")
        sent = await channel.wait_for(lambda sent: any("carry out a plan" in each.message.text for each in sent))
        card = next(each.message.text for each in sent if "carry out a plan" in each.message.text)
        assert "1. sweep" in card and "Now sweep the hall." in card

        await reply_to_card(gateway, channel, "allow once", sender=BOSS)
        await channel.wait_for(lambda sent: any(each.message.text == "swept" for each in sent), PATIENCE_S)
        account = await wait_until_settled(gateway)
        assert channel.texts(ROOM) == ["planned: allow", "swept"] and account.unaccounted == 0


@pytest.mark.slow
@pytest.mark.skipif(bool(AGENTS["claude"].missing), reason=AGENTS["claude"].missing or "it is there")
@pytest.mark.parametrize("answer", ["allow once", "deny"])
async def test_claudes_plan_is_approved_by_a_card_and_goes_on_in_the_mode_that_it_names(
    tmp_path: Path, channel: FakeChannel, answer: str
) -> None:
    write = {"call": "Write", "with": {"file_path": "/workspace/agent/made", "content": "x"}}
    again = {"call": "Write", "with": {"file_path": "/workspace/agent/again", "content": "x"}}
    plan = {"call": "ExitPlanMode", "with": {"plan": "1. sweep the hall"}}
    allowed = answer != "deny"
    turns = [
        {"when": "quokka", "do": [again, {"say": "swept again"}]},
        {"when": "zanzibar", "do": [plan, *([write] if allowed else []), {"say": "That is all."}]},
    ]
    async with (
        ModelEndpoint({"tools": True, "turns": turns}) as endpoint,
        run_agent_gateway(AGENTS["claude"], tmp_path / "h", channel, endpoint, mode="plan") as gateway,
    ):
        await gateway.store.write(settle_people, gateway.clock.now())
        await channel.say("zanzibar")
        sent = await channel.wait_for(lambda sent: any("carry out a plan" in it.message.text for it in sent), PATIENCE)
        card = next(each.message.text for each in sent if "carry out a plan" in each.message.text)
        assert "1. sweep the hall" in card and "goes on in the mode acceptEdits." in card
        await reply_to_card(gateway, channel, answer, sender=BOSS)
        await channel.wait_for(lambda sent: any(each.message.text == "That is all." for each in sent), PATIENCE)
        await wait_until_settled(gateway)

        assert (gateway.home.group("home") / "made").exists() is allowed
        (session,) = await gateway.store.read(sessions.list_open)
        assert session.permission_mode == ("acceptEdits" if allowed else "")
        if allowed:  # also in its next turn, which a new client runs
            await channel.say("quokka")
            await channel.wait_for(lambda sent: any(each.message.text == "swept again" for each in sent), PATIENCE)
            assert (gateway.home.group("home") / "again").exists()
            assert await gateway.store.read(waiting_requests.list_pending) == []
