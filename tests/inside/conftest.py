"""A small host for runners: it speaks the wire on a real socket, fills a real inbound.db and starts real processes."""

import asyncio
import os
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.mailbox import runner_frames
from gatepost.mailbox.inbound import InboundRow, InboundWriter, MailboxDestination, SessionRouting
from gatepost_testing.waiting import PATIENCE_S

NOON = 1_800_000_000_000_000


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What is inside of a sandbox runs on the loop of the standard library."""
    return "asyncio"


class Host:
    """Remembers every frame, gives each row once, and continues a turn that broke off, as the gateway does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inbox = root / "ws" / "in" / "inbound.db"
        for folder in ("ws/in", "ws/out", "ws/state", "ws/agent", "run"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self.rows: dict[int, InboundRow] = {}
        self.state: dict[int, str] = {}
        self.frames: list[runner_frames.FromRunner] = []
        self.results: dict[tuple[str, int, int], runner_frames.ResultFrame] = {}
        self.submitted: list[runner_frames.SubmitTurnFrame] = []
        self.destinations = [MailboxDestination(name="ops", channel_type="slack", platform_id="slack:T1/channel/C9")]
        self.welcome = runner_frames.WelcomeFrame(session="s-1", folder="home", name="Home", provider="scripted")
        self.batch = 20
        self.gives_follow_ups = True
        self.answer: Callable[[runner_frames.FromRunner], Awaitable[runner_frames.Frame | None]] | None = None
        self.turn = ""
        self.turns = 0
        self.epoch = 0
        self.attempt = 1
        self.interrupted = False
        self.conversation = ""
        self.forks = False  # the conversation is a copy of another session's, until a turn has ended
        self.process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    # What a test does.

    async def start(self, provider: str = "scripted", script: object = None, **env: str) -> None:
        """A new runner; an earlier one must have ended."""
        if self._server is None:
            path = str(self.root / "run" / "runner.sock")
            self._server = await asyncio.start_unix_server(self._serve, path, limit=runner_frames.LARGEST + 1)
        if script is not None:
            (self.root / "ws" / "agent" / "script.json").write_bytes(msgspec.json.encode(script))
        self.welcome.provider = provider
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gatepost.inside.runner",
            env={
                **os.environ,
                "GATEPOST_RUN": str(self.root / "run"),
                "GATEPOST_WORKSPACE": str(self.root / "ws"),
                "GATEPOST_AGENT": str(self.root / "ws" / "agent"),
                "GATEPOST_PROVIDER": provider,
                **env,
            },
            stderr=asyncio.subprocess.PIPE,
        )

    def add(
        self, text: str = "", *, kind: str = "chat", ring: bool = True, trigger: int = 1, **content: Any
    ) -> InboundRow:
        seq = len(self.rows) + len(self.results) + 1
        row = InboundRow(
            id=seq + 100,
            seq=seq,
            kind=kind,
            timestamp=NOON,
            trigger=trigger,
            content={"text": text, "senderName": "Ann", **content},
        )
        self.rows[row.id] = row
        self.state[row.id] = "queued" if trigger else "observed"
        self.project()
        if ring:
            self.say(runner_frames.BellFrame())
        return row

    def project(self) -> None:
        rows = [row for row in self.rows.values() if self.state[row.id] != "done"]
        with closing(InboundWriter(self.inbox)) as writer:
            writer.project(rows, SessionRouting("web", "web:home/1"), self.destinations)

    def say(self, frame: runner_frames.Frame) -> None:
        if self._writer is not None:
            self._writer.write(runner_frames.encode_frame(frame))

    def hang_up(self) -> None:
        """As a gateway that dies."""
        assert self._writer is not None
        self._writer.close()

    async def until(self, true: Callable[[], Any]) -> None:
        """Bounded wait for something that a frame brings about."""
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                self._changed.clear()
                await self._changed.wait()

    async def ended(self) -> tuple[int, str]:
        """The runner's exit code and what it wrote to stderr."""
        assert self.process is not None and self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            words = (await self.process.stderr.read()).decode()
            code = await self.process.wait()
            while self._connections:
                await asyncio.wait(self._connections)
        return code, words

    async def close(self) -> tuple[int, str]:
        self.say(runner_frames.CloseFrame())
        return await self.ended()

    @property
    def said(self) -> list[str]:
        return [result.text for result in self.results.values()]

    def of(self, kind: type[runner_frames.Frame]) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def answered(self) -> bool:
        return bool(self.rows) and all(state in ("done", "observed") for state in self.state.values())

    # What a host does.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._writer = writer
        try:
            while line := await reader.readline():
                frame = runner_frames.read_from_runner(line)
                self.frames.append(frame)
                reply = await self.answer(frame) if self.answer is not None else None
                reply = reply or self._react(frame)
                if reply is not None:
                    writer.write(runner_frames.encode_frame(reply))
                self._changed.set()
        except ConnectionError:
            pass
        finally:
            self._writer = None
            self._lost()
            writer.close()
            self._connections.discard(task)
            self._changed.set()

    def _react(self, frame: runner_frames.FromRunner) -> runner_frames.Frame | None:
        match frame:
            case runner_frames.HelloFrame():
                self.welcome.conversation = self.conversation
                return self.welcome
            case runner_frames.ClaimFrame():
                return self._give(frame)
            case runner_frames.RowsBegunFrame():
                for row_id in frame.rows:
                    self.state[row_id] = "given"
                return runner_frames.AckFrame(id=frame.id)
            case runner_frames.ConversationStartedFrame():
                self.conversation = frame.conversation
            case runner_frames.ResultFrame():
                return self._keep(frame)
            case runner_frames.SubmitTurnFrame():
                return self._finish(frame)
            case _:
                pass
        return None

    def _give(self, claim: runner_frames.ClaimFrame) -> runner_frames.ClaimReplyFrame:
        if claim.turn:
            ids = self._queued() if self.gives_follow_ups and claim.turn == self.turn else []
        elif self.interrupted:
            self.interrupted, self.attempt, self.epoch = False, self.attempt + 1, self.epoch + 1
            again = [row_id for row_id in claim.begun if self.state.get(row_id) == "given"]
            ids = sorted([*again, *(row_id for row_id, state in self.state.items() if state == "working")])
            self.project()
            return runner_frames.ClaimReplyFrame(
                id=claim.id,
                rows=ids,
                turn=self.turn,
                epoch=self.epoch,
                attempt=self.attempt,
                conversation=self.conversation,
                continued=True,
            )
        else:
            ids = [] if self.turn else self._queued()[: self.batch]
            if ids:
                self.turns += 1
                self.turn, self.epoch, self.attempt = f"t-{self.turns}", self.epoch + 1, 1
        for row_id in ids:
            self.state[row_id] = "working"
        return runner_frames.ClaimReplyFrame(
            id=claim.id,
            rows=ids,
            turn=self.turn if ids else "",
            epoch=self.epoch,
            conversation=self.conversation,
            fork=self.forks and not claim.turn,
        )

    def _queued(self) -> list[int]:
        return [row_id for row_id, state in self.state.items() if state == "queued"]

    def _keep(self, result: runner_frames.ResultFrame) -> runner_frames.AckFrame:
        if result.epoch != self.epoch or result.turn != self.turn or self.interrupted:
            return runner_frames.AckFrame(id=result.id, ok=False, error="an old epoch")
        if result.to and result.to not in [one.name for one in self.destinations]:
            return runner_frames.AckFrame(id=result.id, ok=True, error=f"{result.to} is no destination")
        self.results.setdefault((result.turn, result.attempt, result.part), result)
        return runner_frames.AckFrame(id=result.id, seq=500 + len(self.results))

    def _finish(self, submit: runner_frames.SubmitTurnFrame) -> runner_frames.AckFrame:
        if submit.turn != self.turn or submit.epoch != self.epoch:
            return runner_frames.AckFrame(id=submit.id, ok=False, error="an old epoch")
        self.submitted.append(submit)
        self.forks = False
        for row_id, state in self.state.items():
            if state == "given":
                self.state[row_id] = "done"
            elif state == "working":
                self.state[row_id] = "queued"
        self.turn = ""
        self.project()
        return runner_frames.AckFrame(id=submit.id)

    def _lost(self) -> None:
        """The runner is gone: what it had not begun is queued again, else the turn is to be continued."""
        if not self.turn:
            return
        begun = any(state == "given" for state in self.state.values())
        for row_id, state in self.state.items():
            if state == "working":
                self.state[row_id] = "queued"
        if not begun:
            self.turn = ""
            return
        done = [
            {"op": "send", "text": result.text, "seq": 500, "inReplyTo": result.in_reply_to}
            for result in self.results.values()
            if result.turn == self.turn
        ]
        row = self.add(kind="system", ring=False, event="continued", reason="it died", done=done)
        self.state[row.id] = "working"
        self.interrupted = True


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    made = Host(tmp_path)
    yield made
    if made.process is not None and made.process.returncode is None:
        made.process.kill()
    if made.process is not None:
        await made.ended()
    if made._server is not None:
        made._server.close()


class Router:
    """A tool server at the other end of router.sock, just enough of MCP for a client to talk to."""

    def __init__(self) -> None:
        self.work = "# Work\n\nNothing is open.\n"
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.ids: list[int | str] = []
        self.pictures: list[bytes] = []  # that `look` gives

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            message = msgspec.json.decode(line)
            if "id" in message:
                self.ids.append(message["id"])
                answer = {"jsonrpc": "2.0", "id": message["id"], **self._answer(message["method"], message["params"])}
                writer.write(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n')
                writer.write(msgspec.json.encode(answer) + b"\n")
        writer.close()

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            return {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}}
        if method == "tools/list":
            first = {"tools": [{"name": "send", "description": "Say something. And more."}], "nextCursor": "2"}
            second = {"tools": [{"name": "get_work", "description": "Read your work.md\n\nLong."}, {"name": "look"}]}
            return {"result": second if params.get("cursor") else first}
        name, args = params["name"], params["arguments"]
        self.calls.append((name, args))
        if name == "get_work":
            return {"result": {"content": [], "structuredContent": {"content": self.work, "exists": True}}}
        if name == "set_work":
            self.work = args["content"]
            return {"result": {"content": [{"type": "text", "text": "ok"}]}}
        if name == "inspect_session":
            return {"result": {"content": [], "structuredContent": {"session_id": "s-1", "folder": "home", "seq": 9}}}
        if name == "send":
            return {"result": {"content": [{"type": "text", "text": f"sent {args['text']}"}]}}
        if name == "look":
            images = [
                {"type": "image", "mimeType": "image/png", "data": b64encode(each).decode()} for each in self.pictures
            ]
            return {"result": {"content": [{"type": "text", "text": "the page"}, *images]}}
        if name == "fail":
            return {"result": {"content": [{"type": "text", "text": "it broke"}], "isError": True}}
        return {"error": {"code": -32602, "message": f"no tool is named {name!r}"}}


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Router]:
    (tmp_path / "run").mkdir(exist_ok=True)
    made = Router()
    server = await asyncio.start_unix_server(made.serve, str(tmp_path / "run" / "router.sock"))
    yield made
    server.close()
