"""CONNECT and plain HTTP over the real socket, as a hostile sandbox would ask."""

import asyncio
import os
import socket
import threading
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gatepost.core.process.thread_pools import BoundedThreadPool
from gatepost.core.records import replace
from gatepost.egress import proxy
from gatepost.egress.egress_socket import EgressSocket
from gatepost.egress.http import LARGEST_HEAD, HttpRefusal
from gatepost.egress.model_proxy import BIG
from gatepost.egress.pace import PacedReader
from gatepost.egress.rules import EgressTarget
from gatepost.egress.way_out import FEW, MOST_AUDITED
from gatepost.store.rights import audit
from gatepost_testing.waiting import PATIENCE_S


def connect(target: str, extra: str = "") -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{extra}\r\n".encode()


async def test_what_nobody_allowed_is_refused_with_a_reason_and_one_audit_row(way: Any) -> None:
    answer = await way.send(connect("example.com:443"))
    again = await way.send(connect("example.com:443"))

    assert answer.status == again.status == 403
    assert "example.com:443 is not allowed for acme/eng" in answer.text
    assert "gatepost egress allow" in answer.headers["x-gatepost-reason"]
    assert [(each.target, each.verdict, each.times) for each in await way.log()] == [("example.com:443", "denied", 2)]
    rows = await way.store.read(audit.list_latest, 10)
    assert [(row[2], row[3], row[4]) for row in rows] == [("agent:acme/eng", "egress", "refused")]
    assert way.looked_up == []
    assert b"403 example.com:443 is not allowed" in await way.raw(connect("example.com:443"))  # what clients show


async def test_an_allowed_host_is_reached_through_a_tunnel(way: Any) -> None:
    await way.allow("localhost", way.host.port)
    reader, writer = await asyncio.open_unix_connection(way.path)
    writer.write(connect(f"LOCALHOST.:{way.host.port}"))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
    place = f"localhost:{way.host.port}"
    writer.write(f"POST /in HTTP/1.1\r\nHost: {place}\r\ncontent-length: 3\r\n\r\nabcGET / HTTP/1.1\r\n".encode())
    assert (await reader.read()).endswith(b"ok")
    writer.close()

    assert way.host.heads == [f"POST /in HTTP/1.1\r\nhost: {place}\r\ncontent-length: 3\r\nconnection: close\r\n\r\n"]
    assert way.host.bodies == [b"abc"]
    assert [each.verdict for each in await way.log()] == ["allowed"]


@pytest.mark.parametrize(
    "said",
    [
        b"GET /exfil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
        b"\r\n\r\nGET / HTTP/1.1\r\nHost: denied.example\r\n\r\n",
        b"get / http/1.1\r\nHost: denied.example\r\n\r\n",
        b"GET http://denied.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: denied.example\r\n\r\n",
        b"GET / HTTP/1.1\nHost: denied.example\n\n\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    ],
)
async def test_plain_http_in_a_tunnel_names_the_host_that_it_was_allowed_for(way: Any, said: bytes) -> None:
    await way.allow("localhost", way.host.port)
    reader, writer = await asyncio.open_unix_connection(way.path)
    writer.write(connect(f"localhost:{way.host.port}") + said)
    async with asyncio.timeout(PATIENCE_S):
        answer = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()
    assert way.host.heads == []
    assert "denied" in [each.verdict for each in await way.log()]
    assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")) or len(said) > 1000


async def test_what_is_neither_tls_nor_http_passes_a_tunnel_to_a_port_of_its_own(way: Any) -> None:
    await way.allow("localhost", way.host.port)
    for said in (b"EHLO me\r\n\r\n", b"SSH-2.0-x y\r\n\r\n", b"\x00\x00GET / HTTP/1.1\r\n\r\n"):
        reader, writer = await asyncio.open_unix_connection(way.path)
        writer.write(connect(f"localhost:{way.host.port}") + said)
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read()).endswith(b"ok")
        writer.close()
        assert way.host.heads.pop().encode() == said


async def test_a_tunnel_to_port_80_is_for_http() -> None:
    for said, fits in ((b"EHLO me\r\n", False), (b"\x00", False), (b"", True), (b"GET / HTTP/1.1\r\n", True)):
        reader = asyncio.StreamReader()
        reader.feed_data(said)
        reader.feed_eof()
        if fits:
            assert said.startswith(await proxy.read_greeting(PacedReader(reader), EgressTarget("a.com", 80)))
            continue
        with pytest.raises(HttpRefusal, match="neither TLS nor plain HTTP"):
            await proxy.read_greeting(PacedReader(reader), EgressTarget("a.com", 80))


async def test_slow_names_of_one_session_do_not_hold_up_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def ask(host: str, port: int, **more: Any) -> list[Any]:
        if host == "slow.test":
            go_on.wait(PATIENCE_S)
        return [(0, 0, 0, "", ("192.0.2.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    mine, theirs = BoundedThreadPool(proxy.MOST_LOOKUPS), BoundedThreadPool(proxy.MOST_LOOKUPS)
    waiting = [asyncio.create_task(proxy.resolve("slow.test", 443, mine)) for _ in range(128)]
    async with asyncio.timeout(PATIENCE_S):
        assert await proxy.resolve("quick.test", 443, theirs) == ["192.0.2.1"]
    assert not any(each.done() for each in waiting)
    go_on.set()
    await asyncio.gather(*waiting)


async def test_plain_http_is_written_anew_for_the_host(way: Any) -> None:
    await way.allow("localhost", way.host.port)
    place = f"localhost:{way.host.port}"
    answer = await way.send(
        f"POST http://{place}/a?b=%2e%2e HTTP/1.1\r\nhost: {place}\r\nproxy-authorization: x\r\nconnection: x-gone\r\n"
        "x-gone: 1\r\nx-kept: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n".encode()
    )
    assert (answer.status, answer.body) == (200, b"ok")
    head = way.host.heads[0]
    assert head.startswith(f"POST /a?b=%2e%2e HTTP/1.1\r\nhost: {place}\r\n")
    assert "x-kept: 2" in head and "connection: close" in head
    assert "x-gone" not in head and "proxy" not in head


async def test_a_redirect_is_the_clients_to_follow(way: Any) -> None:
    await way.allow("localhost", way.host.port)
    way.host.reply = b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n"
    answer = await way.send(f"GET http://localhost:{way.host.port}/ HTTP/1.1\r\n\r\n".encode())
    assert (answer.status, len(way.host.heads)) == (302, 1)
    assert (await way.send(b"GET http://169.254.169.254/ HTTP/1.1\r\n\r\n")).status == 403


@pytest.mark.parametrize(
    "target",
    [
        "127.0.0.1:{port}",
        "[::1]:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "2130706433:{port}",
        "0x7f.1:{port}",
        "127.1:{port}",
        "user@localhost:{port}",
        "localhost:{port}@evil.com:443",
        "localhost",
        "localhost:",
        "localhost:0{port}",
        "localhost%00.com:{port}",
        "localhost/:{port}",
        "localhost#:{port}",
        "evil.com:{port}",
    ],
)
async def test_no_spelling_gets_around_the_rules(way: Any, target: str) -> None:
    await way.allow("localhost", way.host.port)
    await way.allow("*")
    answer = await way.send(b"CONNECT %b HTTP/1.1\r\n\r\n" % target.format(port=way.host.port).encode())
    assert answer.status in (400, 403)
    assert way.host.heads == []


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:127.0.0.1"], ["169.254.169.254"]]
)
async def test_a_public_name_with_a_private_address_is_refused(way: Any, addresses: list[str]) -> None:
    await way.allow("rebound.com")
    way.names["rebound.com"] = addresses
    answer = await way.send(connect("rebound.com:443"))
    assert answer.status == 403 and "address" in answer.text
    assert way.looked_up == ["rebound.com"]  # once: what was judged is what would be connected to


async def test_a_host_that_is_listed_without_its_port_stays_closed_if_it_is_local(way: Any) -> None:
    await way.allow("localhost")
    assert (await way.send(connect("localhost:443"))).status == 403


async def test_a_rule_of_another_group_does_not_help_and_a_denial_acts_at_once(way: Any) -> None:
    await way.allow("localhost", way.host.port, folder="other")
    assert (await way.send(connect(f"localhost:{way.host.port}"))).status == 403
    await way.allow("localhost", way.host.port, folder="acme")
    place = f"http://localhost:{way.host.port}/".encode()
    assert (await way.send(b"GET %b HTTP/1.1\r\n\r\n" % place)).status == 200
    await way.allow("localhost", folder="acme/eng", allow=False)
    assert (await way.send(b"GET %b HTTP/1.1\r\n\r\n" % place)).status == 403


async def test_the_models_own_host_is_no_target(way: Any) -> None:
    for host in ("api.anthropic.com", "api.openai.com"):
        await way.allow(host, 443)
        answer = await way.send(connect(f"{host}:443"))
        assert answer.status == 403 and "model endpoints" in answer.text


@pytest.mark.parametrize(
    "request_",
    [
        b"GET http://localhost:P/ HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"GET http://localhost:P/ HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na",
        b"GET http://localhost:P/ HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\r\ntransfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n0\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\r\ncontent-length: +1\r\n\r\na",
        b"GET http://localhost:P/ HTTP/1.1\r\ncontent-length: 0x1\r\n\r\na",
        b"GET http://localhost:P/ HTTP/1.1\r\nx: 1\r\n folded: 2\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\nx: 1\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\r\nx: 1\ny: 2\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\r\nx: a\rb\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\r\nx: a\x00b\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\r\n: empty\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\r\nhost: localhost:P\r\nhost: evil.com\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1\r\nhost: evil.com\r\n\r\n",
        b"GET http://localhost:P/ HTTP/2.0\r\n\r\n",
        b"GET  http://localhost:P/ HTTP/1.1\r\n\r\n",
        b"GET http://localhost:P/ HTTP/1.1 x\r\n\r\n",
        b"GET http://localhost:P/#x HTTP/1.1\r\n\r\n",
        b"GET http://localhost:P\\@evil.com/ HTTP/1.1\r\n\r\n",
        b"GET http://evil.com@localhost:P/ HTTP/1.1\r\n\r\n",
        b"GET https://localhost:P/ HTTP/1.1\r\n\r\n",
        b"GET ftp://localhost:P/ HTTP/1.1\r\n\r\n",
        b"GET localhost:P HTTP/1.1\r\n\r\n",
        b"CONNECT localhost:P HTTP/1.1\r\nhost: evil.com:443\r\n\r\n",
        b"CONNECT localhost:P HTTP/1.1\r\ncontent-length: 1\r\n\r\nx",
        b"CONNECT http://localhost:P/ HTTP/1.1\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused(way: Any, request_: bytes) -> None:
    await way.allow("localhost", way.host.port)
    answer = await way.send(request_.replace(b"P/", b"%d/" % way.host.port).replace(b":P", b":%d" % way.host.port))
    assert answer.status in (400, 403)
    assert way.host.heads == []
    assert [each.verdict for each in await way.log()] == ["denied"]


@pytest.mark.parametrize(
    "body", [b"zz\r\n", b"-1\r\n", b"1\r\nab\r\n0\r\n\r\n", b"1\nx\r\n0\r\n\r\n", b"1" * 70_000, b"0\r\nx: 1\r\n\r\n"]
)
async def test_malformed_chunks_end_the_request(way: Any, body: bytes) -> None:
    answer = await way.send(b"POST /openai/v1/responses HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + body)
    assert answer.status == 400
    assert way.vendor.heads == []


async def test_a_head_has_a_limit(way: Any) -> None:
    answer = await way.send(b"GET http://localhost/ HTTP/1.1\r\nx: " + b"a" * (LARGEST_HEAD + 10) + b"\r\n\r\n")
    many = await way.send(b"GET http://localhost/ HTTP/1.1\r\n" + b"x: 1\r\n" * 101 + b"\r\n")
    assert (answer.status, many.status) == (431, 431)


async def test_a_second_request_on_a_connection_is_not_answered(way: Any) -> None:
    await way.allow("localhost", way.host.port)
    one = f"GET http://localhost:{way.host.port}/one HTTP/1.1\r\n\r\n".encode()
    raw = await way.raw(one + one.replace(b"one", b"two"))
    assert raw.count(b"HTTP/1.1 200") == 1
    assert [head.split(" ")[1] for head in way.host.heads] == ["/one"]


async def test_a_foreign_process_is_turned_away(way: Any, tmp_path: Path) -> None:
    stranger = EgressSocket(way.socket._deps, way.socket._caller, lambda pid: pid != os.getpid())
    await stranger.open(tmp_path / "other.sock")
    reader, writer = await asyncio.open_unix_connection(tmp_path / "other.sock")
    with suppress(OSError):
        assert await reader.read() == b""
    writer.close()
    await stranger.close()
    assert await way.log() == []


async def test_revoking_cuts_a_tunnel_and_refuses_whoever_comes(way: Any) -> None:
    await way.allow("localhost", way.host.port)
    reader, writer = await asyncio.open_unix_connection(way.path)
    writer.write(connect(f"localhost:{way.host.port}"))
    await reader.readuntil(b"\r\n\r\n")
    way.socket.revoke()
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.read() == b""
        await way.host.left.wait()
    writer.close()
    answer = await way.send(connect(f"localhost:{way.host.port}"))
    assert answer.status == 403 and "stopped" in answer.text


async def test_an_unknown_host_and_one_that_is_down_are_told_apart_from_a_denial(way: Any) -> None:
    await way.allow("nowhere.com")
    await way.allow("localhost", 1)
    unknown, down = await way.send(connect("nowhere.com:443")), await way.send(connect("localhost:1"))
    assert (unknown.status, down.status) == (502, 502)
    assert "resolver" in unknown.text and "cannot be reached" in down.text
    assert {each.verdict for each in await way.log()} == {"failed"}
    assert await way.store.read(audit.list_latest, 10) == []


async def test_a_private_address_is_refused_with_the_command_that_allows_it(way: Any) -> None:
    await way.allow("box.lan")
    way.names["box.lan"] = ["192.168.1.7"]
    answer = await way.send(b"CONNECT box.lan:443 HTTP/1.1\r\n\r\n")
    assert answer.status == 403
    assert "gatepost egress allow box.lan:443 --folder acme/eng" in answer.headers["x-gatepost-reason"]


@pytest.mark.slow
async def test_stranger_07_many_different_denials_are_few_audit_rows_and_one_with_their_number(way: Any) -> None:
    for number in range(MOST_AUDITED + 40):
        await way.raw(f"CONNECT host-{number}.example:443 HTTP/1.1\r\n\r\n".encode())
    await way.socket.close()
    await way.log()
    rows = await way.store.read(audit.list_latest, 1000)

    assert len(rows) == MOST_AUDITED + 1
    assert '"repeated":40' in rows[0][5]
    assert await way.store.read(audit.count_repeated) == 40


async def test_stranger_05_a_session_has_few_connections_while_all_have_many(way: Any) -> None:
    way.socket._deps.open.most = 4
    async with AsyncExitStack() as stack:
        for number in range(FEW + 1):
            reader, writer = await asyncio.open_unix_connection(way.path)
            stack.callback(writer.close)
            writer.write(b"GET / HTTP/1.1\r\n")
            while number < FEW and way.socket._deps.open.number <= number:  # noqa: ASYNC110  nobody rings for it
                await asyncio.sleep(0)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        assert way.socket._deps.open.number == FEW
    way.socket.revoke()


async def test_stranger_04_a_small_body_of_many_values_is_judged_off_the_loop(way: Any) -> None:
    order = SimpleNamespace(spender=SimpleNamespace(session_id="s-1"))
    many, few = b"[" + b"1," * 30_000 + b"1]", b'["' + b",[{" * 20_000 + b'"]'
    assert max(len(many), len(few)) < BIG

    assert await way.models._judge(order, many, threading.current_thread) is not threading.current_thread()
    assert await way.models._judge(order, few, threading.current_thread) is threading.current_thread()


async def test_a_replay_reaches_no_host_though_it_is_allowed(way: Any) -> None:
    await way.allow("localhost", way.host.port)
    way.socket._caller = replace(way.socket._caller, replays=True)
    answers = [
        await way.send(connect(f"localhost:{way.host.port}")),
        await way.send(f"GET http://localhost:{way.host.port}/ HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()),
        await way.send(b"GET /to/localhost/ HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ]
    assert [each.status for each in answers] == [403] * 3
    assert all("this is a replay" in each.text for each in answers)
    assert way.host.heads == []
