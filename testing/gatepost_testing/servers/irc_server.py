"""A real IRC server, with people who are connected to it, and ngIRCd as one. Its only fault is a dropped connection."""

import asyncio
import os
from contextlib import suppress
from typing import Any, ClassVar

from gatepost_testing.platforms.base import (
    EmulatedPlatform,
    GivenMessage,
    NotOffered,
    PlatformFault,
    ShownMessage,
)
from gatepost_testing.platforms.rest import make_id
from gatepost_testing.servers.server_process import ServerProcess, find_ports, find_server
from gatepost_testing.waiting import PATIENCE_S

BOT = "porter"
CONFIG = """[Global]
Name = irc.gatepost.test
Info = A server for tests
Listen = 127.0.0.1
Ports = {port}
{user}
[Limits]
MaxConnectionsIP = 0
MaxJoins = 50
[Options]
PAM = no
Ident = no
DNS = no
"""


def find_ngircd() -> str | None:
    return find_server("ngircd")


class IrcServerProcess(ServerProcess):
    """`port`: where people come to, without TLS."""

    port: int


class Ngircd(IrcServerProcess):
    def __init__(self) -> None:
        program = find_ngircd()
        if program is None:
            raise FileNotFoundError("ngIRCd is not installed; scripts/system_packages.py --all installs it")
        super().__init__("ngIRCd")
        (self.port,) = find_ports(1)
        config = self.folder / "ngircd.conf"
        user = "ServerUID = 0\nServerGID = 0" if os.geteuid() == 0 else ""  # else it could not read its file
        config.write_text(CONFIG.format(port=self.port, user=user), encoding="utf-8")
        self.launch([program, "-n", "-f", str(config)], (self.port,))


class _Person:
    """Somebody with a client of their own, who sits in every channel that is used."""

    def __init__(self, nick: str) -> None:
        self.nick, self.rooms = nick, set[str]()
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.joined = asyncio.Event()
        self.welcome = asyncio.Event()

    def write(self, line: str) -> None:
        assert self.writer is not None
        self.writer.write(line.encode() + b"\r\n")


class IrcServerPlatform(EmulatedPlatform):
    """A subclass starts its server in `make_server`."""

    kind = "irc"
    cannot: ClassVar[frozenset[str]] = frozenset({"edit", "delete", "react", "click"})
    repeats = False

    def __init__(self) -> None:
        super().__init__()
        self._started: IrcServerProcess | None = None
        self._people: dict[str, _Person] = {}
        self._present: set[str] = set()  # who was seen to join #team
        self._tasks: set[asyncio.Task[None]] = set()

    def get_settings(self) -> dict[str, Any]:
        rooms = ("#team",)
        return {"host": "127.0.0.1", "port": self.port, "tls": False, "nick": BOT, "rooms": rooms, "trust_nicks": True}

    def get_secrets(self) -> dict[str, str]:
        return {}

    def get_address(self, room: str) -> str:
        return f"irc:direct/{room.partition(':')[2]}" if room.startswith("direct:") else f"irc:channel/#{room}"

    def get_sender(self, person: str) -> str:
        return f"irc:nick/{person}"

    def fault(self, *faults: PlatformFault) -> None:
        if set(faults) != {PlatformFault.DROPPED}:
            raise NotOffered("a real server only drops connections")
        self.crash()
        self.come_back()

    def is_present(self) -> bool:
        """Return True if the bot is in the channel."""
        with self.changed:
            return BOT in self._present

    # Actions of people.

    def receive(self, given: GivenMessage) -> str:
        said = given.render_named(f"{BOT}:")
        target = BOT if given.room.startswith("direct:") else f"#{given.room}"
        self._run_in_loop(self._write(given.sender, f"PRIVMSG {target} :{said}"))
        message = make_id()
        with self.changed:
            self.record.append(ShownMessage(id=message, room=given.room, sender=given.sender, text=given.text))
        return message

    def join(self, room: str, *, sender: str = "ann") -> str:
        self._run_in_loop(self._write(sender, f"JOIN #{room}"))
        return make_id()

    async def _write(self, nick: str, line: str) -> None:
        person = self._people.get(nick) or await self._connect(nick)
        person.write(line)
        assert person.writer is not None
        await person.writer.drain()

    async def _connect(self, nick: str) -> _Person:
        """Somebody comes, and sits down in #team."""
        person = self._people[nick] = _Person(nick)
        person.reader, person.writer = await asyncio.open_connection("127.0.0.1", self.port)
        person.write(f"NICK {nick}")
        person.write(f"USER {nick} 0 * :{nick}")
        task = asyncio.create_task(self._watch(person))
        self._tasks.add(task)
        async with asyncio.timeout(PATIENCE_S):
            await person.welcome.wait()
            person.write("JOIN #team")
            await person.joined.wait()
        return person

    async def _watch(self, person: _Person) -> None:
        assert person.reader is not None
        while raw := await self._read_line(person.reader):
            source, _, rest = raw.decode(errors="replace").rstrip("\r\n").removeprefix(":").partition(" ")
            words, _, last = rest.partition(" :")
            nick, parts = source.partition("!")[0], words.split()
            if source == "PING":
                person.write(f"PONG {rest}")
            elif parts[:1] == ["001"]:
                person.welcome.set()
            elif parts[:1] == ["366"]:
                person.joined.set()
            elif parts[:1] == ["353"]:
                self._note_present(*last.replace("@", "").split())
            elif parts[:1] == ["JOIN"]:
                self._note_present(nick)
            elif parts[:1] == ["QUIT"]:
                with self.changed:
                    self._present.discard(nick)
                    self.changed.notify_all()
            elif parts[:1] == ["PRIVMSG"] and nick.startswith(BOT):
                self._keep(person, parts[1], last)

    async def _read_line(self, reader: asyncio.StreamReader) -> bytes:
        with suppress(ConnectionError):
            return await reader.readline()
        return b""

    def _note_present(self, *nicks: str) -> None:
        with self.changed:
            self._present |= set(nicks)
            self.changed.notify_all()

    def _keep(self, person: _Person, target: str, text: str) -> None:
        if target.startswith("#") and person.nick != "ann":
            return  # everybody sees it; ann writes it down
        room = target[1:] if target.startswith("#") else f"direct:{person.nick}"
        with self.changed:
            self.record.append(ShownMessage(id=make_id(), room=room, sender="bot", text=text, raw=text))
            self.changed.notify_all()

    # The server.

    def make_server(self) -> IrcServerProcess:
        raise NotImplementedError

    @property
    def server(self) -> IrcServerProcess:
        assert self._started is not None
        return self._started

    def start(self, port: int = 0) -> None:
        self._started = self.make_server()
        self.server.wait_until_up()
        super().start(port)

    def stop(self) -> None:
        super().stop()
        self.server.stop()

    async def _open(self, port: int) -> None:
        self.port = self.server.port
        await self._connect("ann")

    def crash(self) -> None:
        self.server.kill()
        self._run_in_loop(self._forget_people())

    def come_back(self) -> None:
        self.server.start_again()
        self.server.wait_until_up()
        self._run_in_loop(self._connect("ann"))

    async def _forget_people(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for person in self._people.values():
            if person.writer is not None:
                person.writer.close()
        self._people.clear()
        with self.changed:
            self._present.clear()

    async def _close(self) -> None:
        await self._forget_people()


class NgircdPlatform(IrcServerPlatform):
    def make_server(self) -> Ngircd:
        return Ngircd()
