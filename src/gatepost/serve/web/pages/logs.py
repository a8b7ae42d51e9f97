"""Logs: what the gateway wrote last, by level and words. The audit log: who did what, and whether the chain is
whole."""

from gatepost.core.files.log_tail import LogLevel, LogLine
from gatepost.serve.control.arguments.logs import AuditEntry, ListAuditArgs, TailLogArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import made, make_columns, make_table, render_fields, shorten
from gatepost.serve.web.dashboard.view import Action, Block, EmptyState, Filter, LongText, PageView

LINES, MOST_TRACES = 200, 5
LEVELS = (
    (LogLevel.ERROR, "Errors"),
    (LogLevel.WARNING, "Warnings and errors"),
    (LogLevel.INFO, "All but details"),
    (LogLevel.DEBUG, "Everything"),
)
NO_LINES = EmptyState(text="The log has no such lines. `gatepost logs -f` follows it at a terminal.")
LOG_LINE = make_columns(LogLine)
AUDIT_LIMIT = 300
VERIFY_AUDIT = Action(label="Verify the chain", operation="audit.verify", asks=True)


@page("/logs", "Logs", Section.SYSTEM, "logs.tail", order=80)
async def show_logs(request: PageRequest) -> PageView:
    level = request.query.get("level", LogLevel.INFO)
    words = request.query.get("q", "")
    found = await request.ask(TailLogArgs, level=level, words=words[:200], limit=LINES)
    return PageView(
        lead=f"The last {LINES} lines that fit. Secrets were left out when they were written.",
        blocks=[make_table(found, LOG_LINE, NO_LINES), *list_traces(found)],
        filters=(Filter(name="level", label="Show", choices=LEVELS, chosen=level),),
        searches=True,
    )


def list_traces(lines: list[LogLine]) -> list[Block]:
    """Return where the last errors came from."""
    traced = [each for each in lines if each.exception][:MOST_TRACES]
    return [LongText(title=shorten(f"{each.event} ({each.at})", 100), text=each.exception) for each in traced]


def show_audit_details(entry: AuditEntry) -> str | None:
    details = entry.details
    if not isinstance(details, dict):
        return shorten(str(details)) if details else None
    return render_fields(details) or None


AUDIT_ENTRY = make_columns(AuditEntry, {"details": made("details", "Details", show_audit_details)})


@page("/audit", "Record", Section.ACTIVITY, "audit.list", order=40)
async def show_audit(request: PageRequest) -> PageView:
    found = await request.ask(ListAuditArgs(limit=AUDIT_LIMIT))
    newest_first = sorted(found, key=lambda entry: -entry.seq)
    several = any(each.gateway for each in found)  # gateways share the store, each with its chain
    fields = [each for each in AUDIT_ENTRY if several or each.name != "gateway"]
    return PageView(
        lead="Each row carries the hash of the one before. A row that was changed or taken out is found.",
        blocks=[make_table(newest_first, fields, EmptyState(text="Nothing was done yet."))],
        actions=(VERIFY_AUDIT,),
    )
