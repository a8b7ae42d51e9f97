"""`gatepost channel`: what it asks, what it writes, and that a failure writes nothing."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from gatepost.channels.contract import ChannelState, SpecOrigin
from gatepost.cli.commands.channels import render_restarted
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.flow.channel_supervisor import make_folder
from gatepost.serve.control.arguments.channels import ChannelListItem
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.port import Db
from gatepost.store.rights import audit, secrets
from gatepost.store.rooms import channel_cursors, channel_instances
from gatepost_testing.storms.beacon import GOOD_TOKEN, BeaconPlatform, registered_beacon

Run = Callable[..., Any]


@pytest.fixture
def platform() -> Iterator[BeaconPlatform]:
    with registered_beacon() as made:
        yield made


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what stands on standard input."""

    def give(text: str, *, terminal: bool = False) -> None:
        monkeypatch.setattr(sys, "stdin", Terminal(text) if terminal else io.StringIO(text))

    return give


def read_all(db: Db) -> list[Any]:
    """Without the moments at which secrets were used: each check of a channel is a use."""
    tables = {"channel_instances": "*", "channel_cursors": "*", "secrets": "name, sealed, created_at, updated_at"}
    return [db.rows(f"SELECT {columns} FROM {table} ORDER BY 1, 2") for table, columns in tables.items()]


def get_value(home: Home, name: str) -> str:
    def read(db: Db) -> str:
        row = db.row("SELECT scope, key_id, nonce, sealed FROM secrets WHERE name = ?", (name,))
        assert row is not None
        ring = Keyring(home).read()
        assert ring is not None
        return ring.open(secrets.SealedValue(*row[1:]), (row[0], name)).decode()  # type: ignore[attr-defined]

    return read_snapshot(home.store, read)


def test_a_script_adds_a_channel_with_its_secret_from_standard_input(
    run: Run, home: Home, platform: BeaconPlatform, given: Callable[..., None]
) -> None:
    given(f"{GOOD_TOKEN}\n")
    done = run("channel", "add", "beacon", "--name", "north", "--set", "color=green", "--secret", "token=-")

    assert done.code == 0, done.err
    assert "north: beacon accepts us: @north (Beacon)" in done.out
    assert "invite it: https://beacon.example/invite" in done.out
    assert "Invite the bot into a room." in done.out and "gatepost pair" in done.out and "gatepost up" in done.out
    (row,) = read_snapshot(home.store, channel_instances.list_all)
    assert (row.instance, row.kind, row.settings, row.is_on) == ("north", "beacon", {"color": "green"}, True)
    assert get_value(home, "CHANNEL_NORTH_TOKEN") == GOOD_TOKEN
    assert platform.poller_checks == 1
    assert platform.closed == ["north"], "the one that was made for the question is closed"
    everything = json.dumps([list(each) for each in read_snapshot(home.store, audit.list_latest, 50)], default=str)
    assert "channel.add" in everything and "color" in everything and GOOD_TOKEN not in everything
    assert GOOD_TOKEN not in done.out + done.err


def test_at_a_terminal_it_asks_for_exactly_what_the_guide_names(
    run: Run, home: Home, platform: BeaconPlatform, given: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def prompt(text: str, *, hide_input: bool = False, **_: Any) -> str:
        asked.append((text, hide_input))
        return GOOD_TOKEN if hide_input else "blue"

    monkeypatch.setattr("click.prompt", prompt)
    given("", terminal=True)
    done = run("channel", "add", "beacon")

    assert done.code == 0, done.err
    assert asked == [("token (not shown)", True), ("color", False)]
    assert done.out.startswith("Get a key at beacon.example.")
    (row,) = read_snapshot(home.store, channel_instances.list_all)
    assert row.settings == {"color": "blue"}


def test_no_error_of_a_platform_shows_the_secret(
    run: Run, platform: BeaconPlatform, given: Callable[..., None]
) -> None:
    given(GOOD_TOKEN)
    assert run("channel", "add", "beacon", "--name", "north").code == 0
    platform.repeats_token = True
    given(GOOD_TOKEN)
    for done in (run("channel", "add", "beacon"), run("channel", "test", "north")):
        assert done.code == 1 and "is no address; correct" in done.err
        assert GOOD_TOKEN not in done.out + done.err


def revoke(platform: BeaconPlatform) -> None:
    platform.tokens.clear()


def unplug(platform: BeaconPlatform) -> None:
    platform.reachable = False


def poll_twice(platform: BeaconPlatform) -> None:
    platform.second_poller = True


def deny(platform: BeaconPlatform) -> None:
    platform.has_rights = False


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (revoke, "beacon does not accept the token; add the channel again with a valid one"),
        (unplug, "beacon is unavailable: it cannot be reached (ConnectError)"),
        (poll_twice, "another program receives as this bot; stop it, then add the channel again"),
        (deny, "the bot may not read messages; switch that on at beacon.example"),
    ],
)
def test_what_the_platform_refuses_is_one_clear_line_and_nothing_is_written(
    run: Run,
    home: Home,
    platform: BeaconPlatform,
    given: Callable[..., None],
    spoil: Callable[[BeaconPlatform], None],
    line: str,
) -> None:
    given(GOOD_TOKEN)
    assert run("channel", "add", "beacon", "--name", "other").code == 0
    before = read_snapshot(home.store, read_all)
    spoil(platform)
    given(GOOD_TOKEN)
    done = run("channel", "add", "beacon", "--name", "north")

    assert (done.code, done.err) == (1, f"gatepost: {line}\n")
    assert read_snapshot(home.store, read_all) == before
    assert not (home.channels / "north").exists()

    given("another-token")
    changed = run("channel", "set", "other", "--secret", "token", "--set", "color=blue")
    assert changed.code == 1 and "add the channel again" not in changed.err
    assert read_snapshot(home.store, read_all) == before


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("smoke",), "there is no channel 'smoke'"),
        (("baecon",), "did you mean 'beacon'?"),
        (("web",), "web is part of the gateway"),
        (("beacon", "--set", "colour=red"), "beacon has no setting 'colour'; did you mean 'color'?"),
        (("beacon", "--set", "color=pink"), "is not one of red, green, blue"),
        (("beacon", "--set", "token=hush-hush"), "token is a secret"),
        (("beacon", "--secret", "token=hush-hush"), "write token=- and give it on stdin"),
        (("beacon", "--secret", "tokn=-"), "beacon has no secret 'tokn'; it has: token"),
        (("beacon", "--name", "North"), "a name has a-z"),
        (("beacon", "--name", "web"), "is the name of another kind"),
        (("beacon",), "token: is missing: The key of the bot. Give it with --secret token=-"),
        (("heavy",), "the channel heavy needs a_library_that_is_not_there, which is not installed: pip install"),
    ],
)
def test_what_cannot_be_added_says_why_and_writes_nothing(
    run: Run, home: Home, platform: BeaconPlatform, given: Callable[..., None], args: tuple[str, ...], line: str
) -> None:
    from gatepost.channels.contract import CHANNELS, declare_channel

    home.store.unlink()  # what is refused needs none
    declare_channel("heavy", "a_library_that_is_not_there.adapter:Heavy", features=frozenset(), extra="heavy")
    try:
        given("")
        done = run("channel", "add", *args)
    finally:
        CHANNELS.drop("heavy")

    assert done.code == 1 and line in done.err and done.err.count("\n") == 1
    assert "hush-hush" not in done.err + done.out
    if home.store.exists():
        assert read_snapshot(home.store, read_all) == [[], [], []]
    assert platform.checks == 0


def test_a_second_one_needs_a_name_and_shares_no_secret(
    run: Run, home: Home, platform: BeaconPlatform, given: Callable[..., None]
) -> None:
    given(GOOD_TOKEN)
    assert run("channel", "add", "beacon", "--name", "a-b").code == 0
    given(GOOD_TOKEN)
    assert "--name gives this one another name" in run("channel", "add", "beacon", "--name", "a-b").err
    given(GOOD_TOKEN)
    assert "would share the secret CHANNEL_A_B_TOKEN" in run("channel", "add", "beacon", "--name", "a_b").err


def test_one_bot_is_not_added_twice(run: Run, home: Home, platform: BeaconPlatform, given: Callable[..., None]) -> None:
    platform.bot = "@beacon_bot"
    for name in ("north", "south"):
        given(GOOD_TOKEN)
        done = run("channel", "add", "beacon", "--name", name)
    assert done.code == 1 and "the channel north already is @beacon_bot; use another bot" in done.err
    assert platform.poller_checks == 1, "asked of a bot that we run, the platform would name us"
    run("channel", "set", "north", "--off")
    given(GOOD_TOKEN)
    assert run("channel", "add", "beacon", "--name", "south").code == 0
    assert [each.instance for each in read_snapshot(home.store, channel_instances.list_all)] == ["north", "south"]


@pytest.mark.slow
def test_a_change_is_checked_and_kept_and_a_default_comes_back(
    run: Run, home: Home, platform: BeaconPlatform, given: Callable[..., None]
) -> None:
    platform.tokens.add("a-newer-key-9")
    given(GOOD_TOKEN)
    run("channel", "add", "beacon", "--name", "north", "--set", "color=green")
    given("a-newer-key-9")
    done = run("channel", "set", "north", "--secret", "token=-", "--unset", "color")
    assert done.code == 0 and "accepts us: @north" in done.out
    assert get_value(home, "CHANNEL_NORTH_TOKEN") == "a-newer-key-9"
    assert run("channel", "set", "north", "--off").out.startswith("north is off")
    (row,) = read_snapshot(home.store, channel_instances.list_all)
    assert (row.settings, row.is_on) == ({}, False)
    assert [each["state"] for each in run("channel", "list", "--json").json if each["instance"] == "north"] == ["off"]

    given("")
    assert "nothing is given to change" in run("channel", "set", "north").err
    assert "did you mean 'north'?" in run("channel", "set", "nroth", "--on").err


def test_one_of_the_file_is_changed_there_but_has_its_secrets_here(
    run: Run, home: Home, platform: BeaconPlatform, given: Callable[..., None]
) -> None:
    home.prepare()
    (home.path / "gatepost.toml").write_text('[channels.north]\nkind = "beacon"\ncolor = "blue"\n')
    given("")
    assert "stands in gatepost.toml: change it there" in run("channel", "set", "north", "--set", "color=red").err
    assert "stands in gatepost.toml: remove it there" in run("channel", "rm", "north", "--yes").err
    assert "token: is missing" in run("channel", "test", "north").err
    given(GOOD_TOKEN)
    assert run("channel", "set", "north", "--secret", "token=-").code == 0
    assert "north: beacon accepts us: @north (Beacon)" in run("channel", "test", "north").out
    assert read_snapshot(home.store, channel_instances.list_all) == []
    assert "--name gives this one another name" in run("channel", "add", "beacon", "--name", "north").err


def test_removing_takes_the_settings_the_secrets_the_cursor_and_the_folder(
    run: Run, home: Home, platform: BeaconPlatform, given: Callable[..., None]
) -> None:
    for name in ("north", "north-two"):
        given(GOOD_TOKEN)
        assert run("channel", "add", "beacon", "--name", name).code == 0
        make_folder(home, name)
    given("")
    assert "--yes: is needed where nobody can be asked" in run("channel", "rm", "north").err
    done = run("channel", "rm", "north", "--yes")

    assert done.out == "north is removed, with CHANNEL_NORTH_TOKEN\n"
    assert [each.instance for each in read_snapshot(home.store, channel_instances.list_all)] == ["north-two"]
    assert [each.name for each in read_snapshot(home.store, secrets.list_all)] == ["CHANNEL_NORTH_TWO_TOKEN"]
    assert read_snapshot(home.store, channel_cursors.list_all) == []
    assert [each.name for each in home.channels.iterdir()] == ["north-two"]
    assert "no channel named 'north'" in run("channel", "rm", "north", "--yes").err


def test_missing_rights_that_it_can_do_without_are_printed(
    run: Run, platform: BeaconPlatform, given: Callable[..., None]
) -> None:
    platform.missing = ("pin messages: for pin_message",)
    given(GOOD_TOKEN)
    done = run("channel", "add", "beacon")
    assert done.code == 0 and "it lacks: pin messages: for pin_message" in done.out


def test_the_kinds_are_listed_with_what_they_ask_for(run: Run, platform: BeaconPlatform) -> None:
    (beacon,) = (each for each in run("channel", "kinds", "--json").json if each["name"] == "beacon")
    assert [(each["name"], each["is_secret"]) for each in beacon["asks"]] == [("token", True), ("color", False)]
    assert "Beacon" in run("channel", "kinds").out
    assert "web" not in {each["name"] for each in run("channel", "kinds", "--json").json}


def test_a_name_that_is_taken_is_refused_before_anything_is_asked(
    run: Run, platform: BeaconPlatform, given: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    given(GOOD_TOKEN)
    run("channel", "add", "beacon")
    asked: list[str] = []
    monkeypatch.setattr("click.prompt", lambda text, **_: asked.append(text))
    given("", terminal=True)
    done = run("channel", "add", "beacon")
    assert done.code == 1 and "there is a channel 'beacon'; --name gives" in done.err
    assert (asked, done.out) == ([], "")


def test_whoever_breaks_off_is_told_that_nothing_happened(
    run: Run, home: Home, platform: BeaconPlatform, given: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def abort(text: str, **_: Any) -> None:
        raise click.Abort

    given(GOOD_TOKEN)
    run("channel", "add", "beacon")
    monkeypatch.setattr("click.prompt", abort)
    monkeypatch.setattr("click.confirm", abort)
    given("", terminal=True)
    added = run("channel", "add", "beacon", "--name", "north")
    removed = run("channel", "rm", "beacon")
    assert (added.code, removed.code) == (130, 130)
    assert added.err.endswith("gatepost: nothing was added\n") and removed.err.endswith(
        "gatepost: nothing was removed\n"
    )
    assert [each.instance for each in read_snapshot(home.store, channel_instances.list_all)] == ["beacon"]


def test_the_list_leaves_out_what_each_was_tested_against(
    run: Run, platform: BeaconPlatform, given: Callable[..., None]
) -> None:
    given(GOOD_TOKEN)
    run("channel", "add", "beacon")
    assert "tested against" not in run("channel", "list").out and "tested against" in run("channel", "kinds").out
    (beacon,) = (each for each in run("channel", "list", "--json").json if each["instance"] == "beacon")
    assert beacon["tested_against"] == "nothing: it is made up"


def test_a_log_without_lines_says_whether_there_is_such_a_channel(
    run: Run, home: Home, platform: BeaconPlatform, given: Callable[..., None]
) -> None:
    given(GOOD_TOKEN)
    run("channel", "add", "beacon")
    (home.logs / "gatepost.log").write_text("")
    assert run("channel", "logs", "beacon").err == "the log says nothing about beacon\n"
    done = run("channel", "logs", "becon")
    assert done.code == 1 and "no channel named 'becon'" in done.err and "did you mean 'beacon'?" in done.err


def test_a_restart_of_one_that_is_off_says_how_it_is_switched_on() -> None:
    north = ChannelListItem(instance="north", kind="beacon", origin=SpecOrigin.STORE, state=ChannelState.OFF)
    told = render_restarted(north)
    assert told == "north is off; `gatepost channel set north --on` switches it on"


def test_without_a_gateway_the_list_says_so(run: Run, platform: BeaconPlatform, given: Callable[..., None]) -> None:
    given(GOOD_TOKEN)
    run("channel", "add", "beacon")
    done = run("channel", "list")
    assert "no gateway runs" in done.out
    assert [line.split()[:3] for line in done.out.splitlines() if line.startswith("beacon")] == [
        ["beacon", "beacon", "down"]
    ]
    assert "is not running" in run("channel", "restart", "beacon").err


def test_the_log_of_one_instance_is_what_names_it(run: Run, home: Home) -> None:
    home.prepare()
    lines = [
        {"event": "a channel has ended", "channel": "north", "level": "error"},
        {"event": "a channel has ended", "channel": "south", "level": "error"},
        {"event": "not delivered", "instance": "north", "level": "warning"},
        {"event": "north is only said here", "level": "info"},
    ]
    (home.logs / "gatepost.log").write_text("".join(f"{json.dumps(each)}\n" for each in lines) + "no JSON north\n")
    done = run("channel", "logs", "north")
    assert [line.split("  ")[-1].strip() for line in done.out.splitlines()] == [
        "a channel has ended channel=north",
        "not delivered instance=north",
    ]
    assert len(run("channel", "logs", "north", "-n", "1", "--json").out.splitlines()) == 1


def test_a_home_plug_in_can_be_added_too(run: Run, home: Home, tmp_path: Path) -> None:
    home.prepare()
    (home.plugins / "channels" / "bell.py").write_text(
        "from gatepost.channels.contract import channel\n"
        "@channel('bell')\nclass Bell:\n    def __init__(self, around): ...\n"
        "    async def listen(self, receive): ...\n    async def send(self, address, message): return 'x'\n"
    )
    from gatepost.channels.contract import CHANNELS

    try:
        done = run("channel", "add", "bell")
    finally:
        CHANNELS.drop("bell")
    assert done.code == 0, done.err
    assert "bell: bell cannot be asked whether it accepts us" in done.out


@pytest.mark.slow
def test_the_doctor_names_what_is_wrong_with_channels(
    run: Run, home: Home, platform: BeaconPlatform, given: Callable[..., None]
) -> None:
    for name in ("north", "south"):
        given(GOOD_TOKEN)
        assert run("channel", "add", "beacon", "--name", name).code == 0
    (home.path / "gatepost.toml").write_text(
        '[channels.north]\nkind = "beacon"\n[channels.west]\nkind = "beacon"\n'
        '[channels.east]\nkind = "beacon"\non = false\n'
    )
    found = [each for each in run("doctor", "--json").json["findings"] if each["subject"] == "channels"]
    told = {each["text"]: each["remedy"] for each in found}

    assert told == {
        "north is in gatepost.toml and was also added by `gatepost channel add`; the file counts": (
            "rename the one in the file, or remove it there"
        ),
        "west has no token": "`gatepost channel set west --secret token` asks for it",
    }


def test_the_doctor_names_a_channel_whose_kind_is_gone(run: Run, home: Home, given: Callable[..., None]) -> None:
    with registered_beacon():
        given(GOOD_TOKEN)
        assert run("channel", "add", "beacon", "--name", "north").code == 0
    found = [each for each in run("doctor", "--json").json["findings"] if each["subject"] == "channels"]

    assert len(found) == 1 and "there is no channel 'beacon'" in found[0]["text"]
    assert found[0]["remedy"] == "`gatepost channel rm north`"
    assert run("channel", "rm", "north", "--yes").out == "north is removed, with CHANNEL_NORTH_TOKEN\n"
