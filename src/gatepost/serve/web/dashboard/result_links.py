"""Where an operation's answer is to be seen: the page of what it has made."""

from typing import Any

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


def find_result_link(operation: str, answer: Any) -> Link | None:
    path, name, called = MADE.get(operation, ("", "", ""))
    made = answer.get(name) if isinstance(answer, dict) else None
    return Link(called, render_path(path, id=str(made))) if path and made else None
