"""Every dialog of the page speaks as people do: no option, no command, no JSON, no name of the code."""

import re

import pytest
from tests.page_actions import list_actions

from gatepost.core.registry import load_package
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.web.dashboard.operation_form import OperationForm, make_form
from gatepost.serve.web.dashboard.view import InputKind

load_package("gatepost.serve.control.operations")

OURS = re.compile(r"--[a-z]|gatepost |\bJSON\b|\b[a-z]+_[a-z_]+\b|\b[a-z]{1,3}-1m[a-z0-9]{10,}")
DIALOGS = sorted({action.partition(":")[0] for _, action in list_actions()} & {*OPERATIONS})
# Exact names that somebody writes there, by the operation and the input ("": the help).
EXACT = {
    ("grant.add", "rule"): "an exact rule; sentences are on the agent's page",
    ("grant.rm", "rule"): "the same",
    ("group.set", "values.limits"): "the names of limits",
    ("room.policy", ""): "the names of policies",
    ("route.add", "match"): "the keys of conditions",
}


def list_texts(form: OperationForm) -> dict[str, str]:
    texts = {each.name: f"{each.label}\n{each.description}" for each in form.inputs}
    return texts | {"": f"{form.title}\n{form.help}"}


@pytest.mark.parametrize("name", DIALOGS)
def test_a_dialog_has_no_word_of_the_command_line_or_the_code(name: str) -> None:
    form = make_form(OPERATIONS[name], {})
    found = {place: OURS.findall(text) for place, text in list_texts(form).items() if (name, place) not in EXACT}
    assert not {place: words for place, words in found.items() if words}


@pytest.mark.parametrize("name", DIALOGS)
def test_no_dialog_asks_for_a_structure_of_its_own(name: str) -> None:
    assert not [each.name for each in make_form(OPERATIONS[name], {}).inputs if each.kind is InputKind.JSON]


def test_every_exception_is_one() -> None:
    for name, place in EXACT:
        text = list_texts(make_form(OPERATIONS[name], {}))[place]
        assert OURS.search(text) or "[!|" in text


def test_a_planted_word_of_the_code_is_found() -> None:
    assert OURS.findall("as `gatepost x` and --room and chat_jid, written as JSON") == [
        "gatepost ",
        "--r",
        "chat_jid",
        "JSON",
    ]
