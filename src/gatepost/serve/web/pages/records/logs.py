"""Logs: what the gateway wrote last, by level and words."""

from gatepost.core.files.log_tail import LogLevel, LogLine
from gatepost.serve.control.arguments.logs import TailLogArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import make_columns, make_table, shorten
from gatepost.serve.web.dashboard.view import Block, EmptyState, Filter, LongText, PageView

LINES, MOST_TRACES = 200, 5
LEVELS = (
    (LogLevel.ERROR, "Errors"),
    (LogLevel.WARNING, "Warnings and errors"),
    (LogLevel.INFO, "All but details"),
    (LogLevel.DEBUG, "Everything"),
)
EMPTY = EmptyState(text="The log has no such lines. `gatepost logs -f` follows it at a terminal.")
LINE = make_columns(LogLine)


@page("/logs", "Logs", Section.GATEWAY, "logs.tail", order=80)
async def show_logs(request: PageRequest) -> PageView:
    level = request.query.get("level", LogLevel.INFO)
    words = request.query.get("q", "")
    found = await request.ask(TailLogArgs, level=level, words=words[:200], limit=LINES)
    return PageView(
        lead=f"The last {LINES} lines that fit. Secrets were left out when they were written.",
        blocks=[make_table(found, LINE, EMPTY), *list_traces(found)],
        filters=(Filter(name="level", label="Show", choices=LEVELS, chosen=level),),
        searches=True,
    )


def list_traces(lines: list[LogLine]) -> list[Block]:
    """Return where the last errors came from."""
    traced = [each for each in lines if each.exception][:MOST_TRACES]
    return [LongText(title=shorten(f"{each.event} ({each.at})", 100), text=each.exception) for each in traced]
