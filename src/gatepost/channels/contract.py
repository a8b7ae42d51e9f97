"""A channel: a platform adapter that translates at the edge. It knows no group and no session.

A channel is a class with `listen` and `send`; every other method is optional and says when to leave it out. Its file
holds its settings, its features and its pure `read_…` and `render_…` functions. Several instances of one channel may
run (two bots); `instance` tells them apart and is part of a room's key.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field

from gatepost.core.clock import Clock
from gatepost.core.registry import Registry
from gatepost.core.settings import Config, Setting
from gatepost.inside.sandbox_needs import DeclaredNeeds, Need, declare
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.messages.outbound import Feature, Outbound
from gatepost.store.rooms import RoomPolicy

MYSELF = "gatepost:self"  # the sender of what a bot itself said, in what its channel remembers

Receive = Callable[[Inbound], Awaitable[Receipt]]


class ChannelDeps(Struct, frozen=True, kw_only=True):
    """What a channel is made with."""

    instance: str
    config: Config
    clock: Clock


class Channel(Protocol):
    def __init__(self, around: ChannelDeps) -> None: ...

    async def listen(self, receive: Receive) -> None:
        """Run until cancelled. When `receive` returns, the event is durable: only then tell the platform so."""
        ...

    async def send(self, address: str, message: Outbound) -> str:
        """Bring about one effect and return the platform's id of it.

        Raise Unavailable (with `retry_after` if told; `uncertain=True` if it may have happened), Unsupported, or any
        other GatepostError for a refusal that no retry will change.
        """
        ...


@runtime_checkable
class SupportsTyping(Protocol):
    """Optional: shows that somebody is at work. Leave it out if the platform has no such sign."""

    async def typing(self, address: str, thread: str, on: bool) -> None: ...


@runtime_checkable
class SupportsLookup(Protocol):
    """Optional: tells whether an effect with this key reached the platform. Leave it out if it cannot be known."""

    async def look_up(self, address: str, key: str) -> str | None:
        """The platform id if it is there, None if it certainly is not."""
        ...


@runtime_checkable
class SupportsHistory(Protocol):
    """Optional: tells what was said in a room earlier. Leave it out if the platform does not let bots look back."""

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        """The newest messages before a moment (microseconds UTC; None: the newest of all), each with its `at`. What
        this bot itself said has the sender `MYSELF`. Raise Unavailable if the platform does not answer."""
        ...


@runtime_checkable
class HasMaxText(Protocol):
    """Optional: the longest text the platform takes in one message, in characters."""

    max_text: int


@runtime_checkable
class HasOwnNames(Protocol):
    """Optional: what the bot is called, as in `/stop@mybot` or a mention. A command for another name is not ours. Leave
    it out where a platform shows a bot only what is meant for it."""

    @property
    def own_names(self) -> frozenset[str]: ...


class ChannelKind(Struct, frozen=True, kw_only=True):
    """A registered channel class, with what its file declares."""

    name: str
    make: Callable[[ChannelDeps], Channel]
    features: frozenset[Feature]
    settings: tuple[Setting[Any], ...] = ()
    max_text: int = 0  # 0: no limit
    always: bool = False  # runs without being switched on
    policy: RoomPolicy = (
        RoomPolicy.STRICT
    )  # of a room that is seen for the first time; public: whoever can write there is let in
    needs: DeclaredNeeds = field(default_factory=DeclaredNeeds)  # in every sandbox, while it runs


CHANNELS: Registry[ChannelKind] = Registry("channel")


def channel(
    name: str,
    *,
    features: frozenset[Feature] = frozenset(),
    settings: tuple[Setting[Any], ...] = (),
    max_text: int = 0,
    always: bool = False,
    policy: RoomPolicy = RoomPolicy.STRICT,
    mounts: tuple[Need, ...] = (),
    env: Mapping[str, str | Need] | None = None,
    registry: Registry[ChannelKind] = CHANNELS,
) -> Callable[[type], type]:
    """Register a channel class under its platform's name. While it runs, every sandbox has its variables `env`, and its
    `mounts` as far as the setting `sandbox.mounts_allowed` lets them in."""

    def register(cls: type) -> type:
        kind = ChannelKind(
            name=name,
            make=cls,
            features=features,
            settings=settings,
            max_text=max_text,
            always=always,
            policy=policy,
            needs=declare(f"the channel {name}", (), mounts, env),
        )
        registry.add(name, kind, origin=cls.__module__)
        return cls

    return register


def get_file_folder_name(key: str) -> str:
    """The folder in which a channel that keeps files itself has those of one effect."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]
