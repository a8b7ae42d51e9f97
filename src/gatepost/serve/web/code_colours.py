"""Colours of code: comments, strings, numbers and keywords of common languages, as spans with a class.

Agents write the input. One expression for each family of languages reads a text once from left to right, and none of
its parts looks back: the work grows with the length alone. Unknown text stays as it is.
"""

import re
from collections.abc import Callable
from html import escape

_WORD = r"(?P<word>[^\W\d]\w*)"
_NUMBER = r"(?P<n>\d[\w.]*)"
_QUOTED = r""""(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?"""
_TRIPLE = r'"""[\s\S]*?(?:"""|\Z)' + r"|'''[\s\S]*?(?:'''|\Z)"
_BLOCK = r"/\*[\s\S]*?(?:\*/|\Z)"


def _make_family(comment: str, string: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<c>{comment})|(?P<s>{string})|{_NUMBER}|{_WORD}")


_C = _make_family(rf"//[^\n]*|{_BLOCK}", rf"{_QUOTED}|`(?:[^`\\]|\\.)*`?")
_HASH = _make_family(r"#[^\n]*", rf"{_TRIPLE}|{_QUOTED}")
_SQL = _make_family(rf"--[^\n]*|{_BLOCK}", _QUOTED)
_CSS = re.compile(rf"(?P<c>{_BLOCK})|(?P<s>{_QUOTED})|(?P<n>#[0-9a-fA-F]{{3,8}}\b|\d[\w.%]*)|(?P<k>@[\w-]+)")
_TAGS = re.compile(rf"(?P<c><!--[\s\S]*?(?:-->|\Z))|(?P<k></?[\w:-]+|/?>)|(?P<s>{_QUOTED})")
_DIFF = re.compile(r"^(?:(?P<k>@@[^\n]*)|(?P<i>\+[^\n]*)|(?P<d>-[^\n]*))", re.M)

_SCRIPT = (
    "as async await break case catch class const continue default delete do else enum export extends false finally for"
    " from function if implements import in instanceof interface let new null of return static super switch this throw"
    " true try type typeof undefined var void while yield"
)
_SYSTEMS = (
    "abstract auto bool break case catch chan char class const continue crate default defer delete do double dyn else"
    " enum extern false final float fn for func go goto if impl import in int interface let long loop map match mod mut"
    " namespace new nil null override package private protected public pub range return self short signed sizeof static"
    " string struct super switch template this throw trait true try type typedef union unsafe unsigned use using var"
    " virtual void where while"
)
_PYTHON = (
    "and as assert async await break case class continue def del elif else except False finally for from global if"
    " import in is lambda match None nonlocal not or pass raise return True try while with yield"
)
_RUBY = "begin class def do else elsif end ensure false for if in module next nil not or rescue return self then true"
_SHELL = "case do done elif else esac exit export fi for function if in local return set then until while"
_DATABASE = (
    "add all alter and as asc begin between by case check column commit constraint create default delete desc distinct"
    " drop else end exists foreign from group having in index inner insert into is join key left like limit not null on"
    " or order outer primary references returning right rollback select set table then union unique update using values"
    " view when where with"
)
_LITERALS = "false null no off on true yes"

Family = tuple[re.Pattern[str], frozenset[str], Callable[[str], str]]


def _same(word: str) -> str:
    return word


def _list_languages() -> dict[str, Family]:
    families: list[tuple[str, re.Pattern[str], str, Callable[[str], str]]] = [
        ("js javascript jsx ts typescript tsx", _C, _SCRIPT, _same),
        ("c cpp c++ cs csharp go java kotlin php rs rust scala swift zig", _C, _SYSTEMS, _same),
        ("json json5 jsonc", _C, _LITERALS, _same),
        ("py python", _HASH, _PYTHON, _same),
        ("rb ruby", _HASH, _RUBY, _same),
        ("bash console dockerfile make makefile sh shell zsh", _HASH, _SHELL, _same),
        ("ini toml yaml yml", _HASH, _LITERALS, _same),
        ("sql", _SQL, _DATABASE, str.lower),
        ("css", _CSS, "", _same),
        ("html svg xml", _TAGS, "", _same),
        ("diff patch", _DIFF, "", _same),
    ]
    return {
        name: (pattern, frozenset(keywords.split()), fold)
        for names, pattern, keywords, fold in families
        for name in names.split()
    }


_LANGUAGES = _list_languages()


def colour_code(text: str, language: str) -> str | None:
    """Safe HTML of code. None: the language is not known."""
    if language.lower() not in _LANGUAGES:
        return None
    pattern, keywords, fold = _LANGUAGES[language.lower()]
    out: list[str] = []
    end = 0
    for found in pattern.finditer(text):
        kind = found.lastgroup or ""
        if kind == "word":
            if fold(found.group()) not in keywords:
                continue
            kind = "k"
        out += [escape(text[end : found.start()]), f'<span class="{kind}">{escape(found.group())}</span>']
        end = found.end()
    return "".join(out) + escape(text[end:])
