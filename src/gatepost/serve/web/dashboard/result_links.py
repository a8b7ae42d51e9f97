"""The place where an operation's answer is to be seen: the page of what it has made, or, of what nobody can read again,
here."""

from typing import Any

from gatepost.serve.control.declaration import OperationInfo
from gatepost.serve.web.dashboard.contract import render_path
from gatepost.serve.web.dashboard.view import Link

# By operation: the page, whose one hole is filled with that field of the answer, and how the link is called.
MADE = {
    "session.fork": ("/sessions/{id}", "session_id", "Open the fork"),
    "session.copy": ("/agents/{id}", "session_id", "Open the agent"),
    "session.replay": ("/replays/{id}", "session_id", "Open the replay"),
    "task.add": ("/tasks/{id}", "id", "Open the task"),
    "agent.create": ("/agents/{id}", "agentId", "Open the agent"),
    "group.add": ("/groups/{id}", "folder", "Open the group"),
}

# By operation: the fields of its answer that are shown once, and how they are called.
ONCE = {
    "token.add": {"url": "The link", "secret": "The token", "signing_secret": "The secret that the service signs with"},
    "token.sign": {"signing_secret": "The secret that the service signs with"},
    "invite.create": {"secret": "The code", "url": "The link"},
    "api_token.add": {"secret": "The token"},
    "channel.token": {"secret": "The token"},
    "agent.token": {"token": "The token"},
    "user.pair": {"code": "The code", "link": "The link"},
}

CHECKS = frozenset({"connector.check"})  # they change nothing, and what they found is why somebody runs them


def is_question(operation: OperationInfo) -> bool:
    """Return True if its answer is what somebody wants of it."""
    return operation.reads or operation.right.endswith(".read") or operation.name in CHECKS


def list_shown_once(operation: str, answer: Any) -> list[tuple[str, str]]:
    """List values that are shown once, as (label, value). A value that ends the one before it is left out."""
    given, shown = answer if isinstance(answer, dict) else {}, list[tuple[str, str]]()
    for name, called in ONCE.get(operation, {}).items():
        value = str(given.get(name) or "")
        if value and not (shown and shown[-1][1].endswith(value)):
            shown.append((called, value))
    return shown


def find_result_link(operation: str, answer: Any) -> Link | None:
    path, name, called = MADE.get(operation, ("", "", ""))
    made = answer.get(name) if isinstance(answer, dict) else None
    return Link(called, render_path(path, id=str(made))) if path and made else None
