"""The words of a text that a query found, and the part of the text that shows them.

SQLite's own `snippet` takes time by the square of the hits: one long message of one word held it for half a minute.
Here a search looks at so many characters of all its texts and no more; what it does not come to is shown from its
beginning.
"""

import unicodedata

from gatepost.core.late_pattern import late_pattern

TOKENS = 32  # words that are shown
LONGEST = 4000  # characters of one text that are ranked
LOOKED_AT = 256 * 1024  # characters, in one search
MOST_PHRASES = 32
LEAD = 8  # words that are shown before what was found
GAP = "\u200b"  # between characters that are words of their own: never shown, and no letter to the tokenizer

_WORD = late_pattern(r"(?:[^\W_]|[\u0300-\u036f])+")
_ASKED = late_pattern(r',\s*\d+\s*(?=\))|"((?:[^"]|"")*)"\s*(\*?)|([^\s"()*+:,^{}-]+)\s*(\*?)')
_OPERATORS = frozenset(("AND", "OR", "NOT", "NEAR"))

PhraseHit = tuple[int, int, int]  # from word, up to word, which phrase
Phrase = tuple[tuple[str, ...], bool]  # its words; whether the last is only the beginning of one


class SnippetFinder:
    """One search's look at the texts that were found."""

    def __init__(self, query: str) -> None:
        self.left = LOOKED_AT
        self._phrases = _parse_phrases(query)
        self._ends: dict[str, list[int]] = {}
        for number, (words, prefix) in enumerate(self._phrases):
            if not prefix:
                self._ends.setdefault(words[-1], []).append(number)
        self._beginnings = tuple(words[-1] for words, prefix in self._phrases if prefix)

    def around(self, text: str) -> str:
        """So much of a text as is ranked: where the first hit is."""
        if len(text) <= LONGEST:
            return text
        spans, hits, _ = self._scan(text, 0)
        start = max(0, spans[hits[0][0]][0] - LONGEST // 4) if hits else 0
        return text[start : start + LONGEST]

    def snippet(self, text: str, cut: tuple[bool, bool] = (False, False)) -> str:
        """The `TOKENS` words that show most of what was asked for, «marked». `cut`: something is before, behind it."""
        spans, hits, whole = self._scan(text, 2 * TOKENS)
        start = self._best(hits)
        shown = spans[start : start + TOKENS]
        if not shown:
            return text[:LONGEST].replace(GAP, "")
        from_start, to_end = start == 0, whole and start + TOKENS >= len(spans)
        begin, end = (0 if from_start else shown[0][0]), (len(text) if to_end else shown[-1][1])
        out, at = ["…" if cut[0] or not from_start else ""], begin
        for first, last in _merge_hits(hits, start, start + len(shown)):
            out += [text[at : spans[first][0]], "«", text[spans[first][0] : spans[last - 1][1]], "»"]
            at = spans[last - 1][1]
        out += [text[at:end], "…" if cut[1] or not to_end else ""]
        return "".join(out).replace(GAP, "")

    def _scan(self, text: str, on: int) -> tuple[list[tuple[int, int]], list[PhraseHit], bool]:
        """The words up to `on` after the first hit, what was found in them, and whether that was all of them."""
        words: list[str] = []
        spans: list[tuple[int, int]] = []
        hits: list[PhraseHit] = []
        at, end = 0, max(0, self.left)
        for found in _WORD.finditer(text, 0, min(len(text), end)):
            word, at = _fold(found.group()), found.end()
            words.append(word)
            spans.append(found.span())
            hits += self._ending(words)
            if hits and len(words) >= hits[0][0] + on:
                break
        else:
            at = len(text)
        self.left -= min(at, end)
        return spans, hits, at == len(text) <= end

    def _ending(self, words: list[str]) -> list[PhraseHit]:
        """The phrases that end with the last word."""
        last, count = words[-1], len(words)
        numbers = self._ends.get(last, [])
        if self._beginnings and last.startswith(self._beginnings):
            phrases = enumerate(self._phrases)
            numbers = numbers + [n for n, (asked, prefix) in phrases if prefix and last.startswith(asked[-1])]
        found = []
        for number in numbers:
            asked = self._phrases[number][0]
            if tuple(words[count - len(asked) : count - 1]) == asked[:-1]:
                found.append((count - len(asked), count, number))
        return found

    def _best(self, hits: list[PhraseHit]) -> int:
        """Return where to begin, so that most of the phrases are shown; of equal places the first."""
        starts = [0, *(max(0, first - LEAD) for first, _, _ in hits[:TOKENS])]

        def shown(start: int) -> int:
            return len({number for first, last, number in hits if start <= first and last <= start + TOKENS})

        return max(starts, key=shown)


def _parse_phrases(query: str) -> list[Phrase]:
    found: list[Phrase] = []
    for asked in _ASKED.finditer(query):
        quoted, star, bare, bare_star = asked.groups()
        if bare in _OPERATORS or (quoted is None and bare is None):
            continue
        words = tuple(_fold(word) for word in _WORD.findall(bare or quoted.replace('""', '"')))
        if words and len(found) < MOST_PHRASES:
            found.append((words, bool(star or bare_star)))
    return found


def _fold(word: str) -> str:
    if word.isascii():
        return word.lower()
    plain = (char for char in unicodedata.normalize("NFD", word) if not "\u0300" <= char <= "\u036f")
    return "".join(plain).lower()


def _merge_hits(hits: list[PhraseHit], start: int, end: int) -> list[tuple[int, int]]:
    """Return what is marked between two words; of what overlaps one mark is made."""
    out: list[tuple[int, int]] = []
    for first, last, _ in sorted(hits):
        if first < start or last > end:
            continue
        if out and first < out[-1][1]:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return out
