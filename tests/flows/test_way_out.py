"""The whole way out: an API provider in bubblewrap, without a network and without a key, through egress.sock to a
scripted model; the key is put in outside, the cost is booked, and the budget holds."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.clock import Period
from gatepost.core.keyring import Keyring
from gatepost.core.money import parse_usd
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.money import budgets, costs, reservations
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.port import Db
from gatepost.store.rights import audit, egress, secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.slow_steps import assert_no_slow_steps
from gatepost_testing.waiting import PATIENCE_S

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
    given: dict[str, Any] = {
        "sandbox__kind": "bubblewrap",
        "sessions__provider": provider,
        "anthropic__base_url": endpoint.anthropic,
        "openai__base_url": endpoint.openai,
    }
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **given) as gateway:
        await gateway.store.write(groups.update, "home", {"model": MODELS[provider]})
        keyring, now = Keyring(gateway.home), gateway.clock.now()
        await gateway.store.write(secrets.put, keyring, SecretOwner(), NAMES[provider], KEY, now)
        await open_room(gateway, "fake", ROOM)
        yield gateway


def texts(channel: FakeChannel) -> list[str]:
    return [sent.message.text for sent in channel.sent]


async def wait_until_held(gateway: Gateway, message_id: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            (entry,) = await gateway.store.read(inbox.list_for_message, message_id)
            if entry.state is InboxState.HELD:
                return
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_model_is_reached_with_a_key_that_is_never_inside(tmp_path: Path, provider: str) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, provider, endpoint) as gateway:
        await channel.say("please remember the word plum")
        await channel.wait_for(1)
        account = await wait_until_settled(gateway)
        (live,) = gateway.sessions.awake
        sums = await gateway.store.read(costs.list_sums, "group")

        assert texts(channel) == ["I will remember plum."]
        assert (gateway.home.group("home") / "work.md").read_text() == "word: plum"
        assert account.unaccounted == 0
        assert sum(each.micro for each in sums) > 0
        assert await gateway.store.read(reservations.sum_reserved) == 0
        for folder in (gateway.home.session(live.session.id), gateway.home.group("home")):
            assert not [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    headers = endpoint.calls[0].headers
    assert KEY in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer "))


@pytest.mark.slow
async def test_what_does_not_fit_the_budget_waits_unasked_and_the_room_is_told_once(
    tmp_path: Path, provider: str
) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, provider, endpoint) as gateway:
        limit, now = parse_usd("0.000001", "daily"), gateway.clock.now()
        await gateway.store.write(
            budgets.put, BudgetScope(BudgetScopeKind.GROUP, "home"), Period.DAY, limit, "test", now
        )
        for _ in range(3):
            said = await channel.say("hello")
            await wait_until_held(gateway, said.message_id)
            assert [text for text in texts(channel) if "budget" in text.lower()] == texts(channel)

        assert len(texts(channel)) == 1 and "Your message waits" in texts(channel)[0]
        assert "hello yourself" not in texts(channel)
        assert sum(each.micro for each in await gateway.store.read(costs.list_sums, "group")) <= limit
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
    given: dict[str, Any] = {"sandbox__kind": "bubblewrap", "sessions__provider": "looker"}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say(SHELL.replace("COMMAND", repr(f"{command}; {command}")))
        await channel.wait_for(1)
        await wait_until_settled(gateway)
        tried = await gateway.store.read(egress.list_attempts, 10)
        rows = [row for row in await gateway.store.read(audit.list_latest, 10) if row[3] == "egress"]

    (answer,) = texts(channel)
    assert told in answer
    assert [(each.target, each.verdict, each.times) for each in tried] == [(target, "denied", 2)]
    ((_, _, actor, _, verdict, details),) = rows
    assert (actor, verdict, json.loads(details)["target"]) == ("agent:home", "refused", target)


FLOOD = """run import socket
def ask(*pieces):
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(20)
        line.connect("/run/gatepost/egress.sock")
        try:
            for piece in pieces:
                line.sendall(piece)
            line.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it was hung up on while it spoke; what it was told before is still there
        try:
            return line.recv(100)
        except OSError:
            return b""
tunnel = b"CONNECT localhost:PORT HTTP/1.1\\r\\n\\r\\n"
chunked = b"POST /anthropic/v1/messages HTTP/1.1\\r\\nhost: x\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"
endless = b"POST /nowhere HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: 99999999\\r\\n\\r\\n"
records = b"\\x16\\x03\\x01\\x00\\x04\\x01\\x00\\xff\\xff" + b"\\x16\\x03\\x01\\x00\\x01\\x00" * 9000
told = [
    ask(chunked, b"1\\r\\nx\\r\\n" * 40_000 + b"0\\r\\n\\r\\n"),
    *(ask(tunnel, b"\\n" * 16_384) for _ in range(3)),
    ask(tunnel, records, *[b"\\x16"] * 50),
    ask(endless, *[bytes(1 << 20)] * 20),
]
answer = str([bytes(each).split(b"\\r\\n")[0].decode() for each in told])
"""


@pytest.mark.slow
async def test_stranger_new_no_way_of_asking_on_the_way_out_holds_up_the_loop(tmp_path: Path) -> None:
    """Tiny chunks, blanks and records of one byte, and a body without an end: all from within a real sandbox."""
    channel = FakeChannel()
    add_looker(tmp_path / "h")
    (tmp_path / "h").parent.chmod(0o711)
    given: dict[str, Any] = {"sandbox__kind": "bubblewrap", "sessions__provider": "looker"}
    sink = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = sink.sockets[0].getsockname()[1]

    def allow(db: Db) -> None:
        egress.put(db, "home", "localhost", port, allow=True, local=True, by="operator", now=1)

    async with sink, running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)
        await gateway.store.write(allow)
        await channel.say("run answer = 'awake'")
        await channel.wait_for(1)
        async with assert_no_slow_steps(gateway):
            await channel.say(FLOOD.replace("PORT", str(port)))
            await channel.wait_for(2)
    answer = texts(channel)[1]
    assert answer.startswith("['HTTP/1.1 400 Bad Request', 'HTTP/1.1 200 ") and answer.count("200") == 4
