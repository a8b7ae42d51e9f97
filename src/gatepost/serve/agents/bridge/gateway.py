"""The gateway's side: each message becomes a POST, and what the gateway sends back goes to the client.

The 2025 revisions have a session. When the gateway has forgotten it, the bridge opens another by the client's own
messages, and sends the message again.
"""

from __future__ import annotations

from gatepost.jsonrpc.eras import Json
from gatepost.jsonrpc.errors import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND
from gatepost.jsonrpc.plain_json import encode_ascii
from gatepost.serve.agents.bridge.client import (
    ClientMessage,
    StdoutWriter,
    encode_header,
    list_answers,
    log,
    read_json,
    render_error,
)
from gatepost.serve.agents.bridge.http import (
    BridgeFailure,
    BridgeHttpClient,
    BridgeResponse,
    GatewayHungUp,
    GatewayUnreachable,
)
from gatepost.serve.agents.bridge.loop import PollCondition, PollLoop, PollTask, PollWait, now

FAREWELL_S = 2.0  # for the last lines, and for the DELETE
HANDSHAKE_S = 30.0  # for an initialize of our own
HANDSHAKES = 5  # that the gateway may cut before the bridge gives up
AWAY_S, AGAIN_S = 5.0, 0.1  # how long a gateway that was there may be away, and how often it is tried
RESUMES = 2  # of a stream that was cut, without a message in between
RETRY_S, LONGEST_RETRY_S = 1.0, 30.0


class EventStreamReader:
    """Server-sent events: the messages of an event stream, and the place where the next stream continues."""

    def __init__(self) -> None:
        self.last_id, self.retry_s = "", RETRY_S
        self._buffer = bytearray()

    def start(self) -> None:
        """The next event is of another stream."""
        self._buffer.clear()

    async def next(self, response: BridgeResponse) -> bytes:
        """The next message; nothing at the end."""
        data: list[bytes] = []
        other = False  # an event that is no message
        while (line := await self._line(response)) is not None:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"event":
                other = value != b"message"
            elif name == b"id" and min(value, default=32) >= 32:  # it becomes a header
                self.last_id = value.decode("latin-1")
            elif name == b"retry" and value.isdigit():
                self.retry_s = min(int(value) / 1000, LONGEST_RETRY_S)
            elif not line:
                if not other and any(data):
                    return b"\n".join(data)
                data, other = [], False
        return b""

    async def _line(self, response: BridgeResponse) -> bytes | None:
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0:
            start = len(self._buffer)
            piece = await response.read()
            if not piece:
                return None
            self._buffer += piece
        line = bytes(self._buffer[: end + 1]).rstrip(b"\r\n")
        del self._buffer[: end + 1]
        return line


class BridgeSession:
    """The agreement of the 2025 handshake, and the client's own messages to agree on it again."""

    def __init__(self) -> None:
        self.id = ""
        self.version = ""
        self.lost = False  # the gateway has forgotten it, or never answered the handshake
        self.renewing = False
        self.trouble = ""  # why it was not renewed
        self.initialize: bytes = b""
        self.initialized: bytes = b""

    @property
    def headers(self) -> str:
        named = f"Mcp-Session-Id: {self.id}\r\n" if self.id else ""
        return named + (f"MCP-Protocol-Version: {encode_header(self.version)}\r\n" if self.version else "")

    def forget(self) -> None:
        self.id, self.version, self.lost = "", "", True

    def opened(self, session_id: str, answer: Json) -> None:
        result = answer.get("result")
        if isinstance(result, dict):
            self.id, self.version, self.lost = session_id, str(result.get("protocolVersion", "")), False


class GatewayExchange:
    def __init__(self, loop: PollLoop, http: BridgeHttpClient, out: StdoutWriter) -> None:
        self.pending: dict[str, ClientMessage] = {}  # requests without an answer, by the key of their id
        self.envelope_version = ""  # the stateless revision that the client used last
        self._loop, self._http, self._out = loop, http, out
        self._session = BridgeSession()
        self._renewed = PollCondition(loop)
        self._met, self._away_since = False, 0.0  # whether the gateway ever answered; since when it does not
        self._listener: PollTask | None = None

    # To the gateway.

    async def send(self, message: ClientMessage) -> None:
        """Send a message and deliver its answer.

        It is sent again, if the gateway has forgotten the session; and once more, if the gateway left meanwhile.
        """
        session = self._session
        opening, modern = message.method == "initialize", bool(message.version or self.envelope_version)
        if opening:
            await self.end_session()
            session.initialize, session.initialized, session.lost = message.line, b"", False
        tries, losses = 0, -1
        while True:
            while (session.lost or session.renewing) and not modern and not opening:
                await self._renew(session.id)
            tried, message.sent = "" if modern or opening else session.id, True
            response = await self._post(self._headers(message), message.line)
            try:
                again = tried and tries < HANDSHAKES and self._http.losses != losses
                if again and response.status in (400, 404) and _is_unknown_session(response, await response.read_all()):
                    tries, losses = tries + 1, self._http.losses
                    await self._renew(tried)
                    continue
                await self._deliver(response, message)
            finally:
                response.release()
            if opening:
                session.opened(response.headers.get("mcp-session-id", ""), message.answer)
            elif message.method == "notifications/initialized" and not modern and response.status < 300:
                session.initialized = message.line
                self._listen()
            return

    async def _post(self, headers: str, body: bytes, until: float = 0.0) -> BridgeResponse:
        """A gateway that was there a moment ago is given one to come back: nothing was sent to it yet."""
        while True:
            try:
                response = await self._http.request("POST", headers, body, until)
            except GatewayUnreachable:
                moment = now()
                self._away_since = self._away_since or moment
                if not self._met or moment >= self._away_since + AWAY_S:
                    raise
                await PollWait(until=moment + AGAIN_S)
            else:
                self._met, self._away_since = True, 0.0
                return response

    def _headers(self, message: ClientMessage) -> str:
        if message.method == "initialize":
            return ""
        version = message.version or self.envelope_version
        if not version:
            return self._session.headers
        given = {"MCP-Protocol-Version": version, "Mcp-Method": message.method, "Mcp-Name": message.name}
        return "".join(f"{name}: {encode_header(value)}\r\n" for name, value in given.items() if value)

    def fail(self, message: ClientMessage, failure: BridgeFailure) -> None:
        """Give up a message that was not delivered, or not answered. Each of its pending requests gets an error."""
        if message.method == "initialize":
            self._session.lost = True  # a client that continues all the same is initialized then
        elif message.method == "notifications/initialized" and not self.envelope_version:
            self._session.initialized = message.line  # the next gateway receives it
        if not message.owed:
            log(f"{message.method or 'an answer'} was not delivered: {failure}")
        self._answer_all(message, failure.to_json())

    # The session.

    async def _renew(self, stale: str) -> None:
        """Open a session in the place of the stale one. If several tasks miss it, one opens it and the others wait."""
        session = self._session
        if session.renewing:
            if not await self._renewed.until(lambda: not session.renewing, now() + HANDSHAKE_S):
                raise BridgeFailure("the gateway is slow to open another session; the call was not sent")
            if session.lost and session.trouble:  # without: the task that did it was cancelled
                raise BridgeFailure(session.trouble)
            return
        if session.id != stale:
            return
        session.renewing, session.trouble = True, ""
        session.forget()
        try:
            if stale:  # else none was ever opened, and the client has its error
                log("the gateway does not know the session; opening another")
            await self._reopen()
        except BridgeFailure as failure:
            session.forget()
            session.trouble = str(failure)
            raise
        finally:
            session.renewing = False
            self._renewed.notify()
        if session.initialized:
            self._listen()

    async def _reopen(self) -> None:
        """Also by a gateway that ends meanwhile: a second handshake does no harm."""
        until = now() + HANDSHAKE_S
        for _ in range(HANDSHAKES):
            try:
                return await self._replay(until)
            except GatewayHungUp:
                self._session.forget()
        raise BridgeFailure("the gateway hangs up whenever another session is opened; the call was not sent")

    async def _replay(self, until: float) -> None:
        session = self._session
        for line in (session.initialize, session.initialized):
            if not line:
                continue
            message = ClientMessage(line, replayed=True)
            response = await self._post(self._headers(message), line, until)
            try:
                await self._deliver(response, message)
            finally:
                response.release()
            if line is session.initialize:
                session.opened(response.headers.get("mcp-session-id", ""), message.answer)
                if session.lost:
                    error = encode_ascii(message.answer.get("error"))
                    raise BridgeFailure(f"the gateway does not open another session: {error}")

    async def end_session(self) -> None:
        """End the session, if there is one. Nobody waits long for that."""
        session, headers = self._session, self._session.headers
        known, session.id, session.version = session.id, "", ""
        if known and not session.lost:
            try:
                (await self._http.request("DELETE", headers, until=now() + FAREWELL_S)).release()
            except BridgeFailure as failure:
                log(f"the session was not ended: {failure}")

    # From the gateway.

    async def _deliver(self, response: BridgeResponse, message: ClientMessage) -> None:
        """The response to a POST."""
        if message.owed and response.streams:
            await self._deliver_stream(response, message)
            return
        body = await response.read_all()
        content = read_json(body) if response.media_type == "application/json" else None
        if not message.owed:
            if response.status >= 300:
                log(f"{message.method or 'an answer'}: {_render_refusal(response.status, self._http.url)}")
            return
        if response.status < 300 and content is not None:
            self._forward(body, content, message)
        if not message.owed:
            return
        for answer in list_answers(content):
            if isinstance(answer.get("error"), dict):  # of a request that was refused before its id was read
                self._answer_all(message, answer["error"])
                return
        code = METHOD_NOT_FOUND if response.status == 404 and not self._session.id else INTERNAL_ERROR
        raise BridgeFailure(_render_refusal(response.status, self._http.url), code)

    def _answer_all(self, message: ClientMessage, error: object) -> None:
        for key, request in message.owed.items():
            self.pending.pop(key, None)
            message.answer = {"id": request, "error": error}
            if not message.replayed and not message.cancelled:
                self._out.add(render_error(request, error))
        message.owed = {}

    async def _deliver_stream(self, response: BridgeResponse, message: ClientMessage) -> None:
        """Messages as they come and as stdout accepts them. A stream that was cut is resumed where it can be."""
        events, resumes = EventStreamReader(), RESUMES
        try:
            while True:
                if await self._follow(response, events, message):
                    resumes = RESUMES
                if not message.owed:
                    return await response.finish()
                if not events.last_id or message.version or message.replayed or not resumes:
                    raise GatewayHungUp
                response.release()
                resumes -= 1
                await PollWait(until=now() + events.retry_s)
                try:
                    response = await self._open_stream(events)
                except GatewayUnreachable:
                    raise GatewayHungUp from None  # the call was sent, long ago
                if not response.streams:
                    raise GatewayHungUp
        finally:
            response.release()

    async def _open_stream(self, events: EventStreamReader) -> BridgeResponse:
        events.start()
        place = f"Last-Event-ID: {events.last_id}\r\n" if events.last_id else ""
        return await self._http.request("GET", self._session.headers + place)

    async def _follow(self, response: BridgeResponse, events: EventStreamReader, message: ClientMessage | None) -> int:
        """Forward to the end of a stream, or until all that is owed has come. Returns the number of messages."""
        count = 0
        try:
            while (message is None or message.owed) and (data := await events.next(response)):
                self._forward(data, read_json(data), message)
                await self._out.drain()
                count += 1
        except BridgeFailure:
            return count  # the caller knows what is missing
        return count

    def _forward(self, line: bytes, content: object, message: ClientMessage | None = None) -> None:
        """To the client, unless it is an answer that nobody waits for."""
        if content is None:
            log("the gateway sent what is not JSON; it was dropped")
            return
        answered = []
        for answer in list_answers(content):
            key = encode_ascii(answer["id"])
            request = message or self.pending.get(key)
            if request is None or key not in request.owed:
                return  # answered before, or never asked
            answered.append((key, request, answer))
        for key, request, answer in answered:
            request.owed.pop(key, None)
            request.answer = answer
            if request.replayed:
                return
            self.pending.pop(key, None)
        self._out.add(line)

    def _listen(self) -> None:
        """Read the gateway's own stream of this session."""
        if self._listener is None or self._listener is not self._loop.current:
            self.stop_listening()
            self._listener = self._read_gateway_stream()
            self._loop.spawn(self._listener)

    def stop_listening(self) -> None:
        self._loop.cancel(self._listener)

    async def _read_gateway_stream(self) -> None:
        """The gateway's own stream, opened again and again while there is one."""
        events, failures = EventStreamReader(), 0
        while True:
            session = self._session.id
            try:
                response = await self._open_stream(events)
                try:
                    if response.streams:
                        await self._follow(response, events, None)
                    elif response.status == 404 and session:
                        events.last_id = ""
                        await self._renew(session)
                    elif response.status < 500:
                        return  # it has no such stream
                finally:
                    response.release()
                failures = 0
            except BridgeFailure as failure:
                if not failures:
                    log(f"the gateway's own messages cannot be read: {failure}")
                failures = min(failures + 1, 5)
            await PollWait(until=now() + min(events.retry_s * 2**failures, LONGEST_RETRY_S))


def _is_unknown_session(response: BridgeResponse, body: bytes) -> bool:
    """The gateway does not know the session: 404 means so, and 400 unless it finds fault with the message itself."""
    if response.status == 404:
        return True
    content = read_json(body)
    error = content.get("error") if isinstance(content, dict) else None
    return not isinstance(error, dict) or error.get("code") in (-32000, INVALID_REQUEST)


def _render_refusal(status: int, url: str) -> str:
    if status == 401:
        return f"{url} wants a token (401): name its file with --token-file"
    if status == 202:
        return "the gateway took the request and will not answer it (202)"
    return f"the gateway at {url} answered with HTTP {status} and nothing that can be passed on"
