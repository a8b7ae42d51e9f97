"""`gatepost invite`, `token` and `onboarding` on a home whose gateway is down."""

import io
from collections.abc import Callable
from typing import Any

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.flow import invitations
from gatepost.flow.codes import INVITATION
from gatepost.flow.onboarding import Applicant, ask
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.people import newcomers

Run = Callable[..., Any]
WHO = Applicant(sender="fake:user/eve", name="Eve", instance="fake", address="fake:direct/eve", direct=True)


def send(home: Home, shown: str) -> bool:
    """Somebody sends the code while the gateway takes messages."""
    connection = connect(home.store)
    code = INVITATION.parse(shown)
    done = invitations.accept(SqliteDb(connection), code, WHO, SystemClock().now()).accepted
    connection.close()
    return done


def join(home: Home) -> str:
    connection = connect(home.store)
    db = SqliteDb(connection)
    reason = ask(db, newcomers.list_entrances(db), WHO, SystemClock().now()).reason
    connection.close()
    return reason


def test_an_invitation_is_made_listed_and_used(run: Run, home: Home) -> None:
    printed = run("invite", "add", "home", "--label", "for Eve")
    code = printed.out.splitlines()[0]
    assert printed.code == 0 and f"/join {code}" in printed.out and "It works once, until" in printed.out
    listed = run("invite", "ls")
    assert "for Eve" in listed.out and "valid" in listed.out and code not in listed.out
    assert send(home, code)
    [row] = run("invite", "list", "--json").json
    assert (row["state"], row["uses_left"], row["created_by"]) == ("used_up", 0, "operator")
    assert run("user", "show", WHO.sender, "--json").json["member_of"] == ["home"]


def test_an_invitation_is_taken_back(run: Run, home: Home) -> None:
    made = run("invite", "add", "home", "--uses", "3", "--days", "0", "--json").json
    assert made["token"]["expires_at"] is None
    gone = run("invite", "rm", made["token"]["id"])
    assert gone.out == f"{made['token']['id']} (invite for home) does not work any more\n"
    assert not send(home, made["secret"])
    assert run("token", "list", "--json").json[0]["state"] == "revoked"


def test_chat_links_and_webhooks_are_made_and_listed_without_their_secret(run: Run) -> None:
    link = run("token", "add", "chat_link", "home", "--suffix", "support", "--json").json
    hook = run("token", "add", "webhook", "home", "--label", "github", "--json").json
    assert [each["token"]["address"] for each in (link, hook)] == ["web:link/home/support", "hook:home/github"]
    listed = run("token", "ls", "--json")
    assert {each["kind"] for each in listed.json} == {"chat_link", "webhook"}
    assert link["secret"] not in listed.out and hook["secret"] not in listed.out
    assert run("invite", "list", "--json").json == []


def test_a_webhook_is_printed_with_its_address_and_signed_anew(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEPOST_WEB_URL", "https://gate.example")
    made = run("token", "add", "webhook", "home", "--label", "ci", "--signature", "github", "--instructions", "Hush.")
    first, *more = made.out.splitlines()
    assert first.startswith("https://gate.example/hook/") and "signed with this secret" in made.out
    row = run("token", "list", "--json").json[0]
    assert (row["instructions"], row["signature"]) == ("Hush.", "github")
    details = ["room: hook:home/ci", "signed as by github", "instructions: Hush."]
    assert "\n".join([f"\n{row['id']}:", *(f"  {each}" for each in details)]) in run("token", "list").out
    monkeypatch.setattr("sys.stdin", io.StringIO("whsec_0123456789abcdef\n"))
    signed = run("token", "sign", row["id"], "stripe", "--signing-secret", "-")
    assert signed.code == 0 and "stripe" in signed.out and "whsec" not in signed.out
    kept = [each["name"] for each in run("secret", "list", "--json").json]
    assert len(kept) == 1 and kept[0].startswith("CHANNEL_HOOK_")
    assert "whsec" not in run("audit", "list", "--json").out
    assert run("token", "sign", row["id"], "none").code == 0
    assert run("secret", "list", "--json").json == []
    assert more and run("token", "list", "--json").json[0]["signature"] == "none"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("invite", "add", "nowhere"), "no group named 'nowhere'"),
        (("invite", "add", "root"), "root is for owners"),
        (("invite", "add", "home", "--uses", "0"), "--uses"),
        (("invite", "rm", "tk-1"), "gatepost token list"),
        (("token", "add", "webhook", "home"), "label"),
        (("token", "add", "pairing_link", "home"), "pairing_link"),
        (("token", "add", "chat_link", "home", "--signature", "github"), "for webhooks"),
        (("token", "add", "webhook", "home", "--label", "x", "--signing-secret", "sesame-0123456789"), "on stdin"),
        (("token", "add", "webhook", "home", "--label", "x", "--instructions", "x" * 4001), "instructions"),
        (("token", "sign", "tk-1", "github"), "gatepost token list"),
        (("onboarding", "open", "fake", "nowhere"), "no group named 'nowhere'"),
        (("onboarding", "open", "fake", "root"), "root has no groups below it"),
        (("onboarding", "open", "fake", "home", "--senders", "[x"), "senders"),
        (("onboarding", "close", "7"), "gatepost onboarding list"),
        (("onboarding", "allow", "nc-1"), "gatepost onboarding list"),
        (("onboarding", "deny", "nc-1"), "gatepost onboarding list"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(run: Run, command: tuple[str, ...], words: str) -> None:
    refused = run(*command)
    assert refused.code != 0 and words in refused.err


def test_newcomers_are_listed_denied_and_allowed(run: Run, home: Home) -> None:
    opened = run("onboarding", "open", "fake", "home", "--senders", "fake:user/*", "--per-day", "0")
    said, note = opened.out.splitlines()
    assert said == "entrance 1: fake:user/* on fake → home/…, each when somebody allows it"
    assert note == "nobody comes in yet: there is no channel named 'fake'; `gatepost channel list` shows them"
    assert join(home) == "join_queued"
    listed = run("onboarding", "ls")
    assert "entrance 1" in listed.out and WHO.sender in listed.out and "queued" in listed.out
    assert "each when somebody allows it; opened by operator at 2" in listed.out
    assert "1 wait; `gatepost onboarding list` shows them" in run("status").out
    [newcomer] = run("onboarding", "list", "--json").json["newcomers"]
    assert run("onboarding", "deny", newcomer["id"], "--reason", "not now").code == 0
    again = run("onboarding", "deny", newcomer["id"])
    assert again.code == 1 and "is denied and does not wait" in again.err
    assert "is admitted" in run("onboarding", "allow", newcomer["id"]).out
    assert run("onboarding", "allow", newcomer["id"]).code == 1
    assert run("onboarding", "close", "1").out == "entrance 1 is closed\n"
    assert run("onboarding", "list", "--json").json["entrances"] == []


def test_an_entrance_for_the_same_senders_is_changed(run: Run) -> None:
    for limit in ("1", "5"):
        run("onboarding", "open", "fake", "home", "--per-day", limit)
    [entrance] = run("onboarding", "list", "--json").json["entrances"]
    assert (entrance["id"], entrance["per_day"], entrance["senders"]) == (1, 5, "*")


def test_a_pairing_link_is_printed_for_one_identity(run: Run) -> None:
    printed = run("pair", "telegram:user/9", "--link")
    assert printed.out.startswith("http://127.0.0.1:8420/pair/") and "telegram:user/9" in printed.out
    missing = run("pair", "--link")
    assert missing.code == 1 and "a link is for one identity" in missing.err


def test_an_entrance_on_a_misspelt_channel_names_the_one_that_was_meant(run: Run) -> None:
    assert "no channel named 'wbe'; did you mean 'web'?" in run("onboarding", "open", "wbe", "home").out
    assert run("onboarding", "open", "web", "home").out.count("\n") == 1
