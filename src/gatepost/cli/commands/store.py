"""`gatepost store`, `backup`, `upgrade` and `uninstall`: the store as a whole, the version that works on it, and what
else of an installation is on this machine."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from gatepost.cli import output
from gatepost.cli.installation.installed_parts import PartKind, list_parts, list_services, may_remove
from gatepost.cli.installation.service_units import USUAL, ServicePlan, check_name, list_steps, remove_service
from gatepost.cli.operation_runner import home_of, run_operation
from gatepost.cli.passphrases import BackupOpening, opening_options, read_new_passphrase, read_opening
from gatepost.core import settings
from gatepost.core.clock import SystemClock, iso
from gatepost.core.errors import Invalid, SetupError, did_you_mean
from gatepost.core.files.private_files import make_whole_file
from gatepost.core.home import Home, expand_user
from gatepost.core.process import home_lock
from gatepost.serve.backups import backup_folder
from gatepost.serve.backups.archive import MOST_SKIPPED, find_keyring, list_devices
from gatepost.serve.backups.backup_folder import BACKUPS, BackupProof
from gatepost.serve.backups.emergency_kit import give_keys, make_kit, render_page, seal_kit
from gatepost.serve.backups.group_restoring import check_folder
from gatepost.serve.backups.new_backup import describe_comparison, make_backup, prove_file
from gatepost.serve.backups.restoring import RestoredHome, is_free, restore
from gatepost.serve.backups.sealed_files import SEALED, is_sealed, make_identity, read_identity
from gatepost.serve.control.answers import to_json
from gatepost.serve.upgrades.upgrade_run import Upgrade
from gatepost.store.engine.open_store import copy_store_rows
from gatepost.store.engine.place import URL, StorePlace, find_place, has_password, has_store, hide_password
from gatepost.store.engine.store_copy import CopiedTable

SQLITE, POSTGRES = "sqlite", "postgres"
MOST_SHOWN = 10  # of what a backup left out


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
        return StorePlace(expand_user(text).absolute())
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


@click.group()
def backup_command() -> None:
    """Backups: made while it runs, proven, kept for a while, and put back."""


@backup_command.command("create")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--prove", is_flag=True, help="Put it back for a try at once, as `verify` does.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print file, bytes, files, skipped, skipped_in_all, proof, keyring and devices as JSON.",
)
@click.pass_obj
def create_backup(home: str | None, file: Path | None, prove: bool, as_json: bool) -> int:
    """Write the store, settings, plug-ins, groups, conversations and media to one file that you alone can read.

    It goes to the folder of backups, or to FILE. The gateway may run. The key ring and the control token are left out,
    so that no backup opens the secrets in it. Keep the ring apart: it changes with the first secret and with `gatepost
    secret rotate`. The keys of channels' devices, logs, sockets and installed programs are left out, too.

    With backup.recipients it is encrypted, and only they can open it. It is then proven before it is encrypted.
    """
    place = home_of(home)
    made = make_backup(place, SystemClock(), expand_user(file).absolute() if file is not None else None, proven=prove)
    target, found, proof = made.file, made.contents, made.proof
    size = target.stat().st_size
    if as_json:
        told: dict[str, object] = {"file": str(target), "bytes": size, "files": found.files, "skipped": found.skipped}
        told |= {"skipped_in_all": found.skipped_in_all, "proof": to_json(proof)}
        told |= {"keyring": find_keyring(place) or None, "devices": list_devices(place)}
        output.print_json(told)
        return int(bool(proof and proof.trouble))
    output.print_line(f"{target}: {found.files} files, {size:,} bytes, mode 0600")
    if is_sealed(target) and target.suffix != SEALED:
        output.print_line(f"it is encrypted, so no tar opens it, whatever its name: better {target.name}{SEALED}")
    for each in found.skipped[:MOST_SHOWN]:
        output.print_line(f"left out, because it is no file or could not be read: {' '.join(each.splitlines())}")
    if found.skipped_in_all > MOST_SHOWN:
        output.print_line(f"… and {found.skipped_in_all - MOST_SHOWN} more (--json lists the first {MOST_SKIPPED})")
    if keyring := find_keyring(place):
        output.print_line(
            f"without the key ring: no secret in it opens without {keyring}; keep a copy of that elsewhere"
        )
    if devices := list_devices(place):
        output.print_line(f"without the keys of devices: {', '.join(devices)} are linked anew after a restore")
    return _print_proof(target, proof) if proof is not None else 0


@backup_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
@click.pass_obj
def list_backups(home: str | None, as_json: bool) -> None:
    """List the backups in their folder, the newest first, and whether each was proven."""
    folder = _find_backups(home_of(home))
    found = backup_folder.list_backups(folder)
    if as_json:
        output.print_json(to_json(found))
        return
    empty = f"there is no backup in {folder}; `gatepost backup create` makes one"
    output.print_records(backup_folder.BackupFile, found, empty=empty)


@backup_command.command("verify")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@click.pass_obj
@opening_options
def verify_backup(home: str | None, name: str | None, as_json: bool, identity: Path | None, kit: Path | None) -> int:
    """Prove that a backup can be put back: the newest, or NAME, or a path.

    It is unpacked into a folder of its own. A gateway brings it up to date there, checks ledger and audit log, and has
    the demo agent answer. It has no key, no channel and no task, and reaches nobody. Exit 1 if anything fails.

    An encrypted one is tried out with --identity or --kit. Without them it is compared with what was encrypted right
    after its trial.
    """
    place = home_of(home)
    target = _find_backup(place, name)
    opening = read_opening(identity, kit)
    proof = prove_file(target, opening.identity)
    if as_json:
        output.print_json({"file": str(target), **to_json(proof)})
        return int(bool(proof.trouble))
    return _print_proof(target, proof, "" if opening.identity else describe_comparison(proof))


@backup_command.command("kit")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--identity", type=click.Path(path_type=Path), help="The file with the identity that opens your backups.")
@click.option("--new-identity", is_flag=True, help="Make an identity that lies in the kit alone, and encrypt to it.")
@click.option("--print", "as_page", is_flag=True, help="Make FILE a page to print, with the same sealed text on it.")
@click.pass_obj
def make_emergency_kit(home: str | None, file: Path, identity: Path | None, new_identity: bool, as_page: bool) -> None:
    """Write the emergency kit to FILE: the key ring, the identity, where the backups are, and how to restore.

    It asks for a passphrase, twice, which opens the kit; from a pipe it reads two lines. Keep the kit apart from the
    backups, and the passphrase apart from the kit. Make a new one after `gatepost secret rotate`. Any `age` opens it.
    """
    place, target = home_of(home), expand_user(file).absolute()
    if identity is not None and new_identity:
        raise Invalid("--new-identity", "there is one already in --identity; give one of them")
    if not has_store(place):
        raise SetupError(f"there is no store in {place.path}, so there is nothing to restore with a kit")
    text, recipient = ("", "") if not new_identity else make_identity()
    if identity is not None:
        text = read_identity(expand_user(identity))
    if new_identity and settings.load_declared(place.path)[backup_folder.RECIPIENTS]:
        raise Invalid("--new-identity", "backup.recipients is set; unset it first, or give its identity by --identity")
    made = make_kit(place, SystemClock(), text)
    with make_whole_file("FILE", target) as written:  # before anybody thinks of a passphrase for a file that cannot be
        sealed = seal_kit(made, read_new_passphrase())
        written.write(render_page(made, sealed) if as_page else sealed)
    output.print_line(f"{target}: the emergency kit, which its passphrase opens; keep it apart from the backups")
    if not made.keyring:
        output.print_line("there is no key ring yet: make a new kit after the first secret")
    if recipient:
        run_operation(place, "settings.set", {"name": backup_folder.RECIPIENTS.name, "value": recipient})
        output.print_line(f"backups are encrypted to {recipient} from now on; only this kit opens them")


@backup_command.command("restore")
@click.argument("name", required=False)
@click.option("--group", "folder", metavar="FOLDER", help="Put only this agent back, and touch nobody else.")
@click.option("--at", metavar="TIME", help="The newest backup that is not younger: 2026-01-31, or with a time of UTC.")
@click.option("--yes", is_flag=True, help="With --group: do it. Without it, what would change is said.")
@click.option("--replace", is_flag=True, help="Move the home that is there aside. It stays beside the new one.")
@opening_options
@click.option("--json", "as_json", is_flag=True, help="Print what was restored as JSON.")
@click.pass_obj
def restore_backup(
    home: str | None,
    name: str | None,
    folder: str | None,
    at: str | None,
    yes: bool,
    replace: bool,
    identity: Path | None,
    kit: Path | None,
    as_json: bool,
) -> int:
    """Put a backup, by its name in the folder or its path, in the place of the home. The gateway must be down.

    The home is the old one or the new one at every moment. The key ring and the backups of the old one are taken along.
    Work that was under way when the backup was made is held after the start, and the owner gets one card about it.
    Restore nothing that was in foreign hands: plug-ins and settings in it run programs. With store.url the rows go to
    that database, which must be empty.

    An encrypted one needs --identity, or the emergency kit. The kit brings the key ring along, too.

    With --group one agent is put back: its folder, routes, standing rules, memory, tasks, and what its conversations
    remember. Its model, options and limits stay as they are now, as do rights, secrets and budgets, and what was said.
    A backup of what is there is made first. Messages that the agent has in flight are held for the owner.
    """
    place = home_of(home)
    if name is None and at is None:
        raise Invalid("NAME", "name a backup, or say by --at how old it is to be; `gatepost backup list` shows them")
    if name is not None and at is not None:
        raise Invalid("--at", "the backup is named already; give one of them")
    source = _find_backup(place, name) if at is None else _find_at(place, at)
    if folder is not None and replace:
        raise Invalid("--replace", "that is for a whole home; --group puts one agent back into the home that is there")
    opening = read_opening(identity, kit)
    from gatepost.cli.restored_store import prepare_restored, restore_group  # heavy

    if folder is None:
        return _restore_home(place, source, opening, prepare_restored, replace=replace, as_json=as_json)
    agree = partial(_agree, place, yes=yes)
    with home_lock.acquire(place, patience=0):
        done = restore_group(place, check_folder(folder), source, opening.identity, agree)
    output.print_line(f"{folder} is put back" if done else "nothing was changed; --yes does it")
    return 0


def _restore_home(
    home: Home,
    source: Path,
    opening: BackupOpening,
    prepare_restored: Callable[[Home], list[str]],
    *,
    replace: bool,
    as_json: bool,
) -> int:
    if not is_free(home.path) and home_lock.find_holder(home) is not None:
        raise SetupError(f"a gateway runs on {home.path}; `gatepost down` first")
    notes = list[str]()

    def prepare(new: Home) -> None:
        if opening.kit is not None and give_keys(opening.kit, new):
            notes.append("the key ring is that of the kit, and what the home had besides")
        notes.extend(prepare_restored(new))

    done = restore(source, home, replace=replace, identity=opening.identity, prepare=prepare)
    if as_json:
        output.print_json({**to_json(done), "notes": notes})
        return 0
    output.print_line(f"{home.path} is as it was{_render_moment(done.made_at)}: {done.files} files from {source.name}")
    if done.before:
        output.print_line(f"the home that was there is {done.before}; {_render_before(done)}")
    if done.left_out:
        output.print_line(f"{done.left_out} files and folders were left out, because their paths are too long")
    for each in notes:
        output.print_line(each)
    output.print_line("`gatepost up` starts it; what was under way then waits for the owner's word")
    return 0


def _render_before(done: RestoredHome) -> str:
    left = Path(done.before) / BACKUPS
    if not done.backups and left.exists():
        return f"remove it once all is well, but for its backups in {left}"
    return "remove it once all is well" + ("; its backups are in the new one" if done.backups else "")


@backup_command.command("prune")
@click.option("--json", "as_json", is_flag=True, help="Print the removed ones as JSON.")
@click.pass_obj
def prune_backups(home: str | None, as_json: bool) -> None:
    """Remove the backups that backup.keep_daily, keep_weekly and keep_monthly do not keep.

    The newest stays in every case, and so does the newest that was proven.
    """
    place = home_of(home)
    gone = backup_folder.prune(_find_backups(place), settings.load_declared(place.path))
    if as_json:
        output.print_json(to_json(gone))
        return
    for each in gone:
        output.print_line(f"removed {each.name}")
    if not gone:
        output.print_line("nothing was old enough to go")


def _agree(home: Home, said: list[str], *, yes: bool) -> bool:
    """Say what will change, and make a backup of what is there before it does."""
    for line in said:
        output.print_line(line)
    if not yes:
        return False
    made = make_backup(home, SystemClock())
    output.print_line(f"the home as it is now is in {made.file}")
    return True


def _find_at(home: Home, text: str) -> Path:
    """The newest backup that was there at a moment."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid("--at", f"{text[:40]!r} is no time; write 2026-01-31, or 2026-01-31T18:00") from None
    if len(text) <= len("2026-01-31"):
        moment = moment.replace(hour=23, minute=59, second=59)  # a day is meant with its end
    until = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000)
    folder = _find_backups(home)
    found = [each for each in backup_folder.list_backups(folder) if each.made_at <= until]
    if not found:
        raise Invalid("--at", f"there is no backup in {folder} of {text} or before; `gatepost backup list` shows them")
    return folder / found[0].name


def _find_backups(home: Home) -> Path:
    return backup_folder.find_folder(home, settings.load_declared(home.path))


def _find_backup(home: Home, name: str | None) -> Path:
    """One of the folder, or a path. None: the newest."""
    if name is not None and ("/" in name or Path(name).is_file()):
        path = expand_user(name).absolute()
        if not path.is_file():
            raise Invalid("NAME", f"{path} is no file")
        return path
    folder = _find_backups(home)
    if name is not None:
        return backup_folder.get_backup(folder, name)
    found = backup_folder.list_backups(folder)
    if not found:
        raise SetupError(f"there is no backup in {folder}; `gatepost backup create` makes one")
    return folder / found[0].name


def _print_proof(target: Path, proof: BackupProof, compared: str = "") -> int:
    for each in proof.steps:
        output.print_line(f"✓ {each}")
    if proof.trouble:
        output.print_line(output.colored(f"✗ {proof.trouble}", "bad"))
        return 1
    if compared:
        output.print_line(f"{target.name} was proven at {iso(proof.at)}; {compared}")
        return 0
    output.print_line(f"{target.name} is proven: it was put back, and answered, in {proof.seconds:.1f} s")
    return 0


def _render_moment(made_at: int) -> str:
    return f" at {iso(made_at)}" if made_at else ""


@click.command()
@click.option(
    "--to", "source", metavar="SOURCE", help="A wheel, a folder with pyproject.toml, or a commit of the clone."
)
@click.option("--check", "only_check", is_flag=True, help="Say what would change, and change nothing.")
@click.option("--rollback", is_flag=True, help="Return to the version before the last upgrade.")
@click.option(
    "--watch",
    "watch_s",
    type=click.FloatRange(0, 3600),
    default=180.0,
    show_default=True,
    help="Seconds in which the new version is watched.",
)
@click.option("--name", default=USUAL, show_default=True, help="Of the service, if one starts the gateway.")
@click.pass_obj
def upgrade_command(
    home: str | None, source: str | None, only_check: bool, rollback: bool, watch_s: float, name: str
) -> int:
    """Try another version on a copy, switch to it, watch it, and go back by itself if it is worse.

    It is installed beside this one. A proven backup is made, the new version brings a copy of the home up to date and
    answers there. Then the gateway stops, the new version starts and is watched: whether it answers, what its ledger
    says, and its errors. Schema and changes are said first. Works in a clone, with pipx and with uv.
    """
    place = home_of(home)
    upgrade = Upgrade(
        place, SystemClock(), lambda line: output.print_line(line, flush=True), _list_restart(place, name)
    )
    if rollback:
        if source is not None or only_check:
            raise Invalid("--rollback", "goes alone: where it leads was kept by the upgrade")
        upgrade.roll_back()
        return 0
    if source is None:
        raise Invalid("--to", "say which version: a wheel, a folder with pyproject.toml, or a commit of the clone")
    if not has_store(place):
        raise SetupError(f"there is no store in {place.path}, so there is nothing to upgrade; install the new version")
    state = upgrade.check(source)
    if only_check:
        upgrade.forget(state)
        return 0
    upgrade.run(state, watch_s)
    return 0


def _list_restart(home: Home, name: str) -> list[list[str]]:
    """Return what starts the gateway of this home again, if it is a service; [] if it was started by hand."""
    for system in (False, True):
        plan = ServicePlan(
            name=check_name(name), home=home.path.absolute(), system=system, launchd=sys.platform == "darwin"
        )
        try:
            text = plan.file.read_text(encoding="utf-8")
        except OSError:
            continue
        if str(plan.home) in text:
            return list_steps(plan, "restart")
    return []


@click.command()
@click.option("--yes", is_flag=True, help="Remove its services and completions. Without it, nothing is changed.")
@click.option("--json", "as_json", is_flag=True, help="A list of: kind, place, by_hand ('': --yes removes it).")
@click.pass_obj
def uninstall_command(home: str | None, yes: bool, as_json: bool) -> int:
    """List what there is of Gatepost on this machine, and how each part is removed.

    A home is never removed: everything that was said and kept is there.
    """
    place = home_of(home)
    parts = list_parts(place)
    services = [each for each in list_services() if may_remove(each)]
    if yes:
        holder = home_lock.find_holder(place)
        if holder is not None and place.path.absolute() not in [each.home for each in services]:
            raise SetupError(f"a gateway runs on {place.path} (pid {holder.pid}); `gatepost down` first")
        for plan in services:
            remove_service(plan)
        for part in parts:
            if part.kind is PartKind.COMPLETION and not part.by_hand:
                Path(part.place).unlink()
    if as_json:
        output.print_json(to_json(parts))
        return 0
    removed = [each for each in parts if not each.by_hand]
    for part in removed:
        output.print_line(
            f"{part.kind:<12} {part.place}  {'is gone' if yes else '`gatepost uninstall --yes` removes it'}"
        )
    for part in parts:
        if part.by_hand:
            output.print_line(f"{part.kind:<12} {part.place}  by hand: {part.by_hand}")
    return 0
