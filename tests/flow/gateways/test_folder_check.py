"""Whether a group's folder is here: what lies elsewhere is named with its gateway, and what moves is not written to."""

from pathlib import Path

import pytest

from gatepost.core.errors import Unavailable
from gatepost.core.home import Home
from gatepost.flow.gateways.folder_check import FolderElsewhere, check_here, claim_found, claim_here, is_here
from gatepost.store.gateways import group_moves, group_places
from gatepost.store.port import Store
from gatepost.store.sessions import groups

HERE, THERE = Home(Path("/a"), gateway="a"), Home(Path("/b"), gateway="b")
ALONE = Home(Path("/c"))


async def test_who_writes_first_has_the_folder_and_the_others_are_told_where_it_is(store: Store) -> None:
    for each in (HERE, THERE):
        await check_here(store, each, "acme/eng")
    await claim_here(store, HERE, "acme/eng", 1)
    assert await is_here(store, HERE, "acme") and not await is_here(store, THERE, "acme")
    for ask in (check_here(store, THERE, "acme"), claim_here(store, THERE, "acme", 2)):
        with pytest.raises(FolderElsewhere, match="the files of acme are on gateway 'a'; run this there") as refused:
            await ask
        assert refused.value.gateway == "a"
    assert await store.read(group_places.find_gateway, "acme/eng") == "a"


async def test_what_moves_is_read_and_not_written_to(store: Store) -> None:
    await claim_here(store, HERE, "acme", 1)
    await store.write(group_moves.add, "acme", "a", "b", 2)
    await check_here(store, HERE, "acme")
    with pytest.raises(Unavailable, match="it moves to another gateway; try again when it has arrived"):
        await claim_here(store, HERE, "acme", 3)
    with pytest.raises(FolderElsewhere):
        await claim_here(store, THERE, "acme", 3)


async def test_a_gateway_by_itself_has_every_folder_and_writes_no_place(store: Store) -> None:
    await claim_here(store, ALONE, "acme", 1)
    assert await store.read(group_places.list_all) == {}
    await claim_here(store, HERE, "acme", 1)
    await check_here(store, ALONE, "acme")
    assert await is_here(store, ALONE, "acme")


async def test_what_nobody_has_is_claimed_by_who_has_its_files_alone(store: Store, tmp_path: Path) -> None:
    a, b = (Home(tmp_path / name, gateway=name) for name in "ab")
    for folder in ("acme", "acme/eng", "gone", "taken"):
        await store.write(groups.add, folder, folder, "", 1)
        (a.group(folder) / "skills").mkdir(parents=True)
    b.group("acme").mkdir(parents=True)  # empty: it has nothing of it
    (a.group("gone") / "skills").rmdir()
    await store.write(group_places.claim, "taken", "c", 1)
    folders = ["acme", "acme/eng", "gone", "taken"]
    assert await claim_found(store, b, folders, 2) == ["acme", "gone"]
    with pytest.raises(Unavailable, match="no gateway has its files; put them into `groups`"):
        await claim_here(store, b, "acme/eng", 3)
    assert await claim_found(store, a, folders, 4) == ["gone"]
    assert await store.read(group_places.list_all) == {"acme": "a", "taken": "c"}
    with pytest.raises(FolderElsewhere):
        await claim_here(store, b, "acme/eng", 5)
