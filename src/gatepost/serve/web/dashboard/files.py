"""A page's first table as a file, with every row that was asked for."""

import csv
import io
import json

from starlette.responses import Response

from gatepost.core.errors import Invalid
from gatepost.serve.web.dashboard.contract import Page
from gatepost.serve.web.dashboard.view import AgentCards, PageView, TableBlock, get_plain, make_card_table

FILE_KINDS = ("csv", "json")


def render_file(page: Page, view: PageView, kind: str) -> Response:
    table = next((each for each in view.blocks if isinstance(each, TableBlock | AgentCards)), None)
    if isinstance(table, AgentCards):
        table = make_card_table(table)
    if table is None:
        raise Invalid("format", "this page has no table")
    names = [column.name for column in table.columns]
    rows = [[get_plain(cell) for cell in row.cells] for row in table.rows]
    name = page.path.strip("/").replace("/", "-") or "overview"
    headers = {"content-disposition": f'attachment; filename="{name}.{kind}"'}
    if kind == "json":
        body = json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False, indent=1)
        return Response(body, media_type="application/json", headers=headers)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([[_defuse(cell) for cell in row] for row in rows])
    return Response(out.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def _defuse(cell: str | int | None) -> str | int | None:
    """A spreadsheet runs what begins like a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell
