"""Retention: what is kept, for how long, how much there is, and removing what is over age now."""

from gatepost.serve.control.arguments.ledger import (
    KeptFiles,
    KeptRows,
    ShowRetentionArgs,
    StoreSize,
    render_size,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, make_columns, make_table
from gatepost.serve.web.dashboard.view import Action, EmptyState, Fact, Facts, PageView, Tone

RUN = Action(label="Remove what is over age", operation="keep.run", asks=True, tone=Tone.BAD)
NOTHING = EmptyState(text="Nothing is kept.")
OWN = {"setting": link("setting", "Setting", "/settings/{name}")}
KEPT_ROWS, KEPT_FILES = make_columns(KeptRows, OWN), make_columns(KeptFiles, OWN)


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
