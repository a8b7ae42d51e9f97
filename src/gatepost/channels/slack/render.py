"""Our messages as Slack wants them, and the slash commands as an app's manifest names them. Pure."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from gatepost.channels.contract import NativeCommand
from gatepost.channels.kit.native_commands import CommandRules, ShownCommand, fit_commands
from gatepost.core.errors import Unsupported
from gatepost.messages.card import Card, CardButton, CardField
from gatepost.messages.markdown.dialects import SPACER
from gatepost.messages.markdown.markup import SLACK, render
from gatepost.messages.outbound import Outbound, PromptButton
from gatepost.messages.text_size import TextUnit, measure, shorten

EVENT_TYPE = "gatepost_message"
MOST_PROMPTS = 4
LONGEST_TEXT = 4000  # bytes, after escaping
LONGEST_TITLE, LONGEST_SECTION, LONGEST_FIELD, MOST_FIELDS = 150, 3000, 2000, 50
LARGEST_BLOCKS = 12_000  # bytes of all blocks of a message; Slack counts some 13,200 characters, and more of its own
STYLES = frozenset({"primary", "danger"})
# Slack's own commands: slack.com/help, "Use built-in slash commands". An app's command of such a name
# would never be reached, or would hide Slack's.
_BUILT_IN = (
    "active apps archive away call canvas collapse close dm dnd expand feed feedback huddle invite join kick leave list"
    " me msg mute open part prefs remind remove rename search share shortcuts shrug star status topic who"
)
RULES = CommandRules(
    name=r"[a-z0-9_-]{1,31}",  # 32 with the slash
    longest_help=2000,
    most=50,
    reserved=frozenset(_BUILT_IN.split()),
    prefix="agent-",
)


def make_mark(key: str) -> str:
    """Make the mark of a message from its key. Any app of the workspace can read it, so it is a hash."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def render_message(channel: str, message: Outbound) -> dict[str, Any]:
    body: dict[str, Any] = {
        "channel": channel,
        **render_content(message),
        "unfurl_links": False,
        "unfurl_media": False,
        "metadata": {"event_type": EVENT_TYPE, "event_payload": {"key": make_mark(message.key)}},
    }
    if message.thread:
        body["thread_ts"] = message.thread
    return body


def render_content(message: Outbound) -> dict[str, Any]:
    """An edit of a card to one without buttons must name its blocks, else the old ones stay."""
    if message.card is None:
        return {"text": render_text(message.text)}
    return {"text": escape(message.card.title), "blocks": render_card(message.card)}


def render_text(text: str) -> str:
    """Markup that would make a text longer than Slack takes is left as it was written."""
    made = render(text, SLACK)
    if measure(made, TextUnit.BYTES) <= LONGEST_TEXT:
        return made
    return escape(shorten(text.replace("@", f"@{SPACER}"), LONGEST_TEXT, TextUnit.ESCAPED))


def escape(text: str) -> str:
    """Plain words: no text of an agent calls people or makes a link that says something else."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def fits_card(card: Card) -> bool:
    lines = [f"{each.name}: {each.value}" for each in card.fields]
    return (
        measure(card.title, TextUnit.UTF16) <= LONGEST_TITLE
        and measure(render_text(card.text), TextUnit.UTF16) <= LONGEST_SECTION
        and len(card.fields) <= MOST_FIELDS
        and all(measure(each, TextUnit.UTF16) <= LONGEST_FIELD for each in [*lines, card.done])
        and _measure_blocks(_make_blocks(card, card.fields)) <= LARGEST_BLOCKS
    )


def render_card(card: Card) -> list[dict[str, Any]]:
    """One with buttons is never cut: nobody decides about what they do not see."""
    if card.buttons and not card.done and not fits_card(card):
        raise Unsupported(
            "card",
            "slack",
            f"its text has at most {LONGEST_SECTION} characters, all of it {LARGEST_BLOCKS}; send the rest before it",
        )
    shown = card.fields[:MOST_FIELDS]
    while shown and _measure_blocks(_make_blocks(card, shown)) > LARGEST_BLOCKS:
        shown = shown[:-1]
    return _make_blocks(card, shown)


def _measure_blocks(blocks: list[dict[str, Any]]) -> int:
    return len(json.dumps(blocks, ensure_ascii=False).encode())


def _make_blocks(card: Card, shown: tuple[CardField, ...]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(card.title, LONGEST_TITLE)}]
    if card.text:
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": render_text(card.text)[:LONGEST_SECTION]}})
    for at in range(0, len(shown), 10):
        fields = [_plain(f"{each.name}: {each.value}", LONGEST_FIELD) for each in shown[at : at + 10]]
        blocks.append({"type": "section", "fields": fields})
    if card.done:
        return [*blocks, {"type": "context", "elements": [_plain(card.done, LONGEST_FIELD)]}]
    if card.buttons and card.many:
        boxes = {"type": "checkboxes", "action_id": "boxes", "options": [_option(each) for each in card.buttons[:10]]}
        send = {"type": "button", "action_id": "many", "text": _plain("OK", 75), "style": "primary", "value": "many"}
        blocks += [{"type": "actions", "block_id": "choices", "elements": [boxes, send]}]
    elif card.buttons:
        blocks.append({"type": "actions", "elements": [_button(at, each) for at, each in enumerate(card.buttons[:25])]})
    return blocks


def _plain(text: str, most: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": text[:most] or " ", "emoji": False}


def _option(button: CardButton) -> dict[str, Any]:
    about = {"description": _plain(button.about, 75)} if button.about else {}
    return {"text": _plain(button.label, 75), "value": button.id, **about}


def _button(at: int, button: CardButton) -> dict[str, Any]:
    style = {"style": button.style} if button.style in STYLES else {}
    return {"type": "button", "action_id": f"b{at}", "text": _plain(button.label, 75), "value": button.id, **style}


def render_prompts(prompts: tuple[PromptButton, ...]) -> list[dict[str, str]]:
    return [{"title": each.title[:75], "message": each.message[:2000]} for each in prompts[:MOST_PROMPTS]]


def fit_slash_commands(commands: Iterable[NativeCommand]) -> tuple[ShownCommand, ...]:
    return fit_commands(commands, RULES)


def make_slash_commands(commands: Iterable[NativeCommand]) -> list[dict[str, object]]:
    """Return `features.slash_commands` of the manifest: no API call adds a command. `should_escape` is off: people and
    rooms stay as typed."""
    return [
        {
            "command": f"/{each.shown}",
            "description": each.help,
            **({"usage_hint": each.usage} if each.usage else {}),
            "should_escape": False,
        }
        for each in fit_slash_commands(commands)
    ]


def render_slash_commands(commands: Iterable[NativeCommand]) -> str:
    """The same as YAML, a line for each."""
    return "".join(f"    - {json.dumps(each, ensure_ascii=False)}\n" for each in make_slash_commands(commands))
