"""Who this gateway is among those that share its store."""

import hashlib
import re
import socket
from pathlib import Path

from gatepost import __version__
from gatepost.core import ids
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting
from gatepost.store.gateways import GatewayIdentity

NAME = setting(
    "gateway.name", "", help="How this gateway is known to others on the same store (empty: the host's name)."
)
LONGEST = 40
MARK = "gateway-id"  # a file in the home: two gateways of one name on two homes are two

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def make_identity(home: Home, config: Config, schema_number: int) -> GatewayIdentity:
    host = socket.gethostname()
    name = config[NAME] or host[:LONGEST]
    if len(name) > LONGEST or not _NAME.fullmatch(name):
        raise SetupError(
            f"gateway.name {name!r} is no name of a gateway: letters, digits, '.', '_' and '-', at most {LONGEST}"
        )
    return GatewayIdentity(
        name=name,
        home=_find_mark(home.path / MARK),
        host=host,
        version=__version__,
        schema_number=schema_number,
        config_digest=_digest(home.path / "gatepost.toml"),
    )


def _find_mark(path: Path) -> str:
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(ids.token(16))
    return path.read_text()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""
