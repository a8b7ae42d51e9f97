"""`gatepost channel add` for each kind that has an emulated platform: what the platform says no to is one clear line,
and nothing is written. What a kind cannot find out it declares as `unchecked`, with the reason."""

import importlib
import inspect
import io
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from gatepost.channels.contract import CHANNELS, AddCheck
from gatepost.core import registry
from gatepost.core.home import Home
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.port import Db
from gatepost.store.rooms import channel_instances
from gatepost_testing import platforms, servers
from gatepost_testing.platforms.base import EmulatedPlatform, PlatformFault
from gatepost_testing.platforms.teams import APP_ID, TENANT

Run = Callable[..., Any]
# The whole line, by kind: what is wrong, and the way out.
SECOND_POLLER = {
    "irc": (
        "the nick porter is in use on 127.0.0.1",
        "stop the program that has it, or choose another nick",
    ),
    "slack": (
        "another program receives the events of this app, too",
        "stop it, or make an app of its own for it",
    ),
    "telegram": (
        "another program polls with this bot's token",
        "stop it, or give it a bot of its own, then add the channel again",
    ),
    "whatsapp": (
        "another program receives for this number, at another.example",
        "remove that alternate callback URL of the phone number, or use another number",
    ),
    "xmpp": (
        "another gateway is logged in as bot@localhost/gatepost-xmpp",
        "stop it, or give it an account of its own",
    ),
}
MISSING_RIGHT = {
    "bluesky": (
        "the account @porter.test is deactivated, so it can neither read nor post",
        "make it active again at https://bsky.app, or use another",
    ),
    "discord": (
        "the bot may not read messages",
        "switch on MESSAGE CONTENT INTENT at https://discord.com/developers/applications, on the page Bot of the"
        " application",
    ),
    "email": (
        "127.0.0.1 does not let bot send as bot@mail.test"
        " (553 5.7.1 <bot@mail.test>: Sender address rejected: not owned by user bot)",
        "let the mail server allow it, or set the address and the user of one mailbox",
    ),
    "github": (
        "the token of @gatebot lacks the right to read acme/site",
        "invite the account, or add the repository to the token",
    ),
    "irc": (
        "127.0.0.1 has banned the bot (You are banned from this server.)",
        "ask its staff",
    ),
    "mastodon": (
        "the token lacks the scope write (This action is outside the authorized scopes)",
        "make one with the scopes read and write",
    ),
    "mattermost": (
        "@porter is in no team, so nobody can invite it",
        "add it to a team on the server",
    ),
    "ntfy": (
        "ntfy does not let this token read the topic team",
        "give it read and write access there, or set another token",
    ),
    "reddit": (
        "the token lacks the scope submit, without which the bot cannot say anything",
        "make a refresh token with the scopes identity, read, history, privatemessages, submit and edit",
    ),
    "slack": (
        "the app lacks the scope chat:write",
        "add it at https://api.slack.com/apps under OAuth & Permissions, and install the app again",
    ),
    "teams": (
        f"the application {APP_ID} has no rights in the tenant {TENANT}",
        "register it there, or correct the tenant",
    ),
    "whatsapp": (
        "the token has no right to the number 106540352242922 (code 100)",
        "give the system user the account and whatsapp_business_messaging, or correct phone_number_id",
    ),
    "x": (
        "the keys of @porter may read only",
        "set the app to Read and write, then make its access token anew",
    ),
    "xmpp": (
        "the bot may not enter team@rooms.localhost (this bot may not join team@rooms.localhost on XMPP: forbidden)",
        "let it in there, or name another room",
    ),
    "zulip": (
        "the bot is of the type incoming webhook, which cannot receive",
        "make one of the type Generic bot, and use its key",
    ),
}


def list_platforms() -> list[type[EmulatedPlatform]]:
    """Those that start by themselves."""
    registry.load_package("gatepost.channels")
    found: dict[str, type[EmulatedPlatform]] = {}
    places = [(package, info) for package in (platforms, servers) for info in pkgutil.iter_modules(package.__path__)]
    for package, info in places:
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for _, each in inspect.getmembers(module, inspect.isclass):
            known = issubclass(each, EmulatedPlatform) and getattr(each, "kind", "") in CHANNELS
            if known and not inspect.signature(each).parameters and not inspect.isabstract(each):
                if info.name == each.kind and each.__module__ == module.__name__:  # type: ignore[attr-defined]  # before a real server of its kind
                    found[each.kind] = each  # type: ignore[attr-defined]
                found.setdefault(each.kind, each)  # type: ignore[attr-defined]
    return [found[kind] for kind in sorted(found) if kind != "matrix"]


@pytest.fixture(params=list_platforms(), ids=lambda each: str(each.kind))
def platform(request: pytest.FixtureRequest) -> Iterator[EmulatedPlatform]:
    made: EmulatedPlatform = request.param()
    with ExitStack() as running:
        try:
            running.enter_context(made)
        except FileNotFoundError as absent:  # a real server, which must be installed first
            pytest.skip(str(absent))
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


def render_line(why: str, remedy: str) -> str:
    return f"gatepost: {why}; {remedy}\n"


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
    assert done.out.startswith(f"{platform.kind}: {platform.kind} accepts us: ")
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
    assert done.err == render_line(*SECOND_POLLER[platform.kind])


@over_checked(AddCheck.RIGHTS)
def test_a_missing_right_is_one_line_and_writes_nothing(
    platform: EmulatedPlatform, add: Callable[..., Any], home: Home
) -> None:
    platform.fault(PlatformFault.NO_RIGHTS)
    done = add(platform, platform.get_settings(), platform.get_secrets())

    check_line(done, home, platform)
    assert done.err == render_line(*MISSING_RIGHT[platform.kind])


def test_what_a_kind_cannot_find_out_has_a_reason() -> None:
    """A new kind is checked for everything, or says why not."""
    kinds = {each.kind for each in list_platforms()}
    assert set(SECOND_POLLER) | {each for each in kinds if AddCheck.SECOND_POLLER in CHANNELS[each].unchecked} == kinds
    assert set(MISSING_RIGHT) | {each for each in kinds if AddCheck.RIGHTS in CHANNELS[each].unchecked} == kinds
    reasons = [reason for _, kind in CHANNELS.items() for reason in kind.unchecked.values()]
    assert reasons and all(len(each) > 20 and "\n" not in each and "|" not in each for each in reasons)
