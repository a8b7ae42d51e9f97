"""The emulated Zulip server, judged by Zulip's own library."""

import io
from collections.abc import Iterator
from typing import Any

import pytest

from gatepost.testing.platforms.zulip import BOT_EMAIL, ZulipPlatform

pytestmark = pytest.mark.slow


@pytest.fixture
def platform() -> Iterator[ZulipPlatform]:
    with ZulipPlatform() as running:
        assert isinstance(running, ZulipPlatform)
        yield running


@pytest.fixture
def client(platform: ZulipPlatform) -> Any:
    zulip = pytest.importorskip("zulip")
    return zulip.Client(email=BOT_EMAIL, api_key=platform.token, site=platform.url)


def test_the_librarys_calls_do_what_they_say(platform: ZulipPlatform, client: Any) -> None:
    assert client.get_profile()["full_name"] == "Porter"
    theirs = int(platform.send("hello", thread="plans"))
    sent = client.send_message({"type": "stream", "to": "team", "topic": "plans", "content": "hi"})
    assert sent["result"] == "success"
    client.update_message({"message_id": sent["id"], "content": "hi there"})
    assert client.add_reaction({"message_id": theirs, "emoji_name": "tada"})["result"] == "success"
    found = client.get_messages({"anchor": "newest", "num_before": 10, "num_after": 0, "narrow": []})
    assert [each["content"] for each in found["messages"]] == ["hello", "hi there"]
    file = io.BytesIO(b"abc")
    file.name = "a.txt"
    assert client.upload_file(file)["url"].endswith("/a.txt")
    assert client.delete_message(sent["id"])["result"] == "success"
    assert platform.texts("team") == [] and platform.find(str(theirs)).reactions == [("🎉", "bot")]


def test_the_librarys_queue_gets_what_people_write(platform: ZulipPlatform, client: Any) -> None:
    queue = client.register(event_types=["message"])
    platform.send("hello")
    events = client.get_events(queue_id=queue["queue_id"], last_event_id=queue["last_event_id"])["events"]
    assert [each["message"]["content"] for each in events] == ["hello"]
    platform.forget_queues()
    lost = client.get_events(queue_id=queue["queue_id"], last_event_id=0)
    assert lost["code"] == "BAD_EVENT_QUEUE_ID"
