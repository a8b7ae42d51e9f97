"""Templates: backticks in our own texts, and escapes."""

import pytest

from gatepost.core.languages.catalogue import speaking
from gatepost.serve.web.dashboard.renderer import get_environment, split_code


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("plain", [("plain", False)]),
        ("`a` and `b`.", [("a", True), (" and ", False), ("b", True), (".", False)]),
        ("one ` alone", [("one ` alone", False)]),
        ("`` is nothing", [("`` is nothing", False)]),
        ("type `gatepost do…", [("type ", False), ("gatepost do…", True)]),
        ("`two\nlines`", [("`two\nlines`", False)]),
    ],
)
def test_what_stands_between_two_marks_is_code(text: str, parts: list[tuple[str, bool]]) -> None:
    assert [(each.text, each.is_code) for each in split_code(text)] == parts


def test_every_part_is_escaped() -> None:
    source = '{% from "prose.html" import prose %}{{ prose(text) }}'
    shown = get_environment().from_string(source).render(text="<i>x</i> `<b>y</b>`")
    assert shown == "&lt;i&gt;x&lt;/i&gt; <code>&lt;b&gt;y&lt;/b&gt;</code>"


def test_a_text_of_a_template_speaks_the_language_of_whoever_looks_and_not_of_who_looked_first() -> None:
    template = get_environment().from_string('{{ "Channels" | tr }}')
    said = []
    for language in ("en", "de", "en"):
        with speaking(language):
            said.append(template.render())
    assert said == ["Channels", "Kanäle", "Channels"]
