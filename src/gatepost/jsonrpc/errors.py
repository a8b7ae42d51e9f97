"""The errors of JSON-RPC 2.0 and of MCP. Standard library alone."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
HEADER_MISMATCH, UNSUPPORTED_VERSION, REVOKED, TOO_MANY = -32020, -32022, -32001, -32002


class JsonRpcFailure(Exception):
    """A request is answered with an error: by the other side, or by this one."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def to_json(self) -> dict[str, object]:
        return {"code": self.code, "message": self.message, **({} if self.data is None else {"data": self.data})}


def render_id_in_use(request: object) -> str:
    """The error text for a second request of an id, on every transport."""
    return f"the request id {repr(request)[:80]} is already in use: wait for its answer, or take another id"
