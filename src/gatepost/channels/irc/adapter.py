"""The bot on an IRC network. IRC repeats nothing: what is said while the bot is away is lost, as it is for people."""

import asyncio
import itertools
import re
import uuid

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.irc import ACCOUNT, CA_FILE, HOST, NICK, PASSWORD, PORT, ROOMS, TLS, TRUST_NICKS, wire
from gatepost.channels.irc.connection import ConnectionLost, IrcConnection
from gatepost.channels.irc.wire import CaseMapping, IrcLine
from gatepost.channels.kit.backoff import Backoff, unwrap_group
from gatepost.channels.kit.receiving import receive_batch
from gatepost.channels.kit.tls import make_tls
from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid, Unavailable, Unsupported
from gatepost.core.token_bucket import Rate, TokenBucket
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Op, Outbound

LOG = log.get("channels")
PING_S = 30.0
MOST_WAITING = 1000
BATCH = 100
LINES = Rate(per_second=1, burst=5, patience_s=float("inf"))  # what servers usually take before they call it a flood
NAMES = "353"
MOST_MEMBERS = 20_000  # of all channels; whoever is not known counts as a newcomer
_MARKS = "~&@%+!."  # before a name in the list, by rank
_SPLIT = re.compile(r"\S+\.\S+ \S+\.\S+\Z")  # two servers: the reason of all who go when a network falls apart


class ChannelMembers:
    """The people in the bot's channels, so that those who come back with their server are not taken for newcomers."""

    def __init__(self) -> None:
        self._present: dict[str, set[str]] = {}  # the channels of a nick, as the network folds them
        self._returning: dict[str, set[str]] = {}

    def lose_connection(self) -> None:
        """Expect those who were there: they may come again after us."""
        self._returning, self._present = self._present, {}

    def note(self, line: IrcLine, mapping: CaseMapping) -> bool:
        """Return True for the line of somebody who comes again."""
        nick, first = wire.fold(line.nick, mapping), wire.fold(line.params[0], mapping) if line.params else ""
        match line.command:
            case command if command == NAMES and len(line.params) > 2:
                channel = wire.fold(line.params[-2], mapping)
                for name in line.last.split():
                    self._add(wire.fold(name.lstrip(_MARKS).partition("!")[0], mapping), {channel})
            case "JOIN":
                self._add(nick, {first})
                returning = self._returning.get(nick, set())
                is_back = first in returning
                returning.discard(first)
                return is_back
            case "PART":
                self._present.get(nick, set()).discard(first)
            case "KICK" if len(line.params) > 1:
                self._present.get(wire.fold(line.params[1], mapping), set()).discard(first)
            case "QUIT":
                gone = self._present.pop(nick, set())
                if _SPLIT.match(line.last) and len(self._returning) < MOST_MEMBERS:
                    self._returning[nick] = gone
            case "NICK" if line.last:
                self._add(wire.fold(line.last, mapping), self._present.pop(nick, set()))
        return False

    def _add(self, nick: str, channels: set[str]) -> None:
        if nick in self._present or len(self._present) < MOST_MEMBERS:
            self._present.setdefault(nick, set()).update(channels)


class IrcChannel:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps = deps
        self._connection: IrcConnection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._events: asyncio.Queue[Inbound] = asyncio.Queue(MOST_WAITING)
        self._id, self._numbers = uuid.uuid4().hex[:12], itertools.count(1)
        self._members = ChannelMembers()
        self._is_nick_taken = False  # when the server was asked last
        self._pace = TokenBucket(LINES, deps.clock.monotonic() / SECOND)

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._connection.nick} if self._connection else ())

    async def _make_connection(self) -> IrcConnection:
        config, password = self._deps.config, await self._deps.secret(PASSWORD)
        if not config[HOST]:
            raise ChannelEnded(EndReason.SETTING, "no IRC server is set", "set its host with `gatepost channel set`")
        wrong = [each for each in config[ROOMS] if not wire.is_channel(each)]
        try:
            nick = wire.check_nick(config[NICK])
        except Invalid as error:
            raise ChannelEnded(EndReason.SETTING, str(error), "set another nick") from None
        if wrong:
            raise ChannelEnded(EndReason.SETTING, f"{wrong[0]!r} is no channel", "write it as #name")
        tls = await asyncio.to_thread(make_tls, config[CA_FILE]) if config[TLS] else None
        return IrcConnection(config[HOST], config[PORT], tls, nick, config[ACCOUNT], password)

    async def check(self) -> BotIdentity:
        connection = await self._make_connection()
        try:
            await connection.open()
            self._is_nick_taken = connection.is_nick_taken
            proven = "accounts" if self._deps.config[ACCOUNT] else "no account: the nick may be taken by others"
            return BotIdentity(name=connection.nick, notes=(f"on {self._deps.config[HOST]}", proven))
        finally:
            await connection.close()

    async def check_poller(self) -> None:
        """Raise ChannelEnded if `check` found the nick in use. A second connection at once looks like a flood to some
        servers."""
        if self._is_nick_taken:
            host, nick = self._deps.config[HOST], self._deps.config[NICK]
            remedy = "stop the program that has it, or choose another nick"
            raise ChannelEnded(EndReason.SECOND_POLLER, f"the nick {nick} is in use on {host}", remedy)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()
        self._connection = self._reading = None

    async def _get_connection(self) -> tuple[IrcConnection, asyncio.Task[None]]:
        """The open one, else another."""
        async with self._opening:
            if self._connection is None or self._reading is None or self._reading.done():
                await self.close()
                connection = await self._make_connection()
                try:
                    await connection.open()
                    if rooms := self._deps.config[ROOMS]:
                        await connection.write(f"JOIN {','.join(rooms)}")
                except BaseException:
                    await connection.close()
                    raise
                self._deps.beat()
                self._members.lose_connection()
                self._connection = connection
                self._reading = asyncio.create_task(self._read_lines(connection))
            return self._connection, self._reading

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._stay_connected())
                group.create_task(_receive_events(self._events, receive))

        await unwrap_group(run)

    async def _stay_connected(self) -> None:
        backoff = Backoff()
        while True:
            try:
                connection, reading = await self._get_connection()
                backoff.reset()
                pings = asyncio.create_task(_send_pings(connection))
                try:
                    await asyncio.wait({reading, pings}, return_when=asyncio.FIRST_COMPLETED)
                    await connection.close()
                finally:
                    pings.cancel()
                    await asyncio.gather(pings, return_exceptions=True)
            except (ConnectionLost, OSError, Unavailable) as error:
                LOG.info("IRC did not answer", instance=self._deps.instance, error=repr(error))
                await backoff.wait()  # here, so that people are told this error
            else:
                await backoff.wait()

    async def _read_lines(self, connection: IrcConnection) -> None:
        """Until the connection ends."""
        try:
            while True:
                line = await connection.read()
                self._deps.beat()
                event = self._read_event(line, connection.nick, connection.mapping)
                if event is not None:
                    await self._events.put(event)
        except (ConnectionLost, OSError, TimeoutError) as error:
            LOG.info("the connection to IRC ended", instance=self._deps.instance, error=repr(error))
        finally:
            await connection.close()

    def _read_event(self, line: IrcLine, nick: str, mapping: CaseMapping) -> Inbound | None:
        number, trust_nicks = f"{self._id}-{next(self._numbers)}", self._deps.config[TRUST_NICKS]
        if line.command == "ERROR":
            raise ConnectionLost(line.last)
        if self._members.note(line, mapping):
            return None
        if line.command == "JOIN":
            return wire.read_join(line, nick, number, trust_nicks, mapping)
        # A NOTICE is never answered, so that two bots do not talk for ever. Our own words come back on some servers.
        if line.command != "PRIVMSG" or wire.fold(line.nick, mapping) == wire.fold(nick, mapping):
            return None
        return wire.read_message(line, nick, number, trust_nicks, mapping)

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        target = wire.parse_target(address)
        if message.op not in (Op.SEND, Op.FILE, Op.CARD):
            raise Unsupported(message.op.value, "irc", "use send with the same text")
        lines = wire.render_lines(message.text)
        if not lines:
            raise Invalid("text", "there is nothing to say")
        try:
            connection, _ = await self._get_connection()
        except (ConnectionLost, OSError, TimeoutError) as error:
            raise Unavailable("IRC", f"it cannot be reached ({type(error).__name__})") from None
        try:
            message_id = await connection.send_lines(target, lines, self._get_pause)
        except (ConnectionLost, OSError, TimeoutError) as error:
            why = f"the connection ended ({type(error).__name__})"
            raise Unavailable("IRC", why, uncertain=True) from None
        return message_id or f"{self._id}-{next(self._numbers)}"

    def _get_pause(self) -> float:
        """Before the next line: a few at once, then one a second."""
        return self._pace.charge(1, self._deps.clock.monotonic() / SECOND)


async def _send_pings(connection: IrcConnection) -> None:
    """Until one is not answered."""
    while True:
        await asyncio.sleep(PING_S)
        await connection.ping()


async def _receive_events(events: asyncio.Queue[Inbound], receive: Receive) -> None:
    while True:
        batch = [await events.get()]
        while len(batch) < BATCH and not events.empty():
            batch.append(events.get_nowait())
        await receive_batch(batch, receive)
