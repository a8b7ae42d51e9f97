"""Commands on a home whose gateway is down."""

import json
import os
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gatepost.cli import reasons, show
from gatepost.cli.commands.logs import readable
from gatepost.cli.commands.trace import offset
from gatepost.core import lock
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.store import audit, groups, inbox, messages, outbox, rooms, sessions, turns, users
from gatepost.store.messages import NewMessage
from gatepost.store.migrate import migrate
from gatepost.store.outbox import NewEffect
from gatepost.store.port import Db
from gatepost.store.writer import Sqlite, connect

Run = Callable[..., "Ran"]  # noqa: F821  the fixture's answer


@pytest.fixture
def db(home: Home) -> Iterator[Db]:
    home.prepare()
    migrate(home.store, SystemClock())
    connection = connect(home.store)
    yield Sqlite(connection)
    connection.close()


def ask(db: Db, text: str, platform_id: str, now: int) -> tuple[int, str]:
    """A message that waits for the group `home`."""
    groups.add(db, "home", "Home", "", now)
    session = sessions.resolve(db, "per-thread", "home", "web", "web:home", "", now)
    message_id = messages.accept(
        db,
        NewMessage(
            instance="web",
            address="web:home",
            direction="in",
            kind="chat",
            sender="web:user/9",
            sender_name="Ada",
            text=text,
            at=now,
            platform_id=platform_id,
        ),
        now,
    )
    assert message_id is not None
    inbox.enqueue(db, message_id, session.id, "home", "member", now + 1000)
    return message_id, session.id


def answer(db: Db, session_id: str, text: str, now: int) -> None:
    """Its turn runs, says one thing, and that is sent."""
    claim = turns.claim(db, session_id, "demo", "run-1", now, 60_000_000, 10)
    assert claim is not None
    rows = tuple(entry.id for entry, _ in inbox.of_turn(db, claim.turn.id))
    turns.begin(db, claim.turn.id, claim.turn.epoch, rows, now + 1000)
    new = NewEffect(
        key="k1", op="send", origin="result", instance="web", address="web:home", text=text,
        payload={"text": text}, folder="home", session_id=session_id, turn_id=claim.turn.id,
    )  # fmt: skip
    outbox.add(db, new, now + 20_000)
    turns.finish(db, claim.turn.id, claim.turn.epoch, "{}", now + 21_000)
    effect = outbox.take(db, "web", "web:home", "run-1", now + 22_000, 60_000_000)
    assert effect is not None
    outbox.settle(db, effect.id, "sent", "", now + 23_000, "p2")


def test_an_empty_ledger_is_accounted_for(run: Run, db: Db) -> None:
    told = run("ledger", "check", "--json")

    assert told.code == 0
    assert told.json == {"unaccounted": 0, "in_flight": 0, "overdue": 0, "oldest_s": 0.0}


def test_a_row_that_nobody_looks_after_is_unaccounted(run: Run, db: Db) -> None:
    ask(db, "hello", "p1", 1_000_000)

    told = run("ledger", "check", "--json")

    assert told.code == 1
    assert (told.json["unaccounted"], told.json["in_flight"], told.json["overdue"]) == (1, 1, 1)
    assert run("ledger", "check").out.startswith("1 unaccounted\n")


def test_the_ledger_is_listed_with_both_directions(run: Run, db: Db) -> None:
    _, session_id = ask(db, "hello\nthere", "p1", 1_000_000)
    answer(db, session_id, "You said: hello", 1_010_000)

    rows = run("ledger", "list", "--json").json

    assert [(row["direction"], row["state"], row["text"]) for row in rows] == [
        ("in", "answered", "hello\nthere"),
        ("out", "sent", "You said: hello"),
    ]
    assert [row["state"] for row in run("ledger", "list", "--state", "sent", "--json").json] == ["sent"]
    assert "hello⏎there" in run("ledger", "list").out
    assert run("ledger", "list", "--state", "lost").code == 1


def test_a_trace_tells_a_whole_life_in_order(run: Run, db: Db) -> None:
    message_id, session_id = ask(db, "hello", "p1", 1_000_000)
    answer(db, session_id, "You said: hello", 1_010_000)

    told = run("trace", str(message_id), "--json").json
    shown = run("trace", "p1").out

    offsets = [each["offset_ms"] for each in told["moments"]]
    assert offsets == sorted(offsets) and offsets[0] == 0
    steps = [each["what"] for each in told["moments"]]
    assert steps[:2] == ["accepted", "queued"] and "send sent" in steps
    assert "Ada in web:home" in shown and "+0.0 ms  → accepted" in shown and "← send sent" in shown
    assert "You said: hello" in shown
    assert max(len(line) for line in shown.splitlines()) <= 100


def test_a_trace_of_nothing_says_so(run: Run, db: Db) -> None:
    told = run("trace", "77")

    assert told.code == 1 and "no message named '77'" in told.err


def test_reasons_are_sentences_for_people_and_codes_for_programs(run: Run, db: Db) -> None:
    message_id, _ = ask(db, "hello", "p1", 1_000_000)
    inbox.refuse(db, message_id, "home", "guest", "unknown_sender_strict", 1_000_000)

    assert "nobody here knows the sender (policy strict)" in run("trace", "p1").out
    assert "unknown_sender_strict" not in run("ledger", "list", "--state", "refused").out
    assert run("ledger", "list", "--state", "refused", "--json").json[0]["reason"] == "unknown_sender_strict"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("dropped_by_route 7", "route 7 drops it"),
        ("command /ping", "the gateway answered /ping by itself"),
        ("the agent failed", "the agent failed"),
        ("", ""),
    ],
)
def test_a_reason_that_is_no_code_is_left_alone(reason: str, words: str) -> None:
    assert reasons.sentence(reason) == words


def test_a_row_that_the_gateway_wrote_for_an_agent_says_what_it_is(run: Run, db: Db) -> None:
    _, session_id = ask(db, "hello", "p1", 1_000_000)
    new = NewMessage(
        instance="web", address="web:home", direction="in", kind="system", sender="gatepost:system", text="", at=1,
        platform_id="continue:t1:2", event="system", content='{"event": "continued"}',
    )  # fmt: skip
    message_id = messages.accept(db, new, 2_000_000)
    assert message_id is not None
    inbox.enqueue(db, message_id, session_id, "home", "member", 2_000_000)

    assert "(note: continued after a crash)" in run("ledger", "list").out
    assert "(note: continued after a crash)" in run("trace", str(message_id)).out


def test_times_have_a_year_and_their_zone_is_named_once(run: Run, db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(db, "hello", "p1", 1_800_000_000_000_000)
    monkeypatch.setenv("GATEPOST_TIMEZONE", "Asia/Tokyo")

    head, row = run("ledger", "list").out.splitlines()

    assert "at (Asia/Tokyo)" in head and "2027-01-15 17:00:00" in row
    monkeypatch.setenv("GATEPOST_TIMEZONE", "Nowhere/Land")
    assert "'Nowhere/Land' is not a zone" in run("ledger", "list").err
    monkeypatch.delenv("GATEPOST_TIMEZONE")
    assert "at (local, " in run("ledger", "list").out


HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\u2066\x7f\r\x85\u2028\ufeff\U000e0041 two\nlines\ttab"


def test_no_text_of_others_reaches_the_terminal_raw(run: Run, db: Db, home: Home) -> None:
    """Whatever prints it, for people or as JSON."""
    message_id, session_id = ask(db, HOSTILE, "p1", 1_000_000)
    answer(db, session_id, HOSTILE, 1_010_000)
    inbox.refuse(db, message_id, "home", "guest", HOSTILE, 1_000_000)
    groups.add(db, "acme", HOSTILE, "", 1)
    groups.change(db, "acme", {"model": HOSTILE, "speed": HOSTILE})
    rooms.add(db, "web", "web:x\u202e", HOSTILE, False, "strict", 1)
    users.add(db, "web:user/\u202e", HOSTILE, 1)
    audit.append(db, audit.Record(1, HOSTILE, HOSTILE, "done", {"text": HOSTILE}))
    line = json.dumps({"timestamp": "2027", "level": "info", "event": HOSTILE, "x": HOSTILE}, ensure_ascii=False)
    (home.logs / "gatepost.log").write_text(f"{line}\n{HOSTILE.replace(chr(10), ' ')}\n", encoding="utf-8")

    said = ""
    for args in (
        ("ledger", "list"),
        ("trace", str(message_id)),
        ("audit", "list"),
        ("group", "list"),
        ("group", "show", "acme"),
        ("room", "list"),
        ("user", "list"),
        ("user", "show", "web:user/\u202e"),
        ("logs",),
    ):
        for form in ((), ("--json",)):
            told = run(*args, *form)
            assert told.code == 0, told.err
            said += told.out
    said += run("trace", HOSTILE).err + run("user", "show", HOSTILE).err

    raw = {char for char in said if ord(char) < 0x20 or unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")}
    assert raw <= {"\n", "\t"}
    assert "␛[2J␛]0;owned␇" in said and "\\u202egnp.exe" in said and "two⏎lines" in said


def test_offsets_are_as_fine_as_it_matters() -> None:
    assert [offset(each) for each in (0, 430, 143_200, 12_000_000)] == ["+0.0 ms", "+0.4 ms", "+143 ms", "+12.0 s"]


def test_groups_and_routes_are_kept_with_the_gateway_down(run: Run, home: Home) -> None:
    assert run("group", "add", "acme/eng", "--name", "Eng").code == 0
    assert run("route", "add", "--match", "platform=web", "--target", "acme/eng", "--session", "shared").code == 0

    assert [each["folder"] for each in run("group", "list", "--json").json] == ["acme/eng", "home", "root"]
    assert [each["target"] for each in run("route", "list", "--json").json] == ["acme/eng", "home"]
    shown = run("group", "show", "acme/eng").out
    assert "Eng" in shown and "platform=web → acme/eng" in shown
    assert lock.holder(home) is None and not home.pid_file.exists()
    verified = run("audit", "verify", "--json").json
    assert (verified["rows"], verified["whole"], verified["first_bad"]) == (2, True, None)
    assert [each["action"] for each in run("audit", "list", "--json").json] == ["group.add", "route.add"]


def test_a_group_is_removed_only_on_purpose(run: Run, home: Home) -> None:
    run("group", "add", "acme")

    assert run("group", "rm", "acme").code == 1
    told = run("group", "rm", "acme", "--yes")

    assert told.code == 0 and f"its files stay in {home.group('acme')}" in told.out
    assert (home.group("acme") / "AGENTS.md").is_file()
    assert "belongs to every gateway and stays" in run("group", "rm", "home").err


def test_a_group_is_changed(run: Run) -> None:
    run("group", "add", "acme")

    assert run("group", "set", "acme", "name=Road Runner", "options.speed=9", "--json").json["options"] == {"speed": 9}
    assert run("group", "set", "acme", "provider=scripted", "options.speed=").out.splitlines() == [
        "group acme: provider is now scripted",
        "group acme: options.speed is now not set",
    ]
    assert run("group", "set", "acme", "provider=").out == "group acme: provider is now demo (default)\n"
    assert "seen after a restart" in run("group", "set", "acme", "sandbox=nope").err
    assert run("group", "set", "acme", "name").code == 1
    assert "is nothing that a group has" in run("group", "set", "acme", "colour=red").err


def test_what_a_group_takes_from_the_gateway_is_shown_as_such(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEPOST_SANDBOX_KIND", "process")
    run("group", "add", "acme", "--provider", "scripted")

    table, shown = run("group", "list").out, run("group", "show", "home").out

    assert "scripted " in table and "demo (default)" in table and "process (default)" in table
    assert "demo (default)" in shown and "the provider's own (default)" in shown and "\nopen" not in shown


def test_people_and_rooms_are_kept_with_the_gateway_down(run: Run) -> None:
    assert run("user", "add", "spool:user/ann", "--name", "Ann").out == (
        "spool:user/ann (Ann): known, a guest everywhere\n"
    )
    assert "member of home" in run("user", "member", "spool:user/ann", "home").out
    assert "admin of home" in run("user", "role", "spool:user/ann", "admin", "--folder", "home").out
    assert run("user", "show", "spool:user/ann", "--json").json["member_of"] == ["home"]
    assert "spool:user/ann" in run("user", "list").out
    assert run("user", "member", "spool:user/bob", "home").err == (
        "gatepost: no user named 'spool:user/bob'; `gatepost user add spool:user/bob` makes them known\n"
    )
    told = run("room", "policy", "spool:office", "public")
    assert told.out == "room spool:office (channel spool) is public: everybody may speak; nothing was said there yet\n"
    assert ("spool:office", "public") in [
        (each["address"], each["policy"]) for each in run("room", "list", "--json").json
    ]
    assert "spool:office" in run("room", "list").out
    assert run("room", "policy", "spool:office", "open").code == 2


def test_a_route_test_explains_who_wins(run: Run) -> None:
    run("group", "add", "acme")
    run("route", "add", "--match", "text=/urgent/", "--target", "acme")

    won = run("route", "test", "telegram:group/-1", "--text", "this is urgent")
    lost = run("route", "test", "telegram:group/-1", "--text", "hm", "--json").json

    assert won.code == 0 and "→ acme, by route 2" in won.out and "not asked: route 2 has won" in won.out
    assert [each["folder"] for each in lost["groups"]] == ["home"]
    assert run("route", "rm", "1").code == 0
    assert run("route", "test", "telegram:group/-1", "--text", "hm").code == 1
    assert run("route", "test", "nonsense").code == 1


def test_a_home_that_is_a_file_is_said_to_be_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert f"{tmp_path / 'file'} is a file, not a folder" in run("up", "--home", str(tmp_path / "file")).err
    assert f"{tmp_path / 'file'} is a file, not a folder" in run("up", "--home", str(tmp_path / "file" / "x")).err


def test_down_of_nothing_is_fine_and_says_so(run: Run, home: Home) -> None:
    told = run("down")

    assert told.code == 0 and "is not running" in told.out


def test_status_of_a_home_that_never_ran(run: Run, home: Home) -> None:
    told = run("status", "--json")

    assert told.code == 1
    assert (told.json["running"], told.json["pid"], told.json["store"]) == (False, None, None)
    assert not home.path.exists()


def test_status_says_that_a_lock_is_held_by_one_that_does_not_answer(run: Run, home: Home) -> None:
    home.prepare()
    with lock.take(home):
        told = run("status", "--json")

    assert told.code == 1
    assert (told.json["running"], told.json["answers"], told.json["pid"]) == (True, False, os.getpid())


def test_status_says_when_there_are_no_walls(run: Run, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEPOST_SANDBOX_KIND", "process")

    assert run("status", "--json").json["sandbox"] == {"kind": "process", "isolated": False, "trouble": None}
    assert "NO ISOLATION" in run("status").out


def test_the_doctor_finds_a_fresh_store_well(run: Run, home: Home) -> None:
    run("group", "add", "acme")

    found = run("doctor", "--json").json["findings"]

    levels = {(each["subject"], each["level"]) for each in found}
    for subject in ("python", "home", "disk", "daemon", "settings", "store", "ledger"):
        assert (subject, "ok") in levels, found


def test_the_doctor_finds_what_is_wrong_and_says_the_way_out(run: Run, db: Db, home: Home) -> None:
    ask(db, "hello", "p1", 1_000_000)
    new = NewEffect(key="k", op="send", origin="tool", instance="pager", address="pager:x", payload={"text": "x"})
    outbox.add(db, new, 1_000_000)
    (home.path / "gatepost.toml").write_text("[log]\nlevle = 'debug'\n")
    (home.path / "gatepost.toml").chmod(0o666)
    home.pid_file.write_text("{bad")
    home.control.write_text("not a socket")

    told = run("doctor", "--json")

    assert (told.code, told.json["ok"]) == (1, False)
    bad = {(each["subject"], each["level"]): each for each in told.json["findings"] if each["level"] != "ok"}
    assert "'log.levle'; did you mean 'log.level'?" in bad["settings", "fail"]["text"]
    assert "chmod go-rw" in bad["home", "warn"]["way_out"]
    assert "unaccounted" in bad["ledger", "fail"]["text"]
    assert "'pager'" in bad["channels", "fail"]["text"]
    assert "no socket" in bad["control", "fail"]["text"]
    assert ("daemon", "warn") in bad
    assert run("doctor").code == 1


def test_the_doctor_goes_on_behind_settings_that_cannot_be_read(run: Run, db: Db, home: Home) -> None:
    (home.path / "gatepost.toml").write_text("a = = 1")

    found = run("doctor", "--json").json["findings"]

    assert any(each["subject"] == "settings" and "not valid TOML" in each["text"] for each in found)
    assert {"sandbox", "store", "ledger"} <= {each["subject"] for each in found}


def test_the_doctor_names_a_plug_in_that_does_not_load(run: Run, home: Home) -> None:
    home.prepare()
    (home.plugins / "channels" / "bad.py").write_text("import nothing_of_that_name")
    (home.plugins / "providers" / "worse.py").write_text("def (")

    texts = [each["text"] for each in run("doctor", "--json").json["findings"] if each["level"] == "fail"]

    assert any("bad.py does not load" in text for text in texts)
    assert any("worse.py does not load" in text for text in texts)


def test_the_doctor_tells_a_damaged_store(run: Run, home: Home) -> None:
    home.prepare()
    home.store.write_bytes(b"garbage" * 1000)

    told = run("doctor", "--json")

    assert told.code == 1
    assert any(each["subject"] == "store" and each["level"] == "fail" for each in told.json["findings"])


def test_settings_are_listed_with_where_they_came_from(run: Run, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.prepare()
    (home.path / "gatepost.toml").write_text("listen = ':9000'\n")
    monkeypatch.setenv("GATEPOST_LOG_LEVEL", "debug")

    rows = {each["name"]: each for each in run("settings", "--json").json}

    assert (rows["listen"]["value"], rows["listen"]["source"]) == (":9000", str(home.path / "gatepost.toml"))
    assert (rows["log.level"]["value"], rows["log.level"]["source"]) == ("debug", "GATEPOST_LOG_LEVEL")
    assert rows["sandbox.kind"]["source"] == "default"
    assert rows["web.hosts"]["value"] == []


def test_the_settings_page_is_printed_from_the_declarations(run: Run) -> None:
    page = run("settings", "--docs").out

    assert page.startswith("# Settings\n")
    assert "| `listen` | `127.0.0.1:8420` | `GATEPOST_LISTEN` |" in page
    assert "| `control_socket` |  | `GATEPOST_CONTROL_SOCK` |" in page


def test_an_unknown_setting_stops_with_its_dotted_path(run: Run, home: Home) -> None:
    home.prepare()
    (home.path / "gatepost.toml").write_text("[log]\nlevle = 'debug'\n")

    told = run("settings")

    assert told.code == 1 and "'log.levle'" in told.err


def test_the_log_is_read_from_its_end(run: Run, home: Home) -> None:
    home.prepare()
    lines = [json.dumps({"timestamp": "2027-01-15T08:00:00.1Z", "level": "info", "event": f"e{n}"}) for n in range(9)]
    (home.logs / "gatepost.log").write_text("\n".join(lines) + "\n")

    assert run("logs", "-n", "2", "--json").out == "\n".join(lines[-2:]) + "\n"
    assert "2027-01-15 08:00:00" in run("logs", "-n", "1").out and run("logs", "-n", "1").out.endswith("e8\n")


def test_a_log_line_is_readable_and_a_stray_one_is_left_alone() -> None:
    line = '{"timestamp": "2027-01-15T08:00:00.123Z", "level": "error", "logger": "app", "event": "broke", "n": 1}'

    assert readable(line).split() == ["2027-01-15", "08:00:00.123", "error", "app", "broke", "n=1"]
    assert readable("plain words") == "plain words"


def test_no_log_is_told(run: Run, home: Home) -> None:
    assert "there is no log" in run("logs").err


def test_tables_fit_a_hundred_columns(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    show.table(("id", "text"), [(1, "long " * 60), (22, "short")])

    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) == 100 and lines[1].endswith("…")
