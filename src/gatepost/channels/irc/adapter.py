"""The bot on an IRC network. IRC repeats nothing: what is said while the bot is away is lost, as it is for people."""

import asyncio
import itertools
import uuid
from typing import Any

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.irc import ACCOUNT, HOST, NICK, PASSWORD, PORT, ROOMS, TLS, TRUST_NICKS, wire
from gatepost.channels.irc.connection import ConnectionLost, IrcConnection
from gatepost.channels.kit.batches import Backoff, receive_batch, unwrap_group
from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid, NotFound, Unavailable, Unsupported
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Op, Outbound

LOG = log.get("channels")
PING_S = 30.0
MOST_WAITING = 1000
BATCH = 100
BURST, LINES_PER_S = 5, 1.0  # what servers usually take before they call it a flood
MOST_KNOWN = 2000


class IrcChannel:
    def __init__(self, around: ChannelDeps) -> None:
        self._around = around
        self._connection: IrcConnection | None = None
        self._id, self._numbers = uuid.uuid4().hex[:12], itertools.count(1)
        self._nicks: dict[str, str] = {}  # where an account was seen last
        self._free_at = 0.0  # the moment until which lines were sent ahead, in seconds

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._connection.nick} if self._connection else ())

    async def _make_connection(self) -> IrcConnection:
        config, password = self._around.config, await self._around.secret(PASSWORD)
        if not config[HOST]:
            raise ChannelEnded(EndReason.SETTING, "no IRC server is set", "set its host with `gatepost channel set`")
        wrong = [each for each in config[ROOMS] if not wire.is_channel(each)]
        try:
            nick = wire.check_nick(config[NICK])
        except Invalid as error:
            raise ChannelEnded(EndReason.SETTING, str(error), "set another nick") from None
        if wrong:
            raise ChannelEnded(EndReason.SETTING, f"{wrong[0]!r} is no channel", "write it as #name")
        return IrcConnection(config[HOST], config[PORT], config[TLS], nick, config[ACCOUNT], password)

    async def check(self) -> BotIdentity:
        connection = await self._make_connection()
        try:
            await connection.open()
            proven = "accounts" if self._around.config[ACCOUNT] else "no account: the nick may be taken by others"
            return BotIdentity(name=connection.nick, notes=(f"on {self._around.config[HOST]}", proven))
        finally:
            await connection.close()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        backoff = Backoff()
        events: asyncio.Queue[Inbound] = asyncio.Queue(MOST_WAITING)

        async def connect() -> None:
            while True:
                try:
                    await unwrap_group(lambda: self._stay_connected(events, backoff))
                except (ConnectionLost, OSError, TimeoutError, Unavailable) as error:
                    LOG.info("the connection to IRC ended", instance=self._around.instance, error=repr(error))
                finally:
                    await self.close()
                await backoff.wait()

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(connect())
                group.create_task(_receive_events(events, receive))

        await unwrap_group(run)

    async def _stay_connected(self, events: asyncio.Queue[Inbound], backoff: Backoff) -> None:
        self._connection = connection = await self._make_connection()
        await connection.open()
        self._around.beat()
        backoff.reset()
        rooms = self._around.config[ROOMS]
        if rooms:
            await connection.write(f"JOIN {','.join(rooms)}")
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read_lines(connection, events))
            group.create_task(_send_pings(connection))

    async def _read_lines(self, connection: IrcConnection, events: asyncio.Queue[Inbound]) -> None:
        while True:
            line = await connection.read()
            self._around.beat()
            number, event = f"{self._id}-{next(self._numbers)}", None
            if line.command == "PRIVMSG":  # a NOTICE is never answered, so that two bots do not talk for ever
                event = wire.read_message(line, connection.nick, number, self._around.config[TRUST_NICKS])
            elif line.command == "JOIN":
                event = wire.read_join(line, connection.nick, number)
            elif line.command == "ERROR":
                raise ConnectionLost(line.last)
            if event is not None:
                self._remember(wire.get_account(line), line.nick)
                await events.put(event)

    def _remember(self, account: str, nick: str) -> None:
        if account:
            if len(self._nicks) >= MOST_KNOWN:
                self._nicks.clear()
            self._nicks[wire.fold(account)] = wire.fold(nick)

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        target = wire.parse_target(address)
        if message.op not in (Op.SEND, Op.FILE, Op.CARD):
            raise Unsupported(message.op.value, "irc", "use send with the same text")
        lines, connection = wire.render_lines(message.text), self._connection
        if not lines:
            raise Invalid("text", "there is nothing to say")
        if connection is None or not connection.ready:
            raise Unavailable("IRC", "the bot is not connected")
        try:
            await connection.send_lines(target, lines, self._get_pause)
        except (ConnectionLost, OSError, TimeoutError) as error:
            why = f"the connection ended ({type(error).__name__})"
            raise Unavailable("IRC", why, uncertain=True) from None
        return f"{self._id}-{next(self._numbers)}"

    def _get_pause(self) -> float:
        """Before the next line: a few at once, then one a second."""
        now = self._around.clock.monotonic() / SECOND
        self._free_at = max(self._free_at, now - BURST / LINES_PER_S) + 1 / LINES_PER_S
        return max(self._free_at - now, 0.0)

    async def open_direct(self, sender: str) -> str:
        kind, _, name = sender.removeprefix("irc:").partition("/")
        nick = self._nicks.get(name, "") if kind == "account" else name
        if kind not in ("account", "nick") or not nick:
            raise NotFound("person", sender, "they have to say something first")
        address = f"irc:direct/{nick}"
        wire.parse_target(address)
        return address


async def _send_pings(connection: IrcConnection) -> None:
    while True:
        await asyncio.sleep(PING_S)
        await connection.ping()


async def _receive_events(events: asyncio.Queue[Any], receive: Receive) -> None:
    while True:
        batch = [await events.get()]
        while len(batch) < BATCH and not events.empty():
            batch.append(events.get_nowait())
        await receive_batch(batch, receive)
