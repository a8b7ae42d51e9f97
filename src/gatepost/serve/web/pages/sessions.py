"""Conversations: which are open, what each does, and the buttons that stop, close, fork and replay one."""

from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import Answer, badge, link, made, make_table, moment, shorten, text
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView, Tone
from gatepost.store.sessions import SessionState

EMPTY = EmptyState(text="Nobody talks with an agent yet. Say something in the chat.")
SESSION = (
    link("id", "Conversation", "/sessions/{id}", shown=lambda session: session["title"] or session["id"]),
    link("folder", "Group", "/groups/{folder}"),
    made("address", "Room", lambda session: shorten(f"{session['address']} {session['thread']}".strip(), 60)),
    text("provider", "Provider"),
    text("model", "Model"),
    badge("state", "State"),
    moment("active_at", "Active"),
)
TURN = (
    made("number", "Turn", lambda turn: turn["number"]),
    text("input", "Asked"),
    made("original", "Then", lambda turn: _show_outcome(turn["original"])),
    made("replayed", "Now", lambda turn: _show_outcome(turn["replayed"])),
)


def _show_outcome(outcome: Answer | None) -> str | None:
    return shorten(outcome["answer"] or outcome["error"] or outcome["state"], 2000) if outcome else None


@page("/sessions", "Conversations", Section.CONVERSATIONS, "session.list", order=10)
async def show_sessions(request: PageRequest) -> PageView:
    found = await request.ask("session.list", folder=request.query.get("folder", ""))
    newest_first = sorted(found, key=lambda session: str(session["active_at"]), reverse=True)
    end = Action(label="Stop all", operation="session.stop_all", asks=True, tone=Tone.BAD)
    return PageView(blocks=[make_table(newest_first, SESSION, EMPTY, actions=list_actions)], actions=(end,))


def list_actions(session: Answer) -> tuple[Action, ...]:
    given = {"id": session["id"]}
    further = (
        Action(label="Fork", operation="session.fork", args=given, asks=True),
        Action(label="Replay", operation="session.replay", args=given, asks=True),
        Action(label="Close", operation="session.close", args=given, asks=True, tone=Tone.BAD),
    )
    if session["state"] == SessionState.RUNNING:
        return (Action(label="Stop", operation="session.stop", args=given), *further)
    return further


@page("/replays/{id}", "Replay", Section.CONVERSATIONS, "session.compare")
async def show_replay(request: PageRequest) -> PageView:
    found = await request.ask("session.compare", id=request.params["id"])
    changed = ", ".join(f"{name}: {shorten(str(value), 60)}" for name, value in found["changes"].items())
    return PageView(
        title=f"Replay of {found['source']}",
        lead=f"Changed: {changed or 'nothing'}. {'It is over.' if found['finished'] else 'It still runs.'}",
        blocks=[make_table(found["turns"], TURN, EmptyState(text="No turn was replayed yet."))],
    )
