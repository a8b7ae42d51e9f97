"""The words of a text, by SQLite's own tokenizer, and the `tsvector` that is made of them.

PostgreSQL's limits: a lexeme has at most 2046 bytes and 255 places. A longer word is cut and told apart by its digest.
Further places go to a lexeme of their own, the word with a sign behind it that no word has. Marks begin with a sign,
too. The first word of a text has weight A, so that a query can ask for it.
"""

import hashlib
from collections.abc import Sequence
from struct import Struct

from gatepost.store.engine.full_text import LOOKED_AT, IndexedText, list_marks, list_words, separate_characters
from gatepost.store.postgres.values import TsVector

LONGEST_WORD = 1900  # bytes
PLACES = 255  # of one lexeme
FURTHER, MARK, CUT = "\x01", "\x02", "\x03"
_FIRST = 3 << 14  # weight A

_COUNT, _PLACES = Struct("!i"), Struct("!H")


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
