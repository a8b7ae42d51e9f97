"""A small IRC server in this process: one bot, and people who are only names.

It knows capabilities, SASL PLAIN, tags of time, account and message id, and the answers to what a bot does wrong. It
has no modes, no operators and no other servers.
"""

import asyncio
import base64
import re
from datetime import UTC, datetime
from typing import Any, ClassVar

from gatepost_testing.platform_rules.irc import BY_NAME
from gatepost_testing.platforms.base import (
    EmulatedPlatform,
    GivenMessage,
    NotOffered,
    PlatformFault,
    ShownMessage,
)
from gatepost_testing.platforms.rest import make_id

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
NICKS = re.compile(r"[A-Za-z\[\]\\`_^{|}][\w\[\]\\`^{|}-]*", re.ASCII)
CLOSED = {  # channels that nobody may join
    "#full": "room in a channel",
    "#invited": "invitation",
    "#banned": "ban of a channel",
    "#locked": "key of a channel",
}
SILENT = {  # who and what takes no words
    "#moderated": "rights in a channel",
    "#registered": "account in a channel",
    "ann-registered": "account for a person",
    "ann-closed": "person who ignores",
}
COMMANDS = frozenset({"PING", "CAP", "AUTHENTICATE", "NICK", "USER", "JOIN", "PRIVMSG", "PONG", "QUIT"})
BEFORE = frozenset({"PING", "CAP", "AUTHENTICATE", "NICK", "USER", "PONG", "QUIT"})  # that need no log-in


class _Client:
    """The bot's connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer, self.nick, self.capabilities = writer, "", set[str]()
        self.is_negotiating = self.is_welcome = False
        self.login = ""
        self.channels: set[str] = set()
        self.block: ShownMessage | None = None  # to which the bot's next line belongs

    def write(self, line: str) -> None:
        self.writer.write(line.encode() + b"\r\n")

    def refuse(self, name: str, *about: str) -> None:
        """Write the refusal of a rule. `about`: what it names, between the nick and the words."""
        rule = BY_NAME[name]
        self.write(" ".join([":irc.test", str(rule.status), self.nick or "*", *about, f":{rule.refusal}"]))


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

    # Actions of people.

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
                if len(raw) > BY_NAME["line length"].limit and not raw.startswith(b"AUTHENTICATE "):
                    client.refuse("line length")
                    continue
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
        if not client.is_welcome and command not in BEFORE:
            client.refuse("log-in before words")
        elif command not in COMMANDS:
            client.refuse("known command", command)
        elif command == "PING":
            client.block = None
            if not self.is_faulty(PlatformFault.HELD_POLL):
                client.write(f":irc.test PONG irc.test :{params[-1]}")
        elif command == "CAP":
            self._answer_capability(client, params)
        elif command == "AUTHENTICATE":
            self._answer_login(client, params[0])
        elif command == "NICK":
            self._answer_nick(client, params[0] if params else "")
        elif command == "USER":
            if client.is_welcome:
                client.refuse("one log-in")
            self._welcome(client)
        elif command == "JOIN":
            self._answer_join(client, params)
        elif command == "PRIVMSG":
            self._keep(client, *params[:2])

    def _answer_nick(self, client: _Client, nick: str) -> None:
        in_use = self.taken | ({NICK} if self.is_faulty(PlatformFault.CONFLICT) else set())
        if not nick:
            client.refuse("some nick")
        elif self.is_faulty(PlatformFault.NO_RIGHTS) or nick == "banned":
            client.refuse("ban of the server")
        elif not NICKS.fullmatch(nick):
            client.refuse("signs of a nick", nick)
        elif nick in in_use or any(each.nick == nick for each in self._clients):
            client.refuse("free nick", nick)
        else:
            client.nick = nick
            self._welcome(client)

    def _answer_join(self, client: _Client, params: list[str]) -> None:
        if not params:
            client.refuse("parameters", "JOIN")
        for channel in params[0].split(",") if params else ():
            if channel in CLOSED or not channel.startswith("#"):
                client.refuse(CLOSED.get(channel, "name of a channel"), channel)
            else:
                client.channels.add(channel)
                client.write(f":{client.nick}!bot@host.test JOIN :{channel}")

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
        if len(piece) > BY_NAME["piece of a password"].limit:
            client.refuse("piece of a password")
            return
        client.login += piece.rstrip("+") if piece == "+" else piece
        if len(piece) == 400:
            return
        given = base64.b64decode(client.login).decode().split("\0")
        right = given[1:] == ["porter", self.password] and not self.is_faulty(PlatformFault.UNAUTHORIZED)
        if right:
            client.write(f":irc.test 903 {client.nick or '*'} :SASL authentication successful")
        else:
            client.refuse("password")

    def _welcome(self, client: _Client) -> None:
        if client.nick and not client.is_negotiating and not client.is_welcome:
            client.is_welcome = True
            client.write(f":irc.test 001 {client.nick} :Welcome to the network")
            client.write(f":irc.test 005 {client.nick} CASEMAPPING={self.mapping} CHANTYPES=# :are supported")

    def _check_words(self, client: _Client, target: str, text: str) -> str:
        """Return the name of the rule that a message breaks, or ''."""
        if not target or not text:
            return "empty text" if target else "named target"
        if self.claim_fault(PlatformFault.FORBIDDEN):
            return "rights in a channel"
        if target in SILENT:
            return SILENT[target]
        if target.startswith("#"):
            return "" if target in client.channels else "known channel"
        return "" if target in self.taken else "known nick"

    def _keep(self, client: _Client, target: str = "", text: str = "") -> None:
        if wrong := self._check_words(client, target, text):
            client.refuse(wrong, *([target] if target and text else []))
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
