"""Passkeys on the page of sign-ins: what is shown when they are on, off, or not installed."""

from typing import Any

from gatepost.serve.web.dashboard.view import Note, ScriptForm, TableBlock
from gatepost.serve.web.pages.passkey_blocks import make_passkey_blocks

PHONE = {
    "id": "pk-1",
    "user_id": "web:user/ann",
    "person": "Ann",
    "label": "Phone",
    "host": "agents.example",
    "created_at": "2026-01-01T00:00:00Z",
    "last_used_at": None,
}


def make_answer(*found: dict[str, Any], is_on: bool = True, missing: str = "") -> dict[str, Any]:
    return {"passkeys": list(found), "is_on": is_on, "missing": missing}


def test_a_passkey_is_listed_removed_and_added() -> None:
    table, form = make_passkey_blocks(make_answer(PHONE), everybody=False)
    assert isinstance(table, TableBlock) and isinstance(form, ScriptForm)
    assert table.rows[0].cells[0] == "Phone"
    remove = table.rows[0].actions[0]
    assert (remove.operation, remove.args, remove.asks) == ("passkey.rm", {"id": "pk-1"}, True)
    assert "https://" in form.help and "localhost" in form.help


def test_those_of_everybody_say_whose_they_are() -> None:
    table = make_passkey_blocks(make_answer(PHONE), everybody=True)[0]
    assert isinstance(table, TableBlock) and table.rows[0].cells[0] == "Ann"


def test_while_they_are_off_nothing_is_said_of_them_but_of_those_that_are_there() -> None:
    assert make_passkey_blocks(make_answer(is_on=False), everybody=False) == []
    _, note = make_passkey_blocks(make_answer(PHONE, is_on=False), everybody=False)
    assert isinstance(note, Note) and "web.passkey_login" in note.text


def test_a_missing_library_is_named_with_the_way_to_it() -> None:
    _, note = make_passkey_blocks(make_answer(is_on=False, missing="pip install it"), everybody=False)
    assert isinstance(note, Note) and note.hint == "pip install it"
