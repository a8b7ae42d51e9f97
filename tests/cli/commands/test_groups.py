"""`gatepost group set` and `show`: limits and mounts, as an operator uses them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.home import Home
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.rights import audit

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def tree(run: Run) -> None:
    for folder in ("acme", "acme/eng"):
        assert run("group", "add", folder).code == 0


def test_limits_are_set_shown_and_handed_down(run: Run) -> None:
    set_ = run("group", "set", "acme", "limits.memory_mb=512", "limits.cpu_percent=50", "limits.turn_s=600")
    run("group", "set", "acme/eng", "limits.turn_s=60")
    shown = run("group", "show", "acme/eng").out

    assert "limits.memory_mb is now 512\n" in set_.out
    assert f"{'limits.memory_mb':<24} 512 (as acme)\n" in shown
    assert f"{'limits.cpu_percent':<24} 50 (as acme)\n" in shown
    assert f"{'limits.turn_s':<24} 60\n" in shown
    assert run("group", "show", "acme", "--json").json["limits"] == {"memory_mb": 512, "cpu_percent": 50, "turn_s": 600}


def test_a_group_without_a_provider_shows_from_which_group_it_has_it(run: Run) -> None:
    own = f"{'provider':<24} anthropic\n"
    assert (
        run("group", "set", "acme", "provider=anthropic", "model=m-1", "options.base_url=http://127.0.0.1:9").code == 0
    )
    shown = run("group", "show", "acme/eng").out

    assert f"{'provider':<24} anthropic (as acme)\n" in shown
    assert f"{'model':<24} m-1 (as acme)\n" in shown
    assert "http://127.0.0.1:9 (as acme)" in shown
    assert own in run("group", "show", "acme").out


def test_a_group_shows_all_that_it_has_from_elsewhere_and_from_where(run: Run) -> None:
    run("group", "set", "acme", "provider=anthropic", "limits.memory_mb=512", "options.effort=low")
    run("budget", "set", "acme", "--turn", "0.50")
    run("budget", "set", "--instance", "--daily", "5")
    shown = run("group", "show", "acme/eng").out
    table = [line.split() for line in shown.partition("\n\n")[2].splitlines()]
    assert table[0] == ["setting", "value", "from"]
    assert ["provider", "anthropic", "acme"] in table and ["options.effort", "low", "acme"] in table
    assert ["limits.memory_mb", "512", "acme"] in table
    assert ["limit", "of", "an", "answer", "$0.50", "acme"] in table
    assert ["budget", "of", "a", "day", "$0.00", "of", "$5.00", "spent", "the", "gateway"] in table


def test_a_limit_is_taken_back_with_nothing(run: Run) -> None:
    run("group", "set", "acme", "limits.memory_mb=512")

    assert "limits.memory_mb is now 2048 (the gateway's)" in run("group", "set", "acme", "limits.memory_mb=").out
    assert run("group", "show", "acme", "--json").json["limits"] == {}


def test_more_than_the_gateway_gives_is_refused_and_nothing_of_the_line_is_done(run: Run) -> None:
    ran = run("group", "set", "acme", "name=Big", "limits.memory_mb=99999")

    assert ran.code == 1
    assert "above the gateway's 2048" in ran.err
    assert run("group", "show", "acme", "--json").json["name"] == "acme"


def allow(home: Home, folder: Path, suffix: str = "") -> None:
    (home.path / "gatepost.toml").write_text(f'[sandbox]\nmounts_allowed = ["{folder}{suffix}"]\n')


@pytest.mark.on_disk
def test_a_mount_is_set_as_far_as_it_is_allowed(run: Run, home: Home, tmp_path: Path) -> None:
    books = tmp_path / "srv" / "books"
    books.mkdir(parents=True)
    refused = run("group", "set", "acme", f"mounts={books}:/workspace/extra/books:rw")
    allow(home, tmp_path / "srv")
    done = run("group", "set", "acme", f"mounts={books}:/workspace/extra/books:rw")

    assert refused.code == 1 and "sandbox.mounts_allowed" in refused.err
    assert f"{books} at /workspace/extra/books, read-only" in done.out
    assert run("group", "show", "acme", "--json").json["mounts"] == [f"{books}:/workspace/extra/books:rw"]

    allow(home, tmp_path / "srv", ":rw")
    assert "to read and write" in run("group", "show", "acme").out
    allow(home, tmp_path / "elsewhere")
    assert "refused" in run("group", "show", "acme").out
    assert "mounts is now none" in run("group", "set", "acme", "mounts=").out


@pytest.mark.on_disk
def test_a_folder_that_holds_keys_is_refused(run: Run, home: Home, tmp_path: Path) -> None:
    (tmp_path / "srv" / ".ssh").mkdir(parents=True)
    allow(home, tmp_path / "srv")

    assert "holds .ssh" in run("group", "set", "acme", f"mounts={tmp_path}/srv:srv").err


def test_what_was_set_is_in_the_audit(run: Run, home: Home) -> None:
    run("group", "set", "acme", "limits.processes=64")
    ((*_, action, _, details),) = read_snapshot(home.store, audit.list_latest, 1)

    assert action == "group.set"
    assert json.loads(details) == {"folder": "acme", "values": {"limits": {"processes": 64}}}


@pytest.mark.parametrize(
    "value",
    [
        'options.x="\\ud800"',
        "options.x=" + "[" * 50_000,
        "options.x=NaN",
        "options.x=[1e999]",
        f"window_messages={10**23}",
    ],
    ids=["half a sign", "deep", "nan", "infinite", "large"],
)
def test_what_cannot_be_kept_is_refused_with_a_text(run: Run, value: str) -> None:
    told = run("group", "set", "acme", value)

    assert told.code == 1 and value.partition("=")[0] in told.err and len(told.err) < 400


def test_an_option_cannot_pass_for_what_is_judged(run: Run) -> None:
    assert "write sandbox=" in run("group", "set", "acme", "options.sandbox=process").err
    assert "'aks' is none of ask, refuse" in run("group", "set", "acme", "options.egress=aks").err


def test_a_provider_whose_file_asks_for_a_secret_is_refused(run: Run, home: Home) -> None:
    (home.plugins / "providers").mkdir(parents=True, exist_ok=True)
    text = '@provider("thief", env={"KEY": Need(secret="OPENAI_API_KEY")})\nclass Thief: ...\n'
    (home.plugins / "providers" / "thief.py").write_text(text)

    ran = run("group", "set", "acme", "provider=thief")
    assert ran.code == 1
    assert "the secret OPENAI_API_KEY" in ran.err and "bind it to the host" in ran.err


def test_a_model_goes_with_its_provider_and_that_is_said(run: Run, home: Home) -> None:
    run("group", "set", "acme", "provider=openai", "model=gpt-5.5")
    same = run("group", "set", "acme", "provider=openai")
    other = run("group", "set", "acme", "provider=anthropic")
    (row,) = read_snapshot(home.store, audit.list_latest, 1)
    both = run("group", "set", "acme", "provider=openai", "model=gpt-5-mini", "--json").json

    assert "model" not in same.out
    assert "model is now the provider's own; it was gpt-5.5\n" in other.out
    assert json.loads(row[-1])["values"] == {"provider": "anthropic", "model": ""}
    assert (both["model"], both["notes"]) == ("gpt-5-mini", [])


def test_the_gateways_own_provider_by_its_name_is_no_other(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEPOST_SESSIONS_PROVIDER", "openai")
    run("group", "set", "acme", "model=gpt-5.5")

    assert run("group", "set", "acme", "provider=openai", "--json").json["model"] == "gpt-5.5"
    assert run("group", "set", "acme", "provider=", "--json").json["model"] == "gpt-5.5"


@pytest.mark.on_disk
def test_a_mount_that_the_sandboxes_user_cannot_write_is_told(run: Run, home: Home, tmp_path: Path) -> None:
    books = tmp_path / "srv"
    books.mkdir(mode=0o555)
    allow(home, books, ":rw")
    shut = run("group", "set", "acme", f"mounts={books}:/workspace/extra/books:rw")
    books.chmod(0o777)
    opened = run("group", "set", "acme", f"mounts={books}:/workspace/extra/books:rw")

    assert shut.code == opened.code == 0
    assert f"{books} is mounted to write, but the user that sandboxes run as" in shut.out
    assert "chown" not in opened.out


def test_what_is_shown_of_the_window_is_the_setting(run: Run) -> None:
    assert f"{'window_chars':<24} 4000 (default)\n" in run("group", "show", "acme").out


def test_a_new_group_is_printed_with_the_command_that_brings_it_messages(run: Run) -> None:
    assert "`gatepost route add --match chat_jid=… --target acme/ops`" in run("group", "add", "acme/ops").out


def test_the_limit_of_files_is_shown_as_the_settings_have_it(run: Run, home: Home) -> None:
    with (home.path / "gatepost.toml").open("a") as settings:
        settings.write("\n[sandbox]\nfiles = 5000\n")
    assert f"{'limits.files':<24} 5000 (the gateway's)\n" in run("group", "show", "acme").out


def test_the_name_of_an_option_is_no_line_of_its_own(run: Run) -> None:
    assert run("group", "set", "acme", "options.x\nsandbox                  planted=1").code == 0
    planted = [line for line in run("group", "show", "acme").out.splitlines() if "planted" in line]
    assert [line.partition(" ")[0] for line in planted] != ["sandbox"]


def test_a_misspelt_option_is_named_also_where_the_provider_declares_none(run: Run) -> None:
    run("group", "add", "acme")
    said = run("group", "set", "acme", "options.chat_modles=gpt-5", "options.own_thing=1")
    assert said.code == 0, said.err
    assert "options.chat_modles is read by no provider here; did you mean 'chat_models'?" in said.out
    assert "options.own_thing is read" not in said.out


def test_an_option_that_nobody_reads_is_refused_with_those_that_there_are(run: Run) -> None:
    run("group", "add", "acme")
    run("group", "set", "acme", "provider=codex")
    refused = run("group", "set", "acme", "options.efort=low")
    assert refused.code == 1 and "codex has no such option; did you mean effort?" in refused.err.replace("'", "")
    assert "?. " not in refused.err and "outage" in refused.err and "tool_groups" in refused.err
    assert "is now low" in run("group", "set", "acme", "options.effort=low", "options.tool_groups=all").out
    assert "options.max_tokens is one of anthropic, openai, opencode, which codex does not read" in (
        run("group", "set", "acme", "options.max_tokens=4000").out
    )
    assert run("group", "set", "acme", "provider=demo", "options.anything=1").code == 0  # it does not say what it reads
