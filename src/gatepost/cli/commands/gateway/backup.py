"""`gatepost backup`: everything but the keys in one file, with the gateway up or down."""

from pathlib import Path

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of
from gatepost.core import settings
from gatepost.core.clock import SystemClock, iso
from gatepost.core.keyring import Keyring


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print file, bytes, files, skipped, keyring and devices as JSON.")
@click.pass_obj
def command(home: str | None, file: Path | None, as_json: bool) -> int:
    """Write the store, settings, plug-ins, groups, conversations and media to FILE, a tar that you alone can read.

    The key ring and the control token are left out, so that no backup opens the secrets in it. Keep the ring apart: it
    changes with the first secret and with `gatepost secret rotate`. The keys of channels' devices, logs, sockets and
    installed programs are left out, too. docs/operations.md has the steps of a restore.
    """
    from gatepost.cli.archive import list_devices, write_archive
    from gatepost.serve.control.token_auth import TOKEN_FILE, token_path

    place = home_of(home)
    moment = (iso(SystemClock().now()) or "").replace("-", "").replace(":", "").partition(".")[0]
    target = (file or Path(f"gatepost-backup-{moment}Z.tar.gz")).expanduser().absolute()
    keyring, config = Keyring(place), settings.load_declared(place.path, TOKEN_FILE)
    found = write_archive(place, target, frozenset({token_path(place, config).absolute()}))
    size = target.stat().st_size
    if as_json:
        told: dict[str, object] = {"file": str(target), "bytes": size, "files": found.files, "skipped": found.skipped}
        told |= {"keyring": keyring.where if keyring.read() else None, "devices": list_devices(place)}
        output.print_json(told)
        return 0
    output.print_line(f"{target}: {found.files} files, {size:,} bytes, mode 0600")
    for each in found.skipped[:10]:
        output.print_line(f"left out, because it is no file or could not be read: {each}")
    if len(found.skipped) > 10:
        output.print_line(f"… and {len(found.skipped) - 10} more (--json lists them)")
    if keyring.read() is not None:
        output.print_line(
            f"without the key ring: no secret in it opens without {keyring.where}; keep a copy of that elsewhere"
        )
    if devices := list_devices(place):
        output.print_line(f"without the keys of devices: {', '.join(devices)} are linked anew after a restore")
    return 0
