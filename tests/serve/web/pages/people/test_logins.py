"""The page of sign-ins, as data."""

from typing import Any

from gatepost.core.registry import load_package
from gatepost.serve.control.arguments.credentials import BrowserLoginView, PasskeyList, PasskeyView, SignInState
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.web.dashboard.operation_form import make_form
from gatepost.serve.web.dashboard.view import Badge, Facts, Note, ScriptForm, TableBlock, Tone
from gatepost.serve.web.pages.people.logins import make_logins_view, make_passkey_blocks

NEW_YEAR = 1_767_225_600_000_000
NO_PASSWORD = SignInState(name="ann", password_login=False, changed_at=None)
PHONE = PasskeyView(
    id="pk-1",
    user_id="web:user/ann",
    person="Ann",
    label="Phone",
    host="agents.example",
    created_at=NEW_YEAR,
    last_used_at=None,
)


def login(login_id: str, **more: Any) -> BrowserLoginView:
    times = dict.fromkeys(("created_at", "last_seen_at", "expires_at"), NEW_YEAR)
    known = {"way": "one_time_link", "device": "Firefox on Linux", "peer": "::1", "person": "Ann", "is_this": False}
    return BrowserLoginView(**{"id": login_id, "user_id": "web:user/ann", **known, **times, **more})


def get_cells(table: TableBlock, row: int, *names: str) -> list[Any]:
    columns = [each.name for each in table.columns]
    return [table.rows[row].cells[columns.index(name)] for name in names]


def test_each_browser_can_be_signed_out_and_this_one_is_marked() -> None:
    view = make_logins_view(
        [login("lg-1", is_this=True), login("lg-2", device="", way="made_up")], NO_PASSWORD, False, False
    )
    (table,) = view.blocks
    assert isinstance(table, TableBlock) and "person" not in [each.name for each in table.columns]
    shown = ("device", "is_this", "way")
    assert get_cells(table, 0, *shown) == ["Firefox on Linux", Badge("this browser", Tone.GOOD), "One-time link"]
    assert get_cells(table, 1, *shown) == ["Unknown device", "", "made_up"]
    assert [each.args for row in table.rows for each in row.actions] == [{"id": "lg-1"}, {"id": "lg-2"}]
    assert all(each.asks for row in table.rows for each in row.actions) and all(each.asks for each in view.actions)


def test_those_of_everybody_are_offered_to_who_may_see_them_with_their_names() -> None:
    assert make_logins_view([], NO_PASSWORD, False, False).filters == ()
    view = make_logins_view([login("lg-1")], NO_PASSWORD, True, True)
    (table,) = view.blocks
    assert view.filters[0].chosen == "all" and isinstance(table, TableBlock)
    assert get_cells(table, 0, "person") == ["Ann"]


def test_a_password_is_offered_where_it_is_on_and_removed_where_it_is_set() -> None:
    def list_labels(changed_at: int | None) -> list[str]:
        state = SignInState(name="ann", password_login=True, changed_at=changed_at)
        view = make_logins_view([], state, False, False)
        assert isinstance(view.blocks[0], Facts)
        return [each.label for each in view.actions][:-2]

    assert list_labels(None) == ["Set a password"]
    assert list_labels(NEW_YEAR) == ["Change password", "Remove password"]


def test_the_old_password_is_asked_for_beside_the_new_one() -> None:
    load_package("gatepost.serve.control.operations")
    form = make_form(OPERATIONS["login.set_password"], {})
    assert [each.name for each in form.inputs if each.required or each.front] == ["new_password", "old_password"]


def make_answer(*found: PasskeyView, is_on: bool = True, missing: str = "") -> PasskeyList:
    return PasskeyList(passkeys=list(found), is_on=is_on, missing=missing)


def test_a_passkey_is_listed_removed_and_added() -> None:
    table, form = make_passkey_blocks(make_answer(PHONE), everybody=False)
    assert isinstance(table, TableBlock) and isinstance(form, ScriptForm)
    assert get_cells(table, 0, "label") == ["Phone"] and "person" not in [each.name for each in table.columns]
    remove = table.rows[0].actions[0]
    assert (remove.operation, remove.args, remove.asks) == ("passkey.rm", {"id": "pk-1"}, True)
    assert "https://" in form.help and "localhost" in form.help


def test_those_of_everybody_say_whose_they_are() -> None:
    table = make_passkey_blocks(make_answer(PHONE), everybody=True)[0]
    assert isinstance(table, TableBlock) and get_cells(table, 0, "person") == ["Ann"]


def test_while_they_are_off_nothing_is_said_of_them_but_of_those_that_are_there() -> None:
    assert make_passkey_blocks(make_answer(is_on=False), everybody=False) == []
    _, note = make_passkey_blocks(make_answer(PHONE, is_on=False), everybody=False)
    assert isinstance(note, Note) and "web.passkey_login" in note.text


def test_a_missing_library_is_named_with_the_way_to_it() -> None:
    _, note = make_passkey_blocks(make_answer(is_on=False, missing="pip install it"), everybody=False)
    assert isinstance(note, Note) and note.hint == "pip install it"
