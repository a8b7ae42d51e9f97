"""How operations and their arguments are called on the page."""

import re

import pytest

from gatepost.serve.control.declaration import list_declarations, list_fields
from gatepost.serve.web.dashboard.operation_words import DONE, render_done, render_label, render_title


@pytest.mark.parametrize(
    ("operation", "title", "done"),
    [
        ("api_token.add", "API token: add", "API token added."),
        ("token.rm", "Token: remove", "Token removed."),
        ("group.write_file", "Group: write file", "File saved."),
        ("login.set_password", "Sign-in: set password", "Password saved."),
        ("settings.unset", "Setting: unset", "Setting removed."),
        ("panic.on", "Panic: on", "Everything is stopped."),
        ("user.forget", "User: forget", "Done."),  # by default it erases nothing
    ],
)
def test_an_operation_is_called_by_words_made_from_its_name(operation: str, title: str, done: str) -> None:
    assert (render_title(operation), render_done(operation)) == (title, done)


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
        assert re.fullmatch(r"[A-Z][^_.]*\.", render_done(each.info.name)), each.info.name
        for field in list_fields(each):
            assert "_" not in render_label(field.name) and render_label(field.name)[0].isupper(), field.name
    assert set(DONE) <= {each.info.name for each in declared}
