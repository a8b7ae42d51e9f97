"""Retention: what is kept, for how long, how much there is, and removing what is over age now."""

from gatepost.serve.control.arguments.records.retention import ShowRetentionArgs, StoreSize
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, made, make_table, moment, number, text
from gatepost.serve.web.dashboard.view import Action, EmptyState, Fact, Facts, PageView, Tone

MIB = 1024 * 1024
RUN = Action(label="Remove what is over age", operation="keep.run", asks=True, tone=Tone.BAD)
NOTHING = EmptyState(text="Nothing is kept.")
DAYS = made("days", "Kept for", lambda each: f"{each.days} days" if each.days else "ever")
SETTING = link("setting", "Setting", "/settings/{name}")
KEPT_ROWS = (
    text("what", "What"),
    DAYS,
    number("rows", "Rows"),
    number("over_age", "Over age"),
    moment("oldest", "Oldest"),
    SETTING,
)
KEPT_FILES = (text("what", "What"), DAYS, made("bytes", "Size", lambda each: render_size(each.bytes)), SETTING)


def render_size(size: int) -> str:
    return f"{size / MIB:,.1f} MB"


@page("/keep", "Retention", Section.GATEWAY, "keep.show", order=50)
async def show_retention(request: PageRequest) -> PageView:
    found = await request.ask(ShowRetentionArgs())
    return PageView(
        lead="A running gateway removes what is over age every few hours. What something in flight needs stays.",
        actions=(RUN,) if await request.may("keep.run") else (),
        blocks=[
            make_table(found.rows, KEPT_ROWS, NOTHING),
            make_table(found.files, KEPT_FILES, NOTHING, title="Files"),
            make_store(found.store),
        ],
    )


def make_store(store: StoreSize) -> Facts:
    space = "goes back to the disk" if store.shrinks else "is used again; the file does not shrink"
    return Facts(title="Store", items=[Fact("Size", render_size(store.bytes)), Fact("Freed space", space)])
