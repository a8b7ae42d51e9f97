"""The texts of one language. A text is found by its English words: as a whole, else by an entry with holes, such as
`{n} messages wait`, else sentence by sentence. So texts stay readable where they are made, also those that were kept in
the store or came from another process; what has no entry stays English.

A text may carry words of strangers in its holes. So each entry is tried in linear time, and only if it begins or ends
with the same word.

Translations come from gettext's PO files, which translators' programs write. Headers, comments and plural forms have no
meaning here: where a number changes a text, English has two texts already.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from gatepost.core.errors import SetupError
from gatepost.core.late_pattern import late_pattern

ENGLISH = "en"
FOLDER = Path(__file__).parent
NAMES = {"en": "English", "de": "Deutsch"}  # as those who speak it write it
LONGEST = 4000  # characters; what is longer is no text of ours
NUMBERS = frozenset({"{count}", "{n}", "{number}"})  # holes in which a number stands
MOST_PARTS = 100
FEWEST = 4  # letters of an entry beside its holes: `{a} of {b}` would be found in too much
DEEPEST = 2  # phrases in phrases
_HOLE = re.compile(r"((?:\{[a-z_0-9]*\})+)")  # those that stand together are one
_BETWEEN = re.compile(r"(\n+|(?<=[.!?;:])\s+)")  # lines and sentences
_END = re.compile(r"[.!?]\s")
_MONEY = re.compile(r"\$([\d,]*\d)(\.\d+)?\Z")
_QUOTED = late_pattern(r'"((?:[^"\\]|\\.)*)"\s*\Z')
_ESCAPED = late_pattern(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

current_language: ContextVar[str] = ContextVar("current_language", default=ENGLISH)


class Entry:
    """An English text with holes, and its translation."""

    def __init__(self, english: str, other: str) -> None:
        self._literals = tuple(_HOLE.split(english)[::2])
        self._names = tuple(_HOLE.findall(english))
        self._other = other

    @property
    def first_word(self) -> str:
        """'' if the text begins with a hole, or with a word that a hole ends."""
        word, space, _ = self._literals[0].partition(" ")
        return word if space else ""

    @property
    def last_word(self) -> str:
        _, space, word = self._literals[-1].rpartition(" ")
        return word if space else ""

    @property
    def letters(self) -> int:
        return sum(map(str.isalpha, "".join(self._literals)))

    @property
    def size(self) -> int:
        return sum(map(len, self._literals))

    def match(self, text: str) -> dict[str, str] | None:
        """Return what stands in the holes; None if this is another text. A hole holds as little as it can, one at the
        begin something, and only one at the end several sentences."""
        first, *others = self._literals
        if not text.startswith(first) or not text.endswith(others[-1]):
            return None
        found, at, last = dict[str, str](), len(first), len(text) - len(others[-1])
        for name, literal in zip(self._names, others[:-1], strict=False):
            end = text.find(literal, at or 1, last)
            if end < 0:
                return None
            if found.setdefault(name, text[at:end]) != text[at:end]:
                return None  # two holes of one name hold different words
            at = end + len(literal)
        if last < (at or 1) or any(_END.search(each) for each in found.values()):
            return None
        if found.setdefault(self._names[-1], text[at:last]) != text[at:last]:
            return None
        if any(name in NUMBERS and not any(map(str.isdigit, value)) for name, value in found.items()):
            return None
        return found if len(others[-1]) < 2 or not _END.search(text, at, last) else None

    def fill(self, found: Mapping[str, str]) -> str:
        return _HOLE.sub(lambda hole: found.get(hole[1], hole[0]), self._other)


class Catalogue:
    def __init__(self, language: str, texts: Mapping[str, str]) -> None:
        self.language = language
        self._faults = [
            english for english, other in texts.items() if {*_HOLE.findall(english)} != {*_HOLE.findall(other)}
        ]
        self._every = texts
        self._whole = {english: other for english, other in texts.items() if not _HOLE.search(english)}
        self._by_first, self._by_last = dict[str, list[Entry]](), dict[str, list[Entry]]()
        self._others = list[Entry]()
        entries = [Entry(english, other) for english, other in texts.items() if _HOLE.search(english)]
        entries = [each for each in entries if each.letters >= FEWEST]
        for each in sorted(entries, key=lambda entry: -entry.size):  # the most exact one is tried first
            if each.first_word:
                self._by_first.setdefault(each.first_word, []).append(each)
            elif each.last_word:
                self._by_last.setdefault(each.last_word, []).append(each)
            else:
                self._others.append(each)

    def list_faults(self) -> list[str]:
        """Return the English texts whose translation lacks a hole, or has one of its own."""
        return self._faults

    def find_exact(self, text: str) -> str | None:
        """The same, by the entry's own words alone: for a text that may be somebody's, or whose holes are filled
        later."""
        return self._every.get(text)

    def find(self, text: str) -> str | None:
        """None: there is no translation."""
        if not text.strip() or len(text) > LONGEST:
            return None
        for form in (text,) if "\n\n" in text else (text, " ".join(text.split())):  # a paragraph may be wrapped
            if (whole := self._find_whole(form)) is not None:
                return whole
        parts = _BETWEEN.split(text, MOST_PARTS)
        found = [self._find_whole(each) for each in parts] if len(parts) > 1 else []
        if all(each is None for each in found):
            return None
        return "".join(part if each is None else each for each, part in zip(found, parts, strict=True))

    def _find_whole(self, text: str, depth: int = 0) -> str | None:
        if (other := self._whole.get(text)) is not None:
            return other
        for entry in self._list_candidates(text):
            if (found := entry.match(text)) is not None:
                return entry.fill({name: self._translate_part(value, depth) for name, value in found.items()})
        return None

    def _translate_part(self, value: str, depth: int) -> str:
        """Return what stands in a hole: a phrase of ours, such as `send a file`, is translated, too; a name is not."""
        is_phrase = depth < DEEPEST and value[:1].islower() and " " in value
        return (self._find_whole(value, depth + 1) if is_phrase else None) or self.localize(value)

    def _list_candidates(self, text: str) -> Iterator[Entry]:
        yield from self._by_first.get(text.partition(" ")[0], ())
        yield from self._by_last.get(text.rpartition(" ")[2], ())
        yield from self._others

    def localize(self, value: str) -> str:
        """Return an amount of money as it is written in this language; everything else as it is."""
        money = _MONEY.match(value)
        if money is None or self.language == ENGLISH:
            return value
        whole, part = money[1].replace(",", "."), (money[2] or "").replace(".", ",")
        return f"{whole}{part} $"


@cache
def load_catalogue(language: str) -> Catalogue:
    path = FOLDER / f"{language}.po"
    texts = read_po(path.read_text(encoding="utf-8"), path.name) if language != ENGLISH else {}
    return Catalogue(language, texts)


@cache
def list_languages() -> tuple[str, ...]:
    """English, and each that has a file."""
    return (ENGLISH, *sorted(path.stem for path in FOLDER.glob("*.po")))


def translate(text: str, language: str | None = None) -> str:
    """Return one of our texts in a language, or in the one that is set for what is under way."""
    chosen = current_language.get() if language is None else language
    if chosen == ENGLISH or chosen not in list_languages():
        return text
    return load_catalogue(chosen).find(text) or text


def translate_exact(text: str) -> str:
    """Return one of our texts by its own words alone: what is in its holes is put in later."""
    return load_catalogue(current_language.get()).find_exact(text) or text


def fill_text(pattern: str, /, **holes: object) -> str:
    """Fill a text of ours in the language that is set. Its fillings are somebody's words, or were said before.

    Its holes begin with a capital: such an entry is looked up by its own words alone, and found in no other text.
    """
    return translate_exact(pattern).format_map({name.capitalize(): value for name, value in holes.items()})


def translate_phrase(value: object) -> object:
    """Return a value of a table, which is somebody's or ours: a phrase such as `not tried yet` is ours."""
    if not isinstance(value, str) or not value[:1].islower() or " " not in value:
        return value
    return load_catalogue(current_language.get()).find_exact(value) or value


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Have what is made meanwhile speak a language."""
    before = current_language.set(language)
    try:
        yield
    finally:
        current_language.reset(before)


def localize(value: str) -> str:
    """Return an amount of money as it is written in the current language."""
    return load_catalogue(current_language.get()).localize(value)


def choose_language(accepted: str) -> str:
    """Return the language that a browser's Accept-Language header likes best, of those that there are."""
    wishes = list[tuple[float, str]]()
    for each in accepted[:500].split(",")[:20]:
        tag, _, quality = each.partition(";")
        try:
            weight = float(quality.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        wishes.append((-weight, tag.strip().lower().partition("-")[0]))
    known = list_languages()
    return next(
        (tag for weight, tag in sorted(wishes, key=lambda wish: wish[0]) if weight < 0 and tag in known), ENGLISH
    )


def read_po(text: str, name: str) -> dict[str, str]:
    """Return the translations by their English texts. A text that has none, or one that is marked as unsure, is left
    out. `name`: of the file, for errors."""
    found = dict[str, str]()
    for entry in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        if "#, " in entry and re.search(r"^#,.*\bfuzzy\b", entry, re.MULTILINE):
            continue
        parts = dict(_read_parts(entry, name))
        if parts.get("msgid") and parts.get("msgstr"):
            found[parts["msgid"]] = parts["msgstr"]
    return found


def _read_parts(entry: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield each keyword of an entry with its text, which may go on over several lines."""
    keyword, words = "", list[str]()
    for line in entry.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        start, _, _ = line.partition('"')
        quoted = _QUOTED.search(line)
        if quoted is None:
            raise SetupError(f"{name}: this line is neither a keyword with a text nor a text in quotes: {line[:80]}")
        if start.strip():
            if keyword:
                yield keyword, "".join(words)
            keyword, words = start.strip(), []
        words.append(_ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), quoted[1]))
    if keyword:
        yield keyword, "".join(words)
