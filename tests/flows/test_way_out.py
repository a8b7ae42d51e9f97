"""The whole way out: an API provider in bubblewrap, without a network and without a key, through egress.sock to a
scripted model; the key is put in outside, the cost is booked, and the budget holds."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.budgets import micro_of
from gatepost.app import Gateway
from gatepost.core.keyring import Keyring
from gatepost.core.periods import Period
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store import audit, budgets, costs, egress, groups, reservations, secrets
from gatepost.store.budgets import Scope
from gatepost.testing.channel import FakeChannel
from gatepost.testing.gateway import open_room, running_gateway, settled
from gatepost.testing.models import ModelEndpoint

from .conftest import add_looker

ROOM = "fake:room/1"
KEY = "sk-very-secret-000"
MODELS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5-mini"}
NAMES = {"anthropic": secrets.ANTHROPIC_API_KEY, "openai": secrets.OPENAI_API_KEY}
SCRIPT: dict[str, Any] = {
    "turns": [
        {
            "when": r"remember the word (\w+)",
            "do": [{"call": "set_work", "with": {"content": "word: {1}"}}, {"say": "I will remember {1}."}],
        },
        {"when": "hello", "do": [{"say": "hello yourself"}]},
    ]
}

pytestmark = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed")


@pytest.fixture(params=["anthropic", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def a_gateway(path: Path, channel: FakeChannel, provider: str, endpoint: ModelEndpoint) -> AsyncIterator[Gateway]:
    path.parent.chmod(0o711)
    given = {
        "sandbox__kind": "bubblewrap",
        "sessions__provider": provider,
        "anthropic__base_url": endpoint.anthropic,
        "openai__base_url": endpoint.openai,
    }
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **given) as gateway:
        await gateway.store.write(groups.change, "home", {"model": MODELS[provider]})
        keyring, now = Keyring(gateway.home), gateway.clock.now()
        await gateway.store.write(secrets.put, keyring, secrets.Place(), NAMES[provider], KEY, now)
        await open_room(gateway, "fake", ROOM)
        yield gateway


def texts(channel: FakeChannel) -> list[str]:
    return [sent.message.text for sent in channel.sent]


async def test_a_model_is_reached_with_a_key_that_is_never_inside(tmp_path: Path, provider: str) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, provider, endpoint) as gateway:
        await channel.say("please remember the word plum")
        await channel.wait_for(1, timeout=30)
        account = await settled(gateway)
        (live,) = gateway.sessions.awake
        sums = await gateway.store.read(costs.sums, "group")

        assert texts(channel) == ["I will remember plum."]
        assert (gateway.home.group("home") / "work.md").read_text() == "word: plum"
        assert account.unaccounted == 0
        assert sum(each.micro for each in sums) > 0
        assert await gateway.store.read(reservations.in_flight) == 0
        for folder in (gateway.home.session(live.session.id), gateway.home.group("home")):
            assert not [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    headers = endpoint.calls[0].headers
    assert KEY in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer "))


async def test_what_does_not_fit_the_budget_is_not_asked_and_the_room_is_told_once(
    tmp_path: Path, provider: str
) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, provider, endpoint) as gateway:
        limit, now = micro_of("0.000001", "daily"), gateway.clock.now()
        await gateway.store.write(budgets.put, Scope("group", "home"), Period.DAY, limit, "test", now)
        for _ in range(3):
            await channel.say("hello")
            await settled(gateway, 40)

        told = [text for text in texts(channel) if "budget" in text.lower() or "spent" in text.lower()]
        notices = [text for text in told if not text.startswith("Sorry")]
        assert len(notices) == 1
        assert "hello yourself" not in texts(channel)
        assert sum(each.micro for each in await gateway.store.read(costs.sums, "group")) <= limit
    assert endpoint.calls == []


SHELL = """run import json
from pathlib import Path
from gatepost.inside import forwarder
port = forwarder.start(Path("/run/gatepost"))
env = {**os.environ, **forwarder.environment(port)}
ran = subprocess.run(["sh", "-c", COMMAND], env=env, capture_output=True, text=True, timeout=30)
answer = f"{ran.returncode} {ran.stdout} {ran.stderr}"
"""
BY_URLLIB = "import urllib.request as u; u.urlopen(__import__('sys').argv[1])"


@pytest.mark.parametrize(
    ("command", "target", "told"),
    [
        ("curl -sS http://example.com/", "example.com:80", "example.com:80 is not allowed for home"),
        ("curl -sS https://example.com/", "example.com:443", "403"),
        ("curl -sSi https://example.com/", "example.com:443", "403 example.com:443 is not allowed for home"),
        (f'python3 -c "{BY_URLLIB}" https://example.com/', "example.com:443", "403 example.com:443 is not allowed"),
    ],
)
async def test_a_host_that_is_not_allowed_is_refused_with_a_reason_and_one_audit_row(
    tmp_path: Path, command: str, target: str, told: str
) -> None:
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"{command.split()[0]} is not installed")
    channel = FakeChannel()
    add_looker(tmp_path / "h")
    (tmp_path / "h").parent.chmod(0o711)
    given = {"sandbox__kind": "bubblewrap", "sessions__provider": "looker"}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say(SHELL.replace("COMMAND", repr(f"{command}; {command}")))
        await channel.wait_for(1, timeout=30)
        await settled(gateway)
        tried = await gateway.store.read(egress.latest, 10)
        rows = [row for row in await gateway.store.read(audit.latest, 10) if row[3] == "egress"]

    (answer,) = texts(channel)
    assert told in answer
    assert [(each.target, each.verdict, each.times) for each in tried] == [(target, "denied", 2)]
    ((_, _, actor, _, verdict, details),) = rows
    assert (actor, verdict, json.loads(details)["target"]) == ("agent:home", "refused", target)
