"""`opencode serve` as a process: requests over its HTTP API, and its event stream, which ends with an error.

It listens on the sandbox's own loopback, with a password that only this process and what it starts know. The standard
library alone; threads wait, because http.client does.
"""

import asyncio
import base64
import http.client
import os
import re
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gatepost.inside.forwarder import LOOPBACK
from gatepost.inside.provider_errors import ProviderError
from gatepost.inside.providers.opencode.protocol import OpencodeEvent
from gatepost.mailbox.runner_frames import TurnErrorClass

STARTING = 60.0  # seconds until it listens
ANSWERING = 60.0  # seconds for one answer; none waits for a model
PATIENCE = 2.0  # seconds in which it may end by itself
LONGEST = 500  # characters of its last words
USER = "opencode"
_LISTENS = re.compile(rb"listening on http://[^:]+:(\d+)")


class OpencodeError(ProviderError):
    """It did not do what it was asked to do. `status` 0: it did not answer."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(f"opencode could not go on: {why}"[:LONGEST], TurnErrorClass.RETRYABLE)
        self.status = status


EventHandler = Callable[[OpencodeEvent | ProviderError], None]  # an error: it has ended


class OpencodeServer:
    def __init__(
        self, process: asyncio.subprocess.Process, port: int, password: str, log: Path, receive: EventHandler
    ) -> None:
        self.is_alive = True
        self._process, self._port, self._log, self._receive = process, port, log, receive
        given = base64.b64encode(f"{USER}:{password}".encode()).decode()
        self._headers = {"authorization": f"Basic {given}", "content-type": "application/json"}
        self._loop = asyncio.get_running_loop()
        self._draining = asyncio.create_task(_drain(process))

    @classmethod
    async def start(
        cls, command: Sequence[str], env: Mapping[str, str], folder: Path, log: Path, receive: EventHandler
    ) -> "OpencodeServer":
        """`log`: a file for what it says to nobody. Raises OpencodeError."""
        password = os.urandom(16).hex()
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *(*command, "serve", "--hostname", LOOPBACK, "--port", "0"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env={**env, "OPENCODE_SERVER_USERNAME": USER, "OPENCODE_SERVER_PASSWORD": password},
                cwd=folder,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(STARTING):
                port = await _port_of(process)
        except BaseException as error:
            await _end(process)
            if not isinstance(error, TimeoutError):
                raise
            port = 0
        if not port:
            await _end(process)
            raise OpencodeError(_last_words(log) or "it did not begin to listen")
        server = cls(process, port, password, log, receive)
        try:
            await server._open_stream()
        except BaseException:
            await server.close()
            raise
        return server

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return what it answers. Raises OpencodeError."""
        if not self.is_alive:
            raise OpencodeError("it has ended")
        return await asyncio.to_thread(self._request, method, path, body)

    async def close(self) -> None:
        """It and what it started are ended."""
        self.is_alive = False
        await _end(self._process)
        self._draining.cancel()
        await asyncio.wait([self._draining])

    def _request(self, method: str, path: str, body: object) -> Any:
        link = http.client.HTTPConnection(LOOPBACK, self._port, timeout=ANSWERING)
        try:
            link.request(method, path, None if body is None else msgspec.json.encode(body), self._headers)
            answer = link.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise OpencodeError(f"no answer to {method} {path} ({str(error) or type(error).__name__})") from None
        finally:
            link.close()
        if answer.status >= 400:
            raise OpencodeError(data[:LONGEST].decode(errors="replace") or f"status {answer.status}", answer.status)
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(data)
        return None

    async def _open_stream(self) -> None:
        """Returns when the stream is there: whatever happens from now on is heard."""
        opened: asyncio.Future[None] = self._loop.create_future()
        threading.Thread(target=self._read, args=(opened,), name="opencode events", daemon=True).start()
        await opened

    def _read(self, opened: asyncio.Future[None]) -> None:
        link = http.client.HTTPConnection(LOOPBACK, self._port, timeout=ANSWERING)
        why = ""
        try:
            link.connect()
            wire = link.sock  # the link lets go of it, because the answer has no end
            link.request("GET", "/event", headers=self._headers)
            answer = link.getresponse()
            wire.settimeout(None)  # from now on it is silent as long as it likes
            while line := answer.readline():
                if line.startswith(b"data:"):
                    self._post(opened, msgspec.json.decode(line[5:], type=OpencodeEvent))
        except (OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
            why = str(error)
        finally:
            link.close()
            why = _last_words(self._log) or why or "it ended"
            self._post(opened, ProviderError(f"opencode ended: {why}"[:LONGEST], TurnErrorClass.RETRYABLE))

    def _post(self, opened: asyncio.Future[None], event: OpencodeEvent | ProviderError) -> None:
        with suppress(RuntimeError):  # our own process ends
            self._loop.call_soon_threadsafe(self._dispatch, opened, event)

    def _dispatch(self, opened: asyncio.Future[None], event: OpencodeEvent | ProviderError) -> None:
        if isinstance(event, ProviderError):
            self.is_alive = False
        if not opened.done():
            if isinstance(event, ProviderError):
                opened.set_exception(event)
            else:
                opened.set_result(None)
        self._receive(event)


async def _port_of(process: asyncio.subprocess.Process) -> int:
    """Once it listens: a request that comes earlier may never be answered. 0: it ended."""
    assert process.stdout is not None
    async for line in process.stdout:
        if found := _LISTENS.search(line):
            return int(found.group(1))
    return 0


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    while await process.stdout.read(65536):
        pass


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _last_words(log: Path) -> str:
    try:
        return " ".join(log.read_bytes()[-LONGEST:].decode(errors="replace").split())
    except OSError:
        return ""
