"""Which era of MCP a connection uses, without any transport."""

import pytest

from gatepost.jsonrpc.protocol import (
    CAPABILITIES,
    ENVELOPE_VERSION,
    HANDSHAKE_VERSIONS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    UNSUPPORTED_VERSION,
    VERSION,
    JsonRpcFailure,
    ServerEra,
)

ENVELOPE = {VERSION: ENVELOPE_VERSION, CAPABILITIES: {}}


def refused(era: ServerEra, meta: object) -> int:
    with pytest.raises(JsonRpcFailure) as failure:
        era.check(meta)
    return failure.value.code


def test_a_connection_without_handshake_and_envelope_is_refused_and_stays_undecided() -> None:
    era = ServerEra()
    assert refused(era, None) == INVALID_PARAMS
    assert refused(era, {VERSION: ENVELOPE_VERSION}) == INVALID_PARAMS
    assert refused(era, {**ENVELOPE, VERSION: "2031-01-01"}) == UNSUPPORTED_VERSION
    assert era.modern is None


def test_after_the_handshake_the_envelope_is_too_late() -> None:
    era = ServerEra()
    assert era.initialize("2025-06-18") == "2025-06-18"
    assert era.check(None) is False
    assert refused(era, ENVELOPE) == INVALID_REQUEST


def test_after_the_envelope_every_request_needs_it_and_the_handshake_is_refused() -> None:
    era = ServerEra()
    assert era.check(ENVELOPE) is True
    assert refused(era, {}) == INVALID_PARAMS
    with pytest.raises(JsonRpcFailure) as failure:
        era.initialize("2025-06-18")
    assert failure.value.data == {"supported": [ENVELOPE_VERSION], "requested": "2025-06-18"}


def test_a_handshake_of_an_unknown_version_agrees_on_the_newest() -> None:
    assert ServerEra().initialize("1999-01-01") == HANDSHAKE_VERSIONS[-1]
