"""JSON for programs that must start fast. Standard library alone, and in CPython without its package `json`.

The import of `json` takes longer than everything else that a bridge imports; `_json` does its work in CPython.
"""


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


class _ScannerOptions:
    """As `json.JSONDecoder` has them."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, staticmethod(_refuse_constant)


try:
    from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

    _scan: "make_scanner | None" = make_scanner(_ScannerOptions())  # type: ignore[arg-type]  # the stub asks for more than is used
    _rest = (None, ":", ",", False, False, False)
    _plain: "make_encoder | None" = make_encoder(None, repr, encode_basestring, *_rest)
    _ascii: "make_encoder | None" = make_encoder(None, repr, encode_basestring_ascii, *_rest)
except (ImportError, TypeError):
    _scan = _plain = _ascii = None  # another interpreter


def decode(text: str) -> object:
    """Raises ValueError that says what is wrong, or RecursionError."""
    text = text.strip(" \t\r\n")
    if _scan is not None:
        try:
            value, end = _scan(text, 0)
            if end == len(text):
                found: object = value
                return found
        except (StopIteration, SystemError):
            pass  # the package has words for it
    import json

    wrong: object = json.JSONDecoder(parse_constant=_refuse_constant).decode(text)
    return wrong


def encode(value: object) -> bytes:
    """In UTF-8. Half a surrogate pair is no text, and is replaced."""
    return _encode(_plain, value).encode("utf-8", "replace")


def encode_ascii(value: object) -> str:
    """In ASCII: half a surrogate pair survives."""
    return _encode(_ascii, value)


def _encode(chunks: "make_encoder | None", value: object) -> str:
    if chunks is not None:
        return "".join(chunks(value, 0))
    import json

    return json.JSONEncoder(ensure_ascii=chunks is _ascii, separators=(",", ":")).encode(value)
