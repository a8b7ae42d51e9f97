"""Slash commands: what is one, what it leads to, and who may give it."""

import pytest

from gatepost.flow.intake import commands
from gatepost.flow.intake.commands import Act


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
    command = commands.read(text)
    assert command is not None
    assert (command.head, command.text) == (head, whole)


@pytest.mark.parametrize(
    "text", ["", "hello", "/usr/bin/env", "/ stop", "please /stop", "//x", "\\alpha", "/1", "@bot"]
)
def test_other_text_is_no_command(text: str) -> None:
    assert commands.read(text) is None


def test_a_longer_word_is_another_command() -> None:
    command = commands.read("/clearance")
    assert command is not None
    assert command.act is Act.PASS
    assert not command.for_admins


@pytest.mark.parametrize("head", ["/stop", "/clear", "/compact", "/context", "/cost", "/files", "/remote-control"])
def test_admin_commands_take_an_owner_or_an_admin(head: str) -> None:
    command = commands.read(head)
    assert command is not None
    allowed = [commands.may_give(command, rights) for rights in ("owner", "admin", "member", "guest")]
    assert allowed == [True, True, False, False]


@pytest.mark.parametrize("head", ["/login", "/logout", "/doctor", "/config"])
def test_what_would_reach_into_the_provider_is_dropped(head: str) -> None:
    command = commands.read(head)
    assert command is not None
    assert command.act is Act.DROP


def test_help_lists_what_this_person_may_give_here() -> None:
    assert "/stop" in commands.overview("owner", "Home")
    assert "goes to Home" in commands.overview("guest", "Home")
    assert "/stop" not in commands.overview("member", "Home")
    assert "/ping" in commands.overview("member", "Home")


def test_help_without_an_agent_lists_only_what_the_gateway_answers() -> None:
    listed = commands.overview("owner", "")
    assert "/chatid" in listed and "No agent is set up" in listed
    assert "/clear" not in listed
