"""Forms that are made from declarations, how operations are called on them, and what comes back."""

import re

import pytest

from gatepost.core.errors import Invalid
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.control.declaration import list_declarations, list_fields, list_inputs
from gatepost.serve.web.dashboard.form_words import (
    DEEDS,
    HELPS,
    INPUTS,
    render_done,
    render_label,
    render_submit,
    render_title,
)
from gatepost.serve.web.dashboard.operation_form import list_facts, make_form, parse_form
from gatepost.serve.web.dashboard.view import InputKind
from gatepost.store.sessions.groups import GroupSettings


def test_a_form_has_an_input_for_each_argument_and_shows_what_is_known() -> None:
    form = make_form(OPERATIONS["task.add"], {"folder": "acme"})
    kinds = {each.name: each.kind for each in form.inputs}
    assert [each.name for each in form.fixed] == ["folder"]
    assert kinds["prompt"] is InputKind.LONG_TEXT and kinds["missed"] is InputKind.CHOICE
    assert kinds["max_runs"] is InputKind.NUMBER
    assert "--" not in form.help and "FOLDER" not in form.help


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_form_that_is_left_as_it_is_gives_only_what_is_needed(name: str) -> None:
    """Each operation's defaults survive the way to the browser and back."""
    operation = OPERATIONS[name]
    form = make_form(operation, {})
    files = {each.name: b"1" for each in form.inputs if each.kind is InputKind.FILE}
    texts = [each for each in form.inputs if each.name not in files]
    sent = {each.name: each.value for each in texts if each.kind is not InputKind.FLAG or each.value}
    needed = {each.name for each in form.inputs if each.required}
    filled = {**sent, **{name: "1" for name in needed - set(files) if not sent.get(name)}}
    args = parse_form(operation, filled, files)
    defaults = {each.name: each.default for each in list_fields(operation.args)}
    for field, value in args.items():
        default = list(defaults[field]) if isinstance(defaults[field], tuple) else defaults[field]
        assert field in needed or value in (default, {}), field


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_browser_sends_a_form_that_is_left_as_it_is(name: str) -> None:
    """It refuses one with a number beyond its bounds, also where that is folded away and nobody sees why."""
    for each in make_form(OPERATIONS[name], {}).inputs:
        assert "--" not in each.description
        assert each.required or not each.choices or each.value in each.choices, f"a browser chooses {each.choices[0]}"
        if each.kind is InputKind.NUMBER and each.value:
            assert each.least is None or float(each.value) >= each.least, each.name
            assert each.most is None or float(each.value) <= each.most, each.name


def test_what_is_no_number_no_json_and_no_argument_is_named() -> None:
    with pytest.raises(Invalid, match="'many' is no whole number"):
        parse_form(OPERATIONS["task.list"], {"limit": "many"})
    with pytest.raises(Invalid, match="it is not JSON"):
        parse_form(OPERATIONS["policy.explain"], {"folder": "a", "tool": "t", "arguments": "{"})
    with pytest.raises(Invalid, match="no argument 'caller'"):
        parse_form(OPERATIONS["task.list"], {"caller": "operator"})


def test_names_with_values_are_lines_and_a_value_may_be_a_number_where_it_may_be_anything() -> None:
    given = {"folder": "a", "tool": "t", "arguments": "limit=5\ntext=hi = there\n"}
    assert parse_form(OPERATIONS["policy.explain"], given)["arguments"] == {"limit": 5, "text": "hi = there"}
    labels = parse_form(OPERATIONS["agent.create"], {"prompt": "go", "labels": "n=5"})["labels"]
    assert labels == {"n": "5"}
    with pytest.raises(Invalid, match="NAME=VALUE"):
        parse_form(OPERATIONS["policy.explain"], {"folder": "a", "tool": "t", "arguments": "limit"})


def test_sentences_about_commands_are_for_the_command_line() -> None:
    assert "gatepost" not in make_form(OPERATIONS["rule.add"], {}).help
    [number] = [each for each in make_form(OPERATIONS["rule.rm"], {"folder": "a"}).inputs if each.name == "id"]
    assert number.description == ""


def test_each_setting_of_a_change_is_an_input_of_its_own() -> None:
    inputs = {each.name: each for each in make_form(OPERATIONS["group.set"], {"folder": "acme"}).inputs}
    assert set(inputs) == {f"values.{name}" for name in GroupSettings.__struct_fields__}
    assert (inputs["values.open"].kind, inputs["values.open"].choices) == (InputKind.CHOICE, ("", "yes", "no"))
    assert not any(each.required or each.value for each in inputs.values())


def test_only_the_settings_that_were_filled_in_change() -> None:
    sent = {
        "folder": "acme",
        "values.name": "Acme & Co",
        "values.model": "-",
        "values.open": "",
        "values.window_chars": "-",
        "values.limits": "turn_s=60\nfiles=",
        "values.mounts": "/a:b\n/c:d:rw",
    }
    assert parse_form(OPERATIONS["group.set"], sent)["values"] == {
        "name": "Acme & Co",
        "model": "",
        "window_chars": None,
        "limits": {"turn_s": 60, "files": None},
        "mounts": ["/a:b", "/c:d:rw"],
    }
    with pytest.raises(Invalid, match="is nothing that a group has"):
        parse_form(OPERATIONS["group.set"], {"folder": "acme", "values.colour": "red"})
    with pytest.raises(Invalid, match="NAME=VALUE"):
        parse_form(OPERATIONS["group.set"], {"folder": "acme", "values.limits": "60"})


def test_inputs_have_words_examples_and_what_a_browser_may_fill_in() -> None:
    token = make_form(OPERATIONS["api_token.add"], {})
    (scopes,) = [each for each in token.inputs if each.name == "scopes"]
    assert (token.title, scopes.label, scopes.example) == ("API token: add", "Scopes", "tasks.read\nledger.read")
    password = make_form(OPERATIONS["login.set_password"], {})
    assert {each.name: (each.label, each.autocomplete) for each in password.inputs} == {
        "new_password": ("New password", "new-password"),
        "old_password": ("Old password", "current-password"),
    }


@pytest.mark.parametrize(
    ("operation", "title", "submit", "done"),
    [
        ("api_token.add", "API token: add", "Make the token", "The token is made."),
        ("session.rename", "Session: rename", "Rename it", "Renamed."),
        ("egress.allow", "Egress: allow", "Allow the host", "example.com may be reached."),
        ("egress.deny", "Egress: deny", "Deny the host", "example.com cannot be reached."),
        ("task.add", "Task: add", "Add the task", "The task is added."),  # nothing is known of its time
        ("panic.on", "Panic: on", "Stop everything", "Everything is stopped."),
        ("user.forget", "User: forget", "Forget the person", "Done."),  # by default it erases nothing
        ("group.rm", "Agent: remove", "Remove the agent", "Removed."),  # nobody said which
    ],
)
def test_an_operation_has_a_title_a_button_and_an_outcome(operation: str, title: str, submit: str, done: str) -> None:
    assert (render_title(operation), render_submit(operation)) == (title, submit)
    assert render_done(operation, {"host": "example.com"}) == done


def test_what_was_done_names_what_it_was_done_to_and_no_more_than_a_line_of_it() -> None:
    said = render_done("group.give_file", {"path": "{odd}\n" * 100})
    assert said.startswith("It has the file {odd} {odd}") and len(said) < 90


def test_an_answer_is_read_as_facts_without_what_is_empty() -> None:
    answer = {"max_runs": 3, "text": "", "alive": True, "names": ["a", "b"], "found": [{"host": "x", "port": 1}]}
    assert list_facts(answer) == [("Max runs", "3"), ("Alive", "yes"), ("Names", "a, b"), ("Found", "host x · port 1")]
    assert list_facts(["a", "b"]) == [("", "a"), ("", "b")] and list_facts(None) == []


@pytest.mark.parametrize(
    ("argument", "label"),
    [("name", "Name"), ("timeout_s", "Timeout (seconds)"), ("base_url", "Base URL"), ("agents_md", "AGENTS.md"),
     ("new_password", "New password"), ("id", "ID"), ("s", "S")],
)  # fmt: skip
def test_an_argument_is_called_by_words_made_from_its_name(argument: str, label: str) -> None:
    assert render_label(argument) == label


def test_every_operation_and_argument_has_words_that_people_read() -> None:
    declared = list_declarations()
    for each in declared:
        assert re.fullmatch(r"[A-Z][\w -]*: [\w -]+", render_title(each.info.name)), each.info.name
        assert re.fullmatch(r"[A-Z][^_{}]*\.", render_done(each.info.name)), each.info.name
        assert re.fullmatch(r"[A-Z][^_.]*", render_submit(each.info.name)), each.info.name
        for field in list_fields(each):
            assert "_" not in render_label(field.name) and render_label(field.name)[0].isupper(), field.name
    inputs = {(each.info.name, field.name) for each in declared for field in list_inputs(each)}
    worded = {name.partition(" ")[0] for name in (*DEEDS, *HELPS)}
    assert worded <= {each.info.name for each in declared} and {*INPUTS} <= inputs
