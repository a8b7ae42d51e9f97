"""Two gateways on one PostgreSQL, of which one is killed or drained with turns open: how long what it had waits.
`python bench/pg_gateways.py` prints these alone."""

import tempfile
from pathlib import Path

from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.drain import GO_ON_S, run_drain_storm
from gatepost_testing.storms.kill import Victim, run_kill_storm
from gatepost_testing.storms.storm import LIMIT_S, SEED, SMALL, StormResult
from measure import Figure, at_most, table


def figures() -> list[Figure]:
    """`pg_killed_s`: the longest that somebody waited for an answer, from the kill on. `pg_drained_s`: from the end of
    the drain to the first answer to what was open there, for which a sandbox has started anew."""
    if find_programs() is None:
        print(f"pg_killed_s and pg_drained_s are skipped: PostgreSQL is not installed: apt-get install {PACKAGE}")
        return []
    with tempfile.TemporaryDirectory(prefix="gp-") as folder:
        Path(folder).chmod(0o711)  # agents have accounts of their own
        killed = run_kill_storm(Path(folder) / "k", SEED, victim=Victim.LISTENER, size=SMALL)
        drained = run_drain_storm(Path(folder) / "d", SEED, size=SMALL)
    for result in (killed, drained):
        _check(result)
    return [
        at_most("pg_killed_s", killed.longest_s, "s", 6, LIMIT_S),  # the lease, after which anybody may take over
        at_most("pg_drained_s", drained.first_s, "s", GO_ON_S, GO_ON_S),
    ]


def _check(result: StormResult) -> None:
    if faults := result.list_faults():
        raise RuntimeError("; ".join(faults))


if __name__ == "__main__":
    print(table(figures()))
