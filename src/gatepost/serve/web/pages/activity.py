"""Everything that happened, in words; and the life of one message. The ledger and the record have each exactly."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from gatepost.core.clock import iso
from gatepost.core.money import render_about_usd
from gatepost.flow.activity_words import render_step
from gatepost.messages.inbound import Direction
from gatepost.serve.control.arguments.activity import (
    LONGEST_SEARCH,
    ActivityEntry,
    ActivityKind,
    ActivityPage,
    ListActivityArgs,
)
from gatepost.serve.control.arguments.ledger import MessageTraceView, TraceMessageArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import shorten
from gatepost.serve.web.dashboard.view import (
    Block,
    Filter,
    Link,
    Note,
    PageView,
    Tab,
    TimelineBlock,
    TimelineMoment,
    Tone,
)

LIMIT = 50
LONGEST_SAID = 200  # characters of a message in the list
LONGEST_CHOICE = 40
KINDS = {
    ActivityKind.MESSAGE: "Messages",
    ActivityKind.CALL: "What agents did",
    ActivityKind.DECISION: "Decisions",
    ActivityKind.COST: "Costs",
    ActivityKind.TASK: "Tasks",
    ActivityKind.CHANNEL: "Channels",
    ActivityKind.CHANGE: "Changes",
    ActivityKind.TROUBLE: "Trouble",
}
TIMES = {"1h": "The last hour", "24h": "The last day", "7d": "The last week", "30d": "The last month"}
NOTHING = (
    "Nothing happened yet that you may see. What is written, done, decided and spent here is told on this page, as far"
    " as your rights go."
)
NOT_FOUND = "Nothing is like that. Choose less, or search for something else."
FURTHER = "Nothing like that happened lately. What came before can be looked through, too."
ORDERED = ("kind", "time")  # choices that have an order of their own
STORY = "/activity/{id}"


@page("/activity", "Everything", Section.ACTIVITY, "activity.list", order=1)
async def show_activity(request: PageRequest) -> PageView:
    given = {name: request.query.get(name, "") for name in ("kind", "agent", "person", "room", "time", "q", "before")}
    asked = ListActivityArgs(
        kind=ActivityKind(given["kind"]) if given["kind"] in KINDS else None,
        agent=given["agent"][:255],
        person=given["person"][:500],
        room=given["room"][:500],
        since=given["time"] if given["time"] in TIMES else "",
        words=given["q"][:LONGEST_SEARCH],
        before=given["before"][:120],
        limit=LIMIT,
    )
    found = await request.ask(asked)
    return make_view(found, given, has_story=await request.may("ledger.trace"))


def make_view(found: ActivityPage, given: Mapping[str, str], *, has_story: bool) -> PageView:
    chosen = {name: value for name, value in given.items() if value and name != "before"}
    more = f"?{urlencode({**chosen, 'before': found.more})}" if found.more else ""
    empty = FURTHER if more else NOT_FOUND if chosen else NOTHING
    entries = [make_moment(each, has_story=has_story) for each in found.entries]
    blocks: list[Block] = [TimelineBlock(entries=entries, empty=empty, more=more, by_day=True)]
    if not entries and more:
        blocks = [Note(text=FURTHER, link=Link("Look further back", more))]
    return PageView(blocks=blocks, filters=tuple(list_filters(found, given)), searches=True)


def make_moment(entry: ActivityEntry, *, has_story: bool) -> TimelineMoment:
    story = Link("How it went", render_path(STORY, id=str(entry.message))) if has_story and entry.message else None
    return TimelineMoment(
        at=iso(entry.at),
        what=entry.what,
        text=shorten(entry.said, LONGEST_SAID) if entry.said else "",
        tone=Tone.BAD if entry.is_trouble else Tone.PLAIN,
        link=story,
    )


def list_filters(found: ActivityPage, given: Mapping[str, str]) -> Iterable[Filter]:
    """People and rooms can be chosen that stand on the page."""
    people = {each.person: each.person_name for each in found.entries if each.person}
    rooms = {each.room: each.room_name for each in found.entries if each.room}
    kinds = {kind.value: label for kind, label in KINDS.items()}
    for name, label, whole, choices in (
        ("kind", "Kind", "Everything", kinds),
        ("agent", "Agent", "Every agent", found.agents),
        ("person", "Person", "Everybody", people),
        ("room", "Room", "Every room", rooms),
        ("time", "Time", "Any time", TIMES),
    ):
        if made := _make_filter(name, label, whole, choices, given.get(name, "")):
            yield made


def _make_filter(name: str, label: str, whole: str, choices: Mapping[str, str], chosen: str) -> Filter | None:
    """None: there is nothing to choose from. A chosen filter stays there to be taken back."""
    known = dict(choices) if not chosen or chosen in choices else {**choices, chosen: _name_last(chosen)}
    if not known:
        return None
    options = [(value, shorten(text, LONGEST_CHOICE)) for value, text in known.items()]
    if name not in ORDERED:
        options.sort(key=lambda each: each[1].casefold())
    return Filter(name=name, label=label, choices=(("", whole), *options), chosen=chosen)


def _name_last(address: str) -> str:
    return address.rpartition(":")[2].rpartition("/")[2] or address


# One message.


@page(STORY, "How it went", Section.ACTIVITY, "ledger.trace")
async def show_story(request: PageRequest) -> PageView:
    wanted = request.params["id"]
    return make_story(await request.ask(TraceMessageArgs(message=wanted[:80])))


def make_story(trace: MessageTraceView) -> PageView:
    message = trace.message
    incoming = message.direction is Direction.IN
    who = message.sender_name or _name_last(message.sender)
    first = TimelineMoment(
        at=iso(message.accepted_at), what=f"{who} wrote" if incoming else "It was written", text=message.text
    )
    place = render_path("/ledger/{id}", id=str(message.id))
    return PageView(
        title="How it went",
        tabs=(Tab(label="Back to everything", href=render_path("/activity")),),
        blocks=[
            Note(text=_render_sum(trace), link=Link("See it exactly", place)),
            TimelineBlock(entries=[first, *list_steps(trace)], empty=""),
        ],
    )


def _render_sum(trace: MessageTraceView) -> str:
    spent = sum(each.micro for each in trace.model_calls)
    took = max((each.offset_ms for each in trace.moments), default=0.0) / 1000
    parts = [f"It took {took:.0f} seconds"] if took >= 1 else ["It took less than a second"]
    return f"{parts[0]}, and {render_about_usd(spent)} was spent." if spent else f"{parts[0]}, and cost nothing."


def list_steps(trace: MessageTraceView) -> Iterable[TimelineMoment]:
    """The same twice in a row is said once. Its arrival is told above."""
    before = ""
    for each in trace.moments:
        what = render_step(each.what)
        if what == before or each.what == "accepted":
            continue
        before = what
        bad = each.what.split()[-1] in ("failed", "refused", "uncertain", "interrupted")
        yield TimelineMoment(at=iso(each.at), what=what, tone=Tone.BAD if bad else Tone.PLAIN)
