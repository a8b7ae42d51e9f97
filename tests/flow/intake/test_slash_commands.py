"""Slash commands: what is one, who acts on it, and who may give it."""

import pytest

import gatepost.flow.intake.command_dispatch  # noqa: F401  it has every command registered
from gatepost.core.errors import SetupError
from gatepost.flow.intake import slash_commands
from gatepost.flow.intake.commands.contract import HANDLERS, CommandCall, chat_command
from gatepost.flow.intake.slash_commands import COMMANDS, CommandAction, CommandRight


@pytest.mark.parametrize(
    ("text", "head", "whole"),
    [
        ("/stop", "/stop", "/stop"),
        ("  /STOP now ", "/stop", "/stop now"),
        ("\\stop", "/stop", "/stop"),
        ("/clear@gatepost_bot", "/clear", "/clear"),
        ("@gatepost_bot /clear", "/clear", "/clear"),
        ("<@U123>: /compact keep names", "/compact", "/compact keep names"),
        ("[Ada] /ping", "/ping", "/ping"),
        ("/review\nthe last change", "/review", "/review\nthe last change"),
    ],
)
def test_a_command_is_read_as_people_write_it(text: str, head: str, whole: str) -> None:
    command = slash_commands.parse_command(text)
    assert command is not None
    assert (command.head, command.text) == (head, whole)


@pytest.mark.parametrize(
    "text",
    ["", "hello", "/usr/bin/env", "/ stop", "please /stop", "//x", "\\alpha", "/1", "@bot", "stop", "@bot stop it now"],
)
def test_other_text_is_no_command(text: str) -> None:
    assert slash_commands.parse_command(text) is None


OURS = frozenset({"bot", "u123"})


@pytest.mark.parametrize("text", ["@bot stop", "<@U123> Stop!", "@Bot: stop."])
def test_stop_is_understood_as_a_word_behind_our_own_name(text: str) -> None:
    command = slash_commands.parse_command(text, OURS)
    assert command is not None and command.text == "/stop"
    assert slash_commands.parse_command(text) is None  # nobody knows whose name it is
    assert slash_commands.parse_command("@alice stop", OURS) is None


@pytest.mark.parametrize(
    "text",
    [
        "@Gate Post /stop",
        "@gate post: /stop",
        "@Gate Post\xa0/stop",
        "@Gate Post stop",
        "Gate Post: /stop",
        "@**Gate Post** /stop",
        "@**Gate Post|7** stop!",
    ],
)
def test_a_command_is_read_behind_a_name_of_several_words(text: str) -> None:
    command = slash_commands.parse_command(text, frozenset({"gate post"}))
    assert command is not None and command.text == "/stop"
    assert slash_commands.parse_command("@Gate Keeper /stop", frozenset({"gate post"})) is None
    assert slash_commands.parse_command("@Gate Post and /stop", frozenset({"gate post"})) is None


@pytest.mark.parametrize("text", ["@bot help", "@bot status", "@bot new", "@bot clear", "@bot model"])
def test_only_stop_is_understood_as_a_word_because_the_others_may_be_meant_for_the_agent(text: str) -> None:
    assert slash_commands.parse_command(text, OURS) is None


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("/sotp", "/stop"),
        ("/hepl me", "/help"),
        ("/stauts", "/status"),
        ("/remeber that", "/remember"),
        ("/frok", "/fork"),
        ("/stop", ""),
        ("/cost", ""),
        ("/login", ""),
        ("/start", ""),
        ("/commit", ""),
        ("/review", ""),
        ("/plan", ""),
        ("/plain", ""),
        ("/work", ""),
        ("/unpin", ""),
        ("/init", ""),
    ],
)
def test_a_word_that_is_nearly_a_command_is_near_to_it_and_no_other_word_is(text: str, near: str) -> None:
    command = slash_commands.parse_command(text)
    assert command is not None and slash_commands.find_near_command(command) == near


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("/stop@MyBot", True),
        ("/stop@otherbot", False),
        ("@mybot /stop", True),
        ("@otherbot /stop", False),
        ("<@U1> stop", True),
        ("<@U2> stop", False),
        ("/stop", True),
        ("/stop@", True),
    ],
)
def test_a_command_for_another_bot_is_not_ours(text: str, ours: bool) -> None:
    assert (slash_commands.parse_command(text, frozenset({"mybot", "u1"})) is not None) is ours


def test_a_longer_word_is_another_command() -> None:
    command = slash_commands.parse_command("/clearance")
    assert command is not None
    assert command.act is CommandAction.PASS
    assert slash_commands.may_use(command, "guest")


MEMBERS = ["/forget", "/memory", "/model", "/new", "/pin", "/provider", "/remember", "/status", "/usage"]
EVERYBODYS = ["/approve", "/chatid", "/deny", "/help", "/pair", "/ping", "/stop"]
ADMINS = ["/clear", "/compact", "/context", "/cost", "/files", "/remote-control"]


@pytest.mark.parametrize(
    ("head", "allowed"),
    [
        *((head, [True, True, True, True]) for head in EVERYBODYS),
        *((head, [True, True, True, False]) for head in MEMBERS),
        *((head, [True, True, False, False]) for head in ADMINS),
    ],
)
def test_who_may_give_which_command(head: str, allowed: list[bool]) -> None:
    command = slash_commands.parse_command(head)
    assert command is not None
    assert [slash_commands.may_use(command, rights) for rights in ("owner", "admin", "member", "guest")] == allowed


@pytest.mark.parametrize("head", ["/login", "/logout", "/doctor", "/config"])
def test_what_would_reach_into_the_provider_is_dropped(head: str) -> None:
    command = slash_commands.parse_command(head)
    assert command is not None
    assert command.act is CommandAction.DROP


def test_every_command_that_the_gateway_runs_has_a_function_and_no_other_has() -> None:
    assert {name for name, spec in COMMANDS.items() if spec.act is CommandAction.RUN} == set(HANDLERS)


def test_every_command_has_one_line_of_help() -> None:
    assert [spec.name for _, spec in COMMANDS.items() if not spec.help or "\n" in spec.help] == []


def test_two_commands_of_one_name_stop_the_start() -> None:
    def again(call: CommandCall) -> None: ...

    with pytest.raises(SetupError, match="are named 'stop'"):
        chat_command("stop", right=CommandRight.EVERYBODY, help="once more")(again)  # type: ignore[arg-type]


def test_help_lists_what_this_person_may_give_here() -> None:
    owners, members, guests = (slash_commands.render_help(rights, "Home") for rights in ("owner", "member", "guest"))
    assert "- /clear:" in owners and "- /clear:" not in members
    assert "- /model [NAME]:" in members and "/model" not in guests
    assert "- /stop:" in guests and "goes to Home" in guests
    assert "/cost" not in owners  # the agent's own


def test_help_without_an_agent_lists_only_what_the_gateway_answers() -> None:
    listed = slash_commands.render_help("owner", "")
    assert "/chatid" in listed and "No agent is set up" in listed
    assert "/clear" not in listed


@pytest.mark.parametrize(
    "text", ["@The Gate Post /stop", "@the gate post: /stop", "@The Gate Post\xa0/stop", "@The Gate Post stop"]
)
def test_a_name_of_ours_may_have_several_words(text: str) -> None:
    command = slash_commands.parse_command(text, frozenset({"the gate post", "gatepost"}))
    assert command is not None and command.name == "stop"
    assert slash_commands.parse_command(text, frozenset({"another"})) is None
    assert slash_commands.strip_mention("@The Gate Post GP-1", frozenset({"the gate post"})) == "GP-1"
