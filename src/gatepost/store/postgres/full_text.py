"""Full text on PostgreSQL: a text as a `tsvector` of its words, a query's tree as the text of a `tsquery`.

SQLite's own tokenizer finds the words. A lexeme has at most 2046 bytes and 255 places. A longer word is cut and told
apart by its digest. Further places go to a lexeme of their own, the word with a sign behind it that no word has. Marks
begin with a sign, too. The first word of a text has weight A, so that a query can ask for it.

PostgreSQL has no NEAR. It becomes alternatives, one for each distance. The index looks for a simpler query
(`render_for_index`), which finds at least as much; the exact one then judges the rows.

In a phrase, PostgreSQL's `&` and `|` are about places: both begin at the same one, or either does.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from struct import Struct

from gatepost.store.engine.full_text import LOOKED_AT, IndexedText, list_marks, list_words, separate_characters
from gatepost.store.engine.query_tree import Combined, NearPhrases, QueryNode, QueryOperator, QueryWord
from gatepost.store.postgres.values import TsVector

LONGEST_WORD = 1900  # bytes
PLACES = 255  # of one lexeme
FURTHER, MARK, CUT = "\x01", "\x02", "\x03"
_FIRST = 3 << 14  # weight A

_COUNT, _PLACES = Struct("!i"), Struct("!H")

Phrase = tuple[QueryWord, ...]


def make_lexeme(word: str) -> str:
    data = word.encode()
    if len(data) <= LONGEST_WORD:
        return word
    return cut_word(word) + CUT + hashlib.blake2b(data, digest_size=8).hexdigest()


def cut_word(word: str) -> str:
    return word.encode()[:LONGEST_WORD].decode(errors="ignore")


def make_vector(text: IndexedText) -> TsVector:
    places: dict[str, list[int]] = {}
    words = list_words(separate_characters(text.text[:LOOKED_AT]))
    for place, word in enumerate(words, 1):
        places.setdefault(word, []).append(place if place > 1 else place | _FIRST)
    lexemes: dict[str, Sequence[int]] = {f"{MARK}{mark}": () for mark in list_marks(text)}
    for word, found in places.items():
        lexeme = make_lexeme(word)
        lexemes[lexeme] = found[:PLACES]
        for part, at in enumerate(range(PLACES, len(found), PLACES)):
            lexemes[f"{lexeme}{FURTHER}{part}"] = found[at : at + PLACES]
    return _encode(lexemes)


def _encode(lexemes: dict[str, Sequence[int]]) -> TsVector:
    """As it travels."""
    out = [_COUNT.pack(len(lexemes))]
    for lexeme, places in lexemes.items():
        out += [lexeme.encode(), b"\0", _PLACES.pack(len(places)), Struct(f"!{len(places)}H").pack(*places)]
    return TsVector(b"".join(out))


def render_exact(node: QueryNode) -> str:
    """'' if nothing can match."""
    if isinstance(node, Combined):
        return _combine(node.operator, [render_exact(part) for part in node.parts])
    return _render_near(node)


def render_for_index(node: QueryNode, *, more: bool = True) -> str:
    """Without NEAR. `more`: it matches wherever the exact one does; else it matches nowhere else."""
    if isinstance(node, Combined):
        turned = node.operator is QueryOperator.NOT
        sides = [more != (turned and at > 0) for at in range(len(node.parts))]
        parts = zip(node.parts, sides, strict=True)
        return _combine(node.operator, [render_for_index(part, more=side) for part, side in parts])
    if len(node.phrases) < 2:
        return _render_near(node)
    return _combine(QueryOperator.AND, map(_render_phrase, node.phrases)) if more else ""


def render_marks(marks: Sequence[Sequence[str]]) -> list[str]:
    """For each: one of them."""
    return [_either(_quote(f"{MARK}{mark}") for mark in words) for words in marks]


def _combine(operator: QueryOperator, parts: Iterable[str]) -> str:
    given = list(parts)
    if operator is QueryOperator.OR:
        return _either(filter(None, given))
    if operator is QueryOperator.NOT:
        left, right = given
        return f"({left} & !{right})" if left and right else left
    return f"({' & '.join(given)})" if all(given) else ""


def _either(parts: Iterable[str]) -> str:
    given = list(dict.fromkeys(parts))
    return f"({' | '.join(given)})" if len(given) > 1 else "".join(given)


def _render_near(near: NearPhrases) -> str:
    phrases = near.phrases
    if not phrases or not all(phrases):
        return ""
    if len(phrases) == 1:
        return _render_phrase(phrases[0], first=near.first)
    if near.is_everywhere:
        return _combine(QueryOperator.AND, map(_render_phrase, phrases))
    return _render_anchored(near) if near.is_even else _render_each(near)


def _render_anchored(near: NearPhrases) -> str:
    """One of the phrases is the first, and each other one begins within reach of its beginning."""
    anchored = []
    for at, anchor in enumerate(near.phrases):
        reach = range(len(anchor) + near.distance + 1)
        others = [*near.phrases[:at], *near.phrases[at + 1 :]]
        within = [_either(filter(None, (_overlay((0, anchor), (by, other)) for by in reach))) for other in others]
        # At the same place as its first word: without that, `&` would be about the whole text.
        anchored.append(within[0] if len(within) == 1 else f"({_render_word(anchor[0])} <0> ({' & '.join(within)}))")
    return _either(anchored)


def _render_each(near: NearPhrases) -> str:
    """Phrases of several lengths: each way in which they can lie before the one that begins last."""
    found: list[str] = []
    for at, last in enumerate(near.phrases):
        others = [*near.phrases[:at], *near.phrases[at + 1 :]]
        offsets = product(*(range(len(other) + near.distance + 1) for other in others))
        found += [_overlay((0, last), *zip((-by for by in each), others, strict=True)) for each in offsets]
    return _either(filter(None, found))


def _overlay(*placed: tuple[int, Phrase]) -> str:
    """Phrases at places, as one; '' if two words would be at one place."""
    words: dict[int, QueryWord] = {}
    for start, phrase in placed:
        for place, word in enumerate(phrase, start):
            both = _unite(words.get(place, word), word)
            if both is None:
                return ""
            words[place] = both
    places = sorted(words)
    out = [_render_word(words[places[0]])]
    for before, place in pairwise(places):
        out.append(f" <{place - before}> {_render_word(words[place])}")
    return f"({''.join(out)})"


def _unite(one: QueryWord, other: QueryWord) -> QueryWord | None:
    """Return what is both; None if no word is."""
    short, long = sorted((one, other), key=lambda each: (len(each.word), not each.prefix))
    fits = short.word == long.word or (short.prefix and long.word.startswith(short.word))
    return long if fits else None


def _render_phrase(phrase: Phrase, *, first: bool = False) -> str:
    if len(phrase) == 1:  # the further places of a word are nobody's without its first ones
        return _quote_word(phrase[0], "A" if first else "")
    start = _quote_word(phrase[0], "A") if first else _render_word(phrase[0])
    return f"({' <-> '.join([start, *map(_render_word, phrase[1:])])})"


def _render_word(word: QueryWord) -> str:
    """At any of its places."""
    if word.prefix:
        return _quote_word(word)
    return f"({_quote_word(word)} | {_quote(make_lexeme(word.word) + FURTHER)}:*)"


def _quote_word(word: QueryWord, weight: str = "") -> str:
    """The beginning of a word longer than those that are kept whole finds all that begin like what is kept of it."""
    if word.prefix:
        return f"{_quote(cut_word(word.word))}:*{weight}"
    return _quote(make_lexeme(word.word)) + (f":{weight}" if weight else "")


def _quote(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
