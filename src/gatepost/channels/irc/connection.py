"""One connection to an IRC server: logging in, lines in and out, and the proof that a line arrived."""

import asyncio
import itertools
import ssl
from collections.abc import Callable

from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.irc import wire
from gatepost.channels.irc.wire import CaseMapping, IrcLine
from gatepost.channels.kit.http import explain_no_connection
from gatepost.channels.kit.tls import find_bad_certificate
from gatepost.core import log
from gatepost.core.errors import NotFound, Refused, Unavailable

LOG = log.get("channels")
LONGEST_LINE = 16 * 1024
CONNECT_S = 30.0
SILENT_S = 90.0  # without a line for so long the connection is dead
ANSWER_S = 20.0
MOST_NICKS = 5
WAY_OUT = "set the account and its password with `gatepost channel set`"
LOGGED_IN, WELCOME, FEATURES, NICK_IN_USE, ERRONEOUS_NICK = "903", "001", "005", "433", "432"
LOGIN_FAILED = frozenset({"902", "904", "905", "906", "908"})
PASSWORD_WRONG, BANNED = "464", "465"
NOBODY, NO_CHANNEL, CANNOT_SEND, NOT_HERE = "401", "403", "404", "442"
JOIN_REFUSED = frozenset({"405", "437", "471", "473", "474", "475", "476", "489", "520"})
MOST_CLOSED = 1000
NAMELESS = frozenset({"263", "411", "412", "417"})  # refusals that do not say of what
IGNORED = "716"  # a person has the server hold back strangers


class ConnectionLost(Exception):
    """The connection ended: open another."""


class IrcConnection:
    def __init__(
        self, host: str, port: int, tls: ssl.SSLContext | None, nick: str, account: str, password: str
    ) -> None:
        self._host, self._port, self._tls = host, port, tls
        self.nick, self._account, self._password = nick, account, password
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._tokens = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[None]] = {}  # for the answers to our pings
        self._refusals: list[IrcLine] = []  # since the last send began
        self._echoes: list[str] = []  # ids of our own lines, on servers that repeat them
        self._sending = asyncio.Lock()
        self._target = ""  # of the last send
        self.closed_rooms: dict[str, str] = {}  # channels that the bot may not join, and why
        self.mapping = CaseMapping.ASCII  # until the server says otherwise
        self.ready = self.is_nick_taken = False

    async def open(self) -> None:
        """Connect and log in. Raises ChannelEnded if that will not work another time either."""
        try:
            async with asyncio.timeout(CONNECT_S):
                self._reader, self._writer = await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls, limit=LONGEST_LINE
                )
                await self._log_in()
        except (OSError, TimeoutError) as error:
            if (refusal := find_bad_certificate(self._host, error)) is not None:
                raise refusal from None
            raise Unavailable("IRC", explain_no_connection(self._host, self._port, error)) from None
        self.ready = True

    async def _log_in(self) -> None:
        await self.write("CAP LS 302")
        await self.write(f"NICK {self.nick}")
        await self.write(f"USER {self.nick} 0 * :{self.nick}")
        offered: set[str] = set()
        tries = 0
        while True:
            line = await self.read()
            if line.command == "CAP":
                offered |= {word.partition("=")[0] for word in line.last.split()}
                await self._answer_capability(line, offered)
            elif line.command == "AUTHENTICATE":
                for piece in wire.render_plain_login(self._account, self._password):
                    await self.write(f"AUTHENTICATE {piece}")
            elif line.command == LOGGED_IN:
                await self.write("CAP END")
            elif line.command in LOGIN_FAILED or line.command == PASSWORD_WRONG:
                raise ChannelEnded(EndReason.TOKEN, f"{self._host} refuses the account ({line.last})", WAY_OUT)
            elif line.command == BANNED:
                raise ChannelEnded(EndReason.RIGHTS, f"{self._host} has banned the bot ({line.last})", "ask its staff")
            elif line.command == NICK_IN_USE and tries < MOST_NICKS:
                tries, self.nick, self.is_nick_taken = tries + 1, f"{self.nick}_", True
                await self.write(f"NICK {self.nick}")
            elif line.command in (NICK_IN_USE, ERRONEOUS_NICK):
                raise ChannelEnded(EndReason.SETTING, f"{self._host} refuses the nick {self.nick}", "set another nick")
            elif line.command == WELCOME:
                self.nick = line.params[0] if line.params else self.nick
                return
            elif line.command == "ERROR":
                raise Unavailable(f"IRC ({self._host})", f"it closed the connection ({line.last[:100]})")

    async def _answer_capability(self, line: IrcLine, offered: set[str]) -> None:
        kind = line.params[1] if len(line.params) > 1 else ""
        if kind == "LS" and "*" not in line.params[2:-1]:  # else more of the list follows
            wanted = [each for each in wire.WANTED if each in offered and (each != "sasl" or self._account)]
            if self._account and "sasl" not in wanted:
                # The part of a network that has the accounts comes back later than its servers.
                why = "it offers no way to log in with an account now; if it never does, set account to an empty value"
                raise Unavailable(f"IRC ({self._host})", why)
            await self.write(f"CAP REQ :{' '.join(wanted)}" if wanted else "CAP END")
        elif kind == "ACK" and self._account and "sasl" in line.last.split():
            await self.write("AUTHENTICATE PLAIN")
        elif kind in ("ACK", "NAK"):
            await self.write("CAP END")

    async def write(self, line: str) -> None:
        if self._writer is None:
            raise ConnectionLost("it is closed")
        self._writer.write(wire.clean(line).encode() + b"\r\n")
        await self._writer.drain()

    async def read(self) -> IrcLine:
        """The next line. Pings are answered, and answers to ours are given to whoever waits for them."""
        if self._reader is None:
            raise ConnectionLost("it is closed")
        async with asyncio.timeout(SILENT_S):
            try:
                raw = await self._reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                raise ConnectionResetError("the server closed the connection") from None
        line = wire.parse_line(raw)
        if line.command == "PING":
            await self.write(f"PONG :{line.last}")
        elif line.command == "PONG" and (waiting := self._waiting.pop(line.last, None)) is not None:
            if not waiting.done():
                waiting.set_result(None)
        elif line.command == "NICK" and self._is_own(line) and line.last:
            self.nick = line.last
        elif line.command == "PRIVMSG" and self._is_own(line):
            self._echoes += [line.tags["msgid"]] if line.tags.get("msgid") else []
        elif line.command in JOIN_REFUSED and len(line.params) > 1 and len(self.closed_rooms) < MOST_CLOSED:
            self.closed_rooms[wire.fold(line.params[1], self.mapping)] = line.last[:100]
            LOG.warning("a channel refuses the bot", channel=line.params[1][:60], answer=line.last[:100])
        elif self._is_refusal(line):
            self._refusals.append(line)
        elif line.command == FEATURES:
            self.mapping = wire.read_mapping(line) or self.mapping
        return line

    def _is_own(self, line: IrcLine) -> bool:
        return wire.fold(line.nick, self.mapping) == wire.fold(self.nick, self.mapping)

    def _is_refusal(self, line: IrcLine) -> bool:
        """Return True if a line of ours was not passed on. Networks have numerics of their own for it, so each that is
        an error and names the target counts."""
        if line.command in NAMELESS:
            return True
        is_error = len(line.command) == 3 and line.command.isdecimal() and "400" <= line.command < "600"
        named = {wire.fold(each, self.mapping) for each in line.params[1:-1]}
        return (is_error or line.command == IGNORED) and wire.fold(self._target, self.mapping) in named

    async def ping(self) -> None:
        """Returns once the server has handled all that was written before."""
        token, loop = f"gatepost{next(self._tokens)}", asyncio.get_running_loop()
        self._waiting[token] = loop.create_future()
        try:
            await self.write(f"PING :{token}")
            async with asyncio.timeout(ANSWER_S):
                await self._waiting[token]
        finally:
            self._waiting.pop(token, None)

    async def send_lines(self, target: str, lines: list[str], pause: Callable[[], float]) -> str:
        """The server's id of the first line, if it gives one. Raises what it answered to one of them. `pause`: how long
        to wait before each line."""
        async with self._sending:
            self._target = target
            self._refusals.clear()
            self._echoes.clear()
            for line in lines:
                await asyncio.sleep(pause())
                await self.write(f"PRIVMSG {target} :{line}")
            await self.ping()
            refusals, echoes = list(self._refusals), list(self._echoes)
        closed = self.closed_rooms.get(wire.fold(target, self.mapping))
        for refusal in refusals:
            if closed:
                raise Refused("this bot", "join", target, closed)
            if refusal.command in (NOBODY, NO_CHANNEL):
                raise NotFound("room", target, f"the server says: {refusal.last[:100]}")
            raise Refused("this bot", "write", target, refusal.last[:100])
        return echoes[0] if echoes else ""

    async def close(self) -> None:
        self.ready = False
        writer, self._writer, self._reader = self._writer, None, None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionLost("the connection ended"))
        if writer is not None:
            writer.close()
