"""Markdown is shown; nothing in it runs or loads."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.messages.markdown.markup import LONGEST, render_counted
from gatepost.serve.web.markdown import PAGE, render

HARMLESS = {
    *("p", "br", "a", "em", "strong", "s", "code", "pre", "ul", "ol", "li", "blockquote", "hr"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](  JaVaScRiPt:alert(1))",
        "[x](java\nscript:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](vbscript:x)",
        "[x](file:///etc/passwd)",
        "![x](javascript:alert(1))",
        "![x](http://evil.example/pixel.png)",
        '![x" onerror="alert(1)](http://a.example)',
        '[x](http://a.example/"onmouseover="alert(1))',
        "[x](http://a.example '\" onclick=\"alert(1)')",
        "<javascript:alert(1)>",
        'http://a.example/"onmouseover="alert(1)',
        "[a]: javascript:alert(1)\n[a]",
        "&lt;script&gt;",
        "```<script>\nx\n```",
        "[x](/logout)",
    ],
)
def test_no_text_becomes_a_script_a_picture_or_a_foreign_scheme(text: str) -> None:
    html = render(text)

    assert {name.lower() for name in re.findall(r"<\s*/?\s*([a-zA-Z0-9!]+)", html)} <= HARMLESS
    assert all(link.startswith(("http://", "https://", "mailto:")) for link in re.findall(r'href="([^"]*)"', html))
    assert not re.search(r"<[^>]*\son\w+\s*=", re.sub(r'"[^"]*"', '""', html))


@given(st.text(alphabet="<>[]()!\"'`*_~:/&;= \n|-#abjs", max_size=200))
def test_no_mixture_of_signs_gets_out_of_its_quotes(text: str) -> None:
    html = re.sub(r'="[^"<>]*"', "", render(text))

    for tag in re.findall(r"<[^>]*>", html):
        assert re.fullmatch(r"</?[a-z0-9]+((\s(href|target|rel|title|class|start|style))*)\s*/?>", tag), tag


def test_links_open_elsewhere_and_are_told_nothing() -> None:
    for text in ("[a](http://a.example)", "http://a.example", "<http://a.example>", "![a](http://a.example)"):
        assert 'href="http://a.example" target="_blank" rel="noopener noreferrer nofollow"' in render(text)


def test_a_bare_address_is_a_link_without_the_full_stop_behind_it() -> None:
    assert 'href="https://a.example/b?c=1&amp;d=2"' in render("See https://a.example/b?c=1&d=2.")
    assert "<a" not in render("`https://a.example`")


def test_markdown_is_shown() -> None:
    html = render("**bold** ~~gone~~\nnext\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    for tag in ("<strong>bold</strong>", "<s>gone</s>", "<br>", "<li>one</li>", "<td>2</td>"):
        assert tag in html


def test_a_very_long_text_is_shown_as_it_is() -> None:
    assert render("<" * (LONGEST + 1)) == f"<pre>{'&lt;' * (LONGEST + 1)}</pre>"


@pytest.mark.parametrize(
    "text",
    [
        "|a" * 100 + "\n" + "|-" * 100 + "\n" + "|\n" * 9_000,
        "|a" * 100 + "\n" + "|-" * 100 + "\n" + "|\n" * 60,
        "> " + "|a" * 100 + "\n> " + "|-" * 100 + "\n" + "> |\n" * 4_000,
        "1. " + "|a" * 100 + "\n   " + "|-" * 100 + "\n" + "   |\n" * 4_000,
        "![" * 10_000,
        "[" * 20_000,
        "> " * 15 + "a\n" + "a\n" * 9_000,
    ],
)
def test_stranger_02_no_text_costs_more_than_its_length(text: str) -> None:
    text = text[:LONGEST]
    html, steps = render_counted(text, PAGE)

    assert steps < 40 * len(text) and len(html) < 40 * len(text)


def test_the_side_of_a_column_is_a_class_because_the_page_lets_no_style_through() -> None:
    shown = render("|a|b|c|\n|--:|:-:|:--|\n|1|2|3|")

    assert "style" not in shown
    assert '<th class="right">a</th>' in shown and '<td class="right">1</td>' in shown
    assert '<td class="center">2</td>' in shown and "<td>3</td>" in shown


def test_stranger_02_an_address_in_a_link_is_known_without_looking_back() -> None:
    html = render("[x http://a.example](http://b.example) http://c.example " * 300)

    assert html.count("<a ") == 600


def test_a_point_with_a_box_is_a_task_and_another_is_none() -> None:
    shown = render("- [x] done **well**\n- [ ] open\n- [y] [x] neither\n\n[x] no list")
    assert shown.count('<li class="task"><input type="checkbox" disabled') == 2
    assert 'checked aria-label="done"> done <strong>well</strong>' in shown
    assert 'disabled aria-label="to do"> open' in shown
    assert "<li>[y] [x] neither</li>" in shown
    assert "<p>[x] no list</p>" in shown


def test_code_of_a_known_language_has_colours_and_other_code_has_none() -> None:
    assert '<code class="language-python"><span class="k">return</span> x' in render("```Python x=1\nreturn x\n```")
    assert render("```nolanguage\nreturn x\n```") == '<pre><code class="language-nolanguage">return x\n</code></pre>'


def test_code_and_words_within_a_point_stand_in_it_and_the_list_goes_on() -> None:
    shown = render("1. first\n\n   ```sh\n   ls\n   ```\n   more\n2. second\n\noutside")
    assert shown == (
        '<ol><li>first<pre><code class="language-sh">ls\n</code></pre><p>more</p></li><li>second</li></ol>'
        "<p>outside</p>"
    )
