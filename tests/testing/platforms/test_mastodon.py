"""The emulated Mastodon server, judged by Mastodon.py."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gatepost_testing.platforms.mastodon import MastodonPlatform
from gatepost_testing.waiting import PATIENCE_S, block_until

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


def test_wrong_calls_of_the_library_are_refused_in_the_servers_words(platform: MastodonPlatform, client: Any) -> None:
    mastodon = pytest.importorskip("mastodon")
    theirs, secret = platform.send("hello"), platform.send("psst", room="direct:ann")
    picture, film = (
        client.media_post(b"a", mime_type=mime, file_name="a", synchronous=False) for mime in ("image/png", "video/mp4")
    )
    own = client.status_post("own")
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lambda: client.status_post("x" * 501), mastodon.MastodonAPIError, "character limit of 500"),
        (lambda: client.status_post("https://a.io " * 21), mastodon.MastodonAPIError, "character limit of 500"),
        (lambda: client.status_post(""), mastodon.MastodonAPIError, "can't be blank"),
        (lambda: client.status_post("x", in_reply_to_id=42), mastodon.MastodonNotFoundError, "reply to"),
        (lambda: client.status_post("x", media_ids=[picture, film]), mastodon.MastodonAPIError, "attach a video"),
        (lambda: client.status_post("x", media_ids=[picture] * 5), mastodon.MastodonAPIError, "more than 4 files"),
        (lambda: client.status_post("x", media_ids=[42]), mastodon.MastodonAPIError, "Media 42 not found"),
        (lambda: client.status_update(theirs, "mine"), mastodon.MastodonNotFoundError, "Record not found"),
        (lambda: client.status_update(own, "x" * 501), mastodon.MastodonAPIError, "character limit of 500"),
        (lambda: client.status_delete(theirs), mastodon.MastodonNotFoundError, "Record not found"),
        (lambda: client.status_favourite(42), mastodon.MastodonNotFoundError, "Record not found"),
        (lambda: client.status_reblog(secret), mastodon.MastodonAPIError, "not allowed"),
        (lambda: client.media_post(b"a", mime_type="image/svg+xml", file_name="a"), mastodon.MastodonAPIError, "type"),
    ]
    for call, kind, words in wrong:
        with pytest.raises(kind) as refused:
            call()
        assert words in str(refused.value)
