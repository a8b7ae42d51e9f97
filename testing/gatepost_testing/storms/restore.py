"""A storm of restores: a gateway is killed while people write, and started from a backup that was made while messages
and answers were on their way. The owner sends what was under way in one half of the rounds, and drops it in the other.
"""

import json
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import apsw
from msgspec import Struct

from gatepost.store.gateways import incarnations
from gatepost.store.rights.requests import RequestKind
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platforms.base import EmulatedPlatform, ShownMessage
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.platforms.zulip import ZulipPlatform
from gatepost_testing.storms.edges import (
    MODE,
    OWNERS_ROOM,
    QUESTION,
    EdgeGateway,
    Exchange,
    count_apologies,
    list_exchanges,
    open_edge,
)
from gatepost_testing.storms.storm import ANSWER, StormTime, list_true, run_command, storm
from gatepost_testing.waiting import block_until

ROUNDS, ROOMS = 20, 12
LATE_S = 0.5  # in which the platform takes what a killed gateway has sent
FAULTS = {
    # Answers and messages that were under way go on by themselves after a restore, as after a crash.
    "unheld_restore": """
from gatepost.flow.store_watch import StoreLife
from gatepost.store.gateways import incarnations

incarnations.judge_presence = lambda *_: None
StoreLife._read_marker = lambda self: None
""",
    # The owner drops what was under way, and it goes out all the same.
    "deaf_restore": """
from gatepost.flow.requests import restored_rows
from gatepost.store.gateways import incarnations

incarnations.cancel_effects = incarnations.release_effects
incarnations.end_waiting = lambda db, request_id, state, now: incarnations.release_waiting(db, request_id, now)
""",
    # Messages that were under way are withdrawn in silence.
    "forgetful_restore": """
from gatepost.store.gateways import incarnations
from gatepost.store.messages import inbox


def forget(db, rows, request_id, until, now):
    for row_id, _ in rows:
        inbox.set_state(db, row_id, inbox.InboxState.CANCELLED, "", None, now)


incarnations.hold_waiting = forget
""",
}


_KNOWN = "SELECT text FROM messages WHERE direction = 'in' AND kind = 'chat'"
_OPEN = (
    "SELECT m.text FROM inbox i JOIN messages m ON m.id = i.message_id WHERE i.state IN ('queued', 'retry', 'working')"
    " UNION SELECT m.text FROM outbox o JOIN messages m ON m.id = o.message_id"
    " WHERE o.state IN ('pending', 'sending') AND o.origin <> 'status'"
)


class RestoreRound(Struct, frozen=True, kw_only=True):
    """Places in the platform's record. `held`: questions that the owner's card is about. `unread`: those that nobody
    had taken from the platform when the gateway was killed. `open_before`: those that were under way in the backup.
    `known_before`: all that it has. A message on its way from the platform at that moment is in none."""

    began: int
    backup_from: int
    backup_to: int
    killed: int
    restarted: int
    decided: int
    ended: int
    sends: bool
    held: frozenset[str]
    unread: frozenset[str]
    open_before: frozenset[str]
    known_before: frozenset[str]
    has_cursor: bool  # the platform would bring again what the gateway had read

    def judge(self, record: Sequence[ShownMessage]) -> "RoundCounts":
        record = record[: self.ended]
        found = [each for each in list_exchanges(record) if each.written >= self.began]
        told = count_apologies(record[self.killed :])
        wrong = (self._count_doubled, self._count_unapproved, self._is_silent, self._is_reread, self._is_forgotten)
        return RoundCounts(
            details=[f"{each} in {self}" for each in found if any(look(each) for look in wrong)],
            messages=len(found),
            in_flight=sum(each.text in self.held for each in found),
            doubled=sum(map(self._count_doubled, list_exchanges(record))),
            unapproved=sum(map(self._count_unapproved, found)),
            silent=sum(map(self._is_silent, found)),
            lost=max(0, sum(map(self._is_lost, found)) - told.total()),
            reread=sum(map(self._is_reread, found)),
            forgotten=sum(map(self._is_forgotten, found)),
            after_backup=sum(map(self._is_after_backup, found)),
        )

    def _count_doubled(self, each: Exchange) -> int:
        """An answer is said again: of what the card is about, only once, and only if the owner has said so."""
        before, after = each.count(0, self.killed), each.count(self.killed, self.ended)
        asked_for = 1 if self.sends and each.text in self.held and each.count(self.decided, self.ended) else 0
        if each.written < self.began:
            return after  # it was settled in an earlier round
        return max(0, before - 1) + max(0, after - asked_for if before or asked_for else after - 1)

    def _count_unapproved(self, each: Exchange) -> int:
        if each.text not in self.held:
            return 0
        return each.count(self.killed, self.ended if not self.sends else self.decided)

    def _is_silent(self, each: Exchange) -> bool:
        """It was under way at the backup, and nobody heard of it."""
        if each.text not in self.known_before or each.answers:
            return False
        return each.text not in self.held or self.sends

    def _is_lost(self, each: Exchange) -> bool:
        is_new = each.written >= (self.restarted if self.has_cursor else self.killed) or each.text in self.unread
        return is_new and not each.answers

    def _is_reread(self, each: Exchange) -> bool:
        """The gateway had read it, lost it with its store, and reads it again though nobody said so."""
        is_older = self.backup_to <= each.written < self.restarted and each.text not in self.held | self.unread
        return self.has_cursor and is_older and each.count(self.restarted, self.ended) > 0

    def _is_forgotten(self, each: Exchange) -> bool:
        """It was under way in the backup, and the owner's card does not hold it."""
        return each.text in self.open_before - self.held

    def _is_after_backup(self, each: Exchange) -> bool:
        is_newer = each.written < self.restarted and each.text not in self.known_before
        return is_newer and not each.answers and each.text not in self.held


class RoundCounts(Struct, frozen=True, kw_only=True):
    details: list[str]  # of what went wrong
    messages: int
    in_flight: int  # questions that were under way at the backup, and on the owner's card
    doubled: int
    unapproved: int
    silent: int
    lost: int
    reread: int
    forgotten: int
    after_backup: int  # written since the backup, unanswered, and gone with the store


class RestoreCounts(Struct, frozen=True, kw_only=True):
    seed: int
    rounds: list[RoundCounts]
    unaccounted: int
    audit_code: int

    def sum(self, name: str) -> int:
        return sum(getattr(each, name) for each in self.rounds)

    def list_faults(self) -> list[str]:
        wrong = {f"{self.sum(name)} {name}": self.sum(name) for name in FAULTY}
        wrong |= {f"{self.unaccounted} unaccounted": self.unaccounted}
        wrong |= {"the audit log does not verify": self.audit_code, "nothing was under way": not self.sum("in_flight")}
        return [*list_true(wrong), *(text for each in self.rounds for text in each.details)]

    def list_times(self) -> list[StormTime]:
        return []

    def render(self) -> str:
        counts = ", ".join(f"{name} {self.sum(name)}" for name in FAULTY)
        return (
            f"{len(self.rounds)} restores, {self.sum('messages')} messages, seed {self.seed}: {counts}, unaccounted"
            f" {self.unaccounted}; {self.sum('in_flight')} were under way at a backup, {self.sum('after_backup')} gone"
            f" with the store after it, audit {'verifies' if not self.audit_code else 'BROKEN'}"
        )


FAULTY = ("lost", "doubled", "unapproved", "silent", "reread", "forgotten")


def run_restore_storm(
    folder: Path,
    seed: int,
    *,
    rounds: int = ROUNDS,
    rooms: int = ROOMS,
    fault: str = "",
    platform: Callable[[], EmulatedPlatform] = TelegramPlatform,
) -> RestoreCounts:
    """`fault`: one that is planted, by its name."""
    chance = random.Random(seed)
    with open_edge(folder, seed, rooms, platform=platform, fault=FAULTS.get(fault, "")) as edge:
        found = [_run_round(edge, chance, sends=bool(number % 2)) for number in range(rounds)]
        counts = [each.judge(edge.record) for each in found]
        return RestoreCounts(
            seed=seed,
            rounds=counts,
            unaccounted=edge.count_unaccounted(),
            audit_code=edge.daemon.gatepost("audit", "verify").returncode,
        )


class TakenBackup(Struct, frozen=True):
    """A backup that was made while people wrote, by places in the platform's record."""

    archive: Path
    began: int
    backup_from: int
    backup_to: int


def make_backup(edge: EdgeGateway, chance: random.Random) -> TakenBackup:
    began, archive = edge.place, edge.folder / "backup.tar.gz"
    edge.people.write_for(chance.uniform(0.5, 2.0))
    backup_from = edge.place
    edge.write_during(lambda: run_command(edge.daemon, "backup", "create", str(archive)))
    return TakenBackup(archive, began, backup_from, edge.place)


def _run_round(edge: EdgeGateway, chance: random.Random, *, sends: bool) -> RestoreRound:
    taken = make_backup(edge, chance)
    edge.people.write_for(chance.uniform(0.2, 3.0))
    edge.daemon.kill()
    edge.platform.wait_for(bool, LATE_S)
    killed, unread = edge.place, list_unread(edge.platform)
    for _ in range(chance.randint(0, 3)):
        edge.people.write()
    return restore_backup(edge, chance, taken, killed=killed, unread=unread, sends=sends)


def restore_backup(
    edge: EdgeGateway, chance: random.Random, taken: TakenBackup, *, killed: int, unread: frozenset[str], sends: bool
) -> RestoreRound:
    """Start a gateway that was ended from a backup, and have its owner decide about what was under way."""
    put_back(edge.daemon, taken.archive)
    open_before, known_before = read_questions(edge.daemon.home / "gatepost.db")
    edge.start()
    restarted = edge.place
    edge.people.write_for(chance.uniform(0.5, 1.5))
    held, decided = find_held(edge), edge.place
    decide(edge, sends=sends)
    edge.people.write_for(chance.uniform(0.0, 1.0))
    edge.wait_until_settled()
    return RestoreRound(
        began=taken.began,
        backup_from=taken.backup_from,
        backup_to=taken.backup_to,
        killed=killed,
        restarted=restarted,
        decided=decided,
        ended=edge.place,
        sends=sends,
        held=held,
        unread=unread,
        open_before=open_before,
        known_before=known_before,
        has_cursor=not hasattr(edge.platform, "updates"),
    )


def put_back(daemon: DaemonProcess, archive: Path) -> None:
    """As an owner does. The home that is moved aside is not needed any more."""
    put = json.loads(run_command(daemon, "backup", "restore", str(archive), "--replace", "--json"))
    shutil.rmtree(put["before"])
    archive.unlink()


def list_unread(platform: EmulatedPlatform) -> frozenset[str]:
    """Return questions that Telegram keeps until a poll confirms them. Others keep everything."""
    with platform.changed:
        updates = list(getattr(platform, "updates", ()))
    return frozenset(str(each["message"].get("text")) for each in updates if "message" in each)


def find_held(edge: EdgeGateway) -> frozenset[str]:
    """Return the questions that are held, and those whose answers are. The owner has a card about them."""
    held = [
        str(row["text"])
        for state in ("held", "uncertain")
        for row in edge.daemon.json("ledger", "list", "--state", state, "--limit", "100000")
        if row["reason"] == incarnations.REASON or state == "held"
    ]
    if held:
        cards = len(_list_open(edge))
        assert cards == 1, f"{len(held)} things are held, and the owner has {cards} cards"
        block_until(lambda: _has_card(edge), "the owner's card")
    return find_questions(held)


def find_questions(texts: Iterable[str]) -> frozenset[str]:
    """Return the questions among these, and those whose answers are."""
    return frozenset(found[1] if (found := ANSWER.search(text)) else text for text in texts)


def read_questions(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the questions under way in a store that no gateway has open, and all that it has. Nothing is written."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{path}?immutable=1", flags=flags)
    try:
        is_open, known = (connection.execute(each).fetchall() for each in (_OPEN, _KNOWN))
    finally:
        connection.close()
    return _pick_questions(is_open), _pick_questions(known)


def _pick_questions(rows: Iterable[Sequence[object]]) -> frozenset[str]:
    return frozenset(filter(QUESTION.fullmatch, find_questions(str(text) for (text,) in rows)))


def _has_card(edge: EdgeGateway) -> bool:
    return "Drop them" in str(edge.platform.list_shown(OWNERS_ROOM)[-1])


def decide(edge: EdgeGateway, *, sends: bool) -> None:
    for each in _list_open(edge):
        run_command(edge.daemon, "permit", "allow" if sends else "deny", each)


def _list_open(edge: EdgeGateway) -> list[str]:
    waiting = edge.daemon.json("permit", "ls")
    return [each["request"]["id"] for each in waiting if each["request"]["kind"] == RequestKind.RESTORED]


storm(MODE, "restores")(run_restore_storm)
storm(MODE, "restores, cursor")(partial(run_restore_storm, platform=ZulipPlatform))
