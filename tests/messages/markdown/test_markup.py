"""One markdown source for every platform: what it shows, what it escapes, and that nothing makes it slow or unbalanced.

markdown-it and the standard library's HTML parser judge the output: neither is ours.
"""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gatepost.messages.markdown import markup
from gatepost.messages.markdown.markup import (
    DISCORD,
    GITHUB,
    MAIL_HTML,
    MASTODON,
    MATRIX_HTML,
    MATTERMOST,
    PLAIN,
    REDDIT,
    SIGNAL,
    SLACK,
    TELEGRAM_HTML,
    WHATSAPP,
    ZULIP,
    Dialect,
    StyleRange,
    render,
    render_styles,
)

ALL = [getattr(markup, name) for name in markup.__all__ if isinstance(getattr(markup, name), Dialect)]
HTML = [TELEGRAM_HTML, MATRIX_HTML, MAIL_HTML]
TELEGRAM_TAGS = {"b", "i", "s", "code", "pre", "a", "blockquote"}
STEPS_PER_SIGN = 40

by_name = pytest.mark.parametrize("dialect", ALL, ids=lambda each: each.name)
SIGNS = "** * _ __ ~~ ` ``` [ ]( ) ![ < > # | |---| \\ & @everyone <@1> <!here> http://a.b/c javascript:x"
PIECES = st.sampled_from([*SIGNS.split(), " ", " word ", " Ω ", " 😀 ", "\n", "\n\n", "> ", "- ", "1. ", "# ", '"'])
HOSTILE = st.lists(PIECES, max_size=40).map("".join)


class _Tags(HTMLParser):
    """The words of HTML; it fails where a tag is not closed in its order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        assert {name for name, _ in attrs} <= {"href", "class", "start"}
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("br", "hr")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def parse_html(text: str) -> _Tags:
    tags = _Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    return tags


def words_of_markdown(text: str) -> str:
    """As a reader of markdown that is not ours shows it."""
    return "".join(
        parse_html(MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).render(text)).words
    )


@pytest.mark.parametrize(
    ("dialect", "shown"),
    [
        (TELEGRAM_HTML, "<b>b</b> <i>i</i> <s>s</s> <code>c&lt;</code> &amp;"),
        (DISCORD, "**b** *i* ~~s~~ `c<` &"),
        (SLACK, "*b* _i_ ~s~ `c&lt;` &amp;"),
        (WHATSAPP, "*b* _i_ ~s~ `c<` &"),
        (SIGNAL, "b i s c< &"),
        (PLAIN, "b i s c< &"),
        (GITHUB, "**b** *i* ~~s~~ `c<` \\&"),
        (REDDIT, "**b** *i* ~~s~~ `c<` \\&"),
        (MATTERMOST, "**b** *i* ~~s~~ `c<` &"),
        (ZULIP, "**b** *i* ~~s~~ `c<` &"),
        (
            MATRIX_HTML,
            "<p><strong>b</strong> <em>i</em> <del>s</del> <code>c&lt;</code> &amp;</p>",
        ),
    ],
    ids=lambda each: each.name if isinstance(each, Dialect) else "",
)
def test_marks_are_those_of_the_platform(dialect: Dialect, shown: str) -> None:
    assert render("**b** *i* ~~s~~ `c<` &", dialect) == shown


def test_a_link_is_written_as_the_platform_writes_it() -> None:
    source = "[the *page*](https://a.b/c?d=1&e=2)"
    assert render(source, TELEGRAM_HTML) == '<a href="https://a.b/c?d=1&amp;e=2">the <i>page</i></a>'
    assert render(source, SLACK) == "<https://a.b/c?d=1&amp;e=2|the page>"
    assert render(source, DISCORD) == "[the *page*](https://a.b/c?d=1&e=2)"
    assert render(source, WHATSAPP) == "the _page_ (https://a.b/c?d=1&e=2)"
    assert render(source, PLAIN) == "the page (https://a.b/c?d=1&e=2)"


@by_name
@pytest.mark.parametrize(
    "scheme", ["javascript:alert(1)", "tg://user?id=1", "data:text/html,x", "file:///etc/passwd", "//x"]
)
def test_a_link_to_anything_but_the_web_or_mail_is_words(dialect: Dialect, scheme: str) -> None:
    shown = render(f"[press]({scheme}) <{scheme}> ![p]({scheme})", dialect)
    assert "press" in shown
    assert "href" not in shown
    assert f"]({scheme}" not in shown
    if dialect in (SLACK, GITHUB, DISCORD):
        assert not re.search(rf"(?<!\\)<{re.escape(scheme)}", shown)


def test_a_link_in_the_words_of_another_link_is_not_a_second_one() -> None:
    assert render("[https://bank.example](https://evil.example)", MATRIX_HTML) == (
        '<p><a href="https://evil.example">https://bank.example</a></p>'
    )


def test_an_address_in_the_text_keeps_its_signs_and_leaves_the_sentence_its_own() -> None:
    assert render("(see https://a.b/c_d_e*f, ok)", DISCORD) == "(see https://a.b/c_d_e%2Af, ok)"
    assert render("at https://a.b/x.", TELEGRAM_HTML) == "at https://a.b/x."


def test_headings_lists_quotes_and_rules_degrade_so_that_they_are_seen() -> None:
    source = "## Plan\n\n- one\n  - two\n3. three\n\n> said\n\n---"
    assert render(source, TELEGRAM_HTML) == (
        "<b>Plan</b>\n\n• one\n  • two\n3. three\n\n<blockquote>said</blockquote>\n\n────────"
    )
    assert render(source, DISCORD).startswith("## Plan\n\n- one\n   - two\n3. three\n\n> said")
    assert render(source, MAIL_HTML) == (
        "<h2>Plan</h2><ul><li>one<ul><li>two</li></ul></li></ul>"
        '<ol start="3"><li>three</li></ol><blockquote><p>said</p></blockquote><hr>'
    )


def test_a_table_stays_one_is_aligned_or_becomes_lines() -> None:
    source = "| name | n |\n|:--|--:|\n| **ann** | 1 |\n| a\\|b | |"
    assert render(source, GITHUB) == "| name | n |\n| --- | --- |\n| **ann** | 1 |\n| a\\|b |  |"
    assert render(source, TELEGRAM_HTML) == "<pre>name  n\n────  ─\nann   1\na|b</pre>"
    assert render(source, PLAIN) == "• name: ann\n• n: 1\n• name: a|b"
    wide = f"| name | n |\n|---|---|\n| {'x' * 80} | 1 |"
    assert render(wide, SLACK) == f"• name: {'x' * 80}\n• n: 1"


def test_code_keeps_every_sign_and_is_not_ended_by_its_own() -> None:
    source = "````md\n```\n**x** & <y>\n```\n````"
    assert render(source, TELEGRAM_HTML) == (
        '<pre><code class="language-md">```\n**x** &amp; &lt;y&gt;\n```</code></pre>'
    )
    assert render(source, GITHUB) == "````md\n```\n**x** & <y>\n```\n````"
    assert render(source, DISCORD).count("```") == 2
    assert render("`` a`b ``", SLACK) == "a`b"


def test_a_mark_within_a_word_gets_an_edge_where_the_platform_needs_one() -> None:
    assert render("un**believ**able", SLACK) == "un\u200b*believ*\u200bable"
    assert render("**two\nlines**", WHATSAPP) == "*two*\n*lines*"


def test_escaped_signs_are_words() -> None:
    assert render("\\*not bold\\*", TELEGRAM_HTML) == "*not bold*"
    assert render("\\*not bold\\*", DISCORD) == "\\*not bold\\*"
    assert render("\\# not a heading", GITHUB) == "\\# not a heading"
    assert render("1\\. not an item", GITHUB) == "1\\. not an item"
    assert render("#5 is 3.14", GITHUB) == "#5 is 3.14"


@by_name
@pytest.mark.parametrize(
    "call",
    [
        "@everyone",
        "@here",
        "@every**one**",
        "`@everyone`",
        "```\n@here\n```",
        "[x](http://a.b/@everyone)",
        "\\@everyone",
    ],
)
def test_nobody_is_called_by_what_an_agent_writes(dialect: Dialect, call: str) -> None:
    if dialect in (DISCORD, SLACK, PLAIN, WHATSAPP, MASTODON):
        assert not re.search(r"@(everyone|here)", render(call, dialect))
    if dialect in (GITHUB, MATTERMOST, ZULIP) and "`" not in call and "(" not in call:
        assert not re.search(r"(?<!\w)@\w", render(call, dialect))


def test_codes_by_which_platforms_name_people_stay_words() -> None:
    for code in ("<@123>", "<@&5>", "<#7>", "<:x:1>", "\\<@123>", "`<@123>`"):
        assert not re.search(r"<[@#:]", render(code, DISCORD)), code
    for code in ("<!channel>", "<@U1>", "<!subteam^S1>", "`<!here>`", "```\n<!here>\n```"):
        assert "<" not in render(code, SLACK)
    for name in ("@**all**", "@_**ann**", "#**general**", "**@**all"):
        assert not re.search(r"[@#]_?\*\*\w", render(name, ZULIP)), name
    for name in ("u/ann", "/u/ann", "**U/ann**", "(u/ann)", "u/some_body", "`u/ann`"):
        assert not re.search(r"u/[\w\\]", render(name, REDDIT), re.IGNORECASE), name
    assert render("write to ann@example.org", GITHUB) == "write to ann@example.org"
    assert render("see https://www.reddit.com/u/ann, a^b", REDDIT) == "see https://www.reddit.com/u/ann, a\\^b"


@pytest.mark.slow
@given(HOSTILE)
@settings(max_examples=150, deadline=None)
def test_html_is_balanced_and_has_only_known_tags_whatever_is_written(source: str) -> None:
    for dialect in HTML:
        tags = parse_html(render(source, dialect))
        assert all(link.startswith(("http://", "https://", "mailto:")) for link in tags.links)
        if dialect is TELEGRAM_HTML:
            assert tags.seen <= TELEGRAM_TAGS


@pytest.mark.slow
@given(HOSTILE)
@settings(max_examples=150, deadline=None)
def test_words_survive_in_every_dialect(source: str) -> None:
    wanted = source.count("word") + source.count("Ω") + source.count("😀")
    for dialect in (TELEGRAM_HTML, DISCORD, SLACK, WHATSAPP, PLAIN, MATRIX_HTML):
        shown = render(source, dialect)
        found = shown.count("word") + shown.count("Ω") + shown.count("😀")
        lost = len(re.findall(r"(?m)^.*(\||```|~~~|\]\(|<http).*$", source))  # what stands in a title or an info line
        assert found >= wanted or lost, (dialect.name, shown)


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(["a", "b.", "1", "*", "_", "`", "<", "&", "[x]", "~", "!", "#", "-", "\\", "|"]), max_size=20
    )
)
@settings(max_examples=150, deadline=None)
def test_a_reader_of_markdown_shows_escaped_words_as_they_were(pieces: list[str]) -> None:
    words = " ".join(pieces)
    source = re.sub(r"([^\w\s]|_)", r"\\\1", words)
    shown = words_of_markdown(render(source, GITHUB)).replace("\u200b", "")
    assert " ".join(shown.split()) == " ".join(words.split())


USUAL = "**b** *i* ***bi*** `c` ~~s~~ [l](http://a.b) word snake_case a*b (x) end. **`c`** \\* **a*n*b**"
BLOCKS = ["\n", "\n\n", "- item\n", "\n1. one\n2. two\n", "\n> quote\n\n", "\n```py\nx = 1\n```\n", "2 * 3"]


@pytest.mark.slow
@given(st.lists(st.sampled_from([*USUAL.split(), *BLOCKS]), max_size=12).map(" ".join))
@settings(max_examples=150, deadline=None)
def test_a_reader_of_markdown_shows_the_same_words_for_the_source_and_for_what_is_printed(source: str) -> None:
    source = re.sub(r"(?m)^ +", "", source)  # what is indented is no code here
    shown = [words_of_markdown(text).replace("\u200b", "") for text in (source, render(source, GITHUB))]
    assert "".join(shown[0].split()) == "".join(shown[1].split())


@given(HOSTILE)
@settings(max_examples=150, deadline=None)
def test_ranges_lie_within_the_text_and_do_not_count_marks(source: str) -> None:
    words, ranges = render_styles(source)
    size = len(words.encode("utf-16-le", "surrogatepass")) // 2
    assert all(each.start >= 0 and each.length > 0 and each.start + each.length <= size for each in ranges)


def test_ranges_count_an_emoji_twice() -> None:
    assert render_styles("😀 **b** `c`") == ("😀 b c", [StyleRange(3, 1, "BOLD"), StyleRange(5, 1, "MONOSPACE")])


@by_name
@pytest.mark.parametrize(
    "source", ["", "   ", "```\n```", "# ", "** **", "\x00\x1b[0m", "\ud800", "[](x)", "|", "|\n|-|"]
)
def test_little_or_nothing_to_show_is_no_mistake(dialect: Dialect, source: str) -> None:
    render(source, dialect).encode()


FLOODS = "**a _a*b~~ [ ]( []( ![a]( ` <http:// http://a) ahttp:// | \\ ![ *_ a* http://a[ ( & ![a](http://b) http://a"
LINES = ["*a ", "` `` ", "> ", "- ", "[a](b) ", "  - a\n", "> > a\n", "a|b\n-|-\n", "~~~\n", "# a\n", "- " * 9 + "a\n"]


@pytest.mark.parametrize("piece", [*FLOODS.split(), *LINES])
def test_the_steps_are_linear_in_the_text(piece: str) -> None:
    size = 20_000
    for dialect in (SLACK, MAIL_HTML):
        shown, steps = markup.render_counted((piece * size)[:size], dialect)
        assert steps <= STEPS_PER_SIGN * size
        assert len(shown) <= STEPS_PER_SIGN * size


def test_a_flood_of_marks_or_blocks_ends_as_words() -> None:
    assert render("**a** " * 3000, TELEGRAM_HTML).endswith("**a** **a**")
    assert render("# a\n" * 3000, TELEGRAM_HTML).endswith("# a\n# a")
    assert render("|a|\n|-|\n" + "|b|\n" * 1000, PLAIN).endswith("|b|\n|b|")


def test_a_text_beyond_any_message_keeps_its_marks() -> None:
    assert render("*a* " * 20_000, TELEGRAM_HTML).startswith("*a* *a*")


@pytest.mark.parametrize("text", ["hi\n~~~ LOST", "hi\n```LOST\n```", "| a |\n|---|\n| 1 | LOST |"])
def test_words_in_odd_places_are_not_lost(text: str) -> None:
    for dialect in (PLAIN, MAIL_HTML, GITHUB, SLACK):
        assert "lost" in render(text, dialect).lower()
