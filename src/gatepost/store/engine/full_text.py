"""Full text, as the two engines have it: how words are told apart, and what an engine's index has to offer.

Scripts without blanks between words are indexed by character, so that any part of them is found; the same is done to a
query. Each message also has marks, words for its room and its sender, so that a common word is looked up only where
the caller may read.
"""

import hashlib
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import apsw
from msgspec import Struct

from gatepost.core.late_pattern import late_pattern
from gatepost.store.messages.snippets import GAP
from gatepost.store.port import Db

LOOKED_AT = 16_383  # characters of a message, from its beginning, that are indexed; a tsvector has as many places
TOKENIZER = ("unicode61", "remove_diacritics", "2")

_SPACELESS = (  # Chinese, Japanese, Korean: what is written without blanks, or with endings grown to the word
    r"\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7ff"
    r"\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
_BORDER = late_pattern(rf"(?<=[{_SPACELESS}])(?=\w)|(?<=\w)(?=[{_SPACELESS}])")
_local = threading.local()


class TextCondition(Struct, frozen=True):
    """A condition on a row `f` of the index, and its parameters."""

    sql: str
    params: tuple[Any, ...]


class IndexedText(Struct, frozen=True):
    """Facts of a message that the index has to know."""

    message_id: int
    instance: str
    address: str
    sender: str
    text: str


class FullText(Protocol):
    """An engine's index. `source` is its rows `f` with their messages `m`; `key` is the message's id in a row `f`."""

    @property
    def source(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def sees_new(self) -> bool:
        """Return True if the engine itself notes new messages, so that nobody has to add them."""
        ...

    def prepare(self, db: Db) -> None:
        """Prepare for a search."""
        ...

    def match(self, query: str, marks: Sequence[Sequence[str]]) -> TextCondition:
        """Return the condition for a query that FTS5 understands, '' for any text. A message has at least one of each
        of `marks`."""
        ...

    def add(self, db: Db, texts: Sequence[IndexedText]) -> None:
        """Index messages that are new. Not to be called where `sees_new`."""
        ...

    def renew(self, db: Db, message_id: int) -> None:
        """Index a message anew whose text or sender was changed."""
        ...

    def index(self, db: Db, most: int) -> int:
        """Write so many that wait into the index; how many there were."""
        ...

    def is_behind(self, db: Db) -> bool: ...

    def list_unindexed(self, db: Db, most: int) -> list[tuple[int, str]]:
        """Return (message, text) of the newest that wait to be indexed."""
        ...

    def merge(self, db: Db, pages: int) -> bool:
        """Work on so many pages, which lets go of what was deleted; fewer than none starts anew. True if there is
        more to do."""
        ...


def list_words(text: str) -> list[str]:
    """Return the words folded, in their order. `text`: its characters are set apart already."""
    tokenizer: apsw.FTS5Tokenizer | None = getattr(_local, "tokenizer", None)
    if tokenizer is None:  # one for each thread
        name, *options = TOKENIZER
        _local.connection = apsw.Connection(":memory:")
        tokenizer = _local.tokenizer = _local.connection.fts5_tokenizer(name, options)
    found = tokenizer(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False)
    return [str(word) for word in found]


def separate_characters(text: str) -> str:
    """Return the text with each character of a script without blanks set apart."""
    return text if text.isascii() else _BORDER.sub(GAP, text)


def make_mark(kind: str, *named: str) -> str:
    """Return one word for a room or a sender. Two with the same do no harm: the query looks at the rows as well."""
    return kind + hashlib.blake2b("|".join(named).encode(), digest_size=8).hexdigest()


def list_marks(text: IndexedText) -> tuple[str, str]:
    return make_mark("r", text.instance, text.address), make_mark("s", text.sender)
