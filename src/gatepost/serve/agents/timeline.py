"""Reading a timeline: tool calls told once, words that belong together as one, all as lines for a person. Pure."""

import json
from collections.abc import Sequence

from gatepost.core.records import replace
from gatepost.core.terminal_text import one_line
from gatepost.store.sessions.sessions import SessionState
from gatepost.store.sessions.timeline import TimelineEntry, TimelineKind, ToolCallStatus

LONGEST_SUMMARY = 200
MOST_READ, MOST_SHOWN = 5000, 200_000  # rows, and characters of what one answer tells
NOTHING = "No activity to display."


def merge_entries(entries: Sequence[TimelineEntry]) -> list[TimelineEntry]:
    """A call's rows as one, at the place of its first; adjacent words of the agent as one."""
    found: list[TimelineEntry] = []
    calls: dict[str, int] = {}
    for entry in entries:
        call = str(entry.data.get("callId", "")) if entry.kind == TimelineKind.TOOL_CALL else ""
        if call and call in calls:
            before = found[calls[call]]
            found[calls[call]] = replace(before, data={**before.data, **entry.data})
            continue
        last = found[-1] if found else None
        if entry.kind == TimelineKind.ASSISTANT_MESSAGE and last is not None and last.kind == entry.kind:
            joined = f"{last.data.get('text', '')}\n\n{entry.data.get('text', '')}"
            found[-1] = replace(last, data={"text": joined})
            continue
        if call:
            calls[call] = len(found)
        found.append(entry)
    return found


def limit_entries(entries: Sequence[TimelineEntry]) -> list[TimelineEntry]:
    """The newest of them, as many as one answer holds; always one."""
    size = 0
    for at in range(len(entries) - 1, -1, -1):
        size += len(render_entry(entries[at])) + 1
        if size > MOST_SHOWN:
            return list(entries[min(at + 1, len(entries) - 1) :])
    return list(entries)


def render_entries(entries: Sequence[TimelineEntry]) -> str:
    """As somebody would want to read it."""
    return "\n".join(text for entry in entries if (text := render_entry(entry))) or NOTHING


def render_entry(entry: TimelineEntry) -> str:
    """One entry; '' if nobody would want to read it."""
    data = entry.data
    match entry.kind:
        case TimelineKind.USER_MESSAGE:
            return f"[User] {data.get('text', '')}"
        case TimelineKind.ASSISTANT_MESSAGE:
            return str(data.get("text", ""))
        case TimelineKind.TOOL_CALL:
            failed = " (failed)" if data.get("status") == ToolCallStatus.FAILED else ""
            name = one_line(str(data.get("name", "Tool")))
            return f"[{name}] {one_line(summarize_input(data.get('input')))}{failed}".rstrip()
        case TimelineKind.STATUS:
            return f"[Status] {data.get('text', '')}"
        case TimelineKind.PERMISSION:
            again = ", as it was answered before" if data.get("again") else ""
            return f"[Permission] {one_line(str(data.get('name', '')))}: {data.get('status', '')}{again}"
        case TimelineKind.WORKTREE_SETUP:
            return f"[Setup] {data.get('status', '')}: {data.get('text', '')}"
        case TimelineKind.AGENT_FINISHED:
            named = data.get("title") or data.get("agentId", "")
            ended = "has finished" if data.get("status") == SessionState.IDLE else "has failed"
            said = f": {data['text']}" if data.get("text") else ""
            return f"[Agent] {named} {ended}{said}"
        case TimelineKind.ERROR:
            return f"[Error] {data.get('message', '')}"


def summarize_input(given: object) -> str:
    if isinstance(given, dict):
        for name in ("command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "text"):
            if isinstance(given.get(name), str) and given[name]:
                return str(given[name])[:LONGEST_SUMMARY]
    text = json.dumps(given, ensure_ascii=False) if given else ""
    return text[:LONGEST_SUMMARY]
