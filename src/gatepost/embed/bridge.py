"""A stdio MCP server for the tools of another program: it lists them from a file, and passes calls to a unix socket.

    python -m gatepost.embed.bridge SOCKET SCHEMA

It imports a small part of the standard library: an agent waits for it at every start. It connects at the first call
and keeps the connection. It accepts both eras of MCP. Every request is answered exactly once, and one that was
cancelled never.
"""

import os
import select
import stat
import sys
import time

from gatepost.jsonrpc import protocol
from gatepost.jsonrpc.plain_json import decode, encode
from gatepost.jsonrpc.protocol import SUBSCRIPTION, Json, JsonRpcFailure, McpServerInfo, ServerEra

LIMIT = 10_485_760  # bytes of one message on the socket
CHUNK = 256 * 1024
PATIENCE_S = 10.0  # how long answers may take after stdin has ended
CONNECT_S = 5.0
USAGE = "usage: python -m gatepost.embed.bridge SOCKET SCHEMA"

_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL

_kept = bytearray(CHUNK)  # a fresh one of this size for every read would cost more than all the rest of a call


def _read_fd(fd: int) -> bytes:
    return bytes(memoryview(_kept)[: os.readv(fd, [_kept])])


class WriteBuffer(bytearray):
    """Bytes that are to be written when the descriptor accepts them."""

    def flush(self, fd: int) -> None:
        """Write as much as it accepts now."""
        try:
            while self:
                del self[: os.write(fd, self)]
        except BlockingIOError:
            return


class PendingCall:
    """A call that is not answered yet."""

    __slots__ = ("modern", "request", "token")

    def __init__(self, request: object, modern: bool, token: object) -> None:
        self.request, self.modern, self.token = request, modern, token


class ToolHostSocket:
    """The connection to the program whose tools these are."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = -1
        self.outbox = WriteBuffer()
        self._buffer = bytearray()

    def open(self) -> None:
        """Raises OSError."""
        if self.fd >= 0:
            return
        import socket  # not before there is a call: listing tools needs none

        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(CONNECT_S)
            sock.connect(self.path)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        self.fd = sock.detach()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd, self.outbox, self._buffer = -1, WriteBuffer(), bytearray()

    def send(self, payload: bytes) -> None:
        self.outbox += len(payload).to_bytes(4, "big") + payload
        self.outbox.flush(self.fd)

    def receive(self) -> "list[bytes] | None":
        """The messages that have arrived; None if the other side has left."""
        try:
            data = _read_fd(self.fd)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        buffer = self._buffer
        buffer += data
        found, start = [], 0
        while len(buffer) - start >= 4:
            end = start + 4 + int.from_bytes(buffer[start : start + 4], "big")
            if len(buffer) < end:
                break
            found.append(bytes(buffer[start + 4 : end]))
            start = end
        del buffer[:start]
        return found


class McpBridge:
    def __init__(self, link: ToolHostSocket, described: Json) -> None:
        self.link = link
        self.out = WriteBuffer()
        server = described.get("server") or {"name": "tools", "version": "1"}
        self._info, self._tools = McpServerInfo(server, {"tools": {}}), described["tools"]
        self._era = ServerEra()
        self._calls: dict[int, PendingCall] = {}
        self._numbers: dict[object, int] = {}
        self._listening: set[object] = set()
        self._count = 0

    @property
    def busy(self) -> bool:
        return bool(self._calls)

    # From the client.

    def receive(self, line: bytes) -> None:
        """Take one line of the client. No line ends the bridge; blank lines are skipped."""
        if not line.strip():
            return
        request: object = None
        try:
            try:
                message = decode(line.decode())
            except (ValueError, RecursionError) as error:
                raise JsonRpcFailure(protocol.PARSE_ERROR, f"Parse error: {error}") from None
            if not isinstance(message, dict):
                raise _invalid("one JSON object a line; batches are not accepted")
            request = message.get("id") if _is_id(message.get("id")) else None
            self._receive_message(message, request)
        except (JsonRpcFailure, RecursionError) as error:
            deep = JsonRpcFailure(protocol.INVALID_PARAMS, "Invalid params: nested too deeply")
            self._send({"id": request, "error": (error if isinstance(error, JsonRpcFailure) else deep).to_json()})

    def _receive_message(self, message: Json, request: object) -> None:
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str):
            if "result" not in message and "error" not in message:
                raise _invalid("there is no method")
            return None  # an answer: this side asks nothing
        if "id" not in message:
            return self._notified(method, params)
        if request is None or message.get("jsonrpc") != "2.0":
            raise _invalid('`jsonrpc` must be "2.0" and `id` text or a whole number')
        if params is not None and not isinstance(params, dict):
            raise JsonRpcFailure(protocol.INVALID_PARAMS, "Invalid params: `params` must be an object")
        return self._handle_request(request, method, params or {})

    def _handle_request(self, request: object, method: str, params: Json) -> None:
        info, era = self._info, self._era
        if request in self._numbers or request in self._listening:
            raise JsonRpcFailure(protocol.INVALID_REQUEST, protocol.render_id_in_use(request))
        if method == "tools/call":
            self._call(request, params)
        elif method == "tools/list":
            more = info.list_fields if era.check(params.get("_meta")) else {}
            self._answer(request, {"tools": self._tools, **more})
        elif method == "initialize":
            wanted = params.get("protocolVersion")
            if not isinstance(wanted, str):
                raise JsonRpcFailure(protocol.INVALID_PARAMS, "Invalid params: protocolVersion must be text")
            self._answer(request, info.initialized(era.initialize(wanted)))
        elif method == "ping" and not era.modern:
            self._answer(request, {})
        elif method == "server/discover" and era.modern is not False:
            era.check(params.get("_meta"))
            self._answer(request, info.discovered())
        elif method == "subscriptions/listen" and era.modern is not False:
            era.check(params.get("_meta"))
            self._listening.add(request)
            accepted: Json = {"notifications": {}, "_meta": {SUBSCRIPTION: request}}
            self._notify("notifications/subscriptions/acknowledged", accepted)
        else:
            raise JsonRpcFailure(protocol.METHOD_NOT_FOUND, "Method not found", method)

    def _call(self, request: object, params: Json) -> None:
        meta = params.get("_meta")
        modern = self._era.check(meta)
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            raise JsonRpcFailure(protocol.INVALID_PARAMS, "Invalid params: `name` must be text, `arguments` an object")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        call = PendingCall(request, modern, token)
        wanted: Json = {"name": name, "arguments": arguments or {}}
        if _is_id(token):
            wanted["progress"] = True
        number = self._count = self._count + 1
        payload = encode({"id": number, "method": "call_tool", "params": wanted})
        if len(payload) > LIMIT:
            text = f"the request has {len(payload):,} bytes; at most {LIMIT:,} can be sent (MessageSizeError)"
            return self._finish(call, _failed(text))
        try:
            self.link.open()
        except OSError as error:
            return self._finish(call, _failed(f"{name} cannot be called: {_disconnect_reason(error)}"))
        self._calls[number], self._numbers[request] = call, number
        try:
            self.link.send(payload)
        except OSError:
            self.hung_up()
        return None

    def _notified(self, method: str, params: object) -> None:
        if method != "notifications/cancelled" or not isinstance(params, dict):
            return
        request = params.get("requestId")
        if not _is_id(request):
            return
        self._listening.discard(request)
        number = self._numbers.pop(request, None)
        if number is not None:
            del self._calls[number]
            try:
                self.link.send(encode({"method": "cancel", "params": {"id": number}}))
            except OSError:
                self.hung_up()

    # From the program.

    def receive_from_program(self, payload: bytes) -> None:
        """One message. A result on the 2025 wire goes on as it came: it may be large."""
        comma = payload.find(b",", 0, 40)
        if payload.startswith(b'{"id":') and payload.startswith(b'"result":', comma + 1):
            number = int(payload[6:comma])
            call = self._calls.get(number)
            if call is not None and not call.modern:
                del self._calls[number], self._numbers[call.request]
                self.out += b'{"jsonrpc":"2.0","id":%b,%b\n' % (encode(call.request), payload[comma + 1 :])
                return
        message = decode(payload.decode())
        if isinstance(message, dict):
            self._handle_answer(message)

    def _handle_answer(self, message: Json) -> None:
        number = message.get("id")
        call = self._calls.get(number) if isinstance(number, int) else None
        if call is None or not isinstance(number, int):
            return None  # it was cancelled meanwhile
        progress = message.get("progress")
        if isinstance(progress, dict):
            return self._notify("notifications/progress", {"progressToken": call.token, **progress})
        del self._calls[number], self._numbers[call.request]
        result = message.get("result")
        if isinstance(result, dict):
            return self._finish(call, result)
        error = message.get("error")
        fields = error if isinstance(error, dict) else {}
        return self._finish(call, _failed(f"{fields.get('message')} ({fields.get('type')})"))

    def hung_up(self) -> None:
        """The program has left: nobody waits for it in vain, and the next call connects anew."""
        self.link.close()
        self.fail_calls(f"the call was not answered: {_disconnect_reason()}")

    def fail_calls(self, why: str) -> None:
        calls, self._calls, self._numbers = self._calls, {}, {}
        for call in calls.values():
            self._finish(call, _failed(why))

    # To the client.

    def _finish(self, call: PendingCall, result: Json) -> None:
        if call.modern:
            meta = result.get("_meta")
            stamp = {**meta, **self._info.stamp} if isinstance(meta, dict) else self._info.stamp
            result = {**result, "resultType": "complete", "_meta": stamp}
        self._answer(call.request, result)

    def _answer(self, request: object, result: Json) -> None:
        self._send({"id": request, "result": result})

    def _notify(self, method: str, params: Json) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: Json) -> None:
        self.out += encode({"jsonrpc": "2.0", **message}) + b"\n"


def _invalid(text: str) -> JsonRpcFailure:
    return JsonRpcFailure(protocol.INVALID_REQUEST, f"Invalid request: {text}")


def _is_id(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _failed(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _disconnect_reason(error: "OSError | None" = None) -> str:
    why = f" ({error.strerror or error})" if error else ""
    return f"the program that offers these tools has stopped{why}"


def serve(bridge: McpBridge, source: int, sink: int) -> None:
    """Until stdin ends and what was asked is answered, or could have been; or until nobody reads us any more."""
    link, rest, reading, until = bridge.link, bytearray(), True, 0.0
    poll, asked = select.poll(), dict[int, int]()
    while True:
        bridge.out.flush(sink)
        if not reading and not bridge.busy and not bridge.out:
            return
        full = bool(bridge.out)  # who does not take what there is gets no more, and nothing piles up here
        wanted = {sink: select.POLLOUT if full else 0}  # 0: tell only if its reader is gone
        if reading and not full and not link.outbox:
            wanted[source] = select.POLLIN
        if link.fd >= 0:
            wanted[link.fd] = (0 if full else select.POLLIN) | (select.POLLOUT if link.outbox else 0)
        if wanted != asked:
            for fd in asked.keys() - wanted.keys():
                poll.unregister(fd)
            for fd, events in wanted.items():
                poll.register(fd, events)
            asked = wanted
        left = None if reading else max(0.0, until - time.monotonic()) * 1000
        ready = dict(poll.poll(left))
        if ready.get(sink, 0) & _GONE:
            return
        if not reading and time.monotonic() >= until:  # however much is said of progress
            bridge.fail_calls("the bridge ended before there was an answer: its input has ended")
            bridge.out.flush(sink)
            return
        if link.fd in ready:
            _handle_socket(bridge, ready[link.fd])
        if source in ready:
            data = _read_fd(source)
            first, *others = data.split(b"\n")
            rest += first
            for other in others:
                bridge.receive(bytes(rest))
                rest = bytearray(other)
            if not data:
                reading, until = False, time.monotonic() + PATIENCE_S


def _handle_socket(bridge: McpBridge, events: int) -> None:
    """Read from the program's socket and write to it, as far as it is ready."""
    link = bridge.link
    try:
        if events & select.POLLOUT:
            link.outbox.flush(link.fd)
        if events & (select.POLLIN | _GONE):
            messages = link.receive()
            if messages is None:
                return bridge.hung_up()
            for message in messages:
                bridge.receive_from_program(message)
    except (OSError, ValueError, RecursionError):
        bridge.hung_up()
    return None


def main(arguments: "list[str]") -> int:
    if len(arguments) != 2:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    try:
        with open(arguments[1], encoding="utf-8") as file:
            described = decode(file.read())
        if not isinstance(described, dict):
            raise ValueError("it is no object")
        bridge = McpBridge(ToolHostSocket(arguments[0]), described)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.stderr.write(f"gatepost.embed.bridge: {arguments[1]} does not describe tools: {error}\n")
        return 1
    kind = os.fstat(1).st_mode
    if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        os.set_blocking(1, False)  # a client that reads slowly must not hold up what goes to the program
    try:
        serve(bridge, 0, 1)
    except BrokenPipeError:
        return 0  # whoever read us has enough
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
