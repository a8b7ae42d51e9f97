"""Every dialog of the page speaks as people do: no option, no command, no JSON, no name of the code."""

import ast
import re
from pathlib import Path

import pytest
from tests.page_actions import list_actions
from tests.source_trees import find_nodes

import gatepost
from gatepost.access.choices import Permission
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.control.operations.access import render_preview
from gatepost.serve.web.dashboard.form_words import ANY_VERB, ERRORS
from gatepost.serve.web.dashboard.operation_form import OperationForm, make_form
from gatepost.serve.web.dashboard.permissions import ACTS, SENTENCES
from gatepost.serve.web.dashboard.refusals import render_words
from gatepost.serve.web.dashboard.undo import FINAL
from gatepost.serve.web.dashboard.view import InputKind

OURS = re.compile(r"--[a-z]|gatepost |\bJSON\b|\b[a-z]+_[a-z_]+\b|\b[a-z]{1,3}-1m[a-z0-9]{10,}")
GROUP = re.compile(r"\b[Gg]roups?\b(?![:/`])")
WRONG = re.compile(r"--[a-z]|gatepost [a-z]+ [a-z]+")
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
    texts = {each.name: "\n".join((each.label, each.description, *each.shown)) for each in form.inputs}
    return texts | {"": f"{form.title}\n{form.help}\n{form.final}"}


@pytest.mark.parametrize("name", DIALOGS)
def test_a_dialog_has_no_word_of_the_command_line_or_the_code(name: str) -> None:
    form = make_form(OPERATIONS[name], {})
    found = {place: OURS.findall(text) for place, text in list_texts(form).items() if (name, place) not in EXACT}
    assert not {place: words for place, words in found.items() if words}


@pytest.mark.parametrize("name", DIALOGS)
def test_no_dialog_asks_for_a_structure_of_its_own(name: str) -> None:
    assert not [each.name for each in make_form(OPERATIONS[name], {}).inputs if each.kind is InputKind.JSON]


@pytest.mark.parametrize("name", DIALOGS)
def test_a_dialog_says_agent_where_that_is_all_it_means(name: str) -> None:
    sentences = [each for text in list_texts(make_form(OPERATIONS[name], {})).values() for each in text.split(". ")]
    assert not [
        each for each in sentences if "agent" not in each.lower() and re.search(r"\b[Gg]roups?\b(?![:/`])", each)
    ]


def list_errors() -> set[str]:
    """The texts of errors in the source, with a word in the place of each value."""
    found = set()
    for folder in ("access", "flow", "serve/control", "store"):
        for path in (Path(gatepost.__file__).parent / folder).rglob("*.py"):
            for call in find_nodes(ast.parse(path.read_text(encoding="utf-8")), ast.Call):
                if ast.unparse(call.func) in ("Invalid", "NotFound", "Refused") and call.args:
                    found.add(_read_text(call.args[-1]))
    return found


def _read_text(value: ast.expr) -> str:
    parts = value.values if isinstance(value, ast.JoinedStr) else [value]
    return "".join(str(each.value) if isinstance(each, ast.Constant) else "that" for each in parts)


def test_errors_that_the_page_says_in_words_of_its_own_exist() -> None:
    errors = list_errors()
    assert not [start for start in ERRORS if not any(each.startswith(start) for each in errors)]


@pytest.mark.parametrize("name", DIALOGS)
def test_the_button_of_a_dialog_names_the_deed(name: str) -> None:
    assert make_form(OPERATIONS[name], {}).submit != ANY_VERB[0]


def test_no_error_is_said_in_the_words_of_the_command_line() -> None:
    errors = list_errors()
    assert len([each for each in errors if "`gatepost " in each]) > 50
    found = {text: WRONG.findall(render_words(text)) for text in errors}
    assert not {text: words for text, words in found.items() if words}


def test_sentences_about_rules_and_what_they_would_have_done_speak_as_people_do() -> None:
    said = [*ACTS.values(), *(text for pair in SENTENCES.values() for text in pair), *FINAL.values()]
    said += [
        render_preview(each, calls, more=more) for each in Permission for calls in (0, 1, 9) for more in (False, True)
    ]
    assert not [words for text in said if (words := OURS.findall(text))]


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
