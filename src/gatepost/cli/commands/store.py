"""`gatepost store` and `backup`: the store as a whole. `copy` moves it from SQLite to PostgreSQL, or back."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of
from gatepost.core.clock import SystemClock, iso
from gatepost.core.errors import Invalid, SetupError, did_you_mean
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.serve.control.answers import to_json

if TYPE_CHECKING:
    from gatepost.store.engine.store_copy import CopiedTable
from gatepost.store.engine.place import URL, StorePlace, find_place, has_password, hide_password

SQLITE, POSTGRES = "sqlite", "postgres"


@click.group()
def store_command() -> None:
    """The store as a whole: copy."""


@store_command.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects: name, rows, hash.")
@click.pass_obj
def copy_store(home: str | None, source: str, target: str, as_json: bool) -> None:
    """Copy the store FROM one engine TO another, all of it or nothing. The gateway must be down.

    FROM and TO are `sqlite` (the file in the home), `postgres` (the database that store.url names), a path or an
    address. TO must be empty: if it is an old file, move gatepost.db, gatepost.db-wal and gatepost.db-shm aside
    together. Each table is read again and compared. Then set store.url, or remove it, and start the gateway. FROM stays
    as it is.
    """
    from gatepost.store.engine.open_store import copy_store_rows

    place = home_of(home)
    old, new = _parse_place(place, "FROM", source), _parse_place(place, "TO", target)
    if old == new:
        raise Invalid("TO", "is the same as FROM")
    copied: list[CopiedTable] = []
    place.prepare()
    with home_lock.acquire(place, patience=0):
        for each in (old, new):
            _check_stopped(place, each)
        copy_store_rows(old, new, copied.append)
    if as_json:
        output.print_json(to_json(copied))
        return
    filled = [each for each in copied if each.rows]
    output.print_table(("table", "rows", "hash"), [(each.name, each.rows, each.hash) for each in filled])
    output.print_line(_render_end(sum(each.rows for each in filled), old, new))


def _render_end(rows: int, old: StorePlace, new: StorePlace) -> str:
    counted = "1 row" if rows == 1 else f"{rows:,} rows"
    return f"copied {counted} from {_render_place(old)} to {_render_place(new)}, the same on both sides"


def _render_place(place: StorePlace) -> str:
    return hide_password(place.url) if place.url else str(place.path)


def _parse_place(home: Home, name: str, text: str) -> StorePlace:
    if text == SQLITE:
        return StorePlace(home.store)
    if text == POSTGRES:
        found = find_place(home)
        if not found.url:
            raise Invalid(name, f"store.url names no database; set {URL.variable}, or write its address")
        return found
    if "/" not in text and not text.endswith(".db"):
        near = did_you_mean(text, (SQLITE, POSTGRES))
        forms = f"write `{SQLITE}`, `{POSTGRES}`, a path (with a / or .db) or an address"
        raise Invalid(name, f"{text!r} names no store: {forms}{near}")
    if "://" not in text:
        return StorePlace(Path(text).expanduser().absolute())
    if has_password(text):
        raise Invalid(
            name,
            f"a password on the command line can be read by everybody on this machine; set {URL.variable} and write"
            f" `{POSTGRES}`",
        )
    try:
        return StorePlace(home.store, URL.read(text))
    except ValueError as error:
        raise Invalid(name, f"the address {error}") from None


def _check_stopped(home: Home, place: StorePlace) -> None:
    """Refuse a file in another home whose gateway runs. For our own home we have the lock."""
    other = Home(place.path.parent)
    if not place.url and other != home and home_lock.find_holder(other) is not None:
        raise SetupError(f"a gateway runs on {other.path}; stop it first: gatepost --home {other.path} down")


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print file, bytes, files, skipped, keyring and devices as JSON.")
@click.pass_obj
def backup_command(home: str | None, file: Path | None, as_json: bool) -> int:
    """Write the store, settings, plug-ins, groups, conversations and media to FILE, a tar that you alone can read.

    The key ring and the control token are left out, so that no backup opens the secrets in it. Keep the ring apart: it
    changes with the first secret and with `gatepost secret rotate`. The keys of channels' devices, logs, sockets and
    installed programs are left out, too. docs/operations.md has the steps of a restore.
    """
    from gatepost.cli.archive import find_keyring, list_devices, write_archive

    place = home_of(home)
    moment = (iso(SystemClock().now()) or "").replace("-", "").replace(":", "").partition(".")[0]
    target = (file or Path(f"gatepost-backup-{moment}Z.tar.gz")).expanduser().absolute()
    found = write_archive(place, target)
    size = target.stat().st_size
    if as_json:
        told: dict[str, object] = {"file": str(target), "bytes": size, "files": found.files, "skipped": found.skipped}
        told |= {"keyring": find_keyring(place) or None, "devices": list_devices(place)}
        output.print_json(told)
        return 0
    output.print_line(f"{target}: {found.files} files, {size:,} bytes, mode 0600")
    for each in found.skipped[:10]:
        output.print_line(f"left out, because it is no file or could not be read: {each}")
    if len(found.skipped) > 10:
        output.print_line(f"… and {len(found.skipped) - 10} more (--json lists them)")
    if keyring := find_keyring(place):
        output.print_line(
            f"without the key ring: no secret in it opens without {keyring}; keep a copy of that elsewhere"
        )
    if devices := list_devices(place):
        output.print_line(f"without the keys of devices: {', '.join(devices)} are linked anew after a restore")
    return 0
