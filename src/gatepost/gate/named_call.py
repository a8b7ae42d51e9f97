"""`call_tool`: a call of another tool, for clients that do not follow changes of their list.

The gate puts the tool that is meant in its place before it decides anything. So every rule, hold and limit is that of
the tool, and so are its audit row and its identity. Rules that name `call_tool` hold as well.
"""

import msgspec

FIND_TOOLS, CALL_TOOL = "find_tools", "call_tool"


class _NamedCall(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


_decode = msgspec.json.Decoder(_NamedCall).decode
_decode_text = msgspec.json.Decoder(str).decode


def read_named_call(raw: bytes) -> tuple[str, bytes]:
    """Return the tool that is meant and its arguments. ValueError: it cannot be read, or means itself."""
    call = _decode(raw)
    if call.name == CALL_TOOL:
        raise ValueError("it cannot call itself")
    arguments = bytes(call.arguments)
    if arguments.startswith(b'"'):  # as text: many models write it so
        arguments = _decode_text(arguments).encode()
    return call.name, b"{}" if arguments in (b"null", b"") else arguments
