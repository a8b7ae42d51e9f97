"""The channels of a running gateway: made, started, stopped and restarted one by one, without touching the others.

Delivery, intake and the tools look into `kinds` and `adapters`. An instance that is stopped or has ended is no longer
in `adapters`, so what is for it waits in the outbox. Its kind stays known while it is meant to run. To keep `listen`
running is one of the three loops that must not die.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from gatepost.channels.contract import (
    PULSE,
    Channel,
    ChannelDeps,
    ChannelEnded,
    ChannelKind,
    CheckToken,
    LateFailure,
    ReadSecret,
    Receive,
    SpecOrigin,
    SupportsClose,
)
from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import NotFound
from gatepost.core.home import Home
from gatepost.core.process.fencing import MAY_ACT, FenceCheck, always
from gatepost.core.records import replace
from gatepost.core.settings import Config, Setting
from gatepost.flow import channel_specs
from gatepost.flow.channel_health import ChannelHealth, ChannelReport, render_trouble
from gatepost.flow.channel_specs import BrokenSpec, ChannelSpec
from gatepost.flow.gateways.duties import CHANNEL, Duties, DutyHealth, channel_duty
from gatepost.flow.intake.slash_commands import list_native_commands
from gatepost.flow.server_senders import add_server, is_apart
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.store.port import Store
from gatepost.store.rights import tokens
from gatepost.store.rights.secret_rows import get_channel_secret_name
from gatepost.store.rights.secrets import SecretReader
from gatepost.store.rights.tokens import TokenKind
from gatepost.store.rooms import channel_cursors, channel_instances

QUIET_S = 10.0  # what is being sent when a channel is stopped gets so long
CLOSE_S = 5.0
LOOK_S = 0.05
LOOKS = 5  # at the pulse, in the time after which a silent channel is deaf
END_S = 2.0  # a listen that was cancelled gets so long to end

ReportFailureFor = Callable[[str, LateFailure], Awaitable[None]]
ReceiveFor = Callable[[str, Inbound], Awaitable[Receipt]]

_log = log.get("channels")


class ChannelSurroundings(Struct, frozen=True, kw_only=True):
    """The surroundings that channels are made with."""

    home: Home
    config: Config
    store: Store
    clock: Clock
    secrets: SecretReader


def get_folder(home: Home, instance: str) -> Path:
    return home.channels / instance


def make_folder(home: Home, instance: str) -> Path:
    folder = get_folder(home, instance)
    for each in (home.channels, folder):
        each.mkdir(mode=0o700, exist_ok=True)
    return folder


def make_secret_reader(
    secrets: SecretReader, instance: str, hide: Callable[[str], None] = lambda value: None
) -> ReadSecret:
    """Return a reader of a channel's secrets. Each read is on record, with the channel as its purpose. `hide` is given
    every value that was read."""

    async def read(wanted: Setting[str]) -> str:
        name = get_channel_secret_name(instance, channel_specs.get_last_name(wanted))
        value = await secrets.get(name, "", purpose=f"channel:{instance}") or ""
        hide(value)
        return value

    return read


def make_token_check(store: Store, clock: Clock, instance: str) -> CheckToken:
    async def check(shown: str) -> bool:
        found = await store.read(tokens.find_valid, TokenKind.ADAPTER, shown, clock.now())
        return found is not None and found.instance == instance

    return check


async def load_kind(kind: ChannelKind) -> None:
    """Import what it needs, off the loop."""
    if kind.load is not None:
        await asyncio.to_thread(kind.load)


async def _ignore_late_failure(instance: str, failure: LateFailure) -> None:
    return None


class StoreCursor:
    """A channel's cursor, kept in the store.

    If a save is lost, the platform brings something again, which intake knows by its identity. So a save waits for
    nothing, unless the channel says that it must.
    """

    def __init__(self, store: Store, clock: Clock, instance: str, get_term: Callable[[], int]) -> None:
        self._store, self._clock, self._instance = store, clock, instance
        self._get_term = get_term
        self._lane = f"channel {instance}"

    @property
    def term(self) -> int:
        return self._get_term()

    async def load(self, name: str = "") -> str:
        """In the lane of the saves: one that is still to be written is written before."""
        row = await self._store.write(channel_cursors.get, self._instance, name, durable=False, lane=self._lane)
        return row.received if row is not None else ""

    async def save(self, value: str, name: str = "", *, acknowledged: bool = False, durable: bool = False) -> None:
        row = (self._instance, name, value, acknowledged, self._clock.now())
        if durable:
            await self._store.write(channel_cursors.put, *row, lane=self._lane)
        else:
            self._store.post(channel_cursors.put, *row, lane=self._lane)

    async def update(self, change: Callable[[str], str], name: str = "", *, durable: bool = False) -> str:
        asked = (self._instance, name, change, self._clock.now())
        return await self._store.write(channel_cursors.update, *asked, durable=durable, lane=self._lane)


class ChannelSupervisor:
    def __init__(self, deps: ChannelSurroundings, kinds: dict[str, ChannelKind], adapters: dict[str, Channel]) -> None:
        self._deps, self._kinds, self._adapters = deps, kinds, adapters
        self._health: dict[str, ChannelHealth] = {}
        self._specs: dict[str, ChannelSpec] = {}
        self._made: dict[str, Channel] = {}  # also those that have ended: they are still to be closed
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._receive: ReceiveFor | None = None
        self._changing = asyncio.Lock()
        self._duties = Duties()
        self.may_act: FenceCheck = always
        self.on_state: Callable[[str], None] = lambda instance: None  # the state of an instance has changed
        self.on_late_failure: ReportFailureFor = _ignore_late_failure
        self.is_sending: Callable[[str], bool] = lambda instance: False  # whether delivery is at work there

    def follow_duties(self, duties: Duties) -> None:
        """Follow the duties of several gateways that share a store: one of them listens on a channel."""
        self._duties = duties
        duties.on_change(self._duties_changed)

    def _duties_changed(self) -> None:
        for instance in list(self._adapters):
            task = self._tasks.get(instance)
            listens = task is not None and not task.done()
            if self._may_listen(instance) and not listens:
                self._start_listening(instance)
            elif not self._may_listen(instance) and task is not None:
                self._tasks.pop(instance)
                task.cancel()

    def _may_listen(self, instance: str) -> bool:
        kind = self._kinds.get(instance)
        return self._duties.sends_to(instance) or (kind is not None and kind.listens_everywhere)

    def _get_term(self, instance: str) -> int:
        return self._duties.get_term(channel_duty(instance))

    # What is there.

    def list_reports(self) -> list[ChannelReport]:
        """Return the reports of all channels. A channel that another gateway has is reported as it is there."""
        return [self._report(instance) for instance in sorted(self._health)]

    def find_report(self, instance: str) -> ChannelReport | None:
        return self._report(instance) if instance in self._health else None

    def _report(self, instance: str) -> ChannelReport:
        own, there = self._health[instance].report(), self._duties.find_elsewhere(channel_duty(instance))
        kind = self._kinds.get(instance)
        if there is None or there.health is None or kind is None or kind.listens_everywhere:
            return own
        where = f"on gateway {there.gateway}" if there.gateway else "no gateway has it now"
        return replace(
            own,
            state=there.health.state,
            since_at=there.health.since_at,
            error=f"{where}: {there.health.error}" if there.health.error else "",
            remedy=there.health.remedy,
            note=where,
        )

    # For the gateways that share a store, by the name of a duty.

    def list_platforms(self) -> list[str]:
        return [channel_duty(instance) for instance, kind in self._kinds.items() if not kind.always]

    def list_bound(self) -> list[str]:
        """Return the instances whose library keeps something on this machine, such as the keys of a device."""
        return [channel_duty(instance) for instance in self._health if self._keeps_files(instance)]

    def _keeps_files(self, instance: str) -> bool:
        with suppress(OSError), os.scandir(get_folder(self._deps.home, instance)) as found:
            return next(found, None) is not None
        return False

    def list_failing(self) -> dict[str, float]:
        """Return the instances that do not work here, and for how many seconds."""
        found = {channel_duty(instance): health.get_failing_s() for instance, health in self._health.items()}
        return {name: seconds for name, seconds in found.items() if seconds > 0}

    def list_made(self) -> dict[str, int]:
        return {channel_duty(instance): health.made_at for instance, health in self._health.items()}

    def list_health(self) -> dict[str, DutyHealth]:
        return {
            channel_duty(instance): DutyHealth(
                report.state, report.since_at, report.error, report.remedy, self._keeps_files(instance)
            )
            for instance, report in ((each, self._health[each].report()) for each in self._health)
            if (kind := self._kinds.get(instance)) is None or not kind.listens_everywhere
        }

    def is_busy(self, duty: str) -> bool:
        return duty.startswith(CHANNEL) and self.is_sending(duty.removeprefix(CHANNEL))

    def find_trouble(self, instance: str) -> str:
        """Return why nothing can be sent there now, in one line; '' if that is not known."""
        report = self.find_report(instance)
        return "" if report is None or report.is_well else render_trouble(report)

    def find_channel(self, instance: str) -> Channel | None:
        return self._adapters.get(instance)

    # The start of a gateway.

    def add_made(self, instance: str, kind: ChannelKind, channel: Channel, origin: SpecOrigin) -> None:
        """Add a channel that somebody else made: it runs for as long as the gateway does."""
        self._specs[instance] = ChannelSpec(instance=instance, kind=kind, origin=origin)
        self._health[instance] = self._follow(ChannelHealth.of(instance, kind, self._deps.clock))
        self._kinds[instance] = kind
        self._adapters[instance] = self._made[instance] = channel

    def _follow(self, health: ChannelHealth) -> ChannelHealth:
        health.on_state = lambda instance: self.on_state(instance)
        return health

    async def prepare(self) -> None:
        """Make every instance that is switched on. One that cannot be made has ended, and stops nobody else."""
        specs, broken = await self._list_specs()
        for spec in specs:
            if spec.instance not in self._made:
                await self._make(spec)
        for each in broken:
            broken_one = ChannelHealth(each.instance, each.kind_name, self._deps.clock)
            self._health[each.instance] = self._follow(broken_one)
            record_end(self._health[each.instance], each.error)

    async def _list_specs(self) -> tuple[list[ChannelSpec], list[BrokenSpec]]:
        rows = await self._deps.store.read(channel_instances.list_all)
        return channel_specs.list_specs(self._deps.config, rows)

    async def run(self, receive: ReceiveFor) -> None:
        """Run the channels until cancelled."""
        self._receive = receive
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for instance in list(self._adapters):
                    self._start_listening(instance)
                await asyncio.Event().wait()
        finally:
            self._group = None

    async def close(self) -> None:
        """Close the channels after nothing is sent any more."""
        await asyncio.gather(*(self._close(instance) for instance in list(self._made)))

    # One instance.

    async def start(self, spec: ChannelSpec) -> None:
        """Start it, or start it anew with other settings."""
        async with self._changing:
            await self._start(spec)

    async def _start(self, spec: ChannelSpec) -> None:
        await self._stop(spec.instance)
        await self._make(spec)
        self._start_listening(spec.instance)

    async def restart(self, instance: str) -> None:
        """Start an instance anew with what the settings and the store say now. One that has ended gets another
        chance."""
        async with self._changing:
            await self._start(await self._find_spec(instance))

    async def _find_spec(self, instance: str) -> ChannelSpec:
        specs, broken = await self._list_specs()
        error = next((each.error for each in broken if each.instance == instance), None)
        if error is not None:
            raise error
        spec = next((each for each in specs if each.instance == instance), None)
        if spec is None:
            raise NotFound("channel", instance, "`gatepost channel list` shows them")
        return spec

    async def stop(self, instance: str) -> None:
        """Remove an instance. Its messages that wait in the outbox stay there."""
        async with self._changing:
            await self._stop(instance)
            for known in (self._health, self._specs, self._kinds):
                known.pop(instance, None)

    def note_sent(self, instance: str, address: str, thread: str) -> None:
        """Note that a platform has taken a message: a channel that waits to reach it again need not wait any longer."""
        if (health := self._health.get(instance)) is not None:
            health.pulse.reach()

    def report_end(self, instance: str, error: ChannelEnded) -> None:
        """End a channel of which a send found out that nothing helps until somebody acts, as if `listen` had."""
        health = self._health.get(instance)
        if health is None or instance not in self._adapters:
            return
        record_end(health, error)
        del self._adapters[instance]
        if (task := self._tasks.get(instance)) is not None:
            task.cancel()

    async def _make(self, spec: ChannelSpec) -> None:
        instance, kind = spec.instance, spec.kind
        health = self._health[instance] = self._follow(ChannelHealth.of(instance, kind, self._deps.clock))
        self._specs[instance] = spec
        if not spec.is_on:
            self._kinds.pop(instance, None)
            health.record_off()
            return
        self._kinds[instance] = kind
        try:
            await load_kind(kind)
            self._kinds[instance] = spec.make_kind(self._deps.config)
            folder = await asyncio.to_thread(make_folder, self._deps.home, instance)
            channel = kind.make(self._make_deps(spec, health, folder))
        except Exception as error:  # noqa: BLE001  whatever a library raises when it is loaded, the others go on
            record_end(health, error)
            return
        self._adapters[instance] = self._made[instance] = channel

    def _make_deps(self, spec: ChannelSpec, health: ChannelHealth, folder: Path) -> ChannelDeps:
        deps = self._deps
        return ChannelDeps(
            instance=spec.instance,
            config=spec.make_config(deps.config),
            clock=deps.clock,
            secret=make_secret_reader(deps.secrets, spec.instance, health.hide),
            cursor=StoreCursor(deps.store, deps.clock, spec.instance, partial(self._get_term, spec.instance)),
            pulse=health.pulse,
            folder=folder,
            commands=list_native_commands(),
            check_token=make_token_check(deps.store, deps.clock, spec.instance),
            report_failure=partial(self._report_failure, spec.instance),
        )

    async def _report_failure(self, instance: str, failure: LateFailure) -> None:
        await self.on_late_failure(instance, failure)

    def _start_listening(self, instance: str) -> None:
        channel = self._adapters.get(instance)
        if self._group is None or self._receive is None or channel is None:
            return
        if self._may_listen(instance):
            self._tasks[instance] = self._group.create_task(self._listen(instance, channel, self._kinds[instance]))

    async def _listen(self, instance: str, channel: Channel, kind: ChannelKind) -> None:
        MAY_ACT.set(self.may_act)  # for this task, and all that it starts
        health = self._health[instance]  # its own: another may stand there when a listen that would not stop ends
        assert self._receive is not None
        receive: Receive = partial(self._receive, instance)
        if is_apart(kind, instance):
            receive = partial(_receive_apart, kind, instance, receive)
        await run_channel(channel, health, receive)
        if not health.report().is_well and self._adapters.get(instance) is channel:
            del self._adapters[instance]

    async def _stop(self, instance: str) -> None:
        """Stop an instance: nothing new is sent there, then what is being sent ends, then its connections do."""
        self._adapters.pop(instance, None)
        task = self._tasks.pop(instance, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task}, timeout=CLOSE_S * 2)
        if instance in self._made:
            await self._wait_until_quiet(instance)
            await self._close(instance)

    async def _wait_until_quiet(self, instance: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIET_S):
                while self.is_sending(instance):  # noqa: ASYNC110  delivery has no event for it
                    await asyncio.sleep(LOOK_S)

    async def _close(self, instance: str) -> None:
        channel: object = self._made.pop(instance, None)
        if isinstance(channel, SupportsClose):
            try:
                async with asyncio.timeout(CLOSE_S):
                    await channel.close()
            except Exception as error:  # noqa: BLE001  it is gone in any case
                _log.warning("a channel could not be closed", channel=instance, error=repr(error))


async def _receive_apart(kind: ChannelKind, instance: str, receive: Receive, inbound: Inbound) -> Receipt:
    return await receive(add_server(kind, instance, inbound))


class _Deaf(Exception):
    """It listens and receives nothing."""


async def run_channel(channel: Channel, health: ChannelHealth, receive: Receive) -> None:
    """Listen until cancelled, or until the channel has ended for good. One that breaks or is deaf is started again,
    later each time; one that returns is done."""

    async def receive_event(inbound: Inbound) -> Receipt:
        receipt = await receive(inbound)
        health.record_event()
        return receipt

    PULSE.set(health.pulse)  # for this task, and all that it starts
    wait = 0.0
    while True:
        health.begin()
        try:
            await _listen_watched(channel, health, receive_event)
            return
        except ChannelEnded as error:
            record_end(health, error)
            return
        except _Deaf:
            wait = health.next_wait(wait)
            health.record_deaf(wait)
            _log.warning("a channel is deaf and is started again", channel=health.instance, wait_s=wait)
        except Exception as error:  # noqa: BLE001  whatever a platform's library raises, the others go on
            wait = health.next_wait(wait)
            health.record_break(str(error) or repr(error), wait)
            shown = health.scrub(repr(error))
            _log.error("a channel broke and is started again", channel=health.instance, error=shown, wait_s=wait)
        await asyncio.sleep(wait)


def record_end(health: ChannelHealth, error: Exception) -> None:
    health.record_end(error)
    _log.error("a channel has ended", channel=health.instance, trouble=render_trouble(health.report()))


async def _listen_watched(channel: Channel, health: ChannelHealth, receive: Receive) -> None:
    """Listen, watched if the channel gives evidence that it receives."""
    if not health.deaf_after_s:
        return await channel.listen(receive)
    listening = asyncio.create_task(channel.listen(receive))
    try:
        while not listening.done():
            await asyncio.wait({listening}, timeout=health.deaf_after_s / LOOKS)
            if not listening.done() and health.is_deaf():
                raise _Deaf
        return listening.result()
    finally:
        listening.cancel()
        _, left = await asyncio.wait({listening}, timeout=END_S)
        if left:
            _log.error("a channel does not stop listening", channel=health.instance)
