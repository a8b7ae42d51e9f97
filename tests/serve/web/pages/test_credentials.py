"""The pages of sign-ins, links and the API, as data."""

import json
from typing import Any

import pytest

from gatepost.core.clock import SECOND, SystemClock
from gatepost.core.records import replace
from gatepost.serve.control.arguments.credentials import (
    BrowserLoginView,
    PasskeyList,
    PasskeyView,
    SignInState,
    TokenView,
)
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.control.declaration import list_fields, list_inputs
from gatepost.serve.web.dashboard.operation_form import list_shown_once, make_form
from gatepost.serve.web.dashboard.view import Badge, Facts, InputKind, Moment, Note, ScriptForm, TableBlock, Tone
from gatepost.serve.web.pages.credentials import (
    LINK,
    LINKS_PER_PAGE,
    list_link_actions,
    make_logins_view,
    make_passkey_blocks,
    render_answer,
    render_default,
    render_example,
    render_kind,
    show_end,
)
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import NewToken, SignatureScheme, TokenKind, TokenState
from gatepost.store.sessions import groups

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


@pytest.mark.parametrize("name", [name for name, _ in OPERATIONS.items()])
def test_every_operation_has_an_example_and_the_schema_of_its_answer(name: str) -> None:
    operation = OPERATIONS[name]
    body = render_example(operation).partition("-d '")[2].partition("' \\\n")[0].replace("'\\''", "'")
    assert set(json.loads(body)) == {each.name for each in list_fields(operation.args) if each.required}
    assert isinstance(json.loads(render_answer(OPERATIONS, name)), dict)


def test_an_argument_is_shown_with_its_choices_and_default() -> None:
    fields = {each.name: each for each in list_fields(OPERATIONS["cost.show"].args)}
    assert render_kind(fields["by"]) == "group, user, model, day" and render_default(fields["by"]) == '"group"'


@pytest.mark.slow
async def test_the_pages_and_the_document_are_there_for_who_is_signed_in(site: Any) -> None:
    async with site.signed_in() as browser:
        page = await browser.get("/dashboard/api")
        assert page.status_code == 200 and "/dashboard/api/task.add" in page.text and "New token" in page.text
        one = await browser.get("/dashboard/api/task.add")
        assert "op:tasks.write" in one.text and "Bearer TOKEN" in one.text
        assert (await browser.get("/dashboard/api/no.such")).status_code == 404
        assert (await browser.get("/docs")).headers["location"] == "/dashboard/api"
        document = (await browser.get("/openapi.json")).json()
        assert document["openapi"] == "3.1.0" and "/v1/ops/task.add" in document["paths"]
    async with site.browser() as stranger:
        assert (await stranger.get("/openapi.json")).status_code == 401


def test_a_setting_of_a_change_has_no_default() -> None:
    inputs = {each.name: each for each in list_inputs(OPERATIONS["group.set"].args)}
    assert {name: render_default(each) for name, each in inputs.items() if render_default(each)} == {}


def make_links_answer(**given: Any) -> TokenView:
    made = TokenView(
        id="tk-1",
        kind=TokenKind.WEBHOOK,
        folder="home",
        own_group=False,
        instance="",
        address="",
        identity="",
        label="ci",
        uses_left=None,
        expires_at=None,
        created_by="operator",
        created_at=1,
        revoked_at=None,
        last_used_at=None,
        state=TokenState.VALID,
    )
    return replace(made, **given)


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ({}, ["Sign", "Revoke"]),
        ({"kind": TokenKind.INVITE}, ["Revoke"]),
        ({"kind": TokenKind.CHAT_LINK}, ["Revoke"]),
        ({"state": TokenState.REVOKED}, []),
        ({"state": TokenState.EXPIRED}, []),
    ],
)
def test_what_can_be_done_to_a_link_depends_on_its_kind_and_state(given: dict[str, Any], labels: list[str]) -> None:
    found = list_link_actions(make_links_answer(**given))
    assert [each.label for each in found] == labels
    assert all(each.asks for each in found)


def test_how_a_link_is_signed_is_shown_if_it_is() -> None:
    (signed,) = [each for each in LINK if each.name == "signature"]
    assert signed.show(make_links_answer()) is None
    assert str(getattr(signed.show(make_links_answer(signature=SignatureScheme.STRIPE)), "text", "")) == "stripe"


def test_a_link_shows_when_it_ends_or_what_has_ended_it() -> None:
    at = 1_767_225_600 * SECOND
    assert show_end(make_links_answer()) is None
    assert show_end(make_links_answer(expires_at=at)) == Moment("2026-01-01T00:00:00.000Z")
    assert show_end(make_links_answer(expires_at=at, state=TokenState.USED_UP)) == Badge("used up")


def test_what_most_people_say_of_a_link_stands_in_front_in_its_form() -> None:
    form = make_form(OPERATIONS["token.add"], {"kind": "webhook"})
    shown = [each.name for each in form.inputs if each.required or each.front]
    assert shown == ["folder", "label", "instructions", "signature"]
    plain = make_form(OPERATIONS["token.add"], {"kind": "chat_link"})
    assert [each.name for each in plain.inputs if each.front] == ["origins"]
    kinds = {each.name: each.kind for each in form.inputs}
    assert (kinds["signing_secret"], kinds["instructions"]) == (InputKind.SECRET, InputKind.LONG_TEXT)


def test_what_is_shown_once_is_shown_without_its_parts() -> None:
    made = {"url": "https://x/hook/abc", "secret": "abc", "signing_secret": "sesame", "token": {"id": "tk-1"}}
    assert [value for _, value in list_shown_once("token.add", made)] == ["https://x/hook/abc", "sesame"]
    assert [value for _, value in list_shown_once("token.add", {"url": "", "secret": "abc"})] == ["abc"]
    code = {"url": "https://x/invite/GI-1", "secret": "GI-1"}
    assert [value for _, value in list_shown_once("invite.create", code)] == ["GI-1", "https://x/invite/GI-1"]
    assert list_shown_once("task.add", made) == [] and list_shown_once("token.add", None) == []


async def test_a_webhook_is_made_on_the_page_shown_once_and_revoked(site: Any) -> None:
    await site.store.write(groups.add, "home", "Home", "", 1)
    async with site.signed_in() as browser:
        assert "There are no links" in (await browser.get("/dashboard/links")).text
        form = {
            "kind": "webhook",
            "folder": "home",
            "label": "ci",
            "instructions": "<b>Hush</b>",
            "signature": "github",
        }
        done = await browser.post("/dashboard/do/token.add", data=form)
        assert (
            done.status_code == 200 and "/hook/" in done.text and "signs with. It is shown only this once" in done.text
        )
        assert 'data-copies="once-2"' in done.text
        (token,) = await site.store.read(tokens.list_all)
        page = (await browser.get("/dashboard/links")).text
        assert "&lt;b&gt;Hush" in page and "/hook/" not in page
        assert (await browser.post("/dashboard/do/token.rm", data={"id": token.id})).status_code == 200
        assert "revoked" in (await browser.get("/dashboard/links")).text


async def test_many_links_are_shown_page_by_page(site: Any) -> None:
    def add(db: Any) -> None:
        groups.add(db, "home", "Home", "", 1)
        for number in range(LINKS_PER_PAGE + 5):
            new = NewToken(kind=TokenKind.WEBHOOK, folder="home", created_by="operator")
            tokens.add(db, new, f"secret-{number}", SystemClock().now())

    await site.store.write(add)
    async with site.signed_in() as browser:
        page = (await browser.get("/dashboard/links")).text
        ids = [each.id for each in await site.store.read(tokens.list_all)]
        assert f"?before={ids[LINKS_PER_PAGE - 1]}" in page and ids[0] in page and ids[LINKS_PER_PAGE] not in page
        rest = (await browser.get(f"/dashboard/links?before={ids[LINKS_PER_PAGE - 1]}")).text
        assert ids[LINKS_PER_PAGE] in rest and ids[-1] in rest and ids[0] not in rest
