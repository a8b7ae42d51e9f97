"""A model's endpoint on loopback that says what a script says, in four shapes: Anthropic Messages, OpenAI chat
completions, OpenAI Responses and Google's generateContent; streamed or not, with faults. It keeps every request.

    async with ModelEndpoint({"turns": [{"when": "hello", "do": [{"say": "hi"}]}]}) as endpoint:
        ...                                # ANTHROPIC_BASE_URL=endpoint.anthropic …
        assert endpoint.requests[0].count_text("hello") == 1

`python -m gatepost_testing.models script.json` serves one until it is ended. The format: docs/extend/models.md.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from gatepost_testing.model_api_formats import (
    CHAT,
    GENERATE,
    MESSAGES,
    RESPONSES,
    ModelApiFormat,
    count_tokens,
    count_usage,
    make_embedding,
)
from gatepost_testing.model_script import (
    ModelScript,
    ModelScriptAnswer,
    ModelScriptMessage,
    ModelScriptReply,
    load_script,
    make_answer,
)
from gatepost_testing.waiting import PATIENCE_S

LARGEST = 64 * 1024 * 1024
COUNT_TOKENS = "/messages/count_tokens"
TRANSCRIPTIONS = "/audio/transcriptions"
EMBEDDINGS = "/embeddings"
MODEL = "scripted-model"
GARBAGE = "<html>502 Bad Gateway</html>"  # what a malformed answer has in it
STREAMED = ":streamGenerateContent"
_SHAPES = {
    "/messages": MESSAGES,
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    STREAMED: GENERATE,
    ":generateContent": GENERATE,
}
_WORDS = {200: "OK", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests", 529: "Overloaded"}


class RecordedRequest(Struct, frozen=True):
    """The request of a client."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    raw: bytes
    shape: ModelApiFormat | None = None

    @property
    def body(self) -> dict[str, Any]:
        """With the model and `stream`, also where the path says them."""
        found = json.loads(self.raw) if self.raw else {}
        if not isinstance(found, dict):
            return {}
        if self.shape is not GENERATE:
            return found
        path = self.path.partition("?")[0]
        return {"model": path.rpartition("/")[2].partition(":")[0], "stream": path.endswith(STREAMED), **found}

    @property
    def lines(self) -> list[ModelScriptMessage]:
        return self.shape.lines(self.body) if self.shape else []

    @property
    def tools(self) -> list[str]:
        return [tool.name for tool in self.shape.tools(self.body)] if self.shape else []

    def count_text(self, text: str, role: str = "user") -> int:
        """How often these words stand in what people (or the model, or tools) said."""
        return sum(line.text.count(text) for line in self.lines if line.role == role)


class ModelEndpoint:
    """`key`: what clients must bring; None: anything goes, also nothing. `window`: tokens that a request and its answer
    may have; 0: any number. A larger request gets the vendor's error, or with `cuts_silently` an answer that counts no
    more. `listed`: what the list of models says of the one that is there. `answers`: what else is answered, by method
    and path, before all that."""

    def __init__(
        self,
        script: ModelScript | Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        window: int = 0,
        cuts_silently: bool = False,
        listed: Mapping[str, Any] | None = None,
        answers: Mapping[str, Any] | None = None,
    ) -> None:
        self.script = script if isinstance(script, ModelScript) else msgspec.convert(dict(script or {}), ModelScript)
        self.key, self.window, self.cuts_silently, self.listed = key, window, cuts_silently, dict(listed or {})
        self.answers = dict(answers or {})
        self.requests: list[RecordedRequest] = []
        self._faults: Counter[str] = Counter()
        self._released = asyncio.Event()
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> "ModelEndpoint":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=LARGEST)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def anthropic(self) -> str:
        """As ANTHROPIC_BASE_URL has it."""
        return self.url

    @property
    def openai(self) -> str:
        """As OPENAI_BASE_URL has it."""
        return f"{self.url}/v1"

    @property
    def google(self) -> str:
        """As GOOGLE_GEMINI_BASE_URL has it."""
        return self.url

    @property
    def calls(self) -> list[RecordedRequest]:
        """The requests that a model was to answer."""
        return [request for request in self.requests if request.shape is not None]

    def play(self, script: ModelScript | Mapping[str, Any]) -> None:
        """Go on with another script; faults are counted anew."""
        self.script = script if isinstance(script, ModelScript) else msgspec.convert(dict(script), ModelScript)
        self._faults.clear()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Not there for the length of the block: connections are cut, and new ones are refused."""
        await self.__aexit__()
        try:
            yield
        finally:
            await self.__aenter__()

    def release(self) -> None:
        """Let go of what `hold` holds, now and from here on."""
        self._released.set()

    async def wait_for(self, calls: int, timeout: float = PATIENCE_S) -> list[RecordedRequest]:
        """Until a model was asked so often."""
        async with asyncio.timeout(timeout), self._changed:
            await self._changed.wait_for(lambda: len(self.calls) >= calls)
        return self.calls

    # The wire.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while (request := await _read(reader)) is not None:
                async with self._changed:
                    self.requests.append(request)
                    self._changed.notify_all()
                if not await self._answer(request, writer):
                    break
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # it left, or the endpoint closes
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, request: RecordedRequest, writer: asyncio.StreamWriter) -> bool:
        """False: the connection ends here."""
        path = request.path.partition("?")[0]
        shape = request.shape
        if self.key is not None and not self._is_known(request):
            error = (shape or MESSAGES).error(401, "invalid x-api-key")
            _send(writer, 400 if shape is GENERATE else 401, error)
        elif (other := self.answers.get(f"{request.method} {path}")) is not None:
            _send(writer, 200, other)
        elif request.method == "POST" and path.endswith(COUNT_TOKENS):
            _send(writer, 200, {"input_tokens": count_tokens(len(request.raw))})
        elif request.method == "POST" and path.endswith(":countTokens"):
            _send(writer, 200, {"totalTokens": count_tokens(len(request.raw))})
        elif request.method == "POST" and path.endswith(TRANSCRIPTIONS):
            _send(writer, 200, {"text": self.script.heard, "usage": {"type": "duration", "seconds": 3}})
        elif request.method == "POST" and path.endswith(EMBEDDINGS):
            self._embed(request, writer)
        elif request.method == "GET" and path.endswith("/models"):
            model = {"id": MODEL, "object": "model", "type": "model", "display_name": MODEL, "owned_by": "gatepost"}
            _send(writer, 200, {"object": "list", "data": [model | self.listed], "has_more": False})
        elif shape is None:
            _send(writer, 200 if request.method == "HEAD" else 404, MESSAGES.error(404, f"no such path: {path}"))
        else:
            return await self._speak(request, shape, writer)
        return True

    def _embed(self, request: RecordedRequest, writer: asyncio.StreamWriter) -> None:
        """Texts with words of one meaning are near each other: `alike` of the script says which these are."""
        body = request.body
        texts = body.get("input", [])
        if any(self.script.unreadable and self.script.unreadable in each for each in texts):
            _send(writer, 400, CHAT.error(400, "the input is not valid"))
            return
        length = body.get("dimensions") or 64
        made = [make_embedding(each, self.script.alike, f"{body.get('model')}", length) for each in texts]
        data = [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(made)]
        tokens = self.script.embedding_tokens or count_tokens(len(request.raw))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        _send(writer, 200, {"object": "list", "data": data, "model": body.get("model"), "usage": usage})

    def _is_known(self, request: RecordedRequest) -> bool:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self.key in (request.headers.get("x-api-key"), request.headers.get("x-goog-api-key"), given)

    async def _speak(self, request: RecordedRequest, shape: ModelApiFormat, writer: asyncio.StreamWriter) -> bool:
        body = request.body
        if (overflow := self._find_overflow(request, shape, body)) is not None:
            if shape is RESPONSES and body.get("stream"):  # the vendor says it within the stream
                _send_event(writer, {"type": "response.failed", "sequence_number": 0, "response": overflow})
            else:
                _send(writer, 400, overflow)
            return True
        spoken = make_answer(self.script, shape.lines(body), shape.tools(body))
        reply = spoken.reply
        if reply.hold:
            await self._released.wait()
        fault = self._fault(spoken.key, reply)
        if isinstance(fault, int):
            again = {} if reply.retry_after is None else {"retry-after": f"{reply.retry_after:g}"}
            _send(writer, fault, shape.error(fault, reply.error or "the script says so"), again)
            return True
        if fault == "credit":
            _send(writer, *shape.credit)
            return True
        if fault == "hang":
            await asyncio.Event().wait()
        numbers = count_usage(spoken, len(request.raw))
        if self.window and self.cuts_silently and numbers:
            numbers = {**numbers, "input": min(numbers["input"], self.window)}
        if body.get("stream"):
            within = self._released if reply.hold_within else None
            return await _stream(writer, shape, body, spoken, numbers, fault=fault, within=within)
        _send(writer, 200, shape.whole(body, spoken, numbers), cut=fault == "cut", malformed=fault == "malformed")
        return fault != "cut"

    def _find_overflow(
        self, request: RecordedRequest, shape: ModelApiFormat, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Return the error that a request is too large; None if it is not."""
        prompt = count_tokens(len(request.raw))
        limits = [body.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")]
        longest = next((limit for limit in limits if isinstance(limit, int)), 0)
        if not self.window or self.cuts_silently or prompt + longest <= self.window:
            return None
        return shape.overflow(prompt, longest, self.window)

    def _fault(self, key: str, reply: ModelScriptReply) -> int | str:
        """Return what goes wrong this time; '' if nothing does."""
        if reply.fault == "" or 0 <= reply.times <= self._faults[key]:
            return ""
        self._faults[key] += 1
        return reply.fault


async def _read(reader: asyncio.StreamReader) -> RecordedRequest | None:
    head = await reader.readline()
    if not head.strip():
        return None
    method, path, _ = head.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while (line := (await reader.readline()).decode().strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    if headers.get("transfer-encoding", "").lower() == "chunked":
        raw = await _read_chunks(reader)
    plain = path.partition("?")[0]
    found = [shape for ending, shape in _SHAPES.items() if method == "POST" and plain.endswith(ending)]
    return RecordedRequest(method, path, headers, raw, next(iter(found), None))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(parts)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {_WORDS.get(status, 'Said')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: dict[str, Any],
    headers: Mapping[str, str] | None = None,
    *,
    cut: bool = False,
    malformed: bool = False,
) -> None:
    data = GARBAGE.encode() if malformed else json.dumps(body).encode()
    about = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
    writer.write(_head(status, about) + (data[: len(data) // 2] if cut else data))


def _send_event(writer: asyncio.StreamWriter, data: dict[str, Any]) -> None:
    writer.write(_head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
    _chunk(writer, f"event: {data['type']}\ndata: {json.dumps(data)}\n\n")
    writer.write(b"0\r\n\r\n")


async def _stream(
    writer: asyncio.StreamWriter,
    shape: ModelApiFormat,
    body: dict[str, Any],
    spoken: ModelScriptAnswer,
    numbers: dict[str, int],
    *,
    fault: str,
    within: asyncio.Event | None = None,
) -> bool:
    """`within`: what is waited for in the middle."""
    writer.write(_head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
    events = list(shape.stream(body, spoken, numbers))
    for number, (name, data) in enumerate(events[: len(events) // 2] if fault else events):
        if within is not None and number == len(events) // 2:
            await within.wait()
        await asyncio.sleep(spoken.reply.pause)
        _chunk(writer, (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n")
        await writer.drain()
    if fault == "cut":
        return False
    if fault == "malformed":
        _chunk(writer, f"data: {GARBAGE}\n\n")
    elif shape.last:
        _chunk(writer, f"data: {shape.last}\n\n")
    writer.write(b"0\r\n\r\n")
    return True


def _chunk(writer: asyncio.StreamWriter, text: str) -> None:
    data = text.encode()
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def _main(script: ModelScript, port: int) -> None:
    endpoint = ModelEndpoint(script)
    endpoint.port = port
    async with endpoint:
        sys.stdout.write(f"{endpoint.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m gatepost_testing.models",
        description="A model's endpoint on loopback that says what a script says; without one, it echoes."
        " It prints its address and serves until it is ended (Ctrl-C).",
        epilog="Anthropic-shaped clients take the address as it is, OpenAI-shaped ones with /v1 behind it."
        " The script's format: docs/extend/models.md.",
    )
    parser.add_argument("script", type=Path, nargs="?", help="a JSON file")
    parser.add_argument("--port", type=int, default=0, help="the port (default: any that is free)")
    args = parser.parse_args()
    try:
        asyncio.run(_main(load_script(args.script) if args.script else ModelScript(), args.port))
    except (OSError, OverflowError, ValueError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
