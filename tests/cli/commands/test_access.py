"""`gatepost grant` and `gatepost policy`: what is granted is explained, and the explanation is what holds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
DISCORD = '{"chatJid": "discord:1"}'


@pytest.fixture(autouse=True)
def tree(run: Run) -> None:
    for folder in ("acme", "acme/eng"):
        assert run("group", "add", folder).code == 0


def test_a_rule_is_added_listed_explained_and_removed(run: Run) -> None:
    assert run("grant", "add", "acme", "!send(jid=discord:*)").code == 0
    assert [each["text"] for each in run("grant", "list", "--json").json["rules"]] == ["!send(jid=discord:*)"]

    told = run("policy", "explain", "acme/eng", "send", "--args", DISCORD, "--json").json
    assert told["allowed"] is False
    assert told["steps"][0] == {"source": "rule of acme", "text": "!send(jid=discord:*)", "says": "deny"}
    assert "acme/eng may not call send" in run("policy", "explain", "acme/eng", "send", "--args", DISCORD).out

    assert run("grant", "rm", "acme", "!send(jid=discord:*)").code == 0
    assert run("policy", "explain", "acme/eng", "send", "--args", DISCORD, "--json").json["allowed"] is True


def test_a_rule_that_holds_already_is_said_to_and_not_written_twice(run: Run) -> None:
    for said in ("acme: hold send\n", "acme: hold send holds already\n"):
        assert said in run("grant", "add", "acme", "hold send").out
    assert [each["text"] for each in run("grant", "list", "--json").json["rules"]] == ["hold send"]


def test_a_text_that_is_pinned_already_is_said_to_be_and_not_pinned_twice(run: Run) -> None:
    assert "rule 1 is pinned for acme, " in run("rule", "add", "acme", "Be kind.").out
    assert run("rule", "add", "acme", "Be kind.").out == "rule 1 says so to acme already\n"
    assert "rule 2 is pinned" in run("rule", "add", "acme", "Be kind.", "--room", "telegram:group/1").out


def test_a_subject_is_explained_by_what_speaks_of_it_and_by_each_tool(run: Run) -> None:
    for rule in ("hold send", "!speak(jid=discord:*)"):
        assert run("grant", "add", "acme", rule).code == 0
    said = run("policy", "explain", "acme/eng", "speak")
    assert said.code == 0 and "once a person agrees by send" in said.out and "'hold send' of acme" in said.out
    there = run("policy", "explain", "acme/eng", "speak", "--args", DISCORD, "--json").json
    assert {"source": "rule of acme", "text": "!speak(jid=discord:*)", "says": "deny"} in there["steps"]
    assert {"source": "tool", "text": "send", "says": "deny"} in there["steps"]
    assert run("grant", "add", "acme", "!speak").code == 0
    assert "acme/eng may not speak in a room\n" in run("policy", "explain", "acme/eng", "speak").out


def test_a_table_of_cases_says_which_calls_are_held_and_by_what(run: Run, tmp_path: Path) -> None:
    assert run("grant", "add", "acme", "hold send").code == 0
    table = tmp_path / "cases.jsonl"
    cases = (("acme", "send", "allow"), ("acme", "send", "hold"), ("acme", "reply", "hold"), ("acme", "send", "deny"))
    lines = (json.dumps({"folder": group, "tool": tool, "expect": expect}) for group, tool, expect in cases)
    table.write_text("\n".join(lines))
    told = run("policy", "test", str(table))
    by = "(a person must agree: 'hold send' of acme)"
    assert told.out.splitlines() == [
        f"cases.jsonl:1: acme send: allow, once a person agrees {by}",
        "cases.jsonl:3: acme reply: allow, not hold (tier: acme is tier 1, reply reaches down to tier 3)",
        f"cases.jsonl:4: acme send: hold, not deny (approval: {by[1:-1]})",
        "2 of 4 cases hold",
    ]


def test_a_hold_says_how_many_must_agree_wherever_it_is_shown(run: Run) -> None:
    assert run("grant", "add", "acme", "hold[2] send(jid=discord:*)").code == 0
    assert "hold[2] send(jid=discord:*)" in run("grant", "list").out
    told = run("policy", "explain", "acme/eng", "send", "--args", DISCORD)
    assert "2 people must agree: 'hold[2] send(jid=discord:*)' of acme" in told.out
    assert "send waits for a person: hold[2] send(jid=discord:*)" in run("tools", "acme/eng").out
    for slip in ("hold[0] send", "hold[21] send", "hold[two] send"):
        refused = run("grant", "add", "acme", slip)
        assert refused.code == 1 and "1 to 20" in refused.err


def test_a_row_is_added_given_on_and_ends_with_its_giver(run: Run) -> None:
    assert run("grant", "allow", "role:ops", "mcp:set_work", "--scope", "acme/**", "--grant-option").code == 0
    assert run("grant", "member", "telegram:user/9", "role:ops").code == 0
    again = run("grant", "member", "telegram:user/9", "role:ops")
    assert again.out == "telegram:user/9 is a member of role:ops already\n"
    given = run("grant", "allow", "folder:acme/eng", "mcp:set_work", "--scope", "acme", "--by", "telegram:user/9")
    assert given.code == 0, given.err
    more = run("grant", "allow", "folder:acme/eng", "mcp:send", "--by", "telegram:user/9")
    assert more.code == 1 and "does not hold mcp:send" in more.err

    assert run("grant", "member", "telegram:user/9", "role:ops", "--rm").code == 0
    assert [each["counts"] for each in run("grant", "list", "--json").json["rows"]] == [True, False]
    listed = run("grant", "list").out
    assert "does not count" in listed and "allow (grant option)  role:ops" in listed
    assert run("grant", "rm", "1").code == 0


@pytest.mark.parametrize("room", ["chatJid", "targetJid", "jid"])
def test_a_rule_may_use_the_name_that_a_parameter_had(room: str, run: Run) -> None:
    assert run("grant", "add", "acme", f"!schedule_task({room}=telegram:*)").code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("grant", "add", "acme", "send("), "what follows the tool must be"),
        (("grant", "add", "ghost", "send"), "no group named 'ghost'"),
        (("grant", "add", "acme", "!sned"), "there is no tool 'sned'; did you mean 'send'?"),
        (("grant", "add", "acme", "!send(foo=bar)"), "send has no parameter 'foo'"),
        (("grant", "add", "acme", "send_message"), "rules speak of 'send'"),
        (("grant", "deny", "folder:acme", "mcp:sned"), "did you mean 'send'?"),
        (("grant", "deny", "folder:nosuch", "mcp:send"), "there is no group 'nosuch'"),
        (("grant", "allow", "bogus", "mcp:send"), "write folder:acme/eng, role:ops"),
        (("grant", "deny", "telegram:*", "mcp:send"), "write telegram:**"),
        (("grant", "deny", "folder:acme", "mcp:send", "--when", "plattform=slack"), "did you mean 'platform'?"),
        (("grant", "deny", "folder:acme", "mcp:send", "--params", "jdi=x"), "did you mean 'jid'?"),
        (("grant", "rm", "acme", "send"), "no rule named"),
        (("grant", "rm", "77"), "no row named '77'"),
        (("grant", "allow", "role:x", "sing"), "there are: mcp:<tool>"),
        (("grant", "allow", "role:x", "mcp:send", "--scope", "a/[z-a]"), "is no glob over folders"),
        (("grant", "allow", "role:x", "mcp:send", "--params", "(("), "write name=glob"),
        (("grant", "member", "role:x", "role:x"), "a member of itself"),
        (("grant", "member", "role:x", "nobody"), "become members of a role"),
        (("policy", "explain", "acme", "sing"), "no tool named 'sing'"),
        (("policy", "explain", "ghost", "send"), "no group named 'ghost'"),
        (("policy", "explain", "acme", "send", "--args", "{"), "is no JSON"),
    ],
)
def test_bad_input_is_named(run: Run, args: tuple[str, ...], said: str) -> None:
    ran = run(*args)
    assert ran.code == 1
    assert said in ran.err


def test_what_is_not_there_yet_can_be_spoken_of_all_the_same(run: Run) -> None:
    assert run("grant", "add", "acme", "!github_create-issue", "--anyway").code == 0
    assert run("grant", "add", "acme", "!github_*").code == 0
    assert run("grant", "deny", "folder:soon", "mcp:send", "--anyway").code == 0
    assert run("grant", "deny", "folder:so/**", "mcp:send").code == 0


def test_a_table_of_cases_is_checked_and_what_does_not_hold_is_named(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "cases.jsonl"
    table.write_text(
        "# who may send\n"
        '{"folder": "acme/eng", "tool": "send", "expect": "allow"}\n'
        '{"folder": "acme", "tool": "network_allow", "args": {"host": "x.example"}, "expect": "deny"}\n'
    )
    assert run("policy", "test", str(table)).out == "2 of 2 cases hold\n"

    run("grant", "add", "acme", "!send")
    ran = run("policy", "test", str(table))
    assert ran.code == 1
    assert "cases.jsonl:2: acme/eng send: deny, not allow (rule of acme: !send)" in ran.out

    table.write_text('{"folder": "acme"}\n')
    assert "line 1 needs folder, tool and expect" in run("policy", "test", str(table)).err


def test_an_older_name_is_explained_as_the_tool_that_it_means(run: Run) -> None:
    told = run("policy", "explain", "acme/eng", "send_message", "--args", '{"jid": "discord:1"}', "--json").json
    assert (told["tool"], told["allowed"]) == ("send", True)


def test_a_hold_on_one_tool_says_which_others_do_the_same(run: Run) -> None:
    said = run("grant", "add", "acme/eng", "hold send(jid=discord:*)").out
    assert "reply" in said and "send_file" in said
    assert "speak in a room as well: hold speak(jid=discord:*) covers all" in said
    told = run("policy", "explain", "acme/eng", "send", "--args", DISCORD).out
    assert "Not covered: " in told and "hold speak(jid=discord:*) covers all" in told


def test_a_gap_that_another_rule_covers_is_none(run: Run) -> None:
    run("grant", "add", "acme/eng", "hold speak")
    assert "covers all" not in run("grant", "add", "acme/eng", "hold send").out
    assert "hold speak covers all" not in run("policy", "explain", "acme/eng", "send", "--args", DISCORD).out


def test_a_misspelt_subject_is_answered_with_its_plain_name(run: Run) -> None:
    assert "did you mean 'speak'?" in run("grant", "add", "acme/eng", "!speek").err


def test_a_rule_about_a_subject_is_written_and_says_that_answers_stay_free(run: Run) -> None:
    said = run("grant", "add", "acme/eng", "hold[2] speak(jid=discord:*)").out
    assert "answer in the room of its own turn is no call" in said
    told = run("policy", "explain", "acme/eng", "reply", "--args", DISCORD).out
    assert "2 people must agree: 'hold[2] speak(jid=discord:*)' of acme/eng" in told
    assert run("grant", "deny", "folder:acme/eng", "mcp:hand_out", "--params", "jid=discord:*").code == 0
    assert "may not call send_file" in run("policy", "explain", "acme/eng", "send_file", "--args", DISCORD).out


@pytest.mark.parametrize("rule", ["hold speek", "hold speak(text=*)", "!speak(chatJid=x)"])
def test_a_subject_that_is_misspelt_or_a_parameter_that_it_has_not_is_refused(run: Run, rule: str) -> None:
    assert run("grant", "add", "acme/eng", rule).code != 0
