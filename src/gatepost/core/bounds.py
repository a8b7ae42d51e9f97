"""Size limits for the answer of a tool. Its reader pays for every byte, and the gateway holds it until it is read.

A tool that lists stops before the bound and says so (`more`); a text that alone is larger is cut, with its length
named. The gate refuses whatever is larger all the same.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import TypeVar

import msgspec

LARGEST_ANSWER = 256 * 1024  # bytes of JSON
LISTED = LARGEST_ANSWER - 8 * 1024  # of which a list may have so many; the rest is for what stands around it

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


def size_of(*values: object) -> int:
    """Bytes as JSON, with the comma behind each."""
    return sum(len(_encode(value)) + 1 for value in values)


def fitting(items: Iterable[T], most: int = LISTED) -> tuple[list[T], bool]:
    """The first items that have at most so many bytes together, and whether others were left out."""
    taken: list[T] = []
    for item in items:
        most -= size_of(item)
        if most < 0:
            return taken, True
        taken.append(item)
    return taken, False


def shortened(text: str, length: int, fits: Callable[[str], bool]) -> str:
    """The text if it is whole (it has `length` characters) and fits, else so much of it as does, with its length."""
    if len(text) == length and fits(text):
        return text
    keep = len(text)
    while keep and not fits(cut(text, keep, length)):
        keep = keep * 3 // 4
    return cut(text, keep, length)


def cut(text: str, keep: int, length: int) -> str:
    return f"{text[:keep]} […] (cut: the first {keep} of {length} characters)"


def weight(value: object, most: int) -> int:
    """About how many bytes a value has as JSON, never more than it has. Not counted on once it is beyond `most`, so
    that nothing large is encoded only to be refused."""
    total, values = 0, [value]
    for each in values:  # it grows meanwhile
        if type(each) is str:
            total += len(each) + 2
        elif type(each) is int:
            total += each.bit_length() // 4
        elif each is None:
            continue
        elif isinstance(each, msgspec.Struct):
            values += msgspec.structs.astuple(each)
        elif isinstance(each, (str, bytes)):
            total += len(each) + 2
        elif isinstance(each, int):
            total += each.bit_length() // 4
        elif isinstance(each, (dict, list, tuple, set, frozenset)):
            total += len(each)
            if total <= most:
                values += each
                values += each.values() if isinstance(each, dict) else ()
        elif is_dataclass(each) and not isinstance(each, type):
            values += [getattr(each, field.name) for field in fields(each)]
        if total > most:
            break
    return total
