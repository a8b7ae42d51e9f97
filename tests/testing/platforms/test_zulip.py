"""The emulated Zulip server, judged by Zulip's own library."""

import io
from collections.abc import Iterator
from typing import Any

import pytest

from gatepost_testing.platform_rules.zulip import BY_NAME
from gatepost_testing.platforms.zulip import BOT_EMAIL, ZulipPlatform

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


def test_the_librarys_wrong_calls_are_refused_with_the_servers_words(platform: ZulipPlatform, client: Any) -> None:
    theirs = int(platform.send("hello"))
    say = {"type": "stream", "to": "team", "topic": "plans", "content": "x"}
    wrong = {
        "empty text": lambda: client.send_message({**say, "content": " "}),
        "kind of a message": lambda: client.send_message({**say, "type": "shout"}),
        "person to write to": lambda: client.send_message({"type": "direct", "to": [4242], "content": "x"}),
        "edits of others": lambda: client.update_message({"message_id": theirs, "content": "x"}),
        "message to edit": lambda: client.update_message({"message_id": 4242, "content": "x"}),
        "deletions of others": lambda: client.delete_message(theirs),
        "message to delete": lambda: client.delete_message(4242),
        "known emoji": lambda: client.add_reaction({"message_id": theirs, "emoji_name": "no_such_sign"}),
        "known person": lambda: client.get_user_by_id(4242),
    }
    for name, call in wrong.items():
        answer = call()
        assert (answer["result"], f"{answer['code']}: {answer['msg']}") == ("error", BY_NAME[name].refusal), name
