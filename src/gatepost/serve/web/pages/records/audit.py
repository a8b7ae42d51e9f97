"""The audit log: who did what, what was refused, and whether the chain is whole."""

from gatepost.serve.control.arguments.logs import AuditEntry, ListAuditArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import made, make_columns, make_table, render_fields, shorten
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView

LIMIT = 300
VERIFY = Action(label="Verify the chain", operation="audit.verify", asks=True)


def show_details(entry: AuditEntry) -> str | None:
    details = entry.details
    if not isinstance(details, dict):
        return shorten(str(details)) if details else None
    return render_fields(details) or None


ENTRY = make_columns(AuditEntry, {"details": made("details", "Details", show_details)})


@page("/audit", "Audit", Section.GATEWAY, "audit.list", order=40)
async def show_audit(request: PageRequest) -> PageView:
    found = await request.ask(ListAuditArgs(limit=LIMIT))
    newest_first = sorted(found, key=lambda entry: -entry.seq)
    several = any(each.gateway for each in found)  # gateways share the store, each with its chain
    fields = [each for each in ENTRY if several or each.name != "gateway"]
    return PageView(
        lead="Each row carries the hash of the one before. A row that was changed or taken out is found.",
        blocks=[make_table(newest_first, fields, EmptyState(text="Nothing was done yet."))],
        actions=(VERIFY,),
    )
