"""Commands between gateways: asks another to do something about a session that it runs, and does what others ask here.

An event names the gateway that should look; a look every two seconds finds what no event was seen for. A command stands
in the store until it is answered, so it is done once even if one of them dies meanwhile.

Files of a person may lie in the homes of other gateways: attachments, logs, and what providers remember. Each gateway
erases its own, because only it can see them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import DAY, HOUR, Clock
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.store.gateways import commands, gateways
from gatepost.store.gateways.commands import Command, CommandKind, CommandState
from gatepost.store.gateways.gateway_checks import is_living
from gatepost.store.port import Db, Store
from gatepost.store.rights import switches
from gatepost.store.rights.switches import Switch

LOOK_S = 2.0  # behind the bell
ANSWER_S = 5.0  # for which somebody waits for an answer; twice what the kernel has to end a sandbox, and a bit
AT_ONCE = 50  # commands that one look takes
CLEAN_EVERY = HOUR
KEPT = DAY

Answer = dict[str, Any]
Pending = asyncio.Future[Command]

_log = log.get("gateways")
ERASE_WITHIN_S = 60.0  # for which one is waited for; sandboxes may have to end first


class CommandHost(Struct, frozen=True):
    """The parts that commands of others are done by."""

    execute: Callable[[Command], Awaitable[Answer | None]]  # None: the session is not run here any more
    follow_switch: Callable[[Switch | None], Awaitable[None]]  # how the panic switch is, at every look


class _News(Struct, frozen=True):
    answered: list[Command]
    waiting: bool
    panic: Switch | None


class GatewayCommands:
    def __init__(self, store: Store, clock: Clock, events: EventBus, gateway: str) -> None:
        self.gateway = gateway
        self._store, self._clock, self._events = store, clock, events
        self._awaited: dict[str, Pending] = {}
        self._posted: dict[tuple[CommandKind, str], None] = {}  # to be asked for, with no answer wanted
        self._loop = WakeLoop(_log.warning, "commands of gateways wait for the store", pause_s=LOOK_S)
        self._cleaned_at = clock.now()
        events.on_commands(self._receive_bell)

    def _receive_bell(self, gateway: str) -> None:
        if gateway == self.gateway:
            self._loop.wake()

    # Asking.

    async def find_owner(self, session_id: str) -> str:
        return await self._store.read(commands.find_owner, session_id)

    async def ask(self, kind: CommandKind, session_id: str, **arguments: Any) -> Answer | None:
        """Return what the gateway that runs a session answers. None: no other one runs it, or it does not answer in
        time; then it does this all the same, unless it dies."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                while await self.find_owner(session_id) not in ("", self.gateway):
                    command = await self._add(kind, session_id, arguments)
                    if command is None:
                        return None
                    done = await self._expect(command)
                    if done.state is CommandState.DONE:
                        return done.answer
                return None
        _log.warning("a gateway does not answer", kind=kind, session=session_id)
        return None

    async def ask_gateway(self, kind: CommandKind, gateway: str, arguments: Mapping[str, Any], within: float) -> Answer:
        """Return what another gateway answers to what is of no session. Raises Unavailable if it is away, or does not
        answer in time: then it may do this all the same."""
        now = self._clock.now()
        command = await self._store.write(commands.add_for_gateway, kind, gateway, arguments, self.gateway, now)
        if command is None:
            raise Unavailable(f"gateway {gateway}", "it is away")
        try:
            async with asyncio.timeout(within):
                done = await self._expect(command)
        except TimeoutError:
            raise Unavailable(f"gateway {gateway}", "it does not answer in time", uncertain=True) from None
        finally:
            self._awaited.pop(command.id, None)
        if done.state is not CommandState.DONE:
            raise Unavailable(f"gateway {gateway}", "it went away before it answered", uncertain=True)
        return done.answer

    def post(self, kind: CommandKind, session_id: str) -> None:
        """The same soon, and nobody waits for it."""
        self._posted[kind, session_id] = None
        self._loop.wake()

    async def add_for_others(self, kind: CommandKind) -> list[Pending]:
        """For every other gateway. `collect` waits for what they answer."""
        made = await self._store.write(commands.add_for_others, kind, self.gateway, self._clock.now())
        return [self._expect(each) for each in made]

    async def collect(self, pending: list[Pending]) -> list[Answer]:
        """The answers that come in time."""
        if pending:
            await asyncio.wait(pending, timeout=ANSWER_S)
        return [each.result().answer for each in pending if each.done()]

    async def _add(self, kind: CommandKind, session_id: str, arguments: Mapping[str, Any]) -> Command | None:
        now = self._clock.now()
        return await self._store.write(commands.add_for_session, kind, session_id, arguments, self.gateway, now)

    def _expect(self, made: Command) -> Pending:
        pending = self._awaited[made.id] = asyncio.get_running_loop().create_future()
        self._events.commands(made.gateway)
        return pending

    # Doing.

    async def run(self, host: CommandHost) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            await self._loop.run(partial(self._step, host, tasks))

    async def _step(self, host: CommandHost, tasks: asyncio.TaskGroup) -> None:
        await self._send_posted()
        found = await self._store.read(_read_news, self.gateway)
        for each in found.answered:
            if (pending := self._awaited.pop(each.id, None)) is not None and not pending.done():
                pending.set_result(each)
        if found.answered:
            self._store.post(commands.remove, [each.id for each in found.answered], lane="commands")
        claimed: list[Command] = []
        if found.waiting:
            claimed = await self._store.write(commands.claim_waiting, self.gateway, AT_ONCE)
            for command in claimed:
                tasks.create_task(self._execute(host, command))
        else:
            await host.follow_switch(found.panic)
        if self._clock.now() - self._cleaned_at > CLEAN_EVERY:
            self._cleaned_at = self._clock.now()
            await self._store.write(commands.remove_old, self._clock.ago(KEPT), durable=False)
        if AT_ONCE in (len(found.answered), len(claimed)):
            self._loop.wake()  # there may be more

    async def _send_posted(self) -> None:
        while self._posted:
            kind, session_id = next(iter(self._posted))
            if await self.find_owner(session_id) not in ("", self.gateway):
                made = await self._add(kind, session_id, {})
                if made is not None:
                    self._events.commands(made.gateway)
            self._posted.pop((kind, session_id), None)

    async def _execute(self, host: CommandHost, command: Command) -> None:
        try:
            answer = await host.execute(command)
            await self._store.write(commands.set_answer, command.id, answer, self._clock.now())
        except GatepostError as error:  # whoever asked does not wait for ever
            _log.warning("a command of a gateway could not be done", kind=command.kind, error=str(error))
        else:
            self._events.commands(command.asker)


def _read_news(db: Db, gateway: str) -> _News:
    return _News(
        commands.list_answered(db, gateway, AT_ONCE),
        commands.has_waiting(db, gateway),
        switches.get(db, switches.PANIC),
    )


class OtherHomes:
    def __init__(self, store: Store, commands: GatewayCommands) -> None:
        self._store, self._commands = store, commands

    async def list_names(self, now: int) -> list[str]:
        """Raises Unavailable if one of them cannot be asked."""
        others = [row for row in await self._store.read(gateways.list_all) if row.name != self._commands.gateway]
        for each in others:
            if not is_living(each, now):
                way = f"start it, or `gatepost gateway forget {each.name}` if it is gone for good"
                raise Unavailable(f"gateway {each.name}", f"it may have files of theirs; {way}")
        return [each.name for each in others]

    async def erase(self, identity: str, now: int) -> dict[str, Answer]:
        """Return what each gateway has erased, by its name. The next try asks those again that did not answer in
        time."""
        names = await self.list_names(now)
        given = {"id": identity}
        asked = (self._commands.ask_gateway(CommandKind.FORGET, each, given, ERASE_WITHIN_S) for each in names)
        return dict(zip(names, await asyncio.gather(*asked), strict=True))
