"""One thing of a stranger, or one thing that is gone, for which everybody else's messages stay away."""

import asyncio

import pytest

from gatepost.channels.contract import MemoryCursor
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.mattermost.adapter import MattermostChannel
from gatepost.core.errors import GatepostError
from gatepost.testing.platforms.bluesky import BlueskyPlatform
from gatepost.testing.platforms.github import REPOSITORY, GitHubPlatform
from gatepost.testing.platforms.mattermost import MattermostPlatform
from gatepost.testing.platforms.wiring import listening, make_channel

SOON_S = 5.0


async def test_a_like_that_claims_to_have_pictures_does_not_stop_bluesky() -> None:
    """Records may have further fields. `has_images` is asked of every notification, `get_view` then refuses the name of
    a like with NotFound, which ends `listen`. The cursor stands before it for ever."""
    with BlueskyPlatform() as platform:
        assert isinstance(platform, BlueskyPlatform)
        cursor = MemoryCursor()
        cursor.saved = {"": "1", "beginning": "1"}
        channel, _ = make_channel(platform, cursor=cursor)
        like = {"$type": "app.bsky.feed.like", "embed": {"images": [{"alt": ""}]}}
        eve = platform._get_did("eve")
        subject = f"at://{eve}/app.bsky.feed.post/3k"
        platform._add_note("like", "eve", f"at://{eve}/app.bsky.feed.like/3kabc", like, subject)
        platform.send("hello", mention=True)
        async with asyncio.timeout(SOON_S), listening(channel) as received:
            await received.wait_for(lambda events: any("hello" in each.text for each in events))


async def test_a_repository_that_is_gone_does_not_keep_the_others_from_being_asked() -> None:
    """404 or 410 of one repository comes out of `listen`: those behind it are never asked, and hooks of all get 503,
    which GitHub does not repeat."""
    with GitHubPlatform() as platform:
        assert isinstance(platform, GitHubPlatform)
        cursor = MemoryCursor()
        cursor.saved = {
            f"{kind} {name}": "2020-01-01T00:00:00Z"
            for kind in ("issues/comments", "issues")
            for name in ("acme/gone", REPOSITORY)
        }
        channel, _ = make_channel(platform, cursor=cursor, repositories=("acme/gone", REPOSITORY), poll_s=0.05)
        platform.send("hello")
        async with asyncio.timeout(SOON_S), listening(channel) as received:
            await received.wait_for(lambda events: any(each.text == "hello" for each in events))


async def test_an_author_whom_mattermost_does_not_show_does_not_stop_the_channel() -> None:
    """A guest's, or one removed for good: the name is asked for, and the refusal comes out of `listen`."""
    with MattermostPlatform() as platform:
        channel, _ = make_channel(platform)
        assert isinstance(channel, MattermostChannel)
        try:
            assert await channel._get_name("z" * 26) == ""
        except PlatformRefusal as error:
            pytest.fail(f"no name is worth a channel: {error}")
        except GatepostError:
            raise
        finally:
            await channel.close()
