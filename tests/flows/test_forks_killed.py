"""A gateway that is killed while it forks a conversation: there is no child, or a whole one, and the parent is as it
was."""

import asyncio
import subprocess
import sys
from pathlib import Path

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.schedule import retention
from gatepost.store.sessions import forks, groups, sessions
from gatepost.store.sessions.sessions import Session, SessionMode

FILES = {f"home/{name}.jsonl": f"{name}\n" * 50 for name in ("one", "two", "three")}

# Each child forks once, and ends without a word at its n-th touch of a file.
KILLED = """
import asyncio, os, sys
from pathlib import Path
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.flow.sessions.forking import ForkRequest, SessionForker
from gatepost.store.engine.sqlite_store import SqliteStore

home, parent, left = Home(Path(sys.argv[1])), sys.argv[2], -1

def touch(event, args):
    global left
    if event in ("open", "os.mkdir", "os.rename", "os.chmod", "os.chown", "os.utime", "os.remove", "os.rmdir"):
        left -= 1
        if left == 0:
            os._exit(9)

async def end(session_id, reason):
    pass

async def fork(number):
    global left
    store = SqliteStore(home.store, readers=1)
    config = Config({"sessions.max_forks": 1000})
    forker = SessionForker(home, store, SystemClock(), config, FairThreadPool(), end)
    left = number
    made = await forker.fork(ForkRequest(parent_id=parent, topic=f"t{number}"), store.write)
    assert made.how == "copied"
    left = -1
    store.close()

sys.addaudithook(touch)
for number in range(1, 300):
    pid = os.fork()
    if pid == 0:
        asyncio.run(fork(number))
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0:
        print(number)
        break
"""


def _add_parent(db: Db) -> Session:
    groups.add(db, "home", "home", "scripted", 1)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "home", "web", "web:home", "", 1)
    sessions.set_conversation(db, session.id, "scripted", "one", 1)
    return session


def read_files(home: Home, session_id: str) -> dict[str, str]:
    state = home.session(session_id) / "state" / "scripted"
    return {str(path.relative_to(state)): path.read_text() for path in state.rglob("*") if path.is_file()}


async def prepare(home: Home) -> Session:
    home.prepare()
    migrate(home.store, SystemClock())
    store = SqliteStore(home.store, readers=1)
    parent = await store.write(_add_parent)
    store.close()
    return parent


def test_a_fork_is_absent_or_whole_wherever_it_is_killed(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    parent = asyncio.run(prepare(home))
    for name, text in FILES.items():
        path = home.session(parent.id) / "state" / "scripted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(home.path), parent.id],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    last = int(done.stdout)
    made = [each for each in read_snapshot(home.store, sessions.list_open) if each.thread]
    folders = {each.name for each in home.sessions.iterdir()}

    assert last > 15 and f"t{last}" in {each.thread for each in made}  # killed at many points, and then came through
    for child in made:
        assert read_files(home, child.id) == FILES
        assert read_snapshot(home.store, forks.get, child.id) is not None
    assert read_files(home, parent.id) == FILES
    left = folders - {each.id for each in made} - {parent.id}
    assert len(left) > 10  # what was killed left folders, and retention knows that nobody has them
    assert set(read_snapshot(home.store, retention.list_unknown_sessions, sorted(folders))) == left
