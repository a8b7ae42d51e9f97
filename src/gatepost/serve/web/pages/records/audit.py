"""The audit log: who did what, what was refused, and whether the chain is whole."""

from gatepost.serve.control.arguments.records.audit import AuditEntry, ListAuditArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import (
    badge,
    code,
    made,
    make_table,
    moment,
    number,
    render_fields,
    shorten,
    text,
)
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView

LIMIT = 300
VERIFY = Action(label="Verify the chain", operation="audit.verify", asks=True)


def show_details(entry: AuditEntry) -> str | None:
    details = entry.details
    if not isinstance(details, dict):
        return shorten(str(details)) if details else None
    return render_fields(details) or None


ENTRY = (
    number("seq", "No."),
    moment("at", "When"),
    text("actor", "Who"),
    code("action", "What"),
    badge("verdict", "Outcome"),
    made("details", "Details", show_details),
)
GATEWAY = text("gateway", "Gateway")  # whose chain the row is in, if several share the store


@page("/audit", "Audit", Section.GATEWAY, "audit.list", order=40)
async def show_audit(request: PageRequest) -> PageView:
    found = await request.ask(ListAuditArgs(limit=LIMIT))
    newest_first = sorted(found, key=lambda entry: -entry.seq)
    fields = (*ENTRY, GATEWAY) if any(each.gateway for each in found) else ENTRY
    return PageView(
        lead="Each row carries the hash of the one before. A row that was changed or taken out is found.",
        blocks=[make_table(newest_first, fields, EmptyState(text="Nothing was done yet."))],
        actions=(VERIFY,),
    )
