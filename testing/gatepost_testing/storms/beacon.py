"""A channel with a key, settings, a pulse and a cursor, whose platform is an object. For tests of what runs channels.

    with registered_beacon() as platform:
        platform.push("hello")                  # somebody writes; the channel polls
        platform.tokens.clear()                 # the token is revoked

A gateway in another process has it by a plug-in that calls `register_beacon`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from gatepost.channels.contract import (
    CHANNELS,
    BotIdentity,
    ChannelDeps,
    ChannelEnded,
    ChannelGuide,
    EndReason,
    Receive,
    channel,
)
from gatepost.core.errors import Unavailable
from gatepost.core.settings import SETTINGS, Setting, setting
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Feature, Outbound

NAME = "beacon"
GOOD_TOKEN = "beacon-key-0123456789"
DEAF_AFTER_S = 0.2


@dataclass
class BeaconPlatform:
    """The platform that the bots of all instances talk to."""

    tokens: set[str] = field(default_factory=lambda: {GOOD_TOKEN})
    reachable: bool = True
    second_poller: bool = False
    has_rights: bool = True
    holds_polls: bool = False
    missing: tuple[str, ...] = ()
    sending: asyncio.Event = field(default_factory=asyncio.Event)  # a send has begun …
    sends_end: asyncio.Event | None = None  # … and waits for this
    breaks_with: str = ""  # the text of a library's own error, while polling
    repeats_token: bool = False  # in the words by which it refuses
    events: list[str] = field(default_factory=list)
    sent: list[tuple[str, str]] = field(default_factory=list)  # (instance, text)
    colors: dict[str, str] = field(default_factory=dict)  # by instance: the setting that it was made with
    connects: list[str] = field(default_factory=list)  # the instances that connected, each time anew
    closed: list[str] = field(default_factory=list)
    checks: int = 0
    poller_checks: int = 0
    bot: str = ""  # by which name everybody is accepted; '': each by its own

    def push(self, text: str) -> None:
        """Somebody writes."""
        self.events.append(text)

    def check(self, token: str) -> None:
        if not self.reachable:
            raise Unavailable("beacon", "it cannot be reached (ConnectError)")
        if self.repeats_token:
            raise ChannelEnded(EndReason.SETTING, f"https://{token}@beacon is no address", f"correct {token}")
        if token not in self.tokens:
            raise ChannelEnded(
                EndReason.TOKEN, "beacon no longer accepts the token", "set a valid one with `gatepost channel set`"
            )
        if not self.has_rights:
            raise ChannelEnded(EndReason.RIGHTS, "the bot may not read messages", "switch that on at beacon.example")

    def check_poller(self) -> None:
        if self.second_poller:
            raise ChannelEnded(
                EndReason.SECOND_POLLER, "another program receives as this bot", "stop it, then restart the channel"
            )


class BeaconChannel:
    platform: ClassVar[BeaconPlatform] = BeaconPlatform()
    settings: ClassVar[dict[str, Setting[str]]] = {}

    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._is_closed = deps, False
        self.platform.colors[deps.instance] = deps.config[self.settings["color"]]

    async def listen(self, receive: Receive) -> None:
        deps = self._deps
        token = await deps.secret(self.settings["token"])
        self.platform.check(token)
        self.platform.connects.append(deps.instance)
        while True:
            if not self.platform.holds_polls:
                await self._poll(receive, token)
            await asyncio.sleep(0.005)

    async def _poll(self, receive: Receive, token: str) -> None:
        self.platform.check(token)
        self.platform.check_poller()
        if self.platform.breaks_with:
            raise RuntimeError(self.platform.breaks_with)
        at = int(await self._deps.cursor.load() or 0)
        for number, text in enumerate(self.platform.events[at:], start=at + 1):
            await receive(
                Inbound(address="beacon:room/1", platform_id=f"b-{number}", sender="beacon:user/ann", text=text)
            )
            await self._deps.cursor.save(str(number), acknowledged=True)
        self._deps.beat()

    async def send(self, address: str, message: Outbound) -> str:
        self.platform.check(await self._deps.secret(self.settings["token"]))
        self.platform.sending.set()
        if self.platform.sends_end is not None:
            await self.platform.sends_end.wait()
        if self._is_closed:
            raise RuntimeError("the connection was closed under a send")
        self.platform.sent.append((self._deps.instance, message.text))
        return f"s-{len(self.platform.sent)}"

    async def check(self) -> BotIdentity:
        self.platform.checks += 1
        self.platform.check(await self._deps.secret(self.settings["token"]))
        return BotIdentity(
            name=self.platform.bot or f"@{self._deps.instance} (Beacon)",
            link="https://beacon.example/invite",
            missing=self.platform.missing,
        )

    async def check_poller(self) -> None:
        self.platform.poller_checks += 1
        self.platform.check_poller()

    async def close(self) -> None:
        self._is_closed = True
        self.platform.closed.append(self._deps.instance)


def register_beacon() -> None:
    """The kind `beacon`, with the settings `token` (a secret) and `color`."""
    token = setting("channels.beacon.token", help="The key of the bot.", secret=True)
    color = setting("channels.beacon.color", "red", help="The colour of the light.", choices=("red", "green", "blue"))
    BeaconChannel.settings = {"token": token, "color": color}
    channel(
        NAME,
        features=frozenset({Feature.KEYED}),
        settings=(token, color),
        env={"BEACON": "lit"},
        title="Beacon",
        deaf_after_s=DEAF_AFTER_S,
        guide=ChannelGuide(
            before="Get a key at beacon.example.", after="Invite the bot into a room.", ask=(token, color)
        ),
        tested_against="nothing: it is made up",
    )(BeaconChannel)


@contextmanager
def registered_beacon() -> Iterator[BeaconPlatform]:
    """For a test: registered while the block runs, with a platform of its own."""
    platform = BeaconChannel.platform = BeaconPlatform()
    register_beacon()
    try:
        yield platform
    finally:
        CHANNELS.drop(NAME)
        for each in BeaconChannel.settings.values():
            SETTINGS.drop(each.name)
