"""Cards by which people decide show what agents and strangers wrote, and nothing of it becomes a part of the card: for
each format that a channel declares."""

import hashlib
import html
import re

import pytest

from gatepost.core.records import asdict, replace
from gatepost.flow.delivery.content_fallback import degrade
from gatepost.flow.requests.choices import CardFacts, make_card, make_decided_card
from gatepost.messages.card import Card, CardButton, CardField, render_text
from gatepost.messages.markdown.dialects import WORDS
from gatepost.messages.markdown.markup import render_counted
from gatepost.messages.outbound import Feature, Op, Outbound
from gatepost.messages.visible_text import shorten_visibly, show_hidden
from gatepost.serve.web.markdown import render
from gatepost.store.rights.requests import AnswerLasts, NewRequest, Request, RequestKind, RequestState

ACME = CardFacts(agent="Acme")
HOSTILE = [
    "**Approved** by `root`",
    "[harmless](https://evil.example/x)",
    "![x](https://evil.example/pixel.png)",
    "<b>bold</b><script>alert(1)</script>",
    "# Heading",
    "> quote",
    "- item",
    "1. Allow once",
    "=====",
    "a_b_c *d* __e__ ~~f~~",
    "`code` and ``more``",
    "&lt;b&gt; &#x202E;",
    "back\\slash \\* \\` \\\\",
    "| a | b |",
    "<https://evil.example>",
    "\\[x](y)",
]


def make_hostile(text: str) -> Card:
    return Card(
        title=text, fields=(CardField(text, text),), buttons=(CardButton("t:0", text), CardButton("t:1", "Deny"))
    )


def send_to(card: Card, *features: Feature) -> Outbound:
    message = Outbound(key="k", op=Op.CARD, text=render_text(card), card=card)
    shown = degrade(message, frozenset(features), "fake")
    assert shown is not None
    return shown


def show_page(markdown: str) -> list[str]:
    """The lines that a reader of rendered markdown sees."""
    page = re.sub(r"</(?:p|li)>|<br>", "\n", render(markdown))
    page = re.sub(r"</?(?:strong|p|ul|ol|li)[^>]*>", "", page)
    assert not re.search(r"<(?!a href=\"https://evil\.example)[^/]", page), (
        page
    )  # a bare address may be a link to itself
    return [html.unescape(re.sub(r"</?a[^>]*>", "", line)) for line in page.split("\n") if line]


@pytest.mark.parametrize("text", HOSTILE)
def test_where_markdown_is_shown_marks_are_words(text: str) -> None:
    lines = show_page(send_to(make_hostile(text), Feature.MARKDOWN).text)
    assert lines[:4] == [text, f"{text}: {text}", text, "Deny"]


@pytest.mark.parametrize("text", HOSTILE)
def test_where_text_is_plain_it_is_as_it_was_written(text: str) -> None:
    shown = send_to(make_hostile(text))
    assert shown.op is Op.SEND and shown.card is None
    lines = [line for line in shown.text.split("\n") if line]
    assert lines[:4] == [text, f"- {text}: {text}", f"1. {text}", "2. Deny"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_channel_with_cards_gets_the_words_themselves(text: str) -> None:
    shown = send_to(make_hostile(text), Feature.CARDS, Feature.MARKDOWN)
    assert shown.card is not None and shown.card.fields[0].value == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pay \u202eecila\u202c", "pay ⟨U+202E⟩ecila⟨U+202C⟩"),
        ("rm\u200b -rf", "rm⟨U+200B⟩ -rf"),
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("soft\u00adhyphen", "soft⟨U+00AD⟩hyphen"),
        ("tag\U000e0041", "tag⟨U+E0041⟩"),
        ("filler\u3164\u2800", "filler⟨U+3164⟩⟨U+2800⟩"),
        ("x\ufe0f", "x⟨U+FE0F⟩"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("a\x1b[2Jb\x07", "a⟨U+001B⟩[2Jb⟨U+0007⟩"),
        ("echo hi\nrm -rf /\r\nend", "echo hi ⏎ rm -rf / ⏎ end"),
        ("wide\u00a0\u3000   gap", "wide gap"),
        ("e\u0301 stays", "e\u0301 stays"),
        ("z" + "\u0301" * 6, "z" + "\u0301" * 3 + "⟨U+0301⟩" * 3),
        ("Grüße, 你好, שלום", "Grüße, 你好, שלום"),
    ],
)
def test_what_hides_or_turns_is_shown_by_its_number(text: str, shown: str) -> None:
    assert show_hidden(text) == shown


def make_request(**input: object) -> Request:
    new = NewRequest(kind=RequestKind.CALL, name="n", folder="acme", session_id=None, tool="send", input=input)
    ended = {"expires_at": None, "next_at": None, "answered_at": None, "settled_at": None, "notified_at": None}
    rest = {"id": "p-1", "state": RequestState.PENDING, "answer": {}, "lasts": AnswerLasts.ONCE, "reason": ""}
    return Request(**{**asdict(new), **rest, **ended, "asked_at": 0, "answered_by": ""})


def test_a_long_value_is_shown_whole() -> None:
    text = "x" * 4999 + "y"
    assert make_card(make_request(text=text), "t", ACME).fields[0].value == text


def test_a_long_text_is_cut_with_a_digest_of_the_whole() -> None:
    one, other = "x" * 5000, "x" * 4999 + "y"
    shown = [shorten_visibly(text, 1000) for text in (one, other)]
    assert shown[0] != shown[1]
    digest = hashlib.sha256(one.encode()).hexdigest()[:16]
    assert shown[0] == f"{'x' * 1000}… (5000 characters, sha256 {digest})"
    assert "sha256" in shorten_visibly("\u202e" * 900, 1000)  # longer than it was, once it is seen


def test_every_part_of_a_card_is_made_visible() -> None:
    card = make_card(make_request(**{"na\u202eme": "va\u200blue"}), "t", CardFacts(agent="Ac\u202eme"))
    assert card.fields == (CardField("na⟨U+202E⟩me", "va⟨U+200B⟩lue"), CardField("Details", "p-1 · tool send"))
    assert card.title.startswith("Ac⟨U+202E⟩me wants to send a message")


def make_question(**asked: object) -> Request:
    return replace(make_request(**asked), kind=RequestKind.QUESTION)


def test_every_part_of_a_question_is_made_visible() -> None:
    options = [{"label": "N\u200bo", "description": "ne\u202ever"}, {"label": "Yes\u202e"}]
    card = make_card(make_question(question="Delete?\u202e\nOr not?", options=options, default="N\u200bo"), "t", ACME)
    assert card.text == "Delete?⟨U+202E⟩ ⏎ Or not?"
    assert [(each.label, each.about) for each in card.buttons] == [
        ("N⟨U+200B⟩o", "ne⟨U+202E⟩ver"),
        ("Yes⟨U+202E⟩", ""),
    ]
    assert card.fields == (CardField("If nobody answers", "N⟨U+200B⟩o"),)
    assert not {"\u202e", "\u200b"} & {*render_text(card)}


@pytest.mark.parametrize(
    "words", ["x\n\n**Acme asks to use read (p-1)**\n\n- text: harmless", "- text: harmless", "# Hi"]
)
def test_a_question_cannot_look_like_another_card(words: str) -> None:
    asked = make_question(question=words)
    for card in (make_card(asked, "t", ACME), make_decided_card(asked, ACME, "done")):
        lines = render_text(card).split("\n")
        assert not [line for line in lines[1:] if line.startswith(("**", "- ", "# "))], lines


def test_escapes_take_time_by_the_length_of_a_text() -> None:
    text = "\\`" * 8000
    shown, steps = render_counted(text, WORDS)
    assert shown == "`" * 8000
    assert steps < 40 * len(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example/é", "https://a.example/%C3%A9"),
        ("https://a.example/x{1}", "https://a.example/x%7B1%7D"),
        ("https://a.example/(1)", "https://a.example/%281%29"),
    ],
)
def test_two_addresses_never_look_the_same(one: str, other: str) -> None:
    for value in (one, other):
        assert value in send_to(make_hostile(value)).text
        assert value in "".join(show_page(send_to(make_hostile(value), Feature.MARKDOWN).text))
