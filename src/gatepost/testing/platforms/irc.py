"""A small IRC server in this process: one bot, and people who are only names.

It knows capabilities, SASL PLAIN, tags of time, account and message id, and the answers to what a bot does wrong. It
has no modes, no operators and no other servers.
"""

import asyncio
import base64
from datetime import UTC, datetime
from typing import Any, ClassVar

from gatepost.testing.platforms.base import (
    EmulatedPlatform,
    GivenMessage,
    NotOffered,
    PlatformFault,
    ShownMessage,
)
from gatepost.testing.platforms.rest import make_id

CAPABILITIES = ("message-tags", "server-time", "account-tag", "echo-message", "sasl")
FAULTS = frozenset(
    {
        PlatformFault.UNAUTHORIZED,
        PlatformFault.FORBIDDEN,
        PlatformFault.NO_ANSWER,
        PlatformFault.CONFLICT,
        PlatformFault.NO_RIGHTS,
        PlatformFault.HELD_POLL,
        PlatformFault.DROPPED,
        PlatformFault.DUPLICATE,
    }
)


NICK = "porter"


class _Client:
    """The bot's connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer, self.nick, self.capabilities = writer, "", set[str]()
        self.is_negotiating = self.is_welcome = False
        self.login = ""
        self.block: ShownMessage | None = None  # to which the bot's next line belongs

    def write(self, line: str) -> None:
        self.writer.write(line.encode() + b"\r\n")


class IrcPlatform(EmulatedPlatform):
    kind = "irc"
    cannot: ClassVar[frozenset[str]] = frozenset({"edit", "delete", "react", "click"})
    repeats = False
    password = "the-bots-password"

    def __init__(self) -> None:
        super().__init__()
        self._clients: list[_Client] = []
        self._listening: asyncio.Server | None = None
        self.accounts = True  # whether people have one
        self.capabilities = CAPABILITIES  # that it offers
        self.mapping = "rfc1459"
        self.taken = {"ann", "bob"}  # nicks

    def get_settings(self) -> dict[str, Any]:
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "tls": False,
            "nick": NICK,
            "rooms": ("#team",),
            "account": "porter",
        }

    def get_secrets(self) -> dict[str, str]:
        return {"password": self.password}

    def get_address(self, room: str) -> str:
        return f"irc:direct/{room.partition(':')[2]}" if room.startswith("direct:") else f"irc:channel/#{room}"

    def get_sender(self, person: str) -> str:
        return f"irc:{'account' if self.accounts else 'nick'}/{person}"

    def fault(self, *faults: PlatformFault) -> None:
        unknown = [each for each in faults if each not in FAULTS]
        if unknown:
            raise NotOffered(f"irc has no {unknown[0]}")
        super().fault(*faults)
        if PlatformFault.UNAUTHORIZED in faults:  # a password is asked for at the beginning alone
            super().fault(PlatformFault.DROPPED)

    # What people do.

    def receive(self, given: GivenMessage) -> str:
        message = make_id()
        with self.changed:
            self.taken.add(given.sender)
            self.record.append(ShownMessage(id=message, room=given.room, sender=given.sender, text=given.text))
            twice = self.claim_fault(PlatformFault.DUPLICATE) is not None
        for _ in range(2 if twice else 1):
            self.call_soon(self._deliver, given.sender, given.room, given.render_named("porter:"), message)
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        message = make_id()
        self.call_soon(self._write_all, sender, f"JOIN :#{room}", message)
        return message

    def count_clients(self) -> int:
        with self.changed:
            return sum(each.is_welcome for each in self._clients)

    def _deliver(self, sender: str, room: str, text: str, message: str) -> None:
        for client in self._clients:
            target = client.nick if room.startswith("direct:") else f"#{room}"
            for line in text.split("\n"):
                self._write(client, sender, f"PRIVMSG {target} :{line}", message)

    def _write_all(self, sender: str, line: str, message: str) -> None:
        for client in self._clients:
            self._write(client, sender, line, message)

    def _write(self, client: _Client, sender: str, line: str, message: str) -> None:
        if not client.is_welcome or self.is_faulty(PlatformFault.HELD_POLL):
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        tags = [f"time={now}"] if "server-time" in client.capabilities else []
        tags += [f"msgid={message}"] if "message-tags" in client.capabilities else []
        tags += [f"account={sender}"] if self.accounts and "account-tag" in client.capabilities else []
        client.write(f"{'@' + ';'.join(tags) + ' ' if tags else ''}:{sender}!{sender}@host.test {line}")

    # The server.

    async def _open(self, port: int) -> None:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = int(self._listening.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        await self.drop_connections()
        await self._cancel_others()

    async def drop_connections(self) -> None:
        for client in list(self._clients):
            client.writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(writer)
        with self.changed:
            self._clients.append(client)
        try:
            while raw := await reader.readline():
                words, _, last = raw.decode(errors="replace").rstrip("\r\n").partition(" :")
                command, *params = [*words.split(" "), *([last] if _ else [])]
                self._answer(client, command.upper(), params)
                self.notify()
        except OSError:
            pass
        finally:
            with self.changed:
                self._clients.remove(client)
            writer.close()

    def _answer(self, client: _Client, command: str, params: list[str]) -> None:
        if command == "PING":
            client.block = None
            if not self.is_faulty(PlatformFault.HELD_POLL):
                client.write(f":irc.test PONG irc.test :{params[-1]}")
        elif command == "CAP":
            self._answer_capability(client, params)
        elif command == "AUTHENTICATE":
            self._answer_login(client, params[0])
        elif command == "NICK":
            if self.is_faulty(PlatformFault.NO_RIGHTS):
                client.write(":irc.test 465 * :You are banned from this server")
                return
            in_use = self.taken | ({NICK} if self.is_faulty(PlatformFault.CONFLICT) else set())
            if params[0] in in_use or any(each.nick == params[0] for each in self._clients):
                client.write(f":irc.test 433 * {params[0]} :Nickname is already in use")
                return
            client.nick = params[0]
            self._welcome(client)
        elif command == "USER":
            self._welcome(client)
        elif command == "JOIN":
            for channel in params[0].split(","):
                client.write(f":{client.nick}!bot@host.test JOIN :{channel}")
        elif command == "PRIVMSG":
            self._keep(client, params[0], params[1])

    def _answer_capability(self, client: _Client, params: list[str]) -> None:
        if params[0] == "LS":
            client.is_negotiating = True
            client.write(f":irc.test CAP * LS :{' '.join(self.capabilities)}")
        elif params[0] == "REQ":
            client.capabilities |= set(params[1].split())
            client.write(f":irc.test CAP * ACK :{params[1]}")
        elif params[0] == "END":
            client.is_negotiating = False
            self._welcome(client)

    def _answer_login(self, client: _Client, piece: str) -> None:
        if piece == "PLAIN":
            client.write("AUTHENTICATE +")
            return
        client.login += piece.rstrip("+") if piece == "+" else piece
        if len(piece) == 400:
            return
        given = base64.b64decode(client.login).decode().split("\0")
        right = given[1:] == ["porter", self.password] and not self.is_faulty(PlatformFault.UNAUTHORIZED)
        code, words = ("903", "SASL authentication successful") if right else ("904", "SASL authentication failed")
        client.write(f":irc.test {code} {client.nick or '*'} :{words}")

    def _welcome(self, client: _Client) -> None:
        if client.nick and not client.is_negotiating and not client.is_welcome:
            client.is_welcome = True
            client.write(f":irc.test 001 {client.nick} :Welcome to the network")
            client.write(f":irc.test 005 {client.nick} CASEMAPPING={self.mapping} CHANTYPES=# :are supported")

    def _keep(self, client: _Client, target: str, text: str) -> None:
        if self.claim_fault(PlatformFault.FORBIDDEN):
            client.write(f":irc.test 404 {client.nick} {target} :Cannot send to channel")
            return
        if not target.startswith("#") and target not in self.taken:
            client.write(f":irc.test 401 {client.nick} {target} :No such nick")
            return
        room = target[1:] if target.startswith("#") else f"direct:{target}"
        message = make_id()
        with self.changed:  # people see the lines that a bot writes at once as one block
            if client.block is not None and client.block.room == room:
                client.block.text += f"\n{text}"
            else:
                client.block = ShownMessage(id=message, room=room, sender="bot", text=text, raw=text)
                self.record.append(client.block)
        if {"echo-message", "message-tags"} <= client.capabilities:
            client.write(f"@msgid={message} :{client.nick}!bot@host.test PRIVMSG {target} :{text}")
        if self.claim_fault(PlatformFault.NO_ANSWER):
            client.writer.transport.abort()
