"""Globs over the `/` segments of an address: `*`, `?` and `[…]` stay within a segment, `**` covers any number of them,
also none; `a|b` is either; a lone `*` means: there is something.

A glob is compiled once, and matching takes time that is bounded by the value's length squared at worst: between two
stars the leftmost fit is kept (an atomic group), so that no pattern can make the expression search exponentially.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from gatepost.core.errors import Invalid

LONGEST = 512
MOST_DOUBLE_STARS = 4  # in one alternative; each of `/**` doubles the number of forms

Matcher = Callable[[str], bool]

_ONE, _ANY, _ALL = "one", "any", "all"  # one character, `*`, `**`
_CLASS = re.compile(r"\[([!^]?)(\]?[^\]]*)\]")


class _Token(NamedTuple):
    kind: str
    expression: str = ""


@lru_cache(maxsize=4096)
def compile_glob(pattern: str, plain: bool = False) -> Matcher:
    """The function that tells whether a value fits. `plain`: the value has no segments (text), `*` covers all of it.

    An empty value fits nothing: that a value is absent is said with `key=`, not with a glob.
    """
    if len(pattern) > LONGEST:
        raise Invalid("match", f"a pattern of {len(pattern)} characters is too long; at most {LONGEST} are possible")
    if pattern == "*":
        return bool
    alternatives = split_alternatives(pattern)
    if all(alternative and not set(alternative) & set("*?[") for alternative in alternatives):
        return frozenset(alternatives).__contains__
    forms = [form for alternative in alternatives for form in _forms(alternative, plain)]
    fits = re.compile("|".join(_expression(form, plain) for form in forms), re.DOTALL).fullmatch
    return lambda value: value != "" and fits(value) is not None


def split_alternatives(pattern: str) -> list[str]:
    """Cut at each `|` that is not inside `[…]`; an empty alternative or an open `[` is refused."""
    parts = [""]
    at = 0
    while at < len(pattern):
        if pattern[at] == "[":
            found = _CLASS.match(pattern, at)
            if found is None:
                raise Invalid(
                    "match", f"the pattern {pattern!r} has a '[' without its ']'; write [[] for the character"
                )
            parts[-1] += found.group()
            at = found.end()
            continue
        if pattern[at] == "|":
            parts.append("")
        else:
            parts[-1] += pattern[at]
        at += 1
    if "" in parts:
        raise Invalid("match", f"the pattern {pattern!r} has an empty alternative; write key= alone for 'absent'")
    return parts


def _forms(alternative: str, plain: bool) -> list[list[_Token]]:
    """The token lists of one alternative. `a/**` is `a` or `a/` and anything, so one glob may have several forms."""
    if plain:
        return [_tokens(alternative, plain)]
    marks = re.findall(r"\*\*+", alternative)
    if len(marks) > MOST_DOUBLE_STARS:
        raise Invalid("match", f"the pattern {alternative!r} has more than {MOST_DOUBLE_STARS} '**'")
    texts = [""]
    segments = re.sub(r"\*\*+", "**", alternative).split("/")
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        joint = "" if last else "/"
        if segment == "**" and len(segments) > 1:
            without = [text.removesuffix("/") for text in texts] if last else texts
            texts = [*without, *(f"{text}**{joint}" for text in texts)]
        else:
            texts = [f"{text}{segment}{joint}" for text in texts]
    return [_tokens(text, plain) for text in dict.fromkeys(texts) if text]


def _tokens(text: str, plain: bool) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "*":
            run = len(text) - at - len(text[at:].lstrip("*"))
            tokens.append(_Token(_ALL if plain or run > 1 else _ANY))
            at += run
        elif char == "[":
            found = _CLASS.match(text, at)
            assert found is not None  # split_alternatives has refused the others
            tokens.append(_Token(_ONE, _class(found, plain)))
            at = found.end()
        else:
            wild = "." if plain else "[^/]"
            tokens.append(_Token(_ONE, wild if char == "?" else re.escape(char)))
            at += 1
    return tokens


def _class(found: re.Match[str], plain: bool) -> str:
    negated, inner = found.groups()
    if not inner:
        raise Invalid("match", f"{found.group()!r} names no character")
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", inner)
    expression = f"[{'^' if negated else ''}{escaped}]"
    try:
        re.compile(expression)
    except re.error as error:
        raise Invalid("match", f"{found.group()!r} is not a set of characters: {error}") from None
    return expression if plain else f"(?!/){expression}"


def _expression(tokens: list[_Token], plain: bool) -> str:
    """`**` splits the tokens into stretches, `*` splits a stretch into pieces. Every stretch and piece but the last may
    keep its leftmost fit, because what follows its star can still reach everything to the right of it."""
    stretches = _split(tokens, _ALL)
    out = _stretch(stretches[0], anchored=len(stretches) == 1)
    for index, stretch in enumerate(stretches[1:], 1):
        last = index == len(stretches) - 1
        out += f".*{_stretch(stretch, anchored=True)}" if last else f"(?>.*?{_stretch(stretch, anchored=False)})"
    return f"(?:{out})"


def _stretch(tokens: list[_Token], *, anchored: bool) -> str:
    pieces = ["".join(token.expression for token in piece) for piece in _split(tokens, _ANY)]
    out = pieces[0]
    for index, piece in enumerate(pieces[1:], 1):
        last = index == len(pieces) - 1
        out += f"[^/]*{piece}" if last and anchored else f"(?>[^/]*?{piece})"
    return out + (r"\Z" if anchored else "")


def _split(tokens: list[_Token], kind: str) -> list[list[_Token]]:
    parts: list[list[_Token]] = [[]]
    for token in tokens:
        if token.kind == kind:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
