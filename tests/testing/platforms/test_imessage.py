"""The emulated BlueBubbles server, by plain HTTP."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from gatepost_testing.platforms.imessage import BlueBubblesPlatform


@pytest.fixture
def platform() -> Iterator[BlueBubblesPlatform]:
    with BlueBubblesPlatform() as made:
        assert isinstance(made, BlueBubblesPlatform)
        yield made


@pytest.fixture
def client(platform: BlueBubblesPlatform) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=f"{platform.url}/api/v1", params={"password": platform.token}) as made:
        yield made


def query(client: httpx2.Client, **body: Any) -> list[str]:
    return [each["text"] for each in client.post("/message/query", json=body).json()["data"]]


def test_messages_are_found_by_their_rows(platform: BlueBubblesPlatform, client: httpx2.Client) -> None:
    for text in ("one", "two", "three"):
        platform.send(text)
    after = [{"statement": "message.ROWID > :startRowId", "args": {"startRowId": 101}}]
    assert query(client, sort="ASC", where=after) == ["two", "three"]
    until = [*after, {"statement": "message.ROWID <= :endRowId", "args": {"endRowId": 102}}]
    assert query(client, where=until) == ["two"]
    assert len(query(client, limit=2)) == 2
    assert client.post("/message/query", json={"limit": 1001}).status_code == 400


def test_what_is_sent_is_shown_and_comes_back_as_ones_own(platform: BlueBubblesPlatform, client: httpx2.Client) -> None:
    body = {"chatGuid": "iMessage;-;ann@example.org", "tempGuid": "t", "message": "hi", "method": "apple-script"}
    sent = client.post("/message/text", json=body).json()["data"]
    assert sent["isFromMe"] and sent["tempGuid"] == "t" and platform.texts("direct:ann") == ["hi"]
    assert client.post("/message/text", json={**body, "tempGuid": ""}).status_code == 400
    assert httpx2.get(f"{platform.url}/api/v1/server/info").status_code == 401
