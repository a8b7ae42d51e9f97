"""Colours of code: what is marked, that nothing gets out, and that no text takes long."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.serve.web.code_colours import colour_code

LANGUAGES = ("js", "go", "json", "python", "ruby", "sh", "yaml", "sql", "css", "html", "diff")
_SPAN = re.compile(r"</?span[^>]*>")


@pytest.mark.parametrize(
    ("language", "code", "marked"),
    [
        ("python", "def f(): # why", [("k", "def"), ("c", "# why")]),
        ("python", 'x = """a\nb""" + 1.5', [("s", '"""a\nb"""'), ("n", "1.5")]),
        ("python", "define = undefined", []),
        ("ts", "const a = `b` // c", [("k", "const"), ("s", "`b`"), ("c", "// c")]),
        ("rust", 'let a = "b\\"c";', [("k", "let"), ("s", '"b\\"c"')]),
        ("json", '{"a": true}', [("s", '"a"'), ("k", "true")]),
        ("SQL", "SELECT a FROM b -- c", [("k", "SELECT"), ("k", "FROM"), ("c", "-- c")]),
        ("bash", "if true; then", [("k", "if"), ("k", "then")]),
        ("css", "@media { color: #fff }", [("k", "@media"), ("n", "#fff")]),
        ("html", '<a href="b">', [("k", "<a"), ("s", '"b"'), ("k", ">")]),
        ("diff", "@@ 1 @@\n+new\n-old\n same", [("k", "@@ 1 @@"), ("i", "+new"), ("d", "-old")]),
    ],
)
def test_what_a_language_marks_is_marked(language: str, code: str, marked: list[tuple[str, str]]) -> None:
    found = re.findall(r'<span class="(\w)">(.*?)</span>', colour_code(code, language) or "", re.S)
    assert [(kind, unescape(text)) for kind, text in found] == marked


@given(st.text(st.sampled_from("<>&\"'`#/*-+@\\\n {}aif1é"), max_size=200), st.sampled_from(LANGUAGES))
def test_no_code_gets_out_of_its_quotes_and_none_is_lost(code: str, language: str) -> None:
    shown = _SPAN.sub("", colour_code(code, language) or "")
    assert "<" not in shown and ">" not in shown
    assert unescape(shown) == code


def test_a_language_that_nobody_knows_is_not_known() -> None:
    assert colour_code("x", "") is None and colour_code("x", '"><script>') is None
    assert colour_code("x", "Python") == "x"
