"""Asks a platform whether a channel would work, before anything is written: who the bot is, and what it may do.

The channel is made for this question alone, beside one that may run, and closed after it.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar, cast

from gatepost.channels.contract import (
    BotIdentity,
    Channel,
    ChannelDeps,
    ChannelEnded,
    ReadSecret,
    SupportsCheck,
    SupportsClose,
    SupportsPollerCheck,
)
from gatepost.core import log
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.settings import Setting
from gatepost.flow.channel_health import ChannelHealth, render_for_running, reword_for_new
from gatepost.flow.channel_specs import ChannelSpec, get_last_name
from gatepost.flow.channel_supervisor import ChannelSurroundings, load_kind, make_secret_reader

CHECK_S = 40.0
CLOSE_S = 5.0
T = TypeVar("T")

_log = log.get("channels")


CheckIdentity = Callable[[BotIdentity | None], Awaitable[None]]


async def check_spec(deps: ChannelSurroundings, spec: ChannelSpec, secrets: Mapping[str, str]) -> BotIdentity | None:
    """Return who the bot is; None: this kind cannot be asked. `secrets`, by the last names of their settings, count
    before those of the store. Every failure is one GatepostError, and its text has none of the secrets that were
    read."""
    async with _making(deps, spec, secrets) as channel:
        return await check_channel(channel, spec)


async def check_new(
    deps: ChannelSurroundings, spec: ChannelSpec, secrets: Mapping[str, str], check_identity: CheckIdentity
) -> BotIdentity | None:
    """The same for a channel that is to be added, and whether another program receives in the bot's place.
    `check_identity` comes before that question: asked of a bot that we run ourselves, it would find us."""
    async with _making(deps, spec, secrets) as channel:
        identity = await check_channel(channel, spec, is_new=True)
        await check_identity(identity)
        asked = cast(object, channel)
        if isinstance(asked, SupportsPollerCheck):
            await _ask(asked.check_poller, spec, is_new=True)
        return identity


@asynccontextmanager
async def _making(deps: ChannelSurroundings, spec: ChannelSpec, secrets: Mapping[str, str]) -> AsyncIterator[Channel]:
    """A channel for the questions in the block alone. Their errors have no secret in their texts."""
    await load_kind(spec.kind)
    health = ChannelHealth.of(spec.instance, spec.kind, deps.clock)
    reader = make_secret_reader(deps.secrets, spec.instance)
    with tempfile.TemporaryDirectory(prefix="gatepost-check-") as folder:
        channel = spec.kind.make(
            ChannelDeps(
                instance=spec.instance,
                config=spec.make_config(deps.config),
                clock=deps.clock,
                secret=_prefer(secrets, reader, health.hide),
                folder=Path(folder),
            )
        )
        try:
            yield channel
        except GatepostError as error:
            _scrub(error, health.scrub)
            raise
        finally:
            await _close(channel)


def _scrub(error: GatepostError, scrub: Callable[[str], str]) -> None:
    """Its text and its facts; it stays the same error."""
    error.args = tuple(scrub(each) if isinstance(each, str) else each for each in error.args)
    for name, value in vars(error).items():
        if isinstance(value, str):
            setattr(error, name, scrub(value))


async def check_channel(channel: Channel, spec: ChannelSpec, *, is_new: bool = False) -> BotIdentity | None:
    asked = cast(object, channel)
    return await _ask(asked.check, spec, is_new=is_new) if isinstance(asked, SupportsCheck) else None


async def _ask(question: Callable[[], Awaitable[T]], spec: ChannelSpec, *, is_new: bool) -> T:
    title = spec.kind.title or spec.kind.name
    try:
        async with asyncio.timeout(CHECK_S):
            return await question()
    except TimeoutError:
        raise Unavailable(title, f"it did not answer within {CHECK_S:g} s") from None
    except ChannelEnded as error:
        if is_new:
            raise reword_for_new(error) from None
        remedy = render_for_running(error, spec.instance, spec.kind)
        raise ChannelEnded(error.reason, error.why, remedy) from None
    except GatepostError:
        raise
    except Exception as error:  # noqa: BLE001  a library's own error; its text may hold the key, so its name must do
        raise Unavailable(title, f"its channel broke with {type(error).__name__}") from None


def _prefer(given: Mapping[str, str], stored: ReadSecret, hide: Callable[[str], None]) -> ReadSecret:
    async def read(wanted: Setting[str]) -> str:
        value = given.get(get_last_name(wanted)) or await stored(wanted)
        hide(value)
        return value

    return read


async def _close(channel: object) -> None:
    if isinstance(channel, SupportsClose):
        try:
            async with asyncio.timeout(CLOSE_S):
                await channel.close()
        except Exception as error:  # noqa: BLE001  the answer is there
            _log.warning("a channel could not be closed", error=repr(error))
