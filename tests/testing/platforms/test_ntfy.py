"""The emulated ntfy server, by plain HTTP as its documentation shows it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from gatepost.testing.platforms.ntfy import NtfyPlatform


@pytest.fixture
def platform() -> Iterator[NtfyPlatform]:
    with NtfyPlatform() as made:
        assert isinstance(made, NtfyPlatform)
        yield made


@pytest.fixture
def client(platform: NtfyPlatform) -> Iterator[httpx2.Client]:
    headers = {"authorization": f"Bearer {platform.token}"}
    with httpx2.Client(base_url=platform.url, headers=headers) as made:
        yield made


def poll(client: httpx2.Client, path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in client.get(path).text.splitlines()]


def test_what_is_published_can_be_polled_since_all_a_moment_or_a_message(
    platform: NtfyPlatform, client: httpx2.Client
) -> None:
    first = client.post("/", json={"topic": "team", "message": "one", "tags": ["x"]}).json()
    platform.send("two", room="alerts")
    assert first["event"] == "message" and platform.texts("team") == ["one"]
    assert [each["message"] for each in poll(client, "/team,alerts/json?poll=1")] == ["one", "two"]
    assert [each["message"] for each in poll(client, "/team/json?poll=1&since=all")] == ["one"]
    assert [each["message"] for each in poll(client, f"/team,alerts/json?poll=1&since={first['id']}")] == ["two"]
    assert poll(client, f"/team/json?poll=1&since={first['time'] + 100}") == []
    assert len(poll(client, "/team,alerts/json?poll=1&since=forgotten")) == 2


def test_a_stream_begins_with_open_and_goes_on_with_messages(platform: NtfyPlatform, client: httpx2.Client) -> None:
    with client.stream("GET", "/team/json") as stream:
        lines = stream.iter_lines()
        assert json.loads(next(lines))["event"] == "open"
        platform.send("elsewhere", room="alerts")
        platform.send("hi", room="team")
        assert json.loads(next(lines))["message"] == "hi"


def test_without_the_token_and_with_too_much_text_it_says_no(platform: NtfyPlatform, client: httpx2.Client) -> None:
    assert httpx2.get(f"{platform.url}/team/json?poll=1").status_code == 401
    assert client.post("/", json={"topic": "team", "message": "x" * 4097}).status_code == 413
    assert client.post("/", content=b"x").json()["http"] == 400
