"""Slash commands: what is one, what it leads to, and who may give it."""

import pytest

from gatepost.flow.intake import slash_commands
from gatepost.flow.intake.slash_commands import CommandAction


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
    "text", ["", "hello", "/usr/bin/env", "/ stop", "please /stop", "//x", "\\alpha", "/1", "@bot"]
)
def test_other_text_is_no_command(text: str) -> None:
    assert slash_commands.parse_command(text) is None


def test_a_longer_word_is_another_command() -> None:
    command = slash_commands.parse_command("/clearance")
    assert command is not None
    assert command.act is CommandAction.PASS
    assert not command.for_admins


@pytest.mark.parametrize("head", ["/stop", "/clear", "/compact", "/context", "/cost", "/files", "/remote-control"])
def test_admin_commands_take_an_owner_or_an_admin(head: str) -> None:
    command = slash_commands.parse_command(head)
    assert command is not None
    allowed = [slash_commands.may_use(command, rights) for rights in ("owner", "admin", "member", "guest")]
    assert allowed == [True, True, False, False]


@pytest.mark.parametrize("head", ["/login", "/logout", "/doctor", "/config"])
def test_what_would_reach_into_the_provider_is_dropped(head: str) -> None:
    command = slash_commands.parse_command(head)
    assert command is not None
    assert command.act is CommandAction.DROP


def test_help_lists_what_this_person_may_give_here() -> None:
    assert "/stop" in slash_commands.render_help("owner", "Home")
    assert "goes to Home" in slash_commands.render_help("guest", "Home")
    assert "/stop" not in slash_commands.render_help("member", "Home")
    assert "/ping" in slash_commands.render_help("member", "Home")


def test_help_without_an_agent_lists_only_what_the_gateway_answers() -> None:
    listed = slash_commands.render_help("owner", "")
    assert "/chatid" in listed and "No agent is set up" in listed
    assert "/clear" not in listed
