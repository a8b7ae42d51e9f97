"""Regular expressions for `text=/…/`: searched in time that grows only with the text's length.

Whoever may write a route must not be able to stop the gateway with it, and Python's `re` can take for ever on a bad
pattern and a well-chosen text. So an expression runs as an automaton whose states are remembered, and what it does is
counted (`Effort`). The syntax is that of `re` without what needs to go back: groups cannot be referred to, and there is
no look-around.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from gatepost.core.errors import Invalid

LONGEST = 200
MOST_STATES = 2000
MOST_REMEMBERED = 4000
PER_UNIT = 64  # characters that `re` compares in the time of one unit of effort

_BLOCK = 256  # characters that are paid for together
_ATOM = re.compile(r"\\[dDwWsSntrfv]|\\[^A-Za-z0-9]|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\()|*+?{^$]", re.DOTALL)
_QUANTIFIER = re.compile(r"(?:([*+?])|\{(?!\})(\d*)(?:(,)(\d*))?\})\??")
_ASSERTIONS = ("^", "$", r"\b")
_SIMPLE = re.compile(r"[^()*+?{\\]*\Z", re.DOTALL)

Test = Callable[[str], object]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Char:
    test: Test


@dataclass(frozen=True, slots=True)
class _Assertion:
    kind: str


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    options: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    node: "_Node"
    least: int
    most: int | None


_Node = _Char | _Assertion | _Sequence | _Choice | _Repeat


class TooMuch(Exception):
    """The effort is spent."""


class Effort:
    """How much may still be done for one message; about a microsecond each. None: as much as it takes."""

    __slots__ = ("left",)

    def __init__(self, left: int | None = None) -> None:
        self.left = left

    def spend(self, units: int) -> None:
        if self.left is not None:
            self.left -= units
            if self.left < 0:
                raise TooMuch


@lru_cache(maxsize=1024)
def compile_search(pattern: str) -> Callable[[str, Effort], bool]:
    """The function that tells whether the pattern occurs in a text."""
    if len(pattern) > LONGEST:
        raise Invalid("match", f"a regular expression of {len(pattern)} characters is too long; at most {LONGEST}")
    try:
        whole = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise Invalid("match", f"/{pattern}/ is not a regular expression: {error}") from None
    if _SIMPLE.match(pattern):  # nothing repeats and nothing nests: it cannot take long
        return _Simple(whole).search
    return _Automaton(_Parser(pattern).parse()).search


class _Simple:
    def __init__(self, whole: re.Pattern[str]) -> None:
        self._whole = whole

    def search(self, text: str, effort: Effort) -> bool:
        effort.spend(1 + len(text) * len(self._whole.pattern) // PER_UNIT)
        return self._whole.search(text) is not None


class _Parser:
    """Reads what `re` has already found well-formed."""

    def __init__(self, pattern: str) -> None:
        self._flags = 0
        self._whole = pattern
        if pattern.startswith("(?i)"):
            self._flags, pattern = re.IGNORECASE, pattern[4:]
        self._text, self._at = pattern, 0

    def parse(self) -> _Node:
        node = self._choice()
        if self._at < len(self._text):
            raise self._fault()
        return node

    def _fault(self) -> Invalid:
        rest = self._text[self._at : self._at + 12]
        return Invalid("match", f"/{self._whole}/ cannot be used at {rest!r}: only groups, sets, | * + ? {{}} ^ $ \\b")

    def _choice(self) -> _Node:
        options = [self._sequence()]
        while self._text.startswith("|", self._at):
            self._at += 1
            options.append(self._sequence())
        return options[0] if len(options) == 1 else _Choice(tuple(options))

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated())
        return _Sequence(tuple(parts))

    def _repeated(self) -> _Node:
        node = self._atom()
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None:
            return node
        self._at = found.end()
        if self._text.startswith("+", self._at):  # possessive: goes back on nothing, which an automaton cannot say
            raise self._fault()
        sign, least, comma, most = found.groups()
        if sign:
            return _Repeat(node, int(sign == "+"), 1 if sign == "?" else None)
        if not comma:
            return _Repeat(node, int(least), int(least))
        return _Repeat(node, int(least or 0), int(most) if most else None)

    def _atom(self) -> _Node:
        for kind in _ASSERTIONS:
            if self._text.startswith(kind, self._at):
                self._at += len(kind)
                return _Assertion(kind)
        if self._text.startswith("(", self._at):
            return self._group()
        found = _ATOM.match(self._text, self._at)
        if found is None:
            if self._text.startswith("{", self._at):  # a brace that counts nothing is itself
                self._at += 1
                return _Char(re.compile(r"\{").match)
            raise self._fault()
        self._at = found.end()
        return _Char(re.compile(found.group(), self._flags).match)

    def _group(self) -> _Node:
        opening = re.compile(r"\((?:\?:|\?P<\w+>)?").match(self._text, self._at)
        assert opening is not None
        if self._text.startswith("(?", self._at) and opening.group() == "(":
            raise self._fault()
        self._at = opening.end()
        node = self._choice()
        self._at += 1  # the closing one: `re` has seen it
        return node


@dataclass(
    frozen=True, slots=True, eq=False
)  # there is one of each, and comparing them would take longer than all else
class _Around:
    """Where between two characters the automaton stands, as far as assertions ask."""

    start: bool = False
    end: bool = False
    border: bool = False  # between a word and what is none

    def holds(self, kind: str) -> bool:
        if kind == "^":
            return self.start
        return self.end if kind == "$" else self.border


class _Automaton:
    def __init__(self, node: _Node) -> None:
        self._free: list[list[int]] = []  # by state: where it may go without a character
        self._asserted: list[list[tuple[str, int]]] = []
        self._reads: list[tuple[Test, int] | None] = []
        start = self._state()
        self._end = self._build(node, start)
        self._start = frozenset((start,))
        self._closures: dict[tuple[frozenset[int], _Around], frozenset[int]] = {}
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def search(self, text: str, effort: Effort) -> bool:
        states = self._start
        for at in range(len(text) + 1):
            if at % _BLOCK == 0:
                effort.spend(min(_BLOCK, len(text) - at + 1))
            reached = self._closure(states, self._around(text, at), effort)
            if self._end in reached:
                return True
            if at < len(text):
                states = self._step(reached, text[at], effort)
        return False

    def _around(self, text: str, at: int) -> _Around:
        before = at > 0 and _is_word(text[at - 1])
        after = at < len(text) and _is_word(text[at])
        end = at == len(text) or (at == len(text) - 1 and text[at] == "\n")
        return _AROUND[at == 0, end, before != after]

    def _closure(self, states: frozenset[int], around: _Around, effort: Effort) -> frozenset[int]:
        found = self._closures.get((states, around))
        if found is None:
            reached, waiting = set(states), list(states)
            while waiting:
                state = waiting.pop()
                asserted = [to for kind, to in self._asserted[state] if around.holds(kind)]
                fresh = [to for to in (*self._free[state], *asserted) if to not in reached]
                reached.update(fresh)
                waiting.extend(fresh)
            found = frozenset(reached)
            effort.spend(len(found))
            _remember(self._closures, (states, around), found)
        return found

    def _step(self, states: frozenset[int], char: str, effort: Effort) -> frozenset[int]:
        found = self._steps.get((states, char))
        if found is None:
            effort.spend(len(states))
            reads = [each for state in states if (each := self._reads[state]) is not None]
            found = self._start.union(to for test, to in reads if test(char))
            _remember(self._steps, (states, char), found)
        return found

    def _state(self) -> int:
        if len(self._free) >= MOST_STATES:
            raise Invalid("match", "the regular expression repeats too much; use smaller numbers in {}")
        self._free.append([])
        self._asserted.append([])
        self._reads.append(None)
        return len(self._free) - 1

    def _build(self, node: _Node, start: int) -> int:
        """Add the states of a part that begins at `start`; returns where it ends."""
        if isinstance(node, _Sequence):
            for part in node.parts:
                start = self._build(part, start)
            return start
        if isinstance(node, _Repeat):
            return self._build_repeat(node, start)
        end = self._state()
        if isinstance(node, _Char):
            inner = self._state()
            self._free[start].append(inner)
            self._reads[inner] = (node.test, end)
        elif isinstance(node, _Assertion):
            self._asserted[start].append((node.kind, end))
        else:
            for option in node.options:
                self._free[self._build(option, self._branch(start))].append(end)
        return end

    def _build_repeat(self, node: _Repeat, start: int) -> int:
        for _ in range(node.least):
            start = self._build(node.node, start)
        end = self._state()
        if node.most is None:
            loop = self._branch(start)
            self._free[self._build(node.node, loop)].append(loop)
            self._free[loop].append(end)
            return end
        for _ in range(node.most - node.least):
            self._free[start].append(end)
            start = self._build(node.node, self._branch(start))
        self._free[start].append(end)
        return end

    def _branch(self, start: int) -> int:
        """A state of its own, so that what is built from it cannot be entered from elsewhere."""
        fresh = self._state()
        self._free[start].append(fresh)
        return fresh


_AROUND = {
    (start, end, border): _Around(start, end, border)
    for start in (False, True)
    for end in (False, True)
    for border in (False, True)
}


def _is_word(char: str) -> bool:
    return char == "_" or char.isalnum()


def _remember(memory: dict[K, V], key: K, value: V) -> None:
    if len(memory) >= MOST_REMEMBERED:
        memory.clear()
    memory[key] = value
