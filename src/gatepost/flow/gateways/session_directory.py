"""Sessions wherever they run: what is asked about one goes to the gateway that runs it. The one place that decides
between here and elsewhere. A gateway by itself asks nobody: everything is here.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from gatepost.core import log
from gatepost.core.errors import Unavailable
from gatepost.core.records import replace
from gatepost.flow.gateways.commands import Answer, CommandHost, GatewayCommands, Pending
from gatepost.flow.reports import PanicResult
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.session_supervisor import SessionSupervisor
from gatepost.store.gateways.commands import Command, CommandKind
from gatepost.store.rights.switches import Switch

_log = log.get("gateways")


class SessionDirectory:
    def __init__(
        self,
        here: SessionSupervisor,
        commands: GatewayCommands | None = None,
        on_switch: Callable[[], None] = lambda: None,
    ) -> None:
        """`commands`: None where no other gateway shares the store. `on_switch`: the switches may have changed, and
        what they say is done here."""
        self._here, self._commands, self._on_switch = here, commands, on_switch
        self.operate: Callable[[Answer], Awaitable[Answer]] | None = None  # an operation that another passes on
        self.forget: Callable[[str], Awaitable[Answer]] | None = None  # a person, as far as the files here go

    @property
    def deps(self) -> SessionDeps:
        return self._here.deps

    def make_host(self) -> CommandHost:
        return CommandHost(self._execute, self._follow_switch)

    # What is asked here.

    async def stop(self, session_id: str, by: str) -> bool:
        """Stop a session as `SessionSupervisor.stop` does. If its gateway does not answer, the stop is recorded from
        here."""
        answer = await self._ask(CommandKind.STOP, session_id, by=by)
        return bool(answer["stopped"]) if answer is not None else await self._here.stop(session_id, by)

    def kill(self, session_id: str, by: str) -> None:
        """The part of a stop that needs no store, so of what runs here only. `stop` reaches the rest."""
        self._here.kill(session_id, by)

    async def end(self, session_id: str, reason: str) -> None:
        """Nothing of a session runs any more when this returns; what it was given waits."""
        if await self._ask(CommandKind.END, session_id, reason=reason) is None:
            await self._here.end(session_id, reason)

    def renew(self, session_id: str) -> None:
        """Restart a session, after its turn if one runs, because its instructions at the start have changed."""
        self._here.renew(session_id)
        if self._commands is not None and not self._here.is_awake(session_id):
            self._commands.post(CommandKind.RENEW, session_id)

    def keep_asleep(self, session_id: str) -> AbstractContextManager[bool]:
        return self._here.keep_asleep(session_id)

    async def apply_switches(self) -> int:
        """Do as the switches say, everywhere. How many sandboxes were ended."""
        asked = await self._ask_others()
        ended = await self._here.apply_switches()
        self._on_switch()
        return ended + await self._count_ended(asked)

    async def halt(self, turn_on: Callable[[], Awaitable[bool]]) -> PanicResult:
        """A panic: everything ends here at once, and elsewhere as soon as it is written down."""
        asked: list[Pending] = []

        async def turn_on_everywhere() -> bool:
            changed = await turn_on()
            asked.extend(await self._ask_others())
            return changed

        done = await self._here.halt(turn_on_everywhere)
        self._on_switch()
        return replace(done, ended=done.ended + await self._count_ended(asked))

    async def _ask_others(self) -> list[Pending]:
        """Ask the other gateways to follow the switches. One that cannot be asked finds them by itself."""
        if self._commands is not None:
            with suppress(Unavailable):
                return await self._commands.add_for_others(CommandKind.OBEY)
        return []

    async def _count_ended(self, asked: list[Pending]) -> int:
        if self._commands is None:
            return 0
        return sum(int(each.get("ended", 0)) for each in await self._commands.collect(asked))

    async def _ask(self, kind: CommandKind, session_id: str, **arguments: Any) -> Answer | None:
        """None: it is to be done here."""
        if self._commands is None or self._here.is_awake(session_id):
            return None
        try:
            return await self._commands.ask(kind, session_id, **arguments)
        except Unavailable as error:
            _log.warning("no other gateway can be asked", kind=kind, session=session_id, error=str(error))
            return None

    # What others ask.

    async def _execute(self, command: Command) -> Answer | None:
        session_id, given = command.session_id, command.arguments
        if session_id and not self._here.is_awake(session_id) and await self._is_elsewhere(session_id):
            return None
        match command.kind:
            case CommandKind.STOP:
                return {"stopped": await self._here.stop(session_id, str(given["by"]))}
            case CommandKind.END:
                await self._here.end(session_id, str(given["reason"]))
            case CommandKind.RENEW:
                self._here.renew(session_id)
            case CommandKind.OBEY:
                ended = await self._here.apply_switches()
                self._on_switch()
                return {"ended": ended}
            case CommandKind.OPERATE:
                return None if self.operate is None else await self.operate(given)
            case CommandKind.FORGET:
                return None if self.forget is None else await self.forget(str(given["id"]))
        return {}

    async def _is_elsewhere(self, session_id: str) -> bool:
        assert self._commands is not None
        return await self._commands.find_owner(session_id) not in ("", self._commands.gateway)

    async def _follow_switch(self, panic: Switch | None) -> None:
        """A panic that no command was heard of: this gateway was away, or whoever turned it on has died."""
        if self._here.follows(panic):
            return
        await self._here.apply_switches()
        self._on_switch()
