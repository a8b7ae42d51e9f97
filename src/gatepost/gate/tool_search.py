"""Which tools fit the words of somebody who looks for one. Pure.

A word counts by where it stands, and the more the fewer tools have it. The index is made once for a list of tools: what
a search costs then depends on its words, and hardly on how many tools there are.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from math import log

from gatepost.tools.call import CatalogEntry

MOST_FOUND = 5
LONGEST_QUERY, MOST_WORDS = 200, 12  # characters and words
LONGEST_DESCRIPTION = 800  # characters that are looked at
LEAST = 0.3  # of the best one's rank
NAME, GROUP, HEAD, REST = 4.0, 2.0, 2.0, 0.7  # what a word counts, by where it stands
BEGINNING = 0.6  # of a word that only begins alike
STEM = 4  # letters that two words must share at least
MOST_ALIKE = 50  # words that begin with one of the query
BEST = 100.0  # for the tool of that very name
USED_WORDS = re.compile(r"[^\W_]+")
SAY_NOTHING = (
    "a an and are as at be by can do does for from get how i in is it me my of on or please so some that the this to"
    " tool tools use want what when which with you your"
)
FILLERS = frozenset(SAY_NOTHING.split())
# What people call it: what tools call it.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "alarm": ("schedule",),
    "audio": ("voice",),
    "chat": ("room",),
    "cron": ("schedule",),
    "domain": ("host", "network"),
    "emoji": ("reaction", "like"),
    "firewall": ("network",),
    "image": ("file",),
    "internet": ("network",),
    "link": ("token", "link"),
    "permission": ("access", "acl", "rule"),
    "picture": ("file",),
    "react": ("reaction", "like"),
    "recurring": ("schedule",),
    "remind": ("schedule",),
    "remove": ("delete",),
    "rights": ("access", "acl"),
    "speak": ("voice", "send"),
    "subagent": ("group", "delegate"),
    "summary": ("history",),
    "website": ("web",),
}


class ToolIndex:
    """The tools of a list, by their words."""

    def __init__(self, entries: Sequence[CatalogEntry]) -> None:
        self._entries = entries
        self._places: dict[str, dict[int, float]] = {}  # by word: what it counts for a tool
        for place, entry in enumerate(entries):
            for word, weight in _weigh(entry.name, entry.group, entry.description[:LONGEST_DESCRIPTION]):
                weights = self._places.setdefault(word, {})
                weights[place] = max(weights.get(place, 0.0), weight)
        self._words = sorted(self._places)

    def find(self, words: Sequence[str]) -> list[CatalogEntry]:
        """Return the tools that fit best, the best first."""
        ranks: dict[int, float] = {}
        for word in words:
            weights = self._find_weights(word)
            rarity = log(1 + len(self._entries) / len(weights)) if weights else 0.0
            for place, weight in weights.items():
                ranks[place] = ranks.get(place, 0.0) + weight * rarity
        name = "_".join(words)
        ranks = {at: rank + BEST * (self._stems_of(at) == name) for at, rank in ranks.items()}
        best = sorted(ranks, key=lambda at: (-ranks[at], self._entries[at].name))[:MOST_FOUND]
        return [self._entries[at] for at in best if ranks[at] >= LEAST * ranks[best[0]]]

    def _stems_of(self, place: int) -> str:
        return "_".join(_split(self._entries[place].name))

    def _find_weights(self, word: str) -> dict[int, float]:
        found = dict(self._places.get(word, {}))
        for other in self._list_alike(word):
            for place, weight in self._places[other].items():
                found[place] = max(found.get(place, 0.0), BEGINNING * weight)
        return found

    def _list_alike(self, word: str) -> Iterator[str]:
        """Words that begin with this one, and those that this one begins with."""
        if len(word) < STEM:
            return
        at = bisect_left(self._words, word)
        for other in islice(self._words, at, at + MOST_ALIKE):
            if not other.startswith(word):
                break
            if other != word:
                yield other
        yield from (word[:size] for size in range(STEM, len(word)) if word[:size] in self._places)


def read_words(query: str) -> tuple[str, ...]:
    """Return the words that say something, as tools may call them."""
    said = _split(query[:LONGEST_QUERY])
    asked = [word for word in said if word not in FILLERS] or list(said)
    meant = [each for word in asked for each in (word, *_find_synonyms(word))]
    return tuple(dict.fromkeys(meant))[:MOST_WORDS]


def list_subjects(entries: Sequence[CatalogEntry]) -> dict[str, list[str]]:
    """Return the names of tools by their subject."""
    subjects: dict[str, list[str]] = {}
    for each in entries:
        subjects.setdefault(each.group, []).append(each.name)
    return dict(sorted(subjects.items()))


@lru_cache(maxsize=4096)
def _weigh(name: str, group: str, description: str) -> tuple[tuple[str, float], ...]:
    """The same after a change of the rules, when the index is made anew."""
    head, _, rest = description.partition("\n\n")
    parts = ((name, NAME), (group, GROUP), (head, HEAD), (rest, REST))
    return tuple((word, weight) for text, weight in parts for word in _split(text) if word not in FILLERS)


def _split(text: str) -> tuple[str, ...]:
    return tuple(_find_stem(word) for word in USED_WORDS.findall(text.lower()))


def _find_stem(word: str) -> str:
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= STEM - 1:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


def _find_synonyms(word: str) -> tuple[str, ...]:
    found = (meant for said, meant in SYNONYMS.items() if _begin_alike(said, word))
    return tuple(_find_stem(each) for meant in found for each in meant)


def _begin_alike(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= STEM and long.startswith(short)
