"""The identity of this gateway among those that share its store."""

import hashlib
import re
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gatepost import __version__
from gatepost.core import ids
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.settings import Config, setting
from gatepost.store.engine.place import CONNECTIONS_BESIDE, GATEWAY_MARK, LANES
from gatepost.store.gateways.gateway_checks import join_digest
from gatepost.store.gateways.gateways import GatewayIdentity

NAME = setting(
    "gateway.name", "", help="How this gateway is known to others on the same store (empty: the host's name)."
)
LONGEST = 40
MOST_FILES = 1000
OF_ONE_MACHINE = frozenset({"gateway.name", "listen", "control_socket", "store.url"})

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def make_identity(
    home: Home, config: Config, schema_number: int, listen: str = "", capacity: int = 0
) -> GatewayIdentity:
    return GatewayIdentity(
        name=get_gateway_name(config),
        home=find_mark(home),
        host=socket.gethostname(),
        version=__version__,
        schema_number=schema_number,
        listen=listen,
        capacity=capacity,
        config_digest=join_digest(digest_settings(home.path / "gatepost.toml")),
        plugin_digest=join_digest(digest_folder(home.plugins)),
        key_ids=render_keys(home),
        connections=max(1, config[LANES]) + CONNECTIONS_BESIDE,
    )


def get_gateway_name(config: Config) -> str:
    name = config[NAME] or socket.gethostname()[:LONGEST]
    if len(name) > LONGEST or not _NAME.fullmatch(name):
        raise SetupError(
            f"gateway.name {name!r} is no name of a gateway: letters, digits, '.', '_' and '-', at most {LONGEST}"
        )
    return name


def find_mark(home: Home) -> str:
    """The same for one home, and another for a copy of it: a copied file is another file."""
    path = home.path / GATEWAY_MARK
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(ids.token(16))
    return f"{path.read_text()}.{path.stat().st_ino}"


def render_keys(home: Home) -> str:
    """The ids of the keys in its ring."""
    ring = Keyring(home).read()
    return join_digest(dict.fromkeys(ring.keys if ring is not None else (), "-"))


def digest_settings(path: Path) -> dict[str, str]:
    """By name, a digest of each setting of a file. Those that are meant to differ between machines are left out."""
    if not path.exists():
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}  # the start itself says what is wrong with it
    return {name: _digest(repr(value).encode()) for name, value in _flatten(found) if name not in OF_ONE_MACHINE}


def _flatten(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def digest_folder(folder: Path) -> dict[str, str]:
    """By path, a digest of each Python file."""
    found = sorted(folder.rglob("*.py"))[:MOST_FILES] if folder.is_dir() else []
    return {str(path.relative_to(folder)): _digest(path.read_bytes()) for path in found if path.is_file()}


def _digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:8]
