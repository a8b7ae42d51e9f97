"""Emulated platforms to try by hand: found by their kind, with one web page for all of them."""

import importlib
import inspect
import pkgutil
import secrets

from gatepost.channels.contract import CHANNELS
from gatepost.core.errors import NotFound, SetupError, did_you_mean
from gatepost_testing import platforms, servers
from gatepost_testing.platforms.base import EmulatedPlatform

TOY = "toy"  # the example of docs/extend/channel.md; its channel is a plug-in
# Real servers, driven by the same interface. They need programs that only `make test-all` installs.
SERVERS = {"email": "mail_server", "matrix": "matrix_server", "xmpp": "xmpp_server"}


def list_emulators() -> list[str]:
    """The kinds that can be emulated: a file of `gatepost_testing.platforms` has the name of its kind."""
    files = {info.name for info in pkgutil.iter_modules(platforms.__path__)}
    kinds = set(CHANNELS) | {TOY}
    return sorted(kind for kind in kinds if kind.replace("-", "_") in files)


def list_working() -> list[str]:
    """Those, and the servers for which everything is installed."""
    return sorted(kind for kind in {*list_emulators(), *SERVERS} if _can_import(kind))


def _can_import(kind: str) -> bool:
    try:
        importlib.import_module(_get_module_name(kind))
    except ModuleNotFoundError:
        return False
    return True


def _get_module_name(kind: str) -> str:
    if kind in SERVERS:
        return f"{servers.__name__}.{SERVERS[kind]}"
    return f"{platforms.__name__}.{kind.replace('-', '_')}"


def make_platform(kind: str) -> EmulatedPlatform:
    """The emulator of this kind, or the one that drives a real server; not started yet. A gateway may run with it, so
    it signs its hooks with a secret that stands in no source."""
    known = [*list_emulators(), *SERVERS]
    if kind not in known:
        near = did_you_mean(kind, known).removeprefix("; ")
        raise NotFound("emulator", kind, near or f"there are: {', '.join(list_working())}")
    name = _get_module_name(kind)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        extra = CHANNELS[kind].extra if kind in CHANNELS else ""
        package = f"'gatepost[{extra}]'" if extra else error.name
        raise SetupError(
            f"the emulator of {kind} needs {error.name}, which is not installed: pip install {package}"
        ) from None
    for each in vars(module).values():
        own = inspect.isclass(each) and each.__module__ == name and issubclass(each, EmulatedPlatform)
        if own and getattr(each, "kind", "") == kind:
            made: EmulatedPlatform = each()
            made.hook_secret = secrets.token_hex(32)
            return made
    raise NotFound("emulator", kind, f"{name} has none")
