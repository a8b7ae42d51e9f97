"""Stands between a gateway and its database, and may fall silent: connections stay open, and nothing comes through.

with StallingProxy(server.url("one")) as proxy:
    PostgresStore(proxy.url)
    proxy.stall()  # those that are open now; new ones are served
"""

import asyncio

from psycopg import conninfo

from gatepost_testing.servers.loop_thread import LoopThread
from gatepost_testing.servers.postgres import ACCOUNT

STEP = 65_536


class StallingProxy(LoopThread):
    def __init__(self, url: str) -> None:
        """`url`: of a database behind a unix socket."""
        super().__init__("stalling proxy")
        given = conninfo.conninfo_to_dict(url)
        self._target, self._database = f"{given['host']}/.s.PGSQL.5432", given["dbname"]
        self._passing = asyncio.Event()  # of the connections that are made from now on
        self._passing.set()
        self._port = 0

    @property
    def url(self) -> str:
        """The same database, by TCP."""
        return f"postgresql://{ACCOUNT}@127.0.0.1:{self._port}/{self._database}"

    def stall(self) -> None:
        """Nothing more comes through what is open now."""
        self._loop.call_soon_threadsafe(self._stall)

    def _stall(self) -> None:
        self._passing.clear()
        self._passing = asyncio.Event()
        self._passing.set()

    async def _open(self, port: int) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self._port = server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing = self._passing
        back, forth = await asyncio.open_unix_connection(self._target)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pass(reader, forth, passing))
                tasks.create_task(_pass(back, writer, passing))
        except* OSError:
            pass
        finally:
            writer.close()
            forth.close()

    async def _close(self) -> None:
        await self._cancel_others()


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter, passing: asyncio.Event) -> None:
    while data := await source.read(STEP):
        await passing.wait()
        target.write(data)
        await target.drain()
    raise ConnectionResetError("one side has hung up")
