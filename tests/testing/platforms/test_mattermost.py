"""The emulated Mattermost server, judged by a library that was generated from the server's own description."""

import asyncio
import json
from typing import Any

import pytest

from gatepost_testing.platform_rules.mattermost import BY_NAME, UNKNOWN
from gatepost_testing.platforms.base import GivenFile, NotOffered, PlatformFault
from gatepost_testing.platforms.mattermost import MattermostPlatform
from gatepost_testing.waiting import PATIENCE_S


def test_a_fault_that_it_does_not_have_is_refused() -> None:
    with MattermostPlatform() as platform, pytest.raises(NotOffered, match="conflict"):
        platform.fault(PlatformFault.CONFLICT)


def make_driver(platform: MattermostPlatform, cls: Any, token: str = "") -> Any:
    return cls(
        {
            "scheme": "http",
            "url": "127.0.0.1",
            "port": platform.port,
            "token": token or platform.token,
            "max_retries": 0,
        }
    )


@pytest.mark.slow
def test_the_librarys_calls_do_what_they_say() -> None:
    mattermostautodriver = pytest.importorskip("mattermostautodriver")
    with MattermostPlatform() as platform:
        assert isinstance(platform, MattermostPlatform)
        driver = make_driver(platform, mattermostautodriver.TypedDriver)
        driver.login()
        assert driver.users.get_user("me")["username"] == "porter"
        room = platform.get_address("team").rpartition("/")[2]
        theirs = platform.send("hello", files=[GivenFile("a.txt", b"abc", "text/plain")])
        mine = driver.posts.create_post(room, "hi", root_id=theirs)["id"]
        driver.posts.patch_post(mine, message="hi there")
        driver.posts.pin_post(mine)
        driver.reactions.save_reaction({"user_id": platform.bot_id, "post_id": theirs, "emoji_name": "+1"})
        listed = driver.posts.get_posts_for_channel(room)
        assert listed["order"] == [mine, theirs]
        (file,) = listed["posts"][theirs]["file_ids"]
        assert driver.files.get_file(file).content == b"abc"
        uploaded = driver.files.upload_file(files=("b.txt", b"def"), channel_id=room)
        assert uploaded["file_infos"][0]["name"] == "b.txt"
        shown = platform.find(mine)
        assert (shown.text, shown.thread, shown.pinned, shown.edits) == ("hi there", theirs, True, 1)
        assert platform.find(theirs).reactions == [("👍", "bot")]
        driver.posts.delete_post(mine)
        assert platform.texts("team") == []


@pytest.mark.slow
async def test_the_librarys_websocket_gets_what_people_post() -> None:
    mattermostautodriver = pytest.importorskip("mattermostautodriver")
    with MattermostPlatform() as platform:
        assert isinstance(platform, MattermostPlatform)
        driver = make_driver(platform, mattermostautodriver.AsyncTypedDriver)
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def keep(raw: str) -> None:
            events.put_nowait(json.loads(raw))

        socket = mattermostautodriver.Websocket(driver.options, platform.token)
        task = asyncio.create_task(socket.connect(keep))
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert (await events.get())["event"] == "hello"
                await asyncio.to_thread(platform.send, "hello")
                while (event := await events.get()).get("event") != "posted":
                    pass
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert json.loads(event["data"]["post"])["message"] == "hello" and event["seq"] == 1


@pytest.mark.slow
def test_a_revoked_token_is_refused_in_the_librarys_words() -> None:
    mattermostautodriver = pytest.importorskip("mattermostautodriver")
    with MattermostPlatform() as platform:
        assert isinstance(platform, MattermostPlatform)
        driver = make_driver(platform, mattermostautodriver.TypedDriver, "wrong")
        with pytest.raises(mattermostautodriver.exceptions.NoAccessTokenProvided):
            driver.login()


@pytest.mark.slow
def test_the_librarys_wrong_calls_are_refused_with_its_own_exceptions() -> None:
    mattermostautodriver = pytest.importorskip("mattermostautodriver")
    errors = mattermostautodriver.exceptions
    with MattermostPlatform() as platform:
        assert isinstance(platform, MattermostPlatform)
        driver = make_driver(platform, mattermostautodriver.TypedDriver)
        driver.login()
        room, theirs = platform.get_address("team").rpartition("/")[2], platform.send("hello")
        react = {"user_id": platform.bot_id, "post_id": theirs}
        wrong = {
            "post length": lambda: driver.posts.create_post(room, "x" * 16_384),
            "rights in a channel": lambda: driver.posts.create_post(UNKNOWN, "x"),
            "known root": lambda: driver.posts.create_post(room, "x", root_id=UNKNOWN),
            "edits of others": lambda: driver.posts.patch_post(theirs, message="x"),
            "deletions of others": lambda: driver.posts.delete_post(theirs),
            "post to delete": lambda: driver.posts.delete_post(UNKNOWN),
            "id of a post": lambda: driver.posts.delete_post("42"),
            "post to pin": lambda: driver.posts.pin_post(UNKNOWN),
            "known emoji": lambda: driver.reactions.save_reaction({**react, "emoji_name": "no_such_sign"}),
            "known person": lambda: driver.users.get_user(UNKNOWN),
            "known file": lambda: driver.files.get_file(UNKNOWN),
        }
        kinds = {400: errors.InvalidOrMissingParameters, 403: errors.NotEnoughPermissions, 404: errors.ResourceNotFound}
        for name, call in wrong.items():
            rule = BY_NAME[name]
            with pytest.raises(kinds[rule.status]) as refused:
                call()
            assert rule.refusal.partition(": ")[2] in str(refused.value), name
