"""Our messages as elements of a stanza. Pure."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement

from gatepost.channels.xmpp.wire import (
    CLIENT,
    CORRECT,
    FALLBACK,
    MAM,
    MARKERS,
    OOB,
    REACTIONS,
    RECEIPTS,
    REPLY,
    RETRACT,
    STANZA_ID,
)
from gatepost.messages.markdown import markup
from gatepost.messages.markdown.blocks import clean_text
from gatepost.messages.markdown.dialects import PLAIN

HINTS = "urn:xmpp:hints"
STATES = "http://jabber.org/protocol/chatstates"
MUC = "http://jabber.org/protocol/muc"
DATA = "jabber:x:data"
RSM = "http://jabber.org/protocol/rsm"
_OWN = "gp-"
UPLOAD = "urn:xmpp:http:upload:0"
RETRACTED = "This person retracted a previous message, but your program does not show that."


def render_key(key: str) -> str:
    """Our key as the id of a stanza, of one form whatever the key has in it."""
    return f"{_OWN}{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def is_own_id(stanza_id: str) -> bool:
    return stanza_id.startswith(_OWN)


def render_time(moment: int) -> str:
    """Microseconds UTC, as XEP-0082 writes them."""
    return f"{datetime.fromtimestamp(moment / 1_000_000, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def make_message(to: str, group: bool, stanza_id: str) -> Element:
    message = Element(f"{{{CLIENT}}}message", {"to": to, "type": "groupchat" if group else "chat", "id": stanza_id})
    SubElement(message, f"{{{STANZA_ID}}}origin-id", {"id": stanza_id})
    return message


def _add_body(message: Element, text: str) -> None:
    SubElement(message, f"{{{CLIENT}}}body").text = text


def _keep(message: Element) -> None:
    """In the archive, also without words."""
    SubElement(message, f"{{{HINTS}}}store")


def render_words(
    to: str, group: bool, stanza_id: str, text: str, *, reply_to: str = "", answered: str = "", urls: Sequence[str] = ()
) -> Element:
    """`answered`: the JID of whom it answers. Files are their addresses, each in a line of its own."""
    message = make_message(to, group, stanza_id)
    words = markup.render(text, PLAIN) if text else ""
    _add_body(message, "\n".join([*([words] if words else []), *urls]))
    if reply_to:
        SubElement(message, f"{{{REPLY}}}reply", {"id": reply_to} | ({"to": answered} if answered else {}))
    for url in urls:
        SubElement(SubElement(message, f"{{{OOB}}}x"), f"{{{OOB}}}url").text = url
    return message


def render_edit(to: str, group: bool, stanza_id: str, original: str, text: str) -> Element:
    """`original`: the id that we ourselves gave to the message."""
    message = render_words(to, group, stanza_id, text)
    SubElement(message, f"{{{CORRECT}}}replace", {"id": original})
    return message


def render_retraction(to: str, group: bool, stanza_id: str, target: str) -> Element:
    message = make_message(to, group, stanza_id)
    SubElement(message, f"{{{RETRACT}}}retract", {"id": target})
    SubElement(message, f"{{{FALLBACK}}}fallback", {"for": RETRACT})
    _add_body(message, RETRACTED)
    _keep(message)
    return message


def render_reactions(to: str, group: bool, stanza_id: str, target: str, emojis: Sequence[str]) -> Element:
    """All that stand at the message: the list takes the place of the one before it."""
    message = make_message(to, group, stanza_id)
    reactions = SubElement(message, f"{{{REACTIONS}}}reactions", {"id": target})
    for emoji in emojis:
        SubElement(reactions, f"{{{REACTIONS}}}reaction").text = clean_text(emoji)
    _keep(message)
    return message


def render_state(to: str, group: bool, on: bool) -> Element:
    message = Element(f"{{{CLIENT}}}message", {"to": to, "type": "groupchat" if group else "chat"})
    SubElement(message, f"{{{STATES}}}{'composing' if on else 'active'}")
    SubElement(message, f"{{{HINTS}}}no-store")
    return message


def render_mark(to: str, group: bool, message: str) -> Element:
    """Kept in the archive, so that people who are away find it."""
    made = Element(f"{{{CLIENT}}}message", {"to": to, "type": "groupchat" if group else "chat"})
    SubElement(made, f"{{{MARKERS}}}displayed", {"id": message})
    _keep(made)
    return made


def render_receipt(to: str, message: str) -> Element:
    made = Element(f"{{{CLIENT}}}message", {"to": to, "type": "chat"})
    SubElement(made, f"{{{RECEIPTS}}}received", {"id": message})
    return made


def render_join(room: str, nickname: str) -> Element:
    """Without history: the archive tells it, from where we were."""
    presence = Element(f"{{{CLIENT}}}presence", {"to": f"{room}/{nickname}"})
    joining = SubElement(presence, f"{{{MUC}}}x")
    SubElement(joining, f"{{{MUC}}}history", {"maxstanzas": "0"})
    return presence


def render_query(query_id: str, fields: dict[str, str], page: dict[str, str], most: int) -> Element:
    """A page of an archive. `fields`: what is asked for; `page`: `after` or `before` an id."""
    query = Element(f"{{{MAM}}}query", {"queryid": query_id})
    form = SubElement(query, f"{{{DATA}}}x", {"type": "submit"})
    for name, value in {"FORM_TYPE": MAM, **fields}.items():
        given = {"var": name} | ({"type": "hidden"} if name == "FORM_TYPE" else {})
        SubElement(SubElement(form, f"{{{DATA}}}field", given), f"{{{DATA}}}value").text = value
    pages = SubElement(query, f"{{{RSM}}}set")
    SubElement(pages, f"{{{RSM}}}max").text = str(most)
    for name, value in page.items():
        SubElement(pages, f"{{{RSM}}}{name}").text = value
    return query


def render_slot(name: str, size: int, mime: str) -> Element:
    return Element(f"{{{UPLOAD}}}request", {"filename": clean_text(name), "size": str(size), "content-type": mime})
