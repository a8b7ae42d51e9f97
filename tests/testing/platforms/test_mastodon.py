"""The emulated Mastodon server, judged by Mastodon.py."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gatepost.testing.platforms.mastodon import MastodonPlatform
from gatepost.testing.waiting import PATIENCE_S, block_until

pytestmark = pytest.mark.slow


@pytest.fixture
def platform() -> Iterator[MastodonPlatform]:
    with MastodonPlatform() as running:
        assert isinstance(running, MastodonPlatform)
        yield running


@pytest.fixture
def client(platform: MastodonPlatform) -> Any:
    mastodon = pytest.importorskip("mastodon")
    return mastodon.Mastodon(access_token=platform.token, api_base_url=platform.url, version_check_mode="none")


def test_the_librarys_calls_do_what_they_say(platform: MastodonPlatform, client: Any) -> None:
    assert client.account_verify_credentials().username == "porter"
    theirs = platform.send("hello")
    (note,) = client.notifications()
    assert (note.type, str(note.status.id)) == ("mention", theirs)
    media = client.media_post(b"abc", mime_type="image/png", file_name="a.png")
    mine = client.status_post(
        "hi", in_reply_to_id=theirs, media_ids=[media], idempotency_key="k", visibility="unlisted"
    )
    assert client.status_post("hi", idempotency_key="k").id == mine.id
    client.status_update(mine.id, "hi there")
    assert client.status_context(mine.id).ancestors[0].id == note.status.id
    client.status_favourite(theirs)
    assert client.status_reblog(theirs).reblog.id == note.status.id
    shown = platform.find(str(mine.id))
    assert (shown.text, shown.reply_to, shown.edits, len(shown.files)) == ("hi there", theirs, 1, 1)
    client.status_delete(mine.id)
    assert shown.deleted and platform.find(theirs).reactions == [("⭐", "bot")]


def test_the_librarys_stream_gets_what_people_post(platform: MastodonPlatform, client: Any) -> None:
    mastodon = pytest.importorskip("mastodon")
    got, arrived = [], threading.Event()

    class Listener(mastodon.StreamListener):  # type: ignore[name-defined,misc]
        def on_notification(self, notification: Any) -> None:
            got.append(notification)
            arrived.set()

    handle = client.stream_user(Listener(), run_async=True)
    try:
        block_until(lambda: platform.count_streams() == 1)
        platform.send("hello")
        assert arrived.wait(PATIENCE_S)
    finally:
        handle.close()
    assert got[0].status.content == "<p>@porter hello</p>"
