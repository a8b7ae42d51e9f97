"""Pinned rules as an agent is told them: those of its group, and those of the room that its conversation is in."""

from collections.abc import Sequence

from gatepost.store.pinned_rules import PinnedRule
from gatepost.store.sessions import Session, SessionMode


def render_pinned_rules(session: Session, rules: Sequence[PinnedRule]) -> str:
    """A list in Markdown; '' if there are none. A conversation that spans rooms has the rules of each, with its
    name."""
    lines = []
    for each in rules:
        if not each.address or each.address == session.address:
            lines.append(_indent(each.text))
        elif session.mode is SessionMode.AGENT_SHARED:
            lines.append(_indent(f"In {each.address}: {each.text}"))
    return "\n".join(f"- {line}" for line in lines)


def _indent(text: str) -> str:
    """Further lines belong to the same point of the list."""
    return text.replace("\n", "\n  ")
