"""Messages that were not taken in, and why: who wrote where, and how often."""

from gatepost.serve.control.arguments.ledger import ListDroppedArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import make_columns, make_table
from gatepost.serve.web.dashboard.view import EmptyState, Note, PageView
from gatepost.store.messages.dropped import DroppedCount, DroppedMessage

LIMIT = 200
NONE = EmptyState(text="Nothing was dropped. Messages of strangers and of rooms without a route would be here.")
MESSAGE, COUNT = make_columns(DroppedMessage), make_columns(DroppedCount)


@page("/dropped", "Dropped", Section.CONVERSATIONS, "dropped.list", order=50)
async def show_dropped(request: PageRequest) -> PageView:
    found = await request.ask(ListDroppedArgs(limit=LIMIT))
    total = Note(text=f"{found.total} dropped; {found.only_counted} of them were only counted.")
    return PageView(
        blocks=[
            *([total] if found.total else []),
            make_table(found.counts, COUNT, NONE, title="By reason" if found.counts else ""),
            *([make_table(found.newest, MESSAGE, NONE, title="Newest")] if found.newest else []),
        ]
    )
