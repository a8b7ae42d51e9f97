"""Which channel instances there are: those of the file and those of the store, each with settings of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.contract import CHANNELS, DRAFTS, READ_MARKS, SpecOrigin
from gatepost.core import registry, settings
from gatepost.core.errors import SetupError
from gatepost.core.settings import SETTINGS, Config
from gatepost.flow.channel_specs import get_last_name, list_file_specs, list_specs, parse_stored, render_values
from gatepost.messages.outbound import Feature
from gatepost.store.rooms.channel_instances import StoredChannel
from gatepost_testing.storms.beacon import BeaconPlatform, registered_beacon
from gatepost_testing.waiting import PATIENCE_S


@pytest.fixture(autouse=True)
def platform() -> Iterator[BeaconPlatform]:
    registry.load_package("gatepost.channels")
    with registered_beacon() as made:
        yield made


def load(tmp_path: Path, text: str, **environ: str) -> Config:
    (tmp_path / "gatepost.toml").write_text(text)
    return settings.load(tmp_path, environ)


def colors(config: Config, *rows: StoredChannel) -> dict[str, str]:
    specs, _ = list_specs(config, rows)
    color: Any = SETTINGS["channels.beacon.color"]
    return {each.instance: each.make_config(config)[color] for each in specs if each.kind.name == "beacon"}


def stored(instance: str, kind: str = "beacon", **values: Any) -> StoredChannel:
    return StoredChannel(instance, kind, values, True, 1, "operator")


def test_a_table_with_a_kind_is_an_instance_with_settings_of_its_own(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        '[channels.north]\nkind = "beacon"\ncolor = "green"\n[channels.south]\nkind = "beacon"\n'
        '[channels.beacon]\ncolor = "blue"\n',
    )

    assert colors(config) == {"north": "green", "south": "red"}
    assert colors(config, stored("west", color="green"), stored("beacon")) == {
        "north": "green",
        "south": "red",
        "west": "green",
        "beacon": "blue",
    }


def test_channels_on_is_enough_for_the_simple_case_and_the_environment_counts_there(tmp_path: Path) -> None:
    config = load(tmp_path, 'channels.on = ["beacon", "second=beacon"]\n', GATEPOST_CHANNELS_BEACON_COLOR="green")

    assert colors(config) == {"beacon": "green", "second": "red"}


@pytest.mark.parametrize("entry", ["../../elsewhere=beacon", "a/b=beacon", "North=beacon", "..=beacon"])
def test_an_instance_of_the_list_has_a_name_and_no_path(entry: str) -> None:
    """Its folder in the home is named like it."""
    with pytest.raises(SetupError, match="a name has a-z"):
        list_file_specs(Config({"channels.on": (entry,)}))


def test_an_instance_may_be_named_like_its_kind_and_be_switched_off(tmp_path: Path) -> None:
    config = load(tmp_path, '[channels.beacon]\nkind = "beacon"\ncolor = "blue"\non = false\n')
    (spec,) = (each for each in list_file_specs(config) if each.origin is SpecOrigin.FILE)

    assert (spec.instance, spec.is_on) == ("beacon", False)
    assert colors(config) == {"beacon": "blue"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[channels.north]\nkind = "baecon"\n', r"\[channels\.north\]: there is no channel 'baecon'.*mean 'beacon'"),
        ('[channels.north]\nkind = "beacon"\ncolour = "red"\n', r"no setting 'colour'; did you mean 'color'\?"),
        ('[channels.north]\nkind = "beacon"\nx = 1\n', r"beacon has no setting 'x'; it has: color, token"),
        ('[channels.north]\nkind = "beacon"\ncolor = "pink"\n', r"color = 'pink' is not one of red, green, blue"),
        ('[channels.north]\nkind = "beacon"\non = "yes"\n', r"on = 'yes' is neither true nor false"),
        (
            '[channels.north]\nkind = "beacon"\ntoken = "hush"\n',
            r"has a north with token; that is a secret.*gatepost channel add",
        ),
        ('[channels.web]\nkind = "beacon"\n', r"web always runs"),
        ('[channels.north]\nkind = "web"\n', r"web always runs"),
        ('[channels.NORTH]\nkind = "beacon"\n', r"a name has a-z"),
        ("[channels.north]\nkind = 3\n", r"has a north without `kind`"),
        ('[channels.north]\ncolor = "red"\n', r"a table \[channels\.north\] of an instance needs `kind`"),
        ('[channels.beacon]\ntoken = "hush"\n', r"channels\.beacon\.token; that is a secret.*gatepost channel add"),
        (
            '[channels]\non = ["north=beacon"]\n[channels.north]\nkind = "beacon"\non = false\n',
            r"says something else than \[channels\.north\]",
        ),
        (
            '[channels.a-b]\nkind = "beacon"\n[channels.a_b]\nkind = "beacon"\n',
            r"a-b and a_b would share the secret CHANNEL_A_B_TOKEN",
        ),
    ],
)
def test_what_is_wrong_in_the_file_is_refused_with_the_way_out(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(SetupError, match=error) as refused:
        list_file_specs(load(tmp_path, text))
    assert "hush" not in str(refused.value)


def test_a_secret_is_refused_in_the_environment_too(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"GATEPOST_CHANNELS_BEACON_TOKEN: .*that is a secret") as refused:
        load(tmp_path, "", GATEPOST_CHANNELS_BEACON_TOKEN="hush")
    assert "hush" not in str(refused.value)


def test_the_file_counts_where_the_store_has_one_of_the_same_name(tmp_path: Path) -> None:
    config = load(tmp_path, '[channels.north]\nkind = "beacon"\ncolor = "green"\n')

    assert colors(config, stored("north", color="blue")) == {"north": "green"}


def test_a_row_of_a_kind_that_is_gone_stops_nobody_else(tmp_path: Path) -> None:
    specs, broken = list_specs(load(tmp_path, ""), [stored("old", "smoke"), stored("north")])

    assert "north" in {each.instance for each in specs}
    assert [each.instance for each in broken] == ["old"]
    assert "there is no channel 'smoke'" in str(broken[0].error)


def test_a_row_that_would_share_a_secret_with_the_file_does_not_run(tmp_path: Path) -> None:
    config = load(tmp_path, '[channels.a-b]\nkind = "beacon"\n')
    _, broken = list_specs(config, [stored("a_b")])

    assert [str(each.error) for each in broken] == [
        "the channels a-b and a_b would share the secret CHANNEL_A_B_TOKEN; rename one of them"
    ]


def test_values_survive_the_way_into_a_row_and_back() -> None:
    spec = parse_stored(stored("north", color="green"))

    assert render_values(CHANNELS["beacon"], spec.values) == {"color": "green"}
    assert spec.list_secrets() == {"token": "CHANNEL_NORTH_TOKEN"}


def test_instances_may_be_json_of_the_environment(tmp_path: Path) -> None:
    given = '{"north": {"kind": "beacon", "color": "green"}}'
    assert colors(load(tmp_path, "", GATEPOST_CHANNELS_INSTANCES=given)) == {"north": "green"}
    with pytest.raises(SetupError, match="is no table of tables"):
        load(tmp_path, "", GATEPOST_CHANNELS_INSTANCES='{"north": 3}')
    with pytest.raises(SetupError, match="has a north with token") as refused:
        load(tmp_path, "", GATEPOST_CHANNELS_INSTANCES='{"north": {"kind": "beacon", "token": "hush"}}')
    assert "hush" not in str(refused.value)


# Runs in a process of its own, and forks one for each home: a module is imported once in each.
STARTS = """
import json, os, sys
from pathlib import Path
from gatepost import app
from gatepost.channels.contract import CHANNELS, DRAFTS
from gatepost.core import settings
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.flow.channel_specs import list_specs
from gatepost.store.rooms.channel_instances import StoredChannel

def list_imported():
    return [name for name in CHANNELS if hasattr(sys.modules.get(f"gatepost.channels.{name}"), "__path__")]

def start(home, stored):
    app.load_plugins(home)
    at_start, specs, error = list_imported(), [], ""
    try:
        rows = [StoredChannel("bot", kind, {}, True, 1, "operator") for kind in stored]
        specs = [each.instance for each in list_specs(settings.load(home.path), rows)[0]]
    except SetupError as refused:
        error = str(refused)
    return list(CHANNELS), at_start, list_imported(), sorted(specs), error

for path, stored, environ in json.load(sys.stdin):
    if os.fork() == 0:
        os.environ.update(environ)
        print(json.dumps(start(Home(Path(path)), stored)), flush=True)
        os._exit(0)
    os.wait()
"""
SET_SOMEWHERE: list[tuple[str, dict[str, str], str]] = [  # in the file, in the environment; what is refused
    ("[channels.telegram]\napi_url = 'http://127.0.0.1:1'\n", {}, ""),
    ("[channels.telegram]\napi_ulr = 'x'\n", {}, "unknown setting 'channels.telegram.api_ulr'; did you mean"),
    ("[chanels.telegram]\napi_url = 'x'\n", {}, "did you mean 'channels.telegram.api_url'?"),
    ("[channels.bot]\nkind = 'telegram'\ntoken = 'x'\n", {}, "has a bot with token; that is a secret"),
    ("", {"GATEPOST_CHANNELS_TELEGRAM_TOKEN": "x"}, "GATEPOST_CHANNELS_TELEGRAM_TOKEN: channels.telegram.token"),
]


def start_each(tmp_path: Path, *homes: tuple[str, list[str], dict[str, str]]) -> list[Any]:
    """Given the file, the kinds of stored instances and the environment of each home: all kinds; those imported by the
    start, and once the instances were listed; the instances; what was refused."""
    orders = []
    for number, (text, stored_kinds, environ) in enumerate(homes):
        home = tmp_path / str(number)
        home.mkdir()
        (home / "gatepost.toml").write_text(text)
        orders.append((str(home), stored_kinds, environ))
    command = [sys.executable, "-c", STARTS]
    done = subprocess.run(command, input=json.dumps(orders), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_start_imports_the_kinds_that_somebody_uses_and_all_where_a_setting_may_be_theirs(tmp_path: Path) -> None:
    unset: tuple[str, list[str], dict[str, str]] = ("[sandbox]\nkind = 'process'\n", ["ntfy"], {})
    unused, *used = start_each(tmp_path, unset, *((text, [], environ) for text, environ, _ in SET_SOMEWHERE))

    kinds, at_start, listed, specs, error = unused
    assert {"telegram", "whatsapp_linked", "ntfy", "web"} <= set(kinds) and len(kinds) > 20 and "kit" not in kinds
    assert (at_start, listed, error) == ([], ["ntfy"], "")
    assert specs == ["agents", "bot", "errands", "hook", "terminal", "web"]
    for (*_, expected), (_, at_start, *_, error) in zip(SET_SOMEWHERE, used, strict=True):
        assert set(kinds) - set(at_start) == {"agents", "errands", "hook", "terminal", "web"}
        assert expected in error if expected else error == ""


def test_the_folder_of_each_kind_is_named_like_it() -> None:
    """By which it is found before anything of it is imported."""
    folders = {name: CHANNELS.origin(name).split(".")[2] for name in CHANNELS if name != "beacon"}
    assert all(name == folder for name, folder in folders.items()), folders


def test_the_option_for_answers_that_grow_is_of_an_instance_and_of_channels_that_can_edit() -> None:
    known = {name for name, kind in CHANNELS.items() if any(get_last_name(each) == DRAFTS for each in kind.settings)}
    assert known == {"slack", "discord", "mattermost", "telegram", "matrix", "zulip", "teams"}
    for name in known:
        assert {Feature.EDIT, Feature.DELETE} <= CHANNELS[name].features
    rows = [StoredChannel(each, "slack", {DRAFTS: each == "new"}, True, 1, "test") for each in ("new", "old")]
    grows = {row.instance: parse_stored(row).make_kind(Config()).drafts for row in rows}
    assert grows == {"new": True, "old": False} and not CHANNELS["slack"].drafts


def test_read_marks_are_on_where_people_see_them_as_the_bots_own() -> None:
    marks = {
        name: each for name, kind in CHANNELS.items() for each in kind.settings if get_last_name(each) == READ_MARKS
    }
    assert {name for name, each in marks.items() if each.default is True} == {"whatsapp", "matrix", "signal", "xmpp"}
    for name in marks:
        make = CHANNELS[name].load
        assert make is not None and hasattr(make(), "mark_read")
    rows = [StoredChannel(each, "signal", {READ_MARKS: each == "on"}, True, 1, "test") for each in ("on", "off")]
    assert [parse_stored(row).make_kind(Config()).read_marks for row in rows] == [True, False]
