"""The emulated Discord, judged by discord.py."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import pytest

from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.discord import API, TOKEN, DiscordPlatform
from gatepost_testing.waiting import PATIENCE_S


@pytest.fixture
def platform() -> Iterator[DiscordPlatform]:
    with DiscordPlatform() as started:
        assert isinstance(started, DiscordPlatform)
        yield started


class SeenEvents:
    """What the library made of the platform's events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.changed = asyncio.Condition()

    async def add(self, name: str, value: Any) -> None:
        async with self.changed:
            self.events.append((name, value))
            self.changed.notify_all()

    async def wait_for(self, name: str) -> Any:
        async with asyncio.timeout(PATIENCE_S), self.changed:
            await self.changed.wait_for(lambda: any(each == name for each, _ in self.events))
        return next(value for each, value in self.events if each == name)


@asynccontextmanager
async def connected(
    platform: DiscordPlatform, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Any, SeenEvents]]:
    discord = pytest.importorskip("discord")
    import yarl

    monkeypatch.setattr(discord.http.Route, "BASE", platform.url + API)
    monkeypatch.setattr(
        discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(platform.url.replace("http", "ws"))
    )
    intents = discord.Intents.default()
    intents.message_content = True
    client, seen = discord.Client(intents=intents), SeenEvents()
    for name in ("ready", "message", "message_edit", "message_delete", "raw_reaction_add", "interaction", "resumed"):
        _listen(client, seen, name)
    task = asyncio.create_task(client.start(TOKEN))
    ready = asyncio.create_task(seen.wait_for("ready"))
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task  # what went wrong
        yield client, seen
    finally:
        ready.cancel()
        await client.close()
        await asyncio.gather(task, ready, return_exceptions=True)


def _listen(client: Any, seen: SeenEvents, name: str) -> None:
    async def handle(*values: Any) -> None:
        await seen.add(name, values)

    handle.__name__ = f"on_{name}"
    client.event(handle)


@pytest.mark.slow
async def test_the_library_sees_what_people_do(platform: DiscordPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(platform, monkeypatch) as (client, seen):
        said = platform.send("hello", mention=True, files=[GivenFile("a.txt", b"data", "text/plain")])
        (message,) = await seen.wait_for("message")
        platform.react("team", said, "👍", sender="bea")
        (reaction,) = await seen.wait_for("raw_reaction_add")
        platform.edit("team", said, "changed")
        _, edited = await seen.wait_for("message_edit")
        platform.delete("team", said)
        (deleted,) = await seen.wait_for("message_delete")

        assert (message.author.name, message.channel.name, str(message.id)) == ("ann", "team", said)
        assert client.user in message.mentions
        assert await message.attachments[0].read() == b"data"
        assert (str(reaction.emoji), str(reaction.message_id)) == ("👍", said)
        assert edited.content == "changed" and deleted.id == message.id


@pytest.mark.slow
async def test_the_library_can_do_what_the_channel_does(
    platform: DiscordPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    discord = pytest.importorskip("discord")
    async with connected(platform, monkeypatch) as (client, seen):
        room = client.get_channel(int(platform.find_channel("team")["id"]))
        made = await room.send("one", file=discord.File(BytesIO(b"data"), "a.txt"))
        await made.edit(content="two")
        await made.add_reaction("👀")
        await made.pin()
        answer = await room.send("three", reference=made)
        async with room.typing():
            pass
        shown = platform.find(str(made.id))
        assert (shown.text, shown.pinned, shown.reactions) == ("two", True, [("👀", "bot")])
        assert [each.data for each in shown.files] == [b"data"]
        assert platform.find(str(answer.id)).reply_to == str(made.id)
        assert platform.get_typing() == ["team"]
        assert [each.content async for each in room.history(limit=10)] == ["three", "two"]
        assert [each.id async for each in room.pins()] == [made.id]
        await answer.delete()
        assert platform.find(str(answer.id)).deleted

        view = discord.ui.View()
        view.add_item(discord.ui.Button(label="Yes", custom_id="t:0"))
        card = await room.send(embed=discord.Embed(title="Sure?"), view=view)
        platform.click("team", str(card.id), "Yes")
        (click,) = await seen.wait_for("interaction")
        await click.response.defer()
        assert click.data["custom_id"] == "t:0" and platform.answered == [str(click.id)]


@pytest.mark.slow
async def test_wrong_calls_of_the_library_are_refused_with_the_platforms_codes(
    platform: DiscordPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    discord = pytest.importorskip("discord")
    theirs = int(platform.send("their words"))
    async with connected(platform, monkeypatch) as (client, _):
        room = client.get_channel(int(platform.find_channel("team")["id"]))
        own, other = await room.send("own"), await room.fetch_message(theirs)
        same = discord.ui.View()
        for label in ("Yes", "No"):
            same.add_item(discord.ui.Button(label=label, custom_id="t:0"))
        wrong: list[tuple[Any, int, str]] = [
            (room.send("x" * 2001), 50035, "In content: Must be 2000 or fewer in length."),
            (room.send(" "), 50006, "empty message"),
            (room.send(embed=discord.Embed(title="x" * 257)), 50035, "In embeds.0.title: Must be 256 or fewer"),
            (room.send(embed=discord.Embed(description="x" * 4097)), 50035, "In embeds.0.description"),
            (room.send("x", view=same), 50035, "custom id cannot be duplicated"),
            (room.send(file=discord.File(BytesIO(bytes(10 * 1024 * 1024 + 1)), "a.bin")), 40005, "too large"),
            (room.send("x", reference=discord.PartialMessage(channel=room, id=4242)), 50035, "Unknown message"),
            (room.fetch_message(4242), 10008, "Unknown Message"),
            (client.fetch_channel(4242), 10003, "Unknown Channel"),
            (other.edit(content="mine"), 50005, "another user"),
            (own.edit(content=""), 50006, "empty message"),
            (own.add_reaction("thumbsup"), 10014, "Unknown Emoji"),
        ]
        for call, code, words in wrong:
            with pytest.raises(discord.HTTPException) as refused:
                await call
            assert (refused.value.code, words in str(refused.value)) == (code, True), str(refused.value)


@pytest.mark.slow
async def test_the_library_resumes_a_dropped_session(
    platform: DiscordPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(platform, monkeypatch) as (_, seen):
        platform.call_soon(platform.gateway.ask_to_reconnect)
        await seen.wait_for("resumed")
        platform.send("after")
        (message,) = await seen.wait_for("message")
    assert message.content == "after" and platform.gateway.identified == 1


@pytest.mark.slow
async def test_the_library_refuses_a_revoked_token(platform: DiscordPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    discord = pytest.importorskip("discord")
    platform.fault(PlatformFault.UNAUTHORIZED)
    with pytest.raises(discord.LoginFailure):
        async with connected(platform, monkeypatch):
            pass


async def test_a_nonce_stands_for_one_message_while_it_is_remembered(platform: DiscordPlatform) -> None:
    import httpx2

    async with httpx2.AsyncClient(headers={"authorization": f"Bot {TOKEN}"}, trust_env=False) as client:
        url = f"{platform.url}{API}/channels/{platform.find_channel('team')['id']}/messages"
        body = {"content": "once", "nonce": "n1", "enforce_nonce": True}
        first, second = (await client.post(url, json=body)).json(), (await client.post(url, json=body)).json()
        platform.nonce_window_s = 0.0
        third = (await client.post(url, json=body)).json()
        rows = (await client.get(url)).json()

    assert first["id"] == second["id"] != third["id"]
    assert len(rows) == 2 and not any("nonce" in row for row in rows)
