"""`gatepost channel add` for each kind that has an emulated platform: what the platform says no to is one clear line,
and nothing is written. What a kind cannot find out it declares as `unchecked`, with the reason."""

import importlib
import inspect
import io
import pkgutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gatepost.channels.contract import CHANNELS, AddCheck
from gatepost.core import registry
from gatepost.core.home import Home
from gatepost.store import channel_instances
from gatepost.store.port import Db
from gatepost.store.readonly import read_snapshot
from gatepost.testing import platforms
from gatepost.testing.platforms.base import EmulatedPlatform, PlatformFault

Run = Callable[..., Any]
# What the line names, and the way out.
SECOND_POLLER: dict[str, str] = {
}
MISSING_RIGHT: dict[str, str] = {
}


def list_platforms() -> list[type[EmulatedPlatform]]:
    """Those that start by themselves. A real server that must be installed first has tests of its own."""
    registry.load_package("gatepost.channels")
    found: dict[str, type[EmulatedPlatform]] = {}
    for info in pkgutil.iter_modules(platforms.__path__):
        module = importlib.import_module(f"{platforms.__name__}.{info.name}")
        for _, each in inspect.getmembers(module, inspect.isclass):
            known = issubclass(each, EmulatedPlatform) and getattr(each, "kind", "") in CHANNELS
            if known and not inspect.signature(each).parameters and not inspect.isabstract(each):
                found.setdefault(each.kind, each)
    return [found[kind] for kind in sorted(found) if kind != "matrix"]


@pytest.fixture(params=list_platforms(), ids=lambda each: str(each.kind))
def platform(request: pytest.FixtureRequest) -> Iterator[EmulatedPlatform]:
    made: EmulatedPlatform = request.param()
    with made:
        yield made


@pytest.fixture
def add(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def add(platform: EmulatedPlatform, values: dict[str, Any], secrets: dict[str, str]) -> Any:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{each}\n" for each in secrets.values())))
        given = [word for name, value in values.items() for word in ("--set", f"{name}={render(value)}")]
        named = [word for name in secrets for word in ("--secret", f"{name}=-")]
        return run("channel", "add", platform.kind, *given, *named)

    return add


def render(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple | list) else str(value)


def move_away(name: str, value: Any, port: int) -> Any:
    """To where nobody listens."""
    if name.endswith("port"):
        return 9
    return value.replace(f":{port}", ":9") if isinstance(value, str) else value


def read_all(db: Db) -> list[Any]:
    return [db.rows(f"SELECT * FROM {each}") for each in ("channel_instances", "channel_cursors", "secrets")]


def check_line(done: Any, home: Home, platform: EmulatedPlatform) -> None:
    """One line, without a secret, and nothing in the store."""
    assert (done.code, done.err.count("\n"), done.out) == (1, 1, ""), done.err
    assert "this should not happen" not in done.err and "broke with" not in done.err
    assert "`gatepost channel set`" not in done.err, "there is nothing to set yet"
    assert not [value for value in platform.get_secrets().values() if value in done.err]
    assert read_snapshot(home.store, read_all) == [[], [], []]


def test_it_says_whose_bot_it_is_and_keeps_the_settings(
    platform: EmulatedPlatform, add: Callable[..., Any], home: Home
) -> None:
    done = add(platform, platform.get_settings(), platform.get_secrets())

    assert done.code == 0, done.err
    assert done.out.startswith(f"{platform.kind}: {platform.kind} accepts us as ")
    assert [each.kind for each in read_snapshot(home.store, channel_instances.list_all)] == [platform.kind]
    said = done.out + done.err
    assert not [value for value in platform.get_secrets().values() if value in said]


def list_checked(check: AddCheck) -> list[type[EmulatedPlatform]]:
    return [each for each in list_platforms() if check not in CHANNELS[each.kind].unchecked]


def over_checked(check: AddCheck) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("platform", list_checked(check), ids=lambda each: str(each.kind), indirect=True)


@over_checked(AddCheck.TOKEN)
def test_a_revoked_key_is_one_line_and_writes_nothing(
    platform: EmulatedPlatform, add: Callable[..., Any], home: Home
) -> None:
    platform.fault(PlatformFault.UNAUTHORIZED)
    done = add(platform, platform.get_settings(), platform.get_secrets())

    check_line(done, home, platform)


@over_checked(AddCheck.NETWORK)
def test_no_network_is_one_line_and_writes_nothing(
    platform: EmulatedPlatform, add: Callable[..., Any], home: Home
) -> None:
    values = {name: move_away(name, value, platform.port) for name, value in platform.get_settings().items()}
    done = add(platform, values, platform.get_secrets())

    check_line(done, home, platform)
    assert "is unavailable" in done.err


@over_checked(AddCheck.SECOND_POLLER)
def test_a_second_poller_is_one_line_and_writes_nothing(
    platform: EmulatedPlatform, add: Callable[..., Any], home: Home
) -> None:
    platform.fault(PlatformFault.CONFLICT)
    done = add(platform, platform.get_settings(), platform.get_secrets())

    check_line(done, home, platform)
    assert SECOND_POLLER[platform.kind] in done.err


@over_checked(AddCheck.RIGHTS)
def test_a_missing_right_is_one_line_and_writes_nothing(
    platform: EmulatedPlatform, add: Callable[..., Any], home: Home
) -> None:
    platform.fault(PlatformFault.NO_RIGHTS)
    done = add(platform, platform.get_settings(), platform.get_secrets())

    check_line(done, home, platform)
    assert MISSING_RIGHT[platform.kind] in done.err


