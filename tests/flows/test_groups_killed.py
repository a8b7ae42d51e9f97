"""A gateway that is killed while it makes a group: the group is absent or whole, and so it is after the next start."""

import subprocess
import sys
from pathlib import Path

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.flow.groups.groups import complete_folders, ensure_defaults, make_folder
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.sessions import groups

WHOLE = {"AGENTS.md", "CLAUDE.md", "work.md", "skills"}

# Each child makes one group, and ends without a word at its n-th touch of a file.
KILLED = """
import asyncio, os, sys
from pathlib import Path
from gatepost.core.event_bus import EventBus
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.core.settings import load_declared
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.serve.control.operations import groups
from gatepost.store.engine.sqlite_store import SqliteStore

home, left = Home(Path(sys.argv[1])), -1

def touch(event, args):
    global left
    if event in ("open", "os.mkdir", "os.rename", "os.symlink", "os.chmod", "os.chown"):
        left -= 1
        if left == 0:
            os._exit(9)

async def add(number):
    global left
    store = SqliteStore(home.store, readers=1)
    config = load_declared(home.path)
    office = OperationDeps(home=home, store=store, clock=SystemClock(), config=config, events=EventBus())
    left = number
    await OPERATIONS["group.add"](office, {"folder": f"g{number}"})
    left = -1
    store.close()

sys.addaudithook(touch)
for number in range(1, 100):
    pid = os.fork()
    if pid == 0:
        asyncio.run(add(number))
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0:
        print(number)
        break
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "h")
    made.prepare()
    migrate(made.store, SystemClock())
    return made


def names(home: Home, folder: str) -> set[str]:
    return {path.name for path in home.group(folder).iterdir()}


async def start(home: Home) -> None:
    store = SqliteStore(home.store, readers=1)
    try:
        await ensure_defaults(store, home, SystemClock())
    finally:
        store.close()


@pytest.mark.slow
def test_stranger_22_a_group_is_absent_or_whole_wherever_its_making_is_killed(home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(home.path)], capture_output=True, text=True, check=True, timeout=120
    )
    last = int(done.stdout)

    made = [group.folder for group in read_snapshot(home.store, groups.list_all)]
    assert last > 5 and f"g{last}" in made  # it was killed at several points, and then came through
    assert {folder: names(home, folder) & WHOLE for folder in made} == dict.fromkeys(made, WHOLE)


@pytest.mark.slow
def test_stranger_22_a_killed_making_can_be_repeated(home: Home) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(home.path)], capture_output=True, check=True, timeout=120)
    made = {group.folder for group in read_snapshot(home.store, groups.list_all)}
    for folder in (path.name for path in home.groups.iterdir() if path.name not in made):
        make_folder(home, folder)
        assert names(home, folder) >= WHOLE


async def test_stranger_22_a_half_made_group_of_an_older_gateway_is_completed_at_the_start(home: Home) -> None:
    store = SqliteStore(home.store, readers=1)
    for folder in ("missing", "empty", "half", "half/child", "changed", "cleared"):
        await store.write(groups.add, folder, "", "", 1)
    store.close()
    home.group("empty").mkdir()
    for folder in ("half", "half/child", "changed", "cleared"):
        make_folder(home, folder)
    (home.group("half") / "work.md").unlink()
    (home.group("half") / ".x.tmp").write_text("a draft that was never put in place")
    (home.group("changed") / "work.md").unlink()
    (home.group("changed") / "AGENTS.md").write_text("I keep no work.md")
    for name in WHOLE - {"skills"}:
        (home.group("cleared") / name).unlink()
    await start(home)

    for folder in ("missing", "empty", "half", "half/child"):
        assert names(home, folder) >= WHOLE, folder
    assert "work.md" not in names(home, "changed")
    assert names(home, "cleared") == {"skills"}  # somebody took them away: whoever makes a group begins with AGENTS.md


def test_a_folder_that_cannot_be_completed_does_not_stop_the_start(home: Home, tmp_path: Path) -> None:
    (home.groups / "acme").symlink_to(tmp_path)
    acme = groups.Group(folder="acme", name="acme", created_at=1)

    assert complete_folders(home, [acme]) == []
