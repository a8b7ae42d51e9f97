"""The ledger: every message, where it is, and what holds it up; and the whole life of one."""

from gatepost.serve.control.arguments.ledger import STATES
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import badge, link, make_facts, make_table, moment, number, text
from gatepost.serve.web.dashboard.view import (
    EmptyState,
    Filter,
    LongText,
    Note,
    PageView,
    TimelineBlock,
    TimelineMoment,
    Tone,
)

LIMIT = 200
LINE = (
    link("id", "Message", "/ledger/{id}"),
    moment("at", "When"),
    text("direction", "Way"),
    text("address", "Room"),
    text("sender", "Who"),
    text("text", "Text"),
    badge("state", "State"),
    text("reason", "Why"),
    number("tries", "Tries"),
)
MESSAGE = (
    moment("at", "Said"),
    moment("accepted_at", "Accepted"),
    text("direction", "Way"),
    text("instance", "Channel"),
    text("address", "Room"),
    text("thread", "Topic"),
    text("sender", "Who"),
    link("folder", "Group", "/groups/{folder}"),
    text("platform_id", "The platform's id"),
)


@page("/ledger", "Ledger", Section.CONVERSATIONS, "ledger.list", order=40)
async def show_ledger(request: PageRequest) -> PageView:
    state = request.query.get("state", "")
    found = await request.ask("ledger.list", limit=LIMIT, **({"state": state} if state else {}))
    check = await request.ask("ledger.check", running=True)
    whole = not check["unaccounted"] and not check["overdue"]
    note = Note(
        text=f"{check['unaccounted']} unaccounted, {check['in_flight']} on their way, {check['overdue']} overdue.",
        tone=Tone.GOOD if whole else Tone.BAD,
    )
    empty = EmptyState(text="No message is in this state." if state else "Nobody has said anything yet.")
    choices = tuple((each, each or "All") for each in ("", *STATES))
    return PageView(
        lead="Every message that came or went, newest first. Nothing leaves this list without a reason.",
        blocks=[note, make_table(found[::-1], LINE, empty)],
        filters=(Filter(name="state", label="State", choices=choices, chosen=state),),
    )


@page("/ledger/{id}", "Message", Section.CONVERSATIONS, "ledger.trace")
async def show_message(request: PageRequest) -> PageView:
    trace = await request.ask("ledger.trace", message=request.params["id"])
    message = trace["message"]
    entries = [
        TimelineMoment(at=each["at"], what=each["what"], who=f"+{each['offset_ms']:.0f} ms", text=each["detail"])
        for each in trace["moments"]
    ]
    effects = make_table(
        trace["effects"],
        (text("op", "What"), text("address", "Where"), badge("state", "State"), text("reason", "Why")),
        EmptyState(text="Nothing was sent because of it."),
        title="What was sent",
    )
    calls = make_table(
        trace["model_calls"],
        (moment("at", "When"), text("model", "Model"), number("input", "Tokens in"), number("output", "Tokens out")),
        EmptyState(text="No model was called."),
        title="Model calls",
    )
    return PageView(
        title=f"Message {message['id']}",
        blocks=[
            make_facts(message, MESSAGE),
            LongText(title="Text", text=message["text"]),
            TimelineBlock(title="Its life", entries=entries, empty="Nothing is known of it."),
            effects,
            calls,
        ],
    )
