"""The pages of groups, as data and over HTTP."""

from types import SimpleNamespace
from typing import Any

from gatepost.flow.groups.file_records import GroupFileText
from gatepost.serve.control.arguments.groups import GroupDetails
from gatepost.serve.web.dashboard.view import FormBlock, TableBlock
from gatepost.serve.web.pages.groups import list_moves, make_editor_view, make_tree_view


def group(folder: str, gateway: str = "") -> GroupDetails:
    return GroupDetails(
        folder=folder,
        name="",
        provider="",
        model="",
        sandbox="",
        options={},
        open=False,
        window_messages=None,
        window_chars=None,
        created_at=0,
        tier=1,
        routes=[],
        destinations=[],
        sessions=[],
        gateway=gateway,
        moves_to="",
    )


def test_groups_are_a_tree() -> None:
    view = make_tree_view([group(each) for each in ("home", "acme/eng/x", "acme-b", "acme", "acme/eng")])
    [table] = [each for each in view.blocks if isinstance(each, TableBlock)]
    shown = [(row.cells[0].text, row.depth) for row in table.rows]  # type: ignore[union-attr]
    assert shown == [("acme", 0), ("acme/eng", 1), ("acme/eng/x", 2), ("acme-b", 0), ("home", 0)]


def test_the_editor_sends_the_version_that_it_shows_and_only_who_may_write_has_one() -> None:
    file = GroupFileText(folder="acme", path="AGENTS.md", text="</textarea><script>", version="v1")
    [form] = [each for each in make_editor_view(file, writes=True).blocks if isinstance(each, FormBlock)]
    assert form.args == {"folder": "acme", "path": "AGENTS.md", "version": "v1"} and form.keeps
    assert not [each for each in make_editor_view(file, writes=False).blocks if isinstance(each, FormBlock)]


def test_a_group_can_be_moved_where_there_is_another_gateway_that_lives() -> None:
    acme = group("acme/eng", "north")
    north, south, west = (SimpleNamespace(name=name, alive=True) for name in ("north", "south", "west"))
    assert list_moves(acme, [north]) == list_moves(acme, [north, SimpleNamespace(name="south", alive=False)]) == ()
    assert list_moves(group("acme/eng"), [north, south]) == ()
    [only] = list_moves(acme, [north, south])
    [asks] = list_moves(acme, [north, south, west])
    assert (only.args, asks.args) == ({"folder": "acme/eng", "gateway": "south"}, {"folder": "acme/eng"})


async def test_a_group_below_another_has_its_page_with_files_that_can_be_saved(site: Any) -> None:
    async with site.signed_in() as browser:
        for folder in ("acme", "acme/eng"):
            assert (await browser.post("/dashboard/do/group.add", data={"folder": folder})).status_code == 200
        page = await browser.get("/dashboard/groups/acme%2Feng")
        assert page.status_code == 200 and "?file=AGENTS.md" in page.text and "Tools that it may call" in page.text
        skill = {"folder": "acme/eng", "path": "skills/x/SKILL.md", "content": "</textarea><script>alert(1)</script>"}
        saved = await browser.post("/dashboard/do/group.write_file", data=skill)
        assert saved.status_code == 200 and "data-version" in saved.text
        editor = await browser.get("/dashboard/groups/acme%2Feng?file=skills/x/SKILL.md")
        assert "<script>alert" not in editor.text and "&lt;/textarea&gt;&lt;script&gt;" in editor.text
        again = await browser.post("/dashboard/do/group.write_file", data=skill)
        assert again.status_code == 400 and "is there already" in again.text
        gone = await browser.get("/dashboard/groups/acme%2Feng?file=../AGENTS.md")
        assert gone.status_code == 400
