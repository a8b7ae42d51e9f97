"""The receiving connection: it breaks, repeats, goes silent or is taken away, and nothing is lost."""

import asyncio
import socket
from typing import Any

from gatepost.channels.contract import AddCheck, ChannelEnded, EndReason, SupportsCheck
from gatepost.core.errors import Unavailable
from gatepost_testing.channel_suite.checks.receiving import find_texts
from gatepost_testing.channel_suite.trial import ChannelTrial, close_channel
from gatepost_testing.grading import CheckImpossible, FeatureMissing
from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.wiring import make_channel

SILENCE_S = 0.5  # in which a held connection shows no beat


async def check_dropped_connections(trial: ChannelTrial) -> None:
    """After every connection broke the channel connects again; nothing is lost and nothing comes twice."""
    await trial.start()
    words = ("before it", "in the middle", "after it")
    trial.write(words[0])
    await trial.receive_text(words[0])
    trial.fault(PlatformFault.DROPPED)
    _require_repetition(trial)
    trial.write(words[1])
    await trial.receive_text(words[1])
    trial.fault(PlatformFault.DROPPED)
    trial.write(words[2])
    await trial.receive_text(words[2])
    assert find_texts(trial.received.events, words) == list(words)


def _require_repetition(trial: ChannelTrial) -> None:
    if not trial.platform.repeats:
        raise FeatureMissing("the platform repeats nothing: what is said while the bot is away is lost")


async def check_duplicate_events(trial: ChannelTrial) -> None:
    """An event that the platform delivers twice is one event."""
    await trial.start()
    trial.fault(PlatformFault.DUPLICATE)
    trial.write("only once")
    await trial.receive_text("only once")
    await trial.pass_marker()
    trial.require_used()
    assert find_texts(trial.received.events, ("only once",)) == ["only once"], "it has two identities"


async def check_reordered_events(trial: ChannelTrial) -> None:
    """Events that come in another order all arrive."""
    await trial.start()
    trial.fault(PlatformFault.REORDER)
    trial.write("the earlier")
    trial.write("the later")
    await trial.receive_text("the later")
    await trial.receive_text("the earlier")
    trial.require_used()
    assert len(trial.received.events) == 2


async def check_lost_acknowledgement(trial: ChannelTrial) -> None:
    """An acknowledgement that is lost brings the event again, as the same event."""
    await trial.start()
    words = ("the first", "the second")

    def lose_once(_: object) -> None:  # that of the first one, which is not given yet
        trial.received.during = None
        trial.fault(PlatformFault.FORGOTTEN)

    trial.fault(PlatformFault.FORGOTTEN)  # where it cannot be made, nothing is tried
    trial.platform.heal()
    trial.received.during = lose_once
    for word in words:
        trial.write(word)
        await trial.receive_text(word)
    await trial.pass_marker()
    trial.require_used()
    assert find_texts(trial.received.events, words) == list(words)


async def check_held_connection(trial: ChannelTrial) -> None:
    """A connection that is held open gives no beat, so that it is found; started anew, nothing is lost."""
    require_sign(trial)
    await trial.start()
    trial.write("before the silence")
    await trial.receive_text("before the silence")
    trial.fault(PlatformFault.HELD_POLL)
    trial.write("in the silence")
    await asyncio.sleep(SILENCE_S)  # what is already on its way comes through
    beats = trial.pulse.beats
    await asyncio.sleep(SILENCE_S)
    if find_texts(trial.received.events, ("in the silence",)):
        raise CheckImpossible("this platform cannot hold a connection")
    is_hooked = trial.platform.calls_hooks
    assert is_hooked or trial.pulse.beats == beats, "the channel gives beats while nothing comes"
    await trial.stop()
    trial.platform.heal()
    _require_repetition(trial)
    await trial.restart()
    await trial.receive_text("in the silence")
    words = ("before the silence", "in the silence")
    assert find_texts(trial.received.events, words) == list(words)
    if is_hooked:
        raise CheckImpossible("events come by hooks, and a hook that brings nothing is no sign; nothing was lost")


def require_sign(trial: ChannelTrial) -> None:
    """Require a sign of life. A channel that is only called now and then has none."""
    if trial.platform.calls_hooks and not trial.kind.deaf_after_s:
        raise FeatureMissing("programs call it when they like, so silence is no sign")
    assert trial.kind.deaf_after_s > 0, "no deaf_after_s is declared, so a silent channel is never found"


async def check_beats(trial: ChannelTrial) -> None:
    """The channel shows that it receives."""
    require_sign(trial)
    await trial.start()
    before = trial.pulse.beats
    await trial.pass_marker()
    assert trial.pulse.beats > before or before > 1, "an event came, and no beat"


async def check_revoked_token(trial: ChannelTrial) -> None:
    """A token that is revoked while the channel listens ends it, by name and with a way out."""
    if not trial.platform.get_secrets():
        raise FeatureMissing("there is no token")
    await trial.start()
    trial.fault(PlatformFault.UNAUTHORIZED, PlatformFault.DROPPED)
    await require_end(trial, EndReason.TOKEN)


async def check_second_poller(trial: ChannelTrial) -> None:
    """Another program that receives in this bot's place ends the channel, by name."""
    if not trial.platform.repeats:
        raise CheckImpossible("what is said while it connects again is lost, so nobody can tell")
    await trial.start()
    trial.fault(PlatformFault.CONFLICT, PlatformFault.DROPPED)
    trial.write("for whom")
    patience = 3 * trial.patience  # one conflict is no end: a channel tries several times, later each time
    await trial.until(lambda: trial.has_ended or trial.received.events, "the end of listen, or the message", patience)
    if not trial.has_ended:
        raise CheckImpossible("this platform lets several programs receive")
    await require_end(trial, EndReason.SECOND_POLLER)


async def require_end(trial: ChannelTrial, reason: EndReason) -> None:
    ended = await trial.wait_for_end()
    assert isinstance(ended, ChannelEnded), f"listen ended with {ended!r}"
    assert ended.reason is reason, f"the reason is {ended.reason}"
    assert ended.remedy and "\n" not in str(ended), f"it says {str(ended)!r}"


async def check_cursor(trial: ChannelTrial) -> None:
    """After a kill another instance receives what was not stored: in the order of the room, and nothing twice."""
    _require_repetition(trial)
    await trial.start()
    words = ("stored", "refused by the store", "written meanwhile")
    trial.write(words[0])
    await trial.receive_text(words[0])
    trial.received.error = Unavailable("the store", "the disk is full")
    calls = trial.received.calls
    trial.write(words[1])
    await trial.until(lambda: trial.received.calls > calls, "the first try")
    await trial.stop()
    trial.write(words[2])
    trial.received.error = None
    await trial.restart()
    await trial.receive_text(words[2])
    await trial.receive_text(words[1])
    found = find_texts(trial.received.events, words)
    assert found == list(words), f"they came as {found}"


async def check_identity(trial: ChannelTrial) -> None:
    """The channel says whose bot it is, before anything is written down."""
    require_method(trial)
    assert isinstance(trial.channel, SupportsCheck)
    found = await trial.channel.check()
    assert found.name.strip() and "\n" not in found.name, f"its name is {found.name!r}"
    assert not found.missing, f"it lacks {found.missing}"


async def check_wrong_token(trial: ChannelTrial) -> None:
    """A token that is wrong is named in one line."""
    require_method(trial)
    secrets = {name: spoil(value) for name, value in trial.platform.get_secrets().items()}
    if not secrets:
        raise FeatureMissing("there is no token")
    error = await find_check_error(trial, secrets=secrets)
    allow_unchecked(trial, AddCheck.TOKEN, error)
    assert isinstance(error, ChannelEnded), f"it ends with {error!r}"
    assert error.reason is EndReason.TOKEN, f"the reason is {error.reason}"
    assert error.remedy and "\n" not in str(error)


async def check_no_network(trial: ChannelTrial) -> None:
    """A platform that does not answer is named in one line."""
    require_method(trial)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens there
        settings = trial.platform.get_settings()
        elsewhere = {
            name: move(value, trial.platform.port, closed.getsockname()[1]) for name, value in settings.items()
        }
        if elsewhere == settings:
            raise CheckImpossible("no setting names the platform's port")
        error = await find_check_error(trial, **elsewhere)
    allow_unchecked(trial, AddCheck.NETWORK, error)
    assert isinstance(error, Unavailable), f"it ends with {error!r}"
    assert "\n" not in str(error) and len(str(error)) < 300


async def check_closing(trial: ChannelTrial) -> None:
    """A channel that is closed leaves no connection and no task."""
    await trial.stop()
    before = asyncio.all_tasks()
    await trial.start()
    await trial.pass_marker()
    await trial.send(text="and good bye")
    await trial.close()
    await trial.until(lambda: not list_open(trial), f"closed connections ({len(list_open(trial))} are open)")
    left = [task.get_name() for task in asyncio.all_tasks() - before if not task.done()]
    assert not left, f"these tasks are left: {left}"


def list_open(trial: ChannelTrial) -> list[Any]:
    server = getattr(trial.platform, "_server", None)
    return list(server.server_state.connections) if server is not None else []


def require_method(trial: ChannelTrial) -> None:
    assert isinstance(trial.channel, SupportsCheck), "there is no method check, so nobody can try the settings"


def allow_unchecked(trial: ChannelTrial, check: AddCheck, error: Exception | None) -> None:
    """A channel that declares why it cannot find this out may say nothing."""
    if error is None and check in trial.kind.unchecked:
        raise FeatureMissing(trial.kind.unchecked[check])


async def find_check_error(trial: ChannelTrial, **more: Any) -> Exception | None:
    channel, _ = make_channel(trial.platform, **more)
    try:
        async with asyncio.timeout(trial.patience):
            assert isinstance(channel, SupportsCheck)
            await channel.check()
    except Exception as error:  # noqa: BLE001  it is what is graded
        return error
    finally:
        await close_channel(channel)
    return None


def spoil(secret: str) -> str:
    """Return a wrong secret of the same form."""
    return secret[:-1] + ("x" if secret[-1:] != "x" else "y")


def move(value: Any, port: int, other: int) -> Any:
    if isinstance(value, str):
        return value.replace(f":{port}", f":{other}")
    return other if value == port and not isinstance(value, bool) else value
