"""Which words of two texts differ. Texts that are too large to compare are shown without marks."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby

from gatepost.serve.web.dashboard.view import TextPart

MOST_WORDS = 1000  # of each text: comparing takes the product of both at worst
_WORDS = re.compile(r"\s+|[^\s]+")


def mark_difference(before: str, after: str) -> tuple[list[TextPart], list[TextPart]]:
    old, new = _split(before), _split(after)
    if old is None or new is None or before == after:
        return [TextPart(before)], [TextPart(after)]
    same = SequenceMatcher(None, old, new, autojunk=True).get_matching_blocks()
    kept_old = {each.a + step for each in same for step in range(each.size)}
    kept_new = {each.b + step for each in same for step in range(each.size)}
    return _join(old, kept_old), _join(new, kept_new)


def _split(text: str) -> list[str] | None:
    words = [found[0] for _, found in zip(range(MOST_WORDS + 1), _WORDS.finditer(text), strict=False)]
    return words if len(words) <= MOST_WORDS else None


def _join(words: Sequence[str], kept: set[int]) -> list[TextPart]:
    runs = groupby(enumerate(words), key=lambda each: each[0] in kept)
    return [TextPart("".join(word for _, word in run), not same) for same, run in runs]
