"""A storm of damage: pages of one table after the other are overwritten while the gateway is down. It does not serve as
if all were well, and after the backup is restored nothing is said again."""

import random
from collections.abc import Callable
from pathlib import Path

import apsw
from msgspec import Struct

from gatepost_testing.storms.edges import MODE, EdgeGateway, open_edge
from gatepost_testing.storms.restore import RestoreCounts, RestoreRound, list_unread, make_backup, restore_backup
from gatepost_testing.storms.storm import StormTime, list_true, storm

TABLES = ("inbox", "outbox", "turns", "messages", "requests", "steps", "sessions", "rooms", "users", "audit")
ROOMS = 8
WORDS = "damaged"
DAMAGES: tuple[Callable[[random.Random, int], bytes], ...] = (
    lambda chance, size: b"\xff" * size,
    lambda chance, size: bytes(size),
    lambda chance, size: chance.randbytes(size),
)


FAULTS = {
    # It does not start, and does not say why.
    "wordless_start": """
from gatepost.core.errors import SetupError
from gatepost.store.engine import open_store

check_whole = open_store.check_whole


def refuse(home, config):
    try:
        return check_whole(home, config)
    except SetupError:
        raise SetupError("the store cannot be used") from None


open_store.check_whole = refuse
""",
}


class DamageCounts(Struct, frozen=True, kw_only=True):
    restores: RestoreCounts
    tables: int
    untold: list[str]  # tables whose damage nobody heard of
    refused: int  # starts that did not happen, and said why

    def list_faults(self) -> list[str]:
        return [
            *(fault for fault in self.restores.list_faults() if fault != "nothing was under way"),
            *list_true({f"served as if all were well: {', '.join(self.untold)}": self.untold}),
        ]

    def list_times(self) -> list[StormTime]:
        return []

    def render(self) -> str:
        return (
            f"{self.tables} damaged tables, {self.refused} starts refused with the way back, served in silence"
            f" {len(self.untold)}; {self.restores.render()}"
        )


def run_damage_storm(
    folder: Path, seed: int, *, tables: tuple[str, ...] = TABLES, rooms: int = ROOMS, fault: str = ""
) -> DamageCounts:
    """`fault`: one that is planted, by its name."""
    chance, untold, refused, found = random.Random(seed), list[str](), 0, list[RestoreRound]()
    with open_edge(folder, seed, rooms, fault=FAULTS.get(fault, "")) as edge:
        for number, table in enumerate(tables):
            came, said = _run_round(edge, chance, table, sends=bool(number % 2), found=found)
            refused += said and not came
            untold += [] if said else [table]
        counts = RestoreCounts(
            seed=seed,
            rounds=[each.judge(edge.record) for each in found],
            unaccounted=edge.count_unaccounted(),
            audit_code=edge.daemon.gatepost("audit", "verify").returncode,
        )
        return DamageCounts(restores=counts, tables=len(tables), untold=untold, refused=refused)


def _run_round(
    edge: EdgeGateway, chance: random.Random, table: str, *, sends: bool, found: list[RestoreRound]
) -> tuple[bool, bool]:
    """Return whether the gateway came up on the damaged store, and whether it said what is wrong."""
    taken = make_backup(edge, chance)
    edge.people.write_for(chance.uniform(0.5, 2.0))
    edge.daemon.stop()
    damage(edge.daemon.home / "gatepost.db", table, chance)
    killed, unread = edge.place, list_unread(edge.platform)
    came, said = _check_start(edge)
    found.append(restore_backup(edge, chance, taken, killed=killed, unread=unread, sends=sends))
    return came, said


def damage(path: Path, table: str, chance: random.Random) -> None:
    """Overwrite a page of a table, or the first one."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    rows = connection.execute("SELECT pageno FROM dbstat WHERE name = ? ORDER BY pageno", (table,)).fetchall()
    size = connection.pragma("page_size")
    connection.close()
    with path.open("r+b") as file:
        file.seek((int(str(chance.choice(rows)[0])) - 1) * size)
        file.write(chance.choice(DAMAGES)(chance, size))


def _check_start(edge: EdgeGateway) -> tuple[bool, bool]:
    """Return whether it came up, and whether it said so: at the start, or by its doctor and its owner."""
    try:
        edge.daemon.start()
    except AssertionError as error:
        return False, WORDS in str(error) and "restore a backup" in str(error)
    edge.people.write_for(2.0)
    told = edge.daemon.gatepost("doctor")
    edge.daemon.kill()
    return True, told.returncode != 0 and WORDS in told.stdout


storm(MODE, "damaged tables")(run_damage_storm)
