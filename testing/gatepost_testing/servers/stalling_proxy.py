"""Stands between a gateway and its database, and may fall silent: connections stay open, and nothing comes through.

with StallingProxy(server.url("one")) as proxy:
    PostgresStore(proxy.url)
    proxy.stall()  # those that are open now; new ones are served
"""

import asyncio
import threading
from types import TracebackType

from psycopg import conninfo

from gatepost_testing.servers.postgres import ACCOUNT

STEP = 65_536


class StallingProxy:
    def __init__(self, url: str) -> None:
        """`url`: of a database behind a unix socket."""
        given = conninfo.conninfo_to_dict(url)
        self._target, self._database = f"{given['host']}/.s.PGSQL.5432", given["dbname"]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._passing = asyncio.Event()  # of the connections that are made from now on
        self._passing.set()
        self._port = 0

    def __enter__(self) -> "StallingProxy":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

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

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
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

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter, passing: asyncio.Event) -> None:
    while data := await source.read(STEP):
        await passing.wait()
        target.write(data)
        await target.drain()
    raise ConnectionResetError("one side has hung up")
