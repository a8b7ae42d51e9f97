"""A query of FTS5 as a tree. Only what FTS5 has accepted is parsed here: what is wrong with a query, FTS5 says.

Its grammar: implicit AND binds words most, then NOT, AND, OR. Words that the tokenizer finds nothing in are left out of
an implicit AND and of NEAR; elsewhere they match nothing.
"""

from collections.abc import Iterator
from enum import StrEnum
from math import prod

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.core.late_pattern import late_pattern
from gatepost.store.engine.full_text import LOOKED_AT, list_words

DISTANCE = 10  # of NEAR, if it names none
MOST_NEAR = 4_000  # words that the alternatives of all NEAR of a query have together
COLUMN = "text"

_TOKEN = late_pattern(r'"((?:[^"]|"")*)"|([A-Za-z0-9_\x1a\x80-\U0010ffff]+)|([(){}:,+*^-])')


class QueryOperator(StrEnum):
    OR = "OR"
    AND = "AND"
    NOT = "NOT"


_BINDS = {QueryOperator.OR: 1, QueryOperator.AND: 2, QueryOperator.NOT: 3}


class QueryWord(Struct, frozen=True):
    word: str
    prefix: bool = False  # it is only the beginning of one


class NearPhrases(Struct, frozen=True):
    """One phrase, or several near one another. No phrase at all: nothing matches."""

    phrases: tuple[tuple[QueryWord, ...], ...]
    distance: int = DISTANCE
    first: bool = False  # the text begins with it

    @property
    def is_everywhere(self) -> bool:
        """No two words of a text are further apart."""
        return self.distance >= LOOKED_AT

    @property
    def is_even(self) -> bool:
        """Then those that begin within one distance of the first are near one another."""
        return len(self.phrases) == 2 or len({len(each) for each in self.phrases}) == 1

    def count_words(self) -> int:
        """Count the words of all alternatives that say the same without NEAR."""
        if len(self.phrases) < 2 or self.is_everywhere:
            return sum(map(len, self.phrases))
        reach = [len(each) + self.distance + 1 for each in self.phrases]
        if self.is_even:
            longest = max(map(len, self.phrases))
            return sum(reach) * (len(reach) - 1) * 2 * longest
        return sum(prod(reach) // each for each in reach) * sum(map(len, self.phrases))


class Combined(Struct, frozen=True):
    operator: QueryOperator
    parts: tuple["QueryNode", ...]


QueryNode = NearPhrases | Combined
NOTHING = NearPhrases(())
NOWHERE = NearPhrases(((),))  # looked for where there is nothing: it is not left out


class _Token(Struct, frozen=True):
    sign: str  # '' for a word or a string
    text: str = ""
    quoted: bool = False


class _Bracket(Struct, frozen=True):
    elsewhere: bool = False  # what stands in it is looked for in no column


def parse_query(query: str) -> QueryNode:
    """Invalid: what it asks of NEAR would take too long on one of the engines, so on none it may."""
    found = _Parser(query).parse()
    if sum(near.count_words() for near in list_near(found) if len(near.phrases) > 1) > MOST_NEAR:
        raise Invalid("query", "asks too much of NEAR; give it fewer words or a smaller number")
    return found


def list_near(node: QueryNode) -> Iterator[NearPhrases]:
    if isinstance(node, NearPhrases):
        yield node
        return
    for part in node.parts:
        yield from list_near(part)


class _Parser:
    """Operators wait on a stack, so that a query of brackets alone needs no stack of Python's."""

    def __init__(self, query: str) -> None:
        self._tokens = [*_split(query), _Token("end")]
        self._at = 0
        self._values: list[QueryNode] = []
        self._waiting: list[QueryOperator | _Bracket] = []

    def parse(self) -> QueryNode:
        while not self._is_sign("end"):
            if self._is_sign("("):
                self._next()
                self._waiting.append(_Bracket())
            elif self._is_sign(")"):
                self._next()
                self._close()
            elif (operator := self._find_operator()) is not None:
                self._next()
                self._reduce(_BINDS[operator])
                self._waiting.append(operator)
            else:
                self._read_operands()
        self._reduce(0)
        return self._values[0]

    def _find_operator(self) -> QueryOperator | None:
        token = self._tokens[self._at]
        is_one = not token.sign and not token.quoted and token.text in QueryOperator.__members__
        return QueryOperator(token.text) if is_one else None

    def _close(self) -> None:
        self._reduce(0)
        bracket = self._waiting.pop()
        if isinstance(bracket, _Bracket) and bracket.elsewhere:
            self._values[-1] = NOTHING

    def _reduce(self, binds: int) -> None:
        """Combine what binds at least so much."""
        while self._waiting:
            operator = self._waiting[-1]
            if isinstance(operator, _Bracket) or _BINDS[operator] < binds:
                break
            self._waiting.pop()
            right, left = self._values.pop(), self._values.pop()
            self._values.append(_combine(operator, left, right))

    def _read_operands(self) -> None:
        """Words and phrases side by side: all of them are asked for. Before a bracket there may be a column."""
        found: list[QueryNode] = []
        while self._starts_operand():
            elsewhere = self._read_column()
            if self._is_sign("("):
                self._next()
                self._waiting.append(_Bracket(elsewhere))
                return
            operand = self._read_operand()
            if operand.phrases:
                found.append(NOWHERE if elsewhere else operand)
        both = QueryOperator.AND
        self._values.append(NOTHING if not found else found[0] if len(found) == 1 else Combined(both, tuple(found)))

    def _starts_operand(self) -> bool:
        return self._tokens[self._at].sign in ("", "^", "{", "-") and self._find_operator() is None

    def _read_column(self) -> bool:
        """Return True if what follows is looked for elsewhere than in the text."""
        minus, names = self._is_sign("-"), {COLUMN}
        if minus:
            self._next()
        if self._is_sign("{"):
            self._next()
            names = set()
            while not self._is_sign("}"):
                names.add(self._next().text.lower())
            self._next()
        elif not self._tokens[self._at].sign and self._tokens[self._at + 1].sign == ":":
            names = {self._next().text.lower()}
        else:
            return False
        self._next()  # the colon
        return (COLUMN in names) == minus

    def _read_operand(self) -> NearPhrases:
        if self._is_sign("^"):
            self._next()
            return _make_near([self._read_phrase()], first=True)
        token = self._tokens[self._at]
        if token.quoted or token.text != "NEAR" or self._tokens[self._at + 1].sign != "(":
            return _make_near([self._read_phrase()])
        self._at += 2
        phrases, distance = [], DISTANCE
        while not self._is_sign(")"):
            if self._is_sign(","):
                self._next()
                distance = int(self._next().text)
            else:
                phrases.append(self._read_phrase())
        self._next()
        return _make_near(phrases, distance)

    def _read_phrase(self) -> tuple[QueryWord, ...]:
        words: list[QueryWord] = []
        while True:
            words += [QueryWord(each) for each in list_words(self._next().text)]
            prefix = self._is_sign("*")
            if prefix:
                self._next()
            if words:
                words[-1] = QueryWord(words[-1].word, prefix)
            if not self._is_sign("+"):
                return tuple(words)
            self._next()

    def _is_sign(self, sign: str) -> bool:
        return self._tokens[self._at].sign == sign

    def _next(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]


def _split(query: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(query):
        quoted, bare, sign = found.groups()
        if sign is not None:
            yield _Token(sign)
        elif bare is not None:
            yield _Token("", bare)
        else:
            yield _Token("", quoted.replace('""', '"'), quoted=True)


def _make_near(phrases: list[tuple[QueryWord, ...]], distance: int = DISTANCE, *, first: bool = False) -> NearPhrases:
    return NearPhrases(tuple(each for each in phrases if each), distance, first)


def _combine(operator: QueryOperator, left: QueryNode, right: QueryNode) -> QueryNode:
    """One node of many parts where that is the same: a long query is no deep one."""
    if operator is QueryOperator.NOT:
        return Combined(operator, (left, right))
    parts: list[QueryNode] = []
    for each in (left, right):
        parts += each.parts if isinstance(each, Combined) and each.operator is operator else (each,)
    return Combined(operator, tuple(parts))
