"""The pages of memory: an entry leads to its own page, wherever it is listed."""

import pytest

from gatepost.serve.web.dashboard.tables import TableField, make_table
from gatepost.serve.web.dashboard.view import Link
from gatepost.serve.web.pages.groups import MEMORY
from gatepost.serve.web.pages.memory import COLUMNS, EMPTY
from gatepost.store.memory.memories import Memory, MemoryScope, MemoryTrust


@pytest.mark.parametrize("columns", [MEMORY, COLUMNS])
def test_an_entry_leads_to_its_page_by_its_id(columns: tuple[TableField, ...]) -> None:
    entry = Memory(
        id=7, folder="home", text="Ann / Bob?", scope=MemoryScope.AGENT, trust=MemoryTrust.MEMBER, created_at=1
    )
    table = make_table([entry], columns, EMPTY)
    [link] = [cell for cell in table.rows[0].cells if isinstance(cell, Link) and cell.text == "Ann / Bob?"]
    assert link.href == "/dashboard/memory/7"
