"""One thing of a stranger, or one thing that is gone, for which everybody else's messages stay away."""

import asyncio

import pytest

from gatepost.channels.contract import MemoryCursor
from gatepost.testing.emulation import make_platform
from gatepost.testing.platforms.github import REPOSITORY, GitHubPlatform
from gatepost.testing.platforms.wiring import listening, make_channel

SOON_S = 5.0


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


@pytest.mark.parametrize("kind", ["github", "slack", "whatsapp"])
def test_a_channel_that_is_emulated_takes_no_hook_that_a_stranger_can_sign(kind: str) -> None:
    """`channel emulate KIND --add` gives a running gateway a hook whose secret stands in our source. Rights go by the
    sender's address alone, so who signs one speaks as any person of that platform."""
    first, second = make_platform(kind).get_secrets(), make_platform(kind).get_secrets()
    signs = {"github": "webhook_secret", "slack": "signing_secret", "whatsapp": "app_secret"}[kind]
    assert first[signs] != second[signs]
