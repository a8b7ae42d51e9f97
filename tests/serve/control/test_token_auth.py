"""The control API on TCP: who is let in, and what the others are told."""

import asyncio
import stat
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.auth_throttle import LONGEST_S, MOST_WAITING, ROWS, AuthThrottle
from gatepost.serve.control.token_auth import TOKEN_FILE, TokenAuthMiddleware, load_token
from gatepost.serve.peers import peer_of

TOKEN = "a-token-of-some-length"


async def hello(request: object) -> PlainTextResponse:
    return PlainTextResponse("hello")


def knock(listens: str = "127.0.0.1", further: tuple[str, ...] = ()) -> httpx2.AsyncClient:
    inner = Starlette(routes=[Route("/v1/health", hello), Route("/v1/status", hello)])
    transport = httpx2.ASGITransport(app=TokenAuthMiddleware(inner, TOKEN, listens, further, strikes()))
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:9")


async def asked(path: str = "/v1/status", *, token: str = TOKEN, listens: str = "127.0.0.1", **headers: str) -> int:
    authorization = {"authorization": f"Bearer {token}"} if token else {}
    async with knock(listens, ("gate.example",)) as client:
        return (await client.get(path, headers={**authorization, **headers})).status_code


async def test_the_token_opens() -> None:
    assert await asked() == 200


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN[:-1]])
async def test_paseo_15_without_the_token_it_is_401(token: str) -> None:
    assert await asked(token=token) == 401


async def test_health_is_open() -> None:
    assert await asked("/v1/health", token="") == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "gate.example.evil.example:80"])
async def test_paseo_14_a_foreign_name_is_403_whatever_the_token(host: str) -> None:
    assert await asked(host=host) == 403
    assert await asked("/v1/health", host=host) == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1234", "[::1]:80", "a.localhost:80", "gate.example"])
async def test_our_own_names_are_known(host: str) -> None:
    assert await asked(host=host) == 200


async def test_a_page_of_somebody_else_is_refused() -> None:
    assert await asked(origin="https://evil.example") == 403
    assert await asked(origin="null") == 403
    assert await asked(origin="http://localhost:8420") == 200


@pytest.mark.parametrize("others", [("http://localhost", "https://evil.example"), ("https://evil.example", "null")])
async def test_every_origin_is_judged_not_the_first_alone(others: tuple[str, ...]) -> None:
    assert await _knocked([("host", "localhost"), *(("origin", each) for each in others)]) == 403
    assert (
        await _knocked([("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://127.0.0.1")]) == 200
    )


async def test_two_names_at_once_are_400() -> None:
    assert await _knocked([("host", "localhost"), ("host", "evil.example")]) == 400
    assert await _knocked([("host", "localhost"), ("host", "localhost")]) == 400


async def _knocked(headers: list[tuple[str, str]]) -> int:
    async with knock() as client:
        return (await client.get("/v1/status", headers=[("authorization", f"Bearer {TOKEN}"), *headers])).status_code


async def test_who_is_refused_is_told_which_name_or_origin_it_was() -> None:
    async with knock() as client:
        name = (await client.get("/v1/status", headers={"host": "evil.example"})).json()["error"]["text"]
        origin = (await client.get("/v1/status", headers={"origin": "https://evil.example"})).json()["error"]["text"]
    assert "the name 'evil.example' is not known" in name and "control.hosts" in name
    assert "the origin 'https://evil.example' is not known" in origin


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "192.0.2.7"])
async def test_stranger_14_a_401_never_names_the_tokens_file(client: str) -> None:
    door = TokenAuthMiddleware(PlainTextResponse("hello"), TOKEN, "127.0.0.1", (), strikes())
    transport = httpx2.ASGITransport(app=door, client=(client, 5))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:9") as knocking:
        answer = await knocking.get("/v1/status")
    assert answer.status_code == 401
    assert "/" not in answer.json()["error"]["text"] and "control.token_file" in answer.json()["error"]["text"]


class Waits:
    """Counts the seconds that were to be waited, and the rows that were to be written."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.rows: list[tuple[str, int]] = []
        self.now = 0.0

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def record(self, peer: str, count: int, left_out: int) -> None:
        self.rows.append((peer, count))


def strikes(waits: Waits | None = None) -> AuthThrottle:
    counted = waits or Waits()
    return AuthThrottle(counted.record, counted.pause, lambda: counted.now)


async def test_stranger_e_wrong_tokens_wait_longer_each_time_and_are_counted_in_the_audit() -> None:
    waits = Waits()
    inner = Starlette(routes=[Route("/v1/status", hello)])
    transport = httpx2.ASGITransport(
        app=TokenAuthMiddleware(inner, TOKEN, "127.0.0.1", (), strikes(waits)), client=("192.0.2.7", 5)
    )
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:9") as client:
        for _ in range(20):
            assert (await client.get("/v1/status", headers={"authorization": "Bearer wrong"})).status_code == 401
        assert (await client.get("/v1/status", headers={"authorization": f"Bearer {TOKEN}"})).status_code == 200
        await client.get("/v1/status", headers={"authorization": "Bearer wrong"})

    assert waits.pauses[:5] == [0.0, 0.0, 0.25, 0.5, 1.0]
    assert waits.pauses[:20] == sorted(waits.pauses[:20]) and waits.pauses[19] == LONGEST_S
    assert waits.pauses[20] == 0.0  # a right one begins anew
    assert [count for _, count in waits.rows] == [1, 2, 4, 8, 16, 1]


async def test_stranger_e_an_address_has_only_so_many_answers_waiting() -> None:
    held = asyncio.Event()
    waits = Waits()

    async def pause(seconds: float) -> None:
        await held.wait()

    guard = AuthThrottle(waits.record, pause, lambda: 0.0)
    waiting = [asyncio.create_task(guard.strike("192.0.2.7")) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)

    assert await guard.strike("192.0.2.7") is False
    held.set()
    assert await asyncio.gather(*waiting) == [True] * MOST_WAITING


async def test_stranger_e_many_addresses_fill_neither_the_table_nor_the_audit() -> None:
    waits = Waits()
    guard = strikes(waits)
    for number in range(3000):
        await guard.strike(f"2001:db8:{number:x}::1")
    await guard.strike("2001:db8:1::1")
    await guard.strike("2001:db8:1::ffff")

    assert len(waits.rows) == ROWS
    assert len(guard._peers) <= 1024
    assert peer_of("2001:db8:1::1") == peer_of("2001:db8:1::ffff") != peer_of("2001:db8:2::1")


async def test_the_reason_is_said_for_both_kinds_of_clients() -> None:
    async with knock() as client:
        answer = (await client.get("/v1/status")).json()
    assert answer["ok"] is False
    assert answer["error"]["text"] == answer["error"]["message"]
    assert answer["error"]["code"] == -32600


def test_the_token_is_made_once_and_is_the_owners_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    token = load_token(home, Config())
    assert load_token(home, Config()) == token
    assert stat.S_IMODE((tmp_path / "control.token").stat().st_mode) == 0o600


def test_a_token_file_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    home = Home(tmp_path)
    short, missing = tmp_path / "short", tmp_path / "no" / "folder"
    short.write_text("x\n")
    short.chmod(0o600)
    shared = tmp_path / "shared"
    shared.write_text(TOKEN)
    shared.chmod(0o640)
    with pytest.raises(SetupError, match="others can read"):
        load_token(home, Config({TOKEN_FILE.name: str(shared)}))
    with pytest.raises(SetupError, match="too short"):
        load_token(home, Config({TOKEN_FILE.name: str(short)}))
    with pytest.raises(SetupError, match="cannot be made"):
        load_token(home, Config({TOKEN_FILE.name: str(missing)}))
