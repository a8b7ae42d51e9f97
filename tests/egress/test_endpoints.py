"""Where the models are that a group asks, and which endpoint a key is for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.egress.audio import BASE, COMMAND
from gatepost.egress.endpoints import (
    ANTHROPIC_BASE,
    EndpointVerdict,
    base_in_force,
    gateway_base,
    key_origins,
    own_bases,
    parse_command,
    probe_endpoint,
    read_origin,
    read_own_base,
)
from gatepost.egress.upstream import NO_KEY, Upstream, VendorBaseUrl, VendorKey, parse_base_url
from gatepost.store.engine.sqlite_db import SqliteDb
from gatepost.store.port import Db
from gatepost.store.rights.secret_rows import UNBOUND
from gatepost.store.sessions import groups

NOON = 1_800_000_000_000_000
OWN = "http://models.acme.example:8080/openai"


def test_the_vendors_own_endpoint_answers_nothing_without_a_key() -> None:
    base = gateway_base(Config(), "anthropic")
    assert (base.url, base.origin, base.default) == (
        "https://api.anthropic.com/v1",
        "https://api.anthropic.com:443",
        True,
    )
    assert not gateway_base(Config({ANTHROPIC_BASE.name: "http://127.0.0.1:11434"}), "anthropic").default


def test_a_key_set_before_endpoints_were_recorded_is_for_the_gateways_and_for_no_groups_own() -> None:
    assert UNBOUND in gateway_base(Config(), "openai").origins
    assert read_own_base("openai", OWN).origins == ("http://models.acme.example:8080",)


def test_a_groups_own_endpoint_that_is_the_vendors_still_needs_a_key() -> None:
    assert read_own_base("openai", "https://api.openai.com").default
    assert not read_own_base("openai", OWN).default
    assert not read_own_base("openai", "http://api.openai.com").default  # another origin: no TLS


@pytest.mark.parametrize("text", ["", "models", "ftp://x/v1", "https://user@x/v1", "https://x/v1?a=1", "https://x:y/"])
def test_an_address_that_is_none_names_its_option(text: str) -> None:
    with pytest.raises(SetupError, match=r"options\.openai_base_url"):
        read_own_base("openai", text)


def test_the_nearest_group_with_an_endpoint_decides_for_each_vendor_by_itself() -> None:
    near, far = {"openai_base_url": OWN}, {"openai_base_url": "http://far/v1", "anthropic_base_url": "http://far/v1"}
    found = own_bases([near, {}, far])
    assert (found["openai"].host, found["anthropic"].host) == ("models.acme.example", "far")
    assert own_bases([{}, {"openai_base_url": ""}]) == {}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    return made


@pytest.fixture
def acme(db: SqliteDb) -> Db:
    for folder in ("acme", "acme/eng"):
        groups.add(db, folder, folder, "", NOON)
    return db


def test_a_group_asks_its_own_endpoint_else_that_above_it_else_the_gateways(acme: Db, home: Home) -> None:
    assert base_in_force(acme, home, "acme/eng", "openai").host == "api.openai.com"
    groups.update(acme, "acme", {"options": {"openai_base_url": OWN}})
    assert base_in_force(acme, home, "acme/eng", "openai").host == "models.acme.example"
    assert base_in_force(acme, home, "acme/eng", "anthropic").host == "api.anthropic.com"
    groups.update(acme, "acme/eng", {"options": {"openai_base_url": "http://near/v1"}})
    assert base_in_force(acme, home, "acme/eng", "openai").host == "near"
    assert base_in_force(acme, home, "", "openai").host == "api.openai.com"


def test_options_that_a_group_is_run_with_stand_in_for_its_own(acme: Db, home: Home) -> None:
    groups.update(acme, "acme/eng", {"options": {"openai_base_url": OWN}})
    lent = {"openai_base_url": "http://lent/v1"}
    assert base_in_force(acme, home, "acme/eng", "openai", lent).host == "lent"
    assert base_in_force(acme, home, "acme/eng", "openai", {}).host == "api.openai.com"


def test_the_gateways_endpoint_is_that_of_the_settings_as_they_are_now(acme: Db, home: Home) -> None:
    (home.path / "gatepost.toml").write_text('[openai]\nbase_url = "http://127.0.0.1:11434"\n')
    assert base_in_force(acme, home, "acme", "openai").url == "http://127.0.0.1:11434/v1"


def test_a_key_names_its_endpoint_by_the_origin() -> None:
    assert read_origin("https://host.example/openai/v1") == "https://host.example:443"
    assert key_origins(Config())["OPENAI_API_KEY"] == "https://api.openai.com:443"
    with pytest.raises(Invalid, match="https://host/v1"):
        read_origin("nowhere")


def test_a_program_and_an_address_do_not_both_do_the_work() -> None:
    assert parse_command(Config({COMMAND.name: "whisper --model 'a b'"}), COMMAND, instead_of=BASE) == [
        "whisper", "--model", "a b",
    ]  # fmt: skip
    assert parse_command(Config({BASE.name: "http://x"}), COMMAND, instead_of=BASE) == []
    with pytest.raises(SetupError, match="unset one"):
        parse_command(Config({COMMAND.name: "whisper", BASE.name: "http://x"}), COMMAND, instead_of=BASE)
    with pytest.raises(SetupError, match="cannot be read"):
        parse_command(Config({COMMAND.name: "whisper 'a"}), COMMAND, instead_of=BASE)


@asynccontextmanager
async def answering(*statuses: int) -> AsyncIterator[tuple[VendorBaseUrl, list[bytes]]]:
    """An endpoint that answers so, one after the other; what it was asked."""
    asked, left = list[bytes](), list(statuses)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {left.pop(0)} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield parse_base_url("x", f"http://127.0.0.1:{port}", default=False), asked


async def probe(vendor: str, *statuses: int, key: VendorKey = NO_KEY) -> tuple[EndpointVerdict, list[bytes]]:
    upstream = Upstream()
    try:
        async with answering(*statuses) as (base, asked):
            return await probe_endpoint(upstream, vendor, base, key), asked
    finally:
        await upstream.close()


@pytest.mark.parametrize(
    ("vendor", "statuses", "accepted"),
    [
        ("openai", [200], True),
        ("openai", [401], False),
        ("openai", [403], False),
        ("openai", [500], None),
        ("openai", [404], None),
        ("anthropic", [404, 200], True),
        ("anthropic", [404, 400], True),  # it judged the body, so the key has passed
        ("anthropic", [405, 401], False),
    ],
)
async def test_a_probe_says_whether_the_key_is_taken(vendor: str, statuses: list[int], accepted: bool | None) -> None:
    verdict, asked = await probe(vendor, *statuses)
    assert (verdict.reachable, verdict.accepted) == (True, accepted)
    assert len(asked) == len(statuses) and asked[0].startswith(b"GET /v1/models ")
    assert accepted or f"it answers {statuses[-1]}" == verdict.reason


async def test_a_probe_carries_the_key_and_costs_nothing() -> None:
    _, asked = await probe("anthropic", 404, 200, key=VendorKey("k", {"x-api-key": "k"}, "oauth-2025-04-20"))
    assert all(b"x-api-key: k" in each.lower() and b"anthropic-beta: oauth" in each.lower() for each in asked)
    assert asked[1].startswith(b"POST /v1/messages/count_tokens ")


async def test_an_endpoint_that_is_not_there_is_said_to_be_so() -> None:
    async with answering() as (base, _):
        pass
    upstream = Upstream()
    verdict = await probe_endpoint(upstream, "openai", base, NO_KEY)
    await upstream.close()
    assert (verdict.reachable, verdict.accepted) == (False, None) and "cannot be reached" in verdict.reason
