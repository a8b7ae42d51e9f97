"""The two eras of MCP: the handshake of the 2025 revisions, and the envelope of 2026-07-28. Standard library alone."""

from gatepost.jsonrpc.errors import INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_VERSION, JsonRpcFailure

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ENVELOPE_VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"
VERSION, CAPABILITIES = META + "protocolVersion", META + "clientCapabilities"
SUBSCRIPTION = META + "subscriptionId"
SERVER = META + "serverInfo"

Json = dict[str, object]


def initialize_params(name: str, version: str) -> Json:
    """Return what a client of ours sends as the params of `initialize`."""
    client = {"name": name, "version": version}
    return {"protocolVersion": HANDSHAKE_VERSIONS[-1], "capabilities": {}, "clientInfo": client}


class McpServerInfo:
    """A server's words about itself in its results, in each era."""

    def __init__(self, server: object, capabilities: Json) -> None:
        self.server, self.capabilities = server, capabilities
        self.stamp: Json = {SERVER: server}
        # Beside the items of a list, since 2026:
        self.list_fields: Json = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete", "_meta": self.stamp}

    def initialized(self, version: str) -> Json:
        return {"protocolVersion": version, "capabilities": self.capabilities, "serverInfo": self.server}

    def discovered(self) -> Json:
        return {"supportedVersions": [ENVELOPE_VERSION], "capabilities": self.capabilities, **self.list_fields}


class ServerEra:
    """The era of one connection. The first request that is valid in one of them decides."""

    __slots__ = ("modern",)

    def __init__(self) -> None:
        self.modern: bool | None = None  # True: the envelope, False: the handshake, None: not decided

    def check(self, meta: object) -> bool:
        """Return True if a request with this `_meta` is of the envelope's era. JsonRpcFailure: it is not valid here."""
        if not isinstance(meta, dict) or VERSION not in meta:
            if self.modern is None:
                text = f"not initialized: send initialize, or the {ENVELOPE_VERSION} envelope"
                raise JsonRpcFailure(INVALID_PARAMS, text)
            if self.modern:
                raise JsonRpcFailure(INVALID_PARAMS, f"params._meta is missing {VERSION} and {CAPABILITIES}")
            return False
        if self.modern is False:
            text = f"this connection was initialized; the {ENVELOPE_VERSION} envelope is too late"
            raise JsonRpcFailure(INVALID_REQUEST, text)
        check_version(read_envelope(meta))
        self.modern = True
        return True

    def initialize(self, wanted: str) -> str:
        """The version that an `initialize` agrees on."""
        if self.modern:
            check_version(wanted)
        self.modern = False
        return agree_on(wanted)


def agree_on(wanted: str) -> str:
    """The version that the answer to an `initialize` names."""
    return wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]


def read_envelope(meta: object) -> str:
    """The version that the envelope of a request names. JsonRpcFailure: it is not whole."""
    version = meta.get(VERSION) if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or not isinstance(version, str) or not isinstance(meta.get(CAPABILITIES), dict):
        raise JsonRpcFailure(INVALID_PARAMS, f"params._meta needs {VERSION} (text) and {CAPABILITIES} (object)")
    return version


def check_version(version: str) -> None:
    """JsonRpcFailure: it is not the revision of the envelope."""
    if version != ENVELOPE_VERSION:
        data = {"supported": [ENVELOPE_VERSION], "requested": version[:40]}
        raise JsonRpcFailure(UNSUPPORTED_VERSION, f"unsupported protocol version {version[:40]!r}", data)
