"""How one agent is put back from a backup, with its folder, its rows and what its conversations remember.

Everything is laid out first in a folder of its own, beside `groups/`. A plan in it, written last, is the word that it
begins. From then on every step can be done again, and a start of the gateway does them: so a process that dies leaves
the old agent or the new one. Folders of the agents below it lie in its own, and are not touched.
"""

import json
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import Clock, iso
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.files.private_files import make_private_file, sync_folder
from gatepost.core.files.untrusted_files import UntrustedFolder, open_untrusted, remove_folder
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskingRules, read_rules
from gatepost.flow.requests.restored_rows import hold_group
from gatepost.flow.schedule.held_texts import withdraw_text
from gatepost.serve.backups.archive import MAILBOXES, STORE
from gatepost.serve.backups.restoring import unpack
from gatepost.store.engine.migrate import migrate
from gatepost.store.gateways import gateways
from gatepost.store.port import Db, Store
from gatepost.store.rights import waiting_requests
from gatepost.store.rights.requests import RequestKind
from gatepost.store.schedule import tasks
from gatepost.store.schedule.tasks import TaskState
from gatepost.store.sessions.group_copy import (
    REPLACED,
    GroupCopy,
    check_copy,
    count_rows,
    list_below,
    put_back,
    read_copy,
)

PLACE, PLAN, THEN, NOW = "group-restore", "plan.json", "then", "now"
LARGEST_PLAN = 64 * 1024 * 1024
_log = log.get("backups")


class GroupPlan(Struct, frozen=True, kw_only=True):
    """`out`, `into`: paths below the folder that has `groups/` and `sessions/`. `counts`: rows by table, now and then.
    `begun_at`: of the request that is asked about what it had in flight."""

    folder: str
    source: str
    made_at: int
    begun_at: int
    out: tuple[str, ...]
    into: tuple[str, ...]
    counts: dict[str, tuple[int, int]]
    left: tuple[str, ...] = ()  # groups below it

    @property
    def title(self) -> str:
        when = f" of {iso(self.made_at)}" if self.made_at else ""
        return f"{self.source}{when}"


def find_place(home: Home) -> Path:
    return home.place / PLACE


async def lay_out(
    home: Home, store: Store, clock: Clock, folder: str, source: Path, identity: str = "", gateway: str = ""
) -> GroupPlan:
    """Make everything ready, and change nothing yet. `gateway`: who does it, on a store that several share.

    Raise Invalid if the backup has no such agent, or does not fit.
    """
    place = find_place(home)
    if (place / PLAN).exists():
        raise SetupError("an earlier one was interrupted after it had begun; `gatepost up` finishes it first")
    remove_folder(place)
    then = place / THEN
    then.mkdir(parents=True, mode=0o700)
    facts = unpack(source, then, identity, lambda name: False).facts
    migrate(then / STORE, clock)
    copy = read_copy(then / STORE, folder)
    kept = then.with_suffix(".store")
    (then / STORE).rename(kept)
    tops = (f"groups/{folder}", *(f"sessions/{each}" for each in copy.session_ids))
    unpack(source, then, identity, lambda name: any(f"{name}/".startswith(f"{top}/") for top in tops))
    kept.replace(then / STORE)
    await store.read(check_copy, copy)
    below = sorted({*copy.below, *await store.read(list_below, folder)})
    living = await store.read(gateways.list_living, clock.now())
    if any(each.name != gateway for each in living):
        raise SetupError("other gateways work on this store; stop them first: they would work with the old rows")
    with open_untrusted(home.place) as root:
        out = list(_list_entries(root, "", copy, below))
        into = list(_list_entries(root, f"{PLACE}/{THEN}/", copy, below))
    present = await store.read(count_rows, folder)
    return GroupPlan(
        folder=folder,
        source=source.name,
        made_at=facts.made_at,
        begun_at=clock.now(),
        out=tuple(out),
        into=tuple(into),
        counts={name: (present[name], len(copy.tables[name].rows)) for name in (*REPLACED, "tasks")},
        left=tuple(below),
    )


def _list_entries(root: UntrustedFolder, above: str, copy: GroupCopy, below: Iterable[str]) -> Iterable[str]:
    """Yield what is moved: all in the agent's folder but the folders of agents below it, and what its conversations
    keep. Mailboxes are made anew from the store."""
    folder = f"groups/{copy.folder}"
    kept = {each.removeprefix(f"{copy.folder}/").split("/")[0] for each in below}
    yield from (f"{folder}/{name}" for name in _list_names(root, above + folder) if name not in kept)
    for session in (f"sessions/{each}" for each in copy.session_ids):
        yield from (f"{session}/{name}" for name in _list_names(root, above + session) if name not in MAILBOXES)


def _list_names(root: UntrustedFolder, path: str) -> list[str]:
    if not root.exists(path) or not stat.S_ISDIR(root.stat(path).st_mode):
        return []
    return root.list(path, most=sys.maxsize)


def begin(home: Home, plan: GroupPlan) -> None:
    """From here on it will be done, by us or by the next start."""
    place = find_place(home)
    part = place / f"{PLAN}.part"
    part.unlink(missing_ok=True)
    with make_private_file("plan", part) as file:
        file.write(json.dumps(msgspec.to_builtins(plan)).encode())  # names of files may be no text
    part.rename(place / PLAN)
    sync_folder(place)


def forget(home: Home) -> None:
    """Remove what was laid out and not begun."""
    if not (find_place(home) / PLAN).exists():
        remove_folder(find_place(home))


async def finish(
    home: Home, store: Store, channels: ChannelInstances, config: Config, clock: Clock
) -> GroupPlan | None:
    """Do what was begun; None if nothing was. Each step can be done again."""
    place = find_place(home)
    if not (place / PLAN).is_file():
        return None
    with (place / PLAN).open("rb") as file:
        plan = msgspec.convert(json.loads(file.read(LARGEST_PLAN)), type=GroupPlan)
    copy = read_copy(place / THEN / STORE, plan.folder)
    await store.write(_put_rows, channels, read_rules(config), copy, plan, clock.now())
    with open_untrusted(home.place) as root:
        for path in plan.out:
            _move_out(root, path, plan)
        for path in plan.into:
            _move_into(root, path)
    sync_folder(home.place)
    (place / PLAN).unlink()  # now it is done; what is left is nobody's
    sync_folder(place)
    remove_folder(place)
    _log.info("an agent was put back", folder=plan.folder, source=plan.title)
    return plan


def _put_rows(
    db: Db, channels: ChannelInstances, rules: AskingRules, copy: GroupCopy, plan: GroupPlan, now: int
) -> None:
    hold_group(db, channels, rules, copy.folder, plan.title, now)
    asked = [each.name for each in waiting_requests.list_pending(db) if each.kind is RequestKind.TEXT]
    before = [task for each in asked if (task := tasks.get(db, each)) is not None and task.folder == copy.folder]
    put_back(db, copy, now)
    for task in before:
        after = tasks.get(db, task.id)
        if after is None or after.spoken != task.spoken or after.state is TaskState.CANCELLED:
            withdraw_text(db, task, f"its task was put back from a backup: {plan.source}", now)


def _move_out(root: UntrustedFolder, path: str, plan: GroupPlan) -> None:
    """Files that are there and were not moved yet. A path that has come is not moved out again: it is no longer in
    `then`."""
    aside = f"{PLACE}/{NOW}/{path}"
    has_come = path in plan.into and not root.exists(f"{PLACE}/{THEN}/{path}")
    if has_come or root.exists(aside) or not root.exists(path):
        return
    root.make_dir(aside.rpartition("/")[0], 0o700)
    root.move(path, aside)


def _move_into(root: UntrustedFolder, path: str) -> None:
    laid = f"{PLACE}/{THEN}/{path}"
    if not root.exists(laid):
        return  # it has come
    above, _, _ = path.rpartition("/")
    if not root.exists(above):
        like = root.stat(f"{PLACE}/{THEN}/{above}")
        root.make_dir(above, stat.S_IMODE(like.st_mode), like.st_uid, like.st_gid)
    root.move(laid, path)


def describe(plan: GroupPlan) -> list[str]:
    """Return what will change, a line each."""
    said = [f"what changes if {plan.folder} is put back as it was in {plan.title}:"]
    for name, (now, then) in plan.counts.items():
        said.append(f"  {name.replace('_', ' ')}: {now} now, {then} then")
    own = f"groups/{plan.folder}/"
    said.append(
        f"  its folder: {_count(plan.out, own)} entries go, {_count(plan.into, own)} come; its name and what its"
        " conversations remember come, too"
    )
    if plan.left:
        said.append(f"  not touched: {', '.join(plan.left[:5])}{' …' if len(plan.left) > 5 else ''}, in its folder")
    said.append("  as they are now: provider, model, options, limits, rights, walls, mounts, secrets, budgets, skills")
    said.append("  so are its pages and what was said")
    said.append("  what it has in flight is held until the owner decides; tasks that would be due at once are paused")
    return said


def _count(paths: Iterable[str], above: str) -> int:
    return sum(each.startswith(above) for each in paths)


def check_folder(folder: str) -> str:
    if not folder or any(part in ("", ".", "..") for part in folder.split("/")):
        raise Invalid("--group", f"{folder[:80]!r} is no agent's folder")
    return folder
