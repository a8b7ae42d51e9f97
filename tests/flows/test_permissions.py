"""An agent asks before it acts, and nobody can be asked: it hears no at once, and goes on."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.keyring import Keyring
from gatepost.flow.sessions.permissions import DENIED
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store import audit, groups, secrets
from gatepost.testing.channel import FakeChannel
from gatepost.testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost.testing.models import ModelEndpoint

ROOM = "fake:room/1"
PATIENCE = 60.0


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


async def refusals(gateway: Gateway) -> list[tuple[str, str, dict[str, Any]]]:
    """(folder, verdict, details), the newest first."""
    rows = await gateway.store.read(audit.list_latest, 50)
    return [(row[2], row[4], json.loads(row[5])) for row in rows if row[3] == "permission"]


async def test_a_request_is_refused_at_once_written_down_without_its_input_and_the_turn_goes_on(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        ask = {"ask": {"permission": "Bash", "input": {"command": "echo sk-secret-1"}}}
        script = {"turns": [{"when": "may I", "do": [ask, {"say": "they said {answer}"}]}]}
        (gateway.home.group("home") / "script.json").write_text(json.dumps(script))
        await gateway.store.write(groups.update, "home", {"mode": "default"})
        await open_room(gateway, "fake", ROOM)
        await channel.say("may I")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)

        ((folder, verdict, details),) = await refusals(gateway)
        assert channel.texts() == ["they said deny"]
        assert (folder, verdict, details["tool"], details["mode"]) == ("agent:home", "refused", "Bash", "default")
        assert "sk-secret-1" not in str(details)


async def test_a_question_in_a_chat_is_answered_at_once_that_nobody_can_be_asked(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        ask = {"ask": {"question": "Which one?", "options": ["this", "that"]}}
        script = {"turns": [{"when": "choose", "do": [ask, {"say": "they said {answer}"}]}]}
        (gateway.home.group("home") / "script.json").write_text(json.dumps(script))
        await open_room(gateway, "fake", ROOM)
        await channel.say("choose")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)

        ((_, verdict, details),) = await refusals(gateway)
        assert channel.texts() == ["they said deny"]
        assert (verdict, details["tool"]) == ("refused", "question") and "Which one" not in str(details)


@pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed")
@pytest.mark.skipif(
    importlib.util.find_spec("claude_agent_sdk") is None,
    reason="claude-agent-sdk is not installed: pip install '.[claude]'",
)
async def test_claude_in_its_default_mode_hears_why_not_and_answers(tmp_path: Path, channel: FakeChannel) -> None:
    write = {"call": "Write", "with": {"file_path": "/workspace/agent/made.txt", "content": "x"}}
    script = {"tools": True, "turns": [{"when": "make", "do": [write, {"say": "I was not let."}]}]}
    tmp_path.chmod(0o711)
    async with ModelEndpoint(script) as endpoint:
        given = {
            "sandbox__kind": "bubblewrap",
            "sessions__provider": "claude",
            "anthropic__base_url": endpoint.anthropic,
        }
        async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
            await gateway.store.write(groups.update, "home", {"model": "claude-sonnet-4-5", "mode": "default"})
            keyring, now = Keyring(gateway.home), gateway.clock.now()
            await gateway.store.write(
                secrets.put, keyring, secrets.SecretOwner(), secrets.ANTHROPIC_API_KEY, "sk-x", now
            )
            await open_room(gateway, "fake", ROOM)
            await channel.say("make a file")
            await channel.wait_for(1, timeout=PATIENCE)
            await wait_until_settled(gateway)

            assert channel.texts() == ["I was not let."]
            assert not (gateway.home.group("home") / "made.txt").exists()
            assert [details["tool"] for _, _, details in await refusals(gateway)] == ["Write"]
    assert endpoint.calls[-1].count_text(DENIED[:40], "tool") == 1
