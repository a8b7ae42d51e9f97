"""The emergency kit: what a backup must not hold and a restore needs, in one file that a passphrase opens.

It has the key ring, the identity that opens encrypted backups, where the backups are, and how one is put back. The
sealed part is a text that people can read: `age -d` shows it without us. The page to print holds the same sealed text.
"""

import html
from pathlib import Path

import msgspec
from msgspec import Struct

from gatepost import __version__
from gatepost.core import settings
from gatepost.core.clock import Clock, iso
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring, KeySet
from gatepost.serve.backups.backup_folder import COMMAND, RECIPIENTS, find_folder, list_backups
from gatepost.serve.backups.sealed_files import ARMORED, find_recipients, open_by_passphrase, seal_by_passphrase

ENDING = b"-----END AGE ENCRYPTED FILE-----"
FACTS = "--- what gatepost reads ---"
LARGEST = 1024 * 1024
SHORTEST_PASSPHRASE = 12
NEWEST = 5  # backups that are named

WORDS = """\
GATEPOST EMERGENCY KIT
Made {made_at} by gatepost {version}, of the home {home}.

Whoever reads this opens your backups and the secrets in them. Keep it apart from both.
Make a new one after `gatepost secret rotate`, and after the first secret.

Where the backups are
    {folder}{command}
{newest}
How to restore, on an empty machine
    1. Install gatepost {version} or later: pip install 'gatepost[backup]'
    2. Bring a backup and this kit there.
    3. gatepost backup restore BACKUP --kit KIT
       It asks for the passphrase of the kit, opens the backup and puts the key ring in its place.
       If the store was on PostgreSQL, make an empty database first and set store.url to it.
    4. gatepost up

Without gatepost
    Put the line of the identity below into a file: age -d -i FILE BACKUP | tar -xpz -C HOME
    Put the key ring below into HOME/keyring.json, with mode 600.

Identity that opens the backups: {identity}

"""
PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Gatepost emergency kit</title>
<style>body {{ font: 11pt sans-serif; max-width: 44em; margin: 2em auto }}
pre {{ font: 10pt monospace; white-space: pre-wrap; overflow-wrap: anywhere }} h1 {{ font-size: 16pt }}</style></head>
<body><h1>Gatepost emergency kit</h1>
<p>Made {made_at} of the home {home}. The text below is sealed by a passphrase, which stands nowhere on this page.</p>
<ol><li>Install gatepost {version} or later: <code>pip install 'gatepost[backup]'</code></li>
<li>Bring a backup to the new machine, and this page as a file. From paper, scan or type the sealed text, with its first
and last line, into a file.</li>
<li><code>gatepost backup restore BACKUP --kit FILE</code> asks for the passphrase.</li>
<li><code>gatepost up</code></li></ol>
<p>Without gatepost, <code>age -d FILE</code> shows what is in the sealed text, and how to go on.</p>
<pre>
{sealed}</pre></body></html>
"""


class EmergencyKit(Struct, frozen=True, kw_only=True):
    """`keyring`: as it is written in the home; '' if there is none. `identity`: '' if backups are not encrypted."""

    made_at: int
    version: str
    home: str
    folder: str
    command: tuple[str, ...] = ()
    newest: tuple[str, ...] = ()
    identity: str = ""
    keyring: str = ""

    @property
    def keys(self) -> KeySet | None:
        return KeySet.parse(self.keyring.encode(), "the kit") if self.keyring else None


def make_kit(home: Home, clock: Clock, identity: str = "") -> EmergencyKit:
    """`identity`: the lines that open backups. They must open those that the settings ask for."""
    config, ring = settings.load_declared(home.path), Keyring(home).read()
    wanted = config[RECIPIENTS]
    if wanted and not set(wanted) & set(find_recipients(identity) if identity else ()):
        why = (
            "name the file of the one that backup.recipients has" if identity == "" else "it opens none of the backups"
        )
        raise Invalid("--identity", f"{why}; without it the kit would open no backup of this home")
    folder = find_folder(home, config)
    keys = [line.strip() for line in identity.splitlines() if line.strip() and not line.startswith("#")]
    return EmergencyKit(
        made_at=clock.now(),
        version=__version__,
        home=str(home.path),
        folder=str(folder),
        command=config[COMMAND],
        newest=tuple(each.name for each in list_backups(folder)[:NEWEST]),
        identity="\n".join(keys),
        keyring=ring.to_json().decode() if ring is not None else "",
    )


def seal_kit(kit: EmergencyKit, passphrase: str) -> bytes:
    if len(passphrase) < SHORTEST_PASSPHRASE:
        raise Invalid("the passphrase", f"it is shorter than {SHORTEST_PASSPHRASE} characters, and could be guessed")
    facts = msgspec.json.format(msgspec.json.encode(kit)).decode()
    return seal_by_passphrase(f"{_render_words(kit)}{FACTS}\n{facts}\n".encode(), passphrase)


def _render_words(kit: EmergencyKit) -> str:
    names = "".join(f"    {name}\n" for name in kit.newest)
    return WORDS.format(
        made_at=iso(kit.made_at),
        version=kit.version,
        home=kit.home,
        folder=kit.folder,
        command=f"\n    and where this took them: {' '.join(kit.command)}" if kit.command else "",
        newest=f"The newest were then\n{names}" if names else "",
        identity=kit.identity or "none, the backups are not encrypted",
    )


def render_page(kit: EmergencyKit, sealed: bytes) -> bytes:
    """Return a page to print."""
    facts = {"made_at": iso(kit.made_at) or "", "home": kit.home, "version": kit.version, "sealed": sealed.decode()}
    return PAGE.format(**{name: html.escape(text) for name, text in facts.items()}).encode()


def read_sealed(path: Path) -> bytes:
    """Return the sealed text of a kit, or of the page that was printed from it."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST)
    except OSError as error:
        raise Invalid("--kit", f"{path} cannot be read: {error.strerror}") from None
    begin, end = data.find(ARMORED), data.find(ENDING)
    if begin < 0 or end < begin:
        raise Invalid("--kit", f"{path} is no emergency kit; `gatepost backup kit` makes one")
    return data[begin : end + len(ENDING)] + b"\n"


def open_kit(sealed: bytes, passphrase: str) -> EmergencyKit:
    text = open_by_passphrase(sealed, passphrase).decode(errors="replace")
    try:
        return msgspec.json.decode(text.partition(f"\n{FACTS}\n")[2], type=EmergencyKit)
    except msgspec.DecodeError:
        raise Invalid("--kit", "it opens, and holds no kit of gatepost") from None


def give_keys(kit: EmergencyKit, home: Home) -> bool:
    """Add the kit's keys to a home's ring. Return False if the ring is kept elsewhere, or there is nothing to add."""
    ring = Keyring(home)
    if kit.keys is None or not ring.is_file:
        return False
    ring.add_keys(kit.keys)
    return True
