"""The ids of traces and spans. They come from the ledger's own ids: whoever exports a message again, after a crash
perhaps, gives the same ids."""

import hashlib


def make_trace_id(message_id: int, accepted_at: int) -> bytes:
    """Make the trace id of a message. Its number alone is not enough: every gateway has a message 1."""
    return hashlib.sha256(f"gatepost message {message_id} {accepted_at}".encode()).digest()[:16]


def make_span_id(trace_id: bytes, *parts: object) -> bytes:
    return hashlib.sha256(trace_id + "\0".join(map(str, parts)).encode()).digest()[:8]


ROOT = "message"  # the part that names a trace's first span


def make_root_id(trace_id: bytes) -> bytes:
    return make_span_id(trace_id, ROOT)


def make_turn_id(trace_id: bytes, turn_id: str) -> bytes:
    return make_span_id(trace_id, "turn", turn_id)
