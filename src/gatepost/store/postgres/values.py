"""Values on the wire, in PostgreSQL's binary form: integers, text, bytes, floats, and sums, which are `numeric`."""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

INT8, TEXT, BYTEA, FLOAT8, TSVECTOR, UNKNOWN = 20, 25, 17, 701, 3614, 0
SMALLEST, LARGEST = -(2**63), 2**63 - 1  # of INT8

_INT2, _INT4, _INT8, _FLOAT4, _FLOAT8 = Struct("!h"), Struct("!i"), Struct("!q"), Struct("!f"), Struct("!d")
_NUMERIC = Struct("!HhHH")  # digits, weight of the first, sign, digits after the point
_NEGATIVE, _BASE = 0x4000, 10_000


class TsVector(bytes):
    """The words of a text, as they travel."""


def encode(params: Sequence[Any]) -> tuple[tuple[int, ...], list[bytes | None]]:
    """Their types, and the bytes. NULL has no type of its own: the statement says which."""
    types: list[int] = []
    values: list[bytes | None] = []
    for each in params:
        if isinstance(each, str):
            types.append(TEXT)
            # PostgreSQL has no such character in a text. It is no part of any word, so nothing that is read is lost.
            values.append((each.replace("\0", "\ufffd") if "\0" in each else each).encode())
        elif isinstance(each, int):  # a truth is a number, as in SQLite
            types.append(INT8)
            if not SMALLEST <= each <= LARGEST:
                raise OverflowError(f"{each.bit_length()} bits are more than a number of the store has")  # as SQLite's
            values.append(_INT8.pack(each))
        elif each is None:
            types.append(UNKNOWN)
            values.append(None)
        elif isinstance(each, float):
            types.append(FLOAT8)
            values.append(_FLOAT8.pack(each))
        else:
            types.append(TSVECTOR if isinstance(each, TsVector) else BYTEA)
            values.append(bytes(each))
    return tuple(types), values


def _decode_numeric(data: bytes) -> int | float:
    count, weight, sign, after = _NUMERIC.unpack_from(data)
    digits = Struct(f"!{count}H").unpack_from(data, _NUMERIC.size)
    if after == 0:
        whole = 0
        for place in range(weight + 1):
            whole = whole * _BASE + (digits[place] if place < count else 0)
        return -whole if sign == _NEGATIVE else whole
    value: float = sum(digit * float(_BASE) ** (weight - place) for place, digit in enumerate(digits))
    return -value if sign == _NEGATIVE else value


DECODERS: dict[int, Callable[[bytes], Any]] = {
    16: lambda data: int(data != b"\0"),  # a comparison is a number, as in SQLite
    17: bytes,
    20: lambda data: _INT8.unpack(data)[0],
    21: lambda data: _INT2.unpack(data)[0],
    23: lambda data: _INT4.unpack(data)[0],
    700: lambda data: _FLOAT4.unpack(data)[0],
    701: lambda data: _FLOAT8.unpack(data)[0],
    1700: _decode_numeric,
}


decode_text = bytes.decode  # without a frame of its own
