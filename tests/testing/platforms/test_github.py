"""The emulated GitHub, with gidgethub as its client: a library that is not ours judges the API and the signatures."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gatepost.core.process.listen_address import parse
from gatepost.serve.http import HttpServer, bind, get_bound_address
from gatepost_testing.platforms.base import NotOffered
from gatepost_testing.platforms.github import LOGIN, SECRET, TOKEN, GitHubPlatform
from gatepost_testing.waiting import PATIENCE_S

ISSUES = "/repos/acme/site/issues"


@pytest.fixture
def platform() -> Iterator[GitHubPlatform]:
    with GitHubPlatform() as made:
        assert isinstance(made, GitHubPlatform)
        yield made


def test_people_do_on_it_what_brings_a_webhook(platform: GitHubPlatform) -> None:
    with pytest.raises(NotOffered):
        platform.react("team", "1", "👍")
    assert platform.get_address("team") == "github:acme/site/issue/1"
    assert platform.get_address("other") != platform.get_address("team")


@pytest.mark.slow
async def test_gidgethub_uses_the_api(platform: GitHubPlatform) -> None:
    from gidgethub import BadRequest, HTTPException
    from gidgethub.abc import GitHubAPI

    class Client(GitHubAPI):
        async def _request(
            self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
        ) -> tuple[int, Mapping[str, str], bytes]:
            async with httpx2.AsyncClient(verify=False) as http:
                answer = await http.request(method, url, headers=dict(headers), content=body)
            return answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.content

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(seconds)

    api = Client("tests", oauth_token=TOKEN, base_url=platform.url)
    assert (await api.getitem("/user"))["login"] == LOGIN
    made = await api.post(f"{ISSUES}/1/comments", data={"body": "hello"})
    await api.patch(f"{ISSUES}/comments/{made['id']}", data={"body": "changed"})
    await api.post(f"{ISSUES}/comments/{made['id']}/reactions", data={"content": "heart"})
    (shown,) = platform.list_shown("team")
    assert (shown.text, shown.edits, shown.reactions) == ("changed", 1, [("❤", "bot")])

    for number in range(65):
        platform.send(f"c{number}")
    listed = [each["body"] async for each in api.getiter(f"{ISSUES}/1/comments")]
    assert listed == ["changed", *(f"c{number}" for number in range(65))]
    await api.delete(f"{ISSUES}/comments/{made['id']}")
    assert platform.list_shown("team") == []
    theirs = platform.send("theirs")
    wrong: list[tuple[Any, int, str]] = [
        (lambda: api.getitem(f"{ISSUES}/99"), 404, "Not Found"),
        (lambda: api.post(f"{ISSUES}/1/comments", data={"body": "x" * 65_537}), 422, "Body is too long"),
        (lambda: api.post(f"{ISSUES}/1/comments", data={"body": " "}), 422, "body"),
        (lambda: api.post(f"{ISSUES}/99/comments", data={"body": "x"}), 404, "Not Found"),
        (lambda: api.patch(f"{ISSUES}/comments/{theirs}", data={"body": "x"}), 403, "admin rights"),
        (lambda: api.patch(f"{ISSUES}/comments/42", data={"body": "x"}), 404, "Not Found"),
        (lambda: api.delete(f"{ISSUES}/comments/{theirs}"), 403, "admin rights"),
        (lambda: api.post(f"{ISSUES}/comments/{theirs}/reactions", data={"content": "tada"}), 422, "not a member"),
        (lambda: api.post(f"{ISSUES}/comments/42/reactions", data={"content": "heart"}), 404, "Not Found"),
    ]
    for call, status, words in wrong:
        with pytest.raises(BadRequest) as refused:
            await call()
        assert (refused.value.status_code, words in str(refused.value)) == (status, True), str(refused.value)
    with pytest.raises(HTTPException):
        await Client("tests", oauth_token="wrong", base_url=platform.url).getitem("/user")


@pytest.mark.slow
async def test_gidgethub_accepts_the_signature_of_a_webhook(platform: GitHubPlatform) -> None:
    from gidgethub.sansio import Event

    events: asyncio.Queue[Event] = asyncio.Queue()

    async def take_hook(request: Request) -> Response:
        await events.put(Event.from_http(request.headers, await request.body(), secret=SECRET))
        return Response(status_code=204)

    async for url in _serve(Starlette(routes=[Route("/", take_hook, methods=["POST"])])):
        platform.hook_url = url
        platform.send("hello")
        event = await asyncio.wait_for(events.get(), PATIENCE_S)
        assert (event.event, event.data["action"], event.data["comment"]["body"]) == (
            "issue_comment",
            "created",
            "hello",
        )


async def _serve(app: Starlette) -> AsyncIterator[str]:
    listen = parse("127.0.0.1:0")
    sock = bind(listen)
    server = HttpServer(app, sock)
    running = asyncio.create_task(server.run())
    yield f"{get_bound_address(listen, sock).url}/"
    server.stop()
    await asyncio.wait_for(running, PATIENCE_S)
