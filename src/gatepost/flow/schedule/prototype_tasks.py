"""Gifts of a prototype to a new group besides files: tasks and windows, from its `tasks.toml`.

An agent wrote that file. So it may hold what that agent could set with its tools, within bounds, and all of it is
checked before anything is made. A text is left out: it would speak in a room that no rule was asked about.
"""

import tomllib
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.records import extend
from gatepost.flow.groups import FolderPrototype
from gatepost.flow.schedule.task_changes import TaskRequest, TaskRules, add_task, make_task
from gatepost.flow.schedule.task_rights import find_makers_refusal
from gatepost.flow.schedule.times import parse_spoken_time, parse_when, parse_zone
from gatepost.store.port import Db
from gatepost.store.rooms.origins import OriginChain
from gatepost.store.schedule.tasks import NewTask, TaskFields
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode

SEED_FILE = "tasks.toml"
LARGEST_SEED, MOST_SEEDED = 65_536, 20  # bytes, tasks
Window = Annotated[int, Meta(ge=0, le=1_000_000)]


class SeedPlace(Struct, frozen=True, kw_only=True):
    """The new group, its room, and who makes it."""

    folder: str
    instance: str
    address: str
    created_by: str


class PrototypeTask(TaskFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As `gatepost task add` has it."""

    prompt: str
    when: str = ""
    at: str = ""
    cron: str = ""
    every: str = ""
    tz: str = ""
    max_runs: int | None = None
    until: str = ""


class PrototypeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    window_messages: Window | None = None
    window_chars: Window | None = None


class SeedFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    settings: PrototypeSettings = PrototypeSettings()
    task: list[PrototypeTask] = []


class GroupSeed(Struct, frozen=True, kw_only=True):
    """Checked. `rules`: the operator's, for the transaction that adds it."""

    place: SeedPlace
    settings: PrototypeSettings
    tasks: tuple[NewTask, ...]
    rules: TaskRules


def pop_seed(prototype: FolderPrototype | None, place: SeedPlace, rules: TaskRules, now: int) -> GroupSeed | None:
    """Return what the prototype has for a new group besides files, whoever makes it. The file is the gateway's: the
    group gets what it says, and not the file. None: there is none."""
    data = prototype.files.pop(SEED_FILE, None) if prototype is not None else None
    return parse_seed(data, place, rules, now) if data is not None else None


def parse_seed(data: bytes, place: SeedPlace, rules: TaskRules, now: int) -> GroupSeed:
    """Pure. Invalid names what is wrong, and in which task."""
    found = read_seed(data)
    made = tuple(_make(each, number, place, rules, now) for number, each in enumerate(found.task, 1))
    return GroupSeed(place=place, settings=found.settings, tasks=made, rules=rules)


def read_seed(data: bytes) -> SeedFile:
    """Read what the file says, before any time in it is understood."""
    if len(data) > LARGEST_SEED:
        raise Invalid(SEED_FILE, f"has {len(data)} bytes; the most is {LARGEST_SEED}")
    try:
        found = msgspec.convert(tomllib.loads(data.decode()), SeedFile)
    except (ValueError, RecursionError) as error:
        raise Invalid(SEED_FILE, f"in your prototype/ cannot be read: {str(error)[:300]}") from None
    if any(each.text for each in found.task):
        raise Invalid(SEED_FILE, "in your prototype/ has a task with a text; it may have prompts alone")
    if len(found.task) > MOST_SEEDED:
        raise Invalid(SEED_FILE, f"has {len(found.task)} tasks; the most is {MOST_SEEDED}")
    return found


def _make(task: PrototypeTask, number: int, place: SeedPlace, rules: TaskRules, now: int) -> NewTask:
    try:
        zone = parse_zone(task.tz or rules.zone, "tz")
        asked = extend(
            TaskRequest,
            task,
            TaskFields,
            folder=place.folder,
            instance=place.instance,
            address=place.address,
            when=parse_when(task.at, task.cron, task.every, zone, now, task.when),
            zone=zone,
            max_runs=task.max_runs,
            expires_at=parse_spoken_time(task.until, zone, now, "until") if task.until.strip() else "",
            created_by=place.created_by,
        )
        return make_task(asked, rules, now)
    except GatepostError as error:
        raise Invalid(SEED_FILE, f"task {number} of your prototype/: {error}") from None


def add_seed(db: Db, seed: GroupSeed, chain: OriginChain, now: int, *, asked: bool) -> str:
    """In the transaction that makes the group. Its tasks have the conversation that its room's first message would
    begin. Why tasks were left out, if the agent of the prototype may not schedule them; '' if none was. `asked`: that
    agent makes the group by a call, which was judged."""
    place, wished = seed.place, seed.settings
    windows = {"window_messages": wished.window_messages, "window_chars": wished.window_chars}
    groups.update(db, place.folder, {name: value for name, value in windows.items() if value is not None})
    refused = [find_makers_refusal(db, each, chain.origins, now, asked=asked) for each in seed.tasks]
    allowed = [each for each, why in zip(seed.tasks, refused, strict=True) if not why]
    if allowed:
        there = (place.folder, place.instance, place.address, "")
        sessions.find_or_add(db, SessionMode.PER_THREAD, *there, now)
    for new in allowed:
        add_task(db, new, seed.rules, now, chain.origins, chain.depth + 1)
    return next(filter(None, refused), "")
