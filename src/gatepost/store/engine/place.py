"""The place of a home's store: a file in it, or a PostgreSQL database that `store.url` names.

An address may hold a password. It is shown without it, everywhere.
"""

import re
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from gatepost.core import settings
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting

_ADDRESS = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/?#\s]*)(?P<password>:[^:@/?#\s]*)?@)?(?P<rest>[^@?#\s]*)(?:\?(?P<more>[^?#\s]*))?"
)
_HIDDEN = ("password", "sslpassword")
OLD_LOG = "Before a restore, move gatepost.db-wal and gatepost.db-shm away: a log of another file damages it"
SAVED = "gatepost-saved.db"  # in the home: a store whose file was removed while it was open
PUT_BACK = (
    "run `gatepost down`, move gatepost.db, gatepost.db-wal and gatepost.db-shm away if they are there, and rename"
    f" {SAVED} to gatepost.db"
)
WRITE = "write it as postgresql://USER:PASSWORD@HOST:5432/DATABASE"


def _read_url(raw: object) -> str:
    """Check the address of the database. An error never repeats it."""
    text = raw.strip() if isinstance(raw, str) else "?"
    if text and _ADDRESS.fullmatch(text) is None:
        raise ValueError(
            f"is no address of a PostgreSQL database; {WRITE}, and signs like @, :, / or # in a password as %40, %3A,"
            " %2F or %23"
        )
    return text


def hide_password(url: str) -> str:
    """The address as it may be shown."""
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return "(set)" if url else ""
    user = "" if found["user"] is None else f"{found['user']}{':…' if found['password'] else ''}@"
    more = [each for each in (found["more"] or "").split("&") if each and each.partition("=")[0] not in _HIDDEN]
    return f"postgresql://{user}{found['rest']}{'?' if more else ''}{'&'.join(more)}"


def has_password(url: str) -> bool:
    """Also of one that is written wrong."""
    return hide_password(url) != url.replace("postgres://", "postgresql://", 1)


URL = setting(
    "store.url",
    "",
    help="The PostgreSQL database that keeps the store: postgresql://USER:PASSWORD@HOST:5432/DATABASE. Empty: a SQLite"
    " file in the home. The password is never shown.",
    read=_read_url,
    show=hide_password,
)
LANES = setting(
    "store.lanes", 4, help="Connections that write to PostgreSQL at the same time. SQLite has one writer, always."
)
CONNECTIONS_BESIDE = 4  # of a gateway, beside its lanes: two to read, one for its lease, one for words of others
UNSAFE = setting(
    "store.unsafe",
    False,
    help="Accept a PostgreSQL server with fsync=off, which loses messages when its machine crashes. For tests.",
)


GATEWAY_MARK = "gateway-id"  # a file in the home of a gateway on a database: two of one name on two homes are two


class StorePlace(Struct, frozen=True):
    path: Path  # of the file
    url: str = ""  # of the database, in whose place there is no file

    def exists(self) -> bool:
        """Return True if there may be something to read. A database is asked only when it is read."""
        return bool(self.url) or self.path.is_file()

    def is_empty(self) -> bool:
        """Return True if there is no file, or one without a byte."""
        return not self.url and (not self.path.is_file() or self.path.stat().st_size == 0)


def render_missing(home: Path) -> str:
    """There is no store in a home, and what to do."""
    if (home / GATEWAY_MARK).exists():
        return (
            f"the home {home} belongs to a database, and none is named; set store.url or {URL.variable} to its address,"
            " or copy it into the home: `gatepost store copy postgresql://… sqlite`"
        )
    return render_lost(home) or f"there is no store in {home}; `gatepost up` makes one, `--home` chooses another home"


def render_lost(home: Path) -> str:
    """A home has lost its store, and what to do; '' if nothing says that it had one."""
    remains = _list_remains(home)
    if not remains:
        return ""
    saved = f". Its gateway saved it: {PUT_BACK}. Or restore it" if (home / SAVED).exists() else ". Restore it"
    return (
        f"the store {Home(home).store} is missing or empty, and the home still has {' and '.join(remains)}{saved}"
        f" from a backup (docs/operations.md). {OLD_LOG}. To begin with a new one, without the people, routes, budgets"
        " and messages of the old: gatepost up --new-store"
    )


def check_place(place: StorePlace, *, holds_store: bool = True, new: bool = False) -> None:
    """Before a store is made. An empty one beside a database that is not named would be taken for all that there is;
    so would one beside what a lost store knew. `holds_store`: the file, if there is one, is more than an empty
    database. `new`: somebody has said that it is to be made."""
    if place.url or (holds_store and not place.is_empty()):
        return
    home = place.path.parent
    if (home / GATEWAY_MARK).exists():
        raise SetupError(render_missing(home))
    if not new and (lost := render_lost(home)):
        raise SetupError(lost)


def check_single(home: Path) -> None:
    """Raise SetupError if a home has its store and another one that a gateway saved: a person says which it is."""
    if (home / SAVED).exists():
        raise SetupError(
            f"there are two stores in {home}: gatepost.db, and {SAVED}, as it was when its file was replaced while a"
            f" gateway had it open. To go on with that one, {PUT_BACK}. To go on with gatepost.db, move {SAVED} away"
        )


def _list_remains(home: Path) -> list[str]:
    """Return the names of what a gateway that had a store has left here. Folders of groups may be put there before the
    first start; that of `root` is made by a gateway."""
    sessions = home / "sessions"
    left = {
        "groups/root": (home / "groups" / "root").is_dir(),
        "sessions": sessions.is_dir() and any(sessions.iterdir()),
        "keyring.json": (home / "keyring.json").exists(),
    }
    return [name for name, there in left.items() if there]


def get_place(home: Home, config: Config) -> StorePlace:
    return StorePlace(home.store, config[URL])


def find_place(home: Home) -> StorePlace:
    """For who has read no settings yet."""
    return get_place(home, settings.load_declared(home.path, URL))


def has_store(home: Home) -> bool:
    return find_place(home).exists()


def check_library(place: StorePlace) -> None:
    if place.url and find_spec("psycopg") is None:
        raise SetupError(
            "store.url names a PostgreSQL database, and the library for it is not installed:"
            " pip install 'gatepost[postgres]'"
        )
