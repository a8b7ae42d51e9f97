"""`gatepost secret` and `egress` on a home whose gateway is down."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran

from gatepost.core.home import Home
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.rights import audit, egress
from gatepost.store.rights.egress import EgressOutcome

Run = Callable[..., Ran]
VALUE = "sk-ant-xyzzy-0123456789"


def type_in(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))


def holding(folder: Path, text: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("given", [(), ("-",), ("stdin",)])
def test_a_value_comes_from_standard_input_without_its_last_newline(
    run: Run, home: Home, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...]
) -> None:
    type_in(monkeypatch, f"{VALUE}\r\n".encode())

    told = run("secret", "set", "ANTHROPIC_API_KEY", *given)

    where = "it is sent to https://api.anthropic.com:443 alone"
    assert (told.code, told.out) == (0, f"ANTHROPIC_API_KEY is set for the gateway; {where}\n")
    assert _stored(home, "ANTHROPIC_API_KEY") == VALUE


def test_a_value_comes_from_the_command_line_and_is_forgotten_there(
    run: Run, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes the home's lock writes its command line into a file."""
    monkeypatch.setattr(sys, "argv", ["gatepost", "secret", "set", "OPENAI_API_KEY", VALUE])

    told = run("secret", "set", "OPENAI_API_KEY", VALUE, "--folder", "home", "--json")

    assert told.json["folder"] == "home" and told.json["new"] is True
    assert sys.argv[-1] == "…"
    assert _stored(home, "OPENAI_API_KEY") == VALUE


def test_no_command_prints_a_value_and_no_file_holds_it(run: Run, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [run("secret", "set", "TOKEN", VALUE), run("secret", "set", "TOKEN", VALUE)]
    assert _stored(home, "TOKEN") == VALUE
    for args in (("list",), ("rotate",), ("log",)):
        said += [run("secret", *args), run("secret", *args, "--json")]
    said += [run("audit", "list"), run("audit", "list", "--json"), run("secret", "rm", "TOKEN")]

    assert [each.code for each in said] == [0] * len(said)
    assert "replaced for the gateway" in said[1].out
    assert "xyzzy" not in "".join(each.out + each.err for each in said)
    assert holding(home.path, "xyzzy") == []


def test_a_listing_tells_whose_and_when_used(run: Run, home: Home) -> None:
    run("user", "add", "fake:user/1")
    run("secret", "set", "TOKEN", VALUE, "--user", "fake:user/1")
    run("secret", "set", "TOKEN", VALUE, "--folder", "home")
    assert _stored(home, "TOKEN") == VALUE

    listed = run("secret", "list", "--json").json
    used = run("secret", "log", "--json").json

    assert [(each["folder"], each["user_id"], each["used_at"] is None) for each in listed] == [
        ("home", "", False),
        ("", "fake:user/1", True),
    ]
    assert [(each["name"], each["scope"], each["outcome"]) for each in used] == [("TOKEN", "folder:home", "used")]
    assert "user fake:user/1" in run("secret", "list").out and "folder home" in run("secret", "log").out


def test_a_value_in_the_place_of_the_name_is_not_repeated(run: Run) -> None:
    told = run("secret", "set", VALUE)
    assert told.code == 1 and "named in capitals" in told.err and "xyzzy" not in told.err


def test_what_is_no_text_and_what_is_nothing_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, b"\xff\xfe")
    assert run("secret", "set", "TOKEN").err == "gatepost: value: is not text\n"
    type_in(monkeypatch, b"\n")
    assert "is empty" in run("secret", "set", "TOKEN").err


def test_a_rotation_without_a_key_ring_says_that_it_made_one_and_where(run: Run, home: Home) -> None:
    assert run("secret", "rotate").out == f"the key ring is made: {home.path / 'keyring.json'}\n"
    assert "0 secrets are sealed with" in run("secret", "rotate").out


def test_a_ring_from_the_environment_leaves_none_in_the_home(
    run: Run, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = '{"current": "mine", "keys": {"mine": "' + "A" * 43 + '="}}'
    monkeypatch.setenv("GATEPOST_KEYRING", ring)
    run("secret", "set", "TOKEN", VALUE)

    told = run("secret", "rotate")

    assert "1 secrets are sealed with mine (GATEPOST_KEYRING)" in told.out and "add one in GATEPOST_KEYRING" in told.out
    assert not (home.path / "keyring.json").exists()
    monkeypatch.delenv("GATEPOST_KEYRING")
    assert "is gone; bring it back" in run("secret", "set", "TOKEN", VALUE).err


def _stored(home: Home, name: str) -> str | None:
    """The value as the gateway would spend it for the group `home`."""
    import anyio

    from gatepost.core.keyring import Keyring
    from gatepost.store.engine.sqlite_store import SqliteStore
    from gatepost.store.rights.secrets import SecretReader

    async def get() -> str | None:
        store = SqliteStore(home.store)
        try:
            return await SecretReader(store, Keyring(home)).get(name, "home")
        finally:
            store.close()

    return anyio.run(get)


def test_a_binding_is_made_shown_and_taken_back(run: Run, home: Home) -> None:
    made = run("secret", "bind", "TOKEN", "api.github.com", "--header", "X-Key: {}")
    assert "TOKEN goes to https://api.github.com:443 as x-key for every group" in made.out
    assert "gatepost secret set TOKEN" in made.out and "gatepost egress allow api.github.com:443" in made.out
    assert "is not set" in run("secret", "list").out

    run("secret", "set", "TOKEN", VALUE)
    assert run("secret", "list", "--json").json[0]["bound_to"] == ["https://api.github.com:443 (x-key)"]
    assert run("secret", "unbind", "TOKEN", "api.github.com").code == 0
    assert run("secret", "list", "--json").json[0]["bound_to"] == []


def test_what_a_key_is_for_is_an_endpoint_and_of_a_model(run: Run) -> None:
    bare = run("secret", "set", "OPENAI_API_KEY", VALUE, "--for", "127.0.0.1:8080")
    other = run("secret", "set", "GITHUB_TOKEN", VALUE, "--for", "https://api.github.com")

    assert bare.code == 1 and "for: '127.0.0.1:8080' is not an address; write it like https://host/v1" in bare.err
    assert other.code == 1 and "`gatepost secret bind GITHUB_TOKEN HOST`" in other.err


def test_a_rule_is_made_changed_and_removed(run: Run, home: Home) -> None:
    made = run("egress", "allow", "Example.com.", "--json")
    local = run("egress", "allow", "localhost:8080", "--folder", "home")
    turned = run("egress", "deny", "example.com")

    assert (made.code, made.json["host"], made.json["port"], made.json["local"]) == (0, "example.com", 0, False)
    assert "localhost:8080 is allowed for home and below" in local.out
    assert "example.com is denied on every port for every group" in turned.out
    listed = run("egress", "list", "--json").json
    assert [(each["host"], each["allow"], each["local"]) for each in listed] == [
        ("example.com", False, False),
        ("localhost", True, True),
    ]
    assert [each["host"] for each in run("egress", "list", "--folder", "acme", "--json").json] == ["example.com"]
    assert "is removed" in run("egress", "rm", str(made.json["id"])).out
    assert run("egress", "rm", str(made.json["id"])).code == 1
    assert "home" in run("egress", "list").out
    actions = [row[3] for row in audit.list_latest(SqliteDb(connect(home.store)), 10)]
    assert actions == ["egress.rm", "egress.deny", "egress.allow", "egress.allow"]


def test_what_cannot_be_allowed_is_said(run: Run) -> None:
    literal, ghost = run("egress", "allow", "10.0.0.1:80"), run("egress", "allow", "a.com", "--folder", "nobody")
    assert (literal.code, ghost.code) == (1, 1)
    assert "only names can be allowed" in literal.err
    assert "no group named 'nobody'" in ghost.err


def test_a_rule_is_removed_by_its_id_alone(run: Run) -> None:
    told = run("egress", "rm", "example.com")

    assert told.code == 1 and "'example.com' is not a rule's id; `gatepost egress list` shows them" in told.err


def test_this_machine_without_a_port_is_told_that_it_needs_one(run: Run) -> None:
    assert "gatepost egress allow localhost:PORT" in run("egress", "allow", "localhost").out
    assert "PORT" not in run("egress", "allow", "localhost:8080").out
    assert "PORT" not in run("egress", "deny", "localhost").out


def test_the_log_counts_what_was_tried(run: Run, home: Home) -> None:
    assert run("egress", "allow", "a.com").code == 0
    db = SqliteDb(connect(home.store))
    assert egress.record_attempt(db, "acme", "s", "evil.com:443", EgressOutcome.DENIED, "not allowed", 1_000_000)
    assert not egress.record_attempt(db, "acme", "s", "evil.com:443", EgressOutcome.DENIED, "not allowed", 2_000_000)
    egress.record_attempt(db, "acme", "s", "a.com:443", EgressOutcome.ALLOWED, "", 3_000_000)

    assert [each["target"] for each in run("egress", "log", "--json").json] == ["evil.com:443", "a.com:443"]
    denied = run("egress", "log", "--denied", "--json").json
    assert [(each["times"], each["reason"]) for each in denied] == [(2, "not allowed")]
    assert "evil.com:443" in run("egress", "log").out
    assert "nothing was tried yet" in run("egress", "log", "--folder", "other").out
