"""`gatepost keep`: how long things are kept, how much there is of each, and removing what is over age now."""

from pathlib import Path
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_store, run_operation, zone_of
from gatepost.core import settings
from gatepost.core.clock import DAY, SystemClock, iso
from gatepost.core.home import Home
from gatepost.store import retention
from gatepost.store.port import Db

PATIENCE_S = 3600.0  # a first sweep of an old home takes its time, so that nobody waits for it
MIB = 1024 * 1024


@click.group()
def command() -> None:
    """How long things are kept, how much there is of each, and removing what is over age now."""


@command.command("show")
@click.option("--json", "as_json", is_flag=True, help="rows, files and store as JSON.")
@click.pass_obj
def show_retention(home: str | None, as_json: bool) -> None:
    """What is kept: for how many days, how much there is, and how much of it is over age.

    The settings are keep.…_days in gatepost.toml; 0 keeps for ever. Rows that something in flight needs stay, whatever
    their age.
    """
    place = home_of(home)
    found = _read_retention(place)
    if as_json:
        output.print_json(found)
        return
    zone, name = zone_of(place)
    output.print_table(
        ("what", "kept for", "rows", "over age", f"oldest ({name})"),
        [
            (each["what"], _days(each["days"]), each["rows"], each["over_age"], output.format_iso(each["oldest"], zone))
            for each in found["rows"]
        ],
        empty="nothing is kept",
    )
    for each in found["files"]:
        output.print_line(f"{each['what']}: {each['bytes'] / MIB:.1f} MB, kept for {_days(each['days'])}")
    if not found["store"]["shrinks"]:
        output.print_line(
            "the store was made by an older gatepost: it uses freed space again, but its file does not shrink"
        )


@command.command("run")
@click.option("--dry-run", is_flag=True, help="Only tell how much is over age.")
@click.option("--json", "as_json", is_flag=True, help="How much of each kind was removed, or is over age.")
@click.pass_obj
def run_sweep(home: str | None, dry_run: bool, as_json: bool) -> None:
    """Remove what is over age now. A running gateway does so by itself every few hours."""
    place = home_of(home)
    if dry_run:
        done = {each["what"]: each["over_age"] for each in _read_retention(place)["rows"]}
    else:
        done = run_operation(place, "keep.run", {}, timeout=PATIENCE_S)
    if as_json:
        output.print_json(done)
        return
    told = ", ".join(f"{count} {what}" for what, count in done.items() if count)
    output.print_line(f"{'over age' if dry_run else 'removed'}: {told or 'nothing'}")


def _read_retention(place: Home) -> dict[str, Any]:
    from gatepost.flow.retention import MEDIA, ROWS, SESSIONS

    config = settings.load_declared(place.path, *ROWS.values(), MEDIA, SESSIONS)
    now = SystemClock().now()

    def look(db: Db) -> list[dict[str, Any]]:
        rows = []
        for what, wanted in ROWS.items():
            days = config[wanted]
            kept = retention.count(db, what, now - days * DAY if days else 0)
            oldest = iso(kept.oldest) if kept.oldest is not None else ""
            rows.append(
                {
                    "what": what,
                    "setting": wanted.name,
                    "days": days,
                    "rows": kept.rows,
                    "over_age": kept.over_age,
                    "oldest": oldest,
                }
            )
        return rows

    files = [
        {"what": "media", "setting": MEDIA.name, "days": config[MEDIA], "bytes": _size(place.media)},
        {"what": "sessions", "setting": SESSIONS.name, "days": config[SESSIONS], "bytes": _session_size(place)},
    ]
    shrinks = read_store(place, retention.can_shrink)
    return {"rows": read_store(place, look), "files": files, "store": {"bytes": _store_size(place), "shrinks": shrinks}}


def _days(days: int) -> str:
    return f"{days} day{'' if days == 1 else 's'}" if days else "ever"


def _size(folder: Path) -> int:
    return sum(each.lstat().st_size for each in folder.rglob("*") if each.is_file() and not each.is_symlink())


def _session_size(place: Home) -> int:
    from gatepost.core.errors import GatepostError
    from gatepost.core.untrusted_files import open_untrusted

    try:
        with open_untrusted(place.sessions) as root:
            return root.size(2**62)
    except GatepostError:
        return 0


def _store_size(place: Home) -> int:
    beside = place.store.with_name(f"{place.store.name}-wal")
    return sum(path.stat().st_size for path in (place.store, beside) if path.exists())
