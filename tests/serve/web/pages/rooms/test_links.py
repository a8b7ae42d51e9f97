"""The page of links."""

from typing import Any

import pytest

from gatepost.core.clock import SECOND, SystemClock
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.serve.control.arguments.credentials import TokenView
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.web.dashboard.operation_form import list_shown_once, make_form
from gatepost.serve.web.dashboard.view import Badge, InputKind, Moment
from gatepost.serve.web.pages.rooms.links import LINK, PAGE, list_actions, show_end
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import NewToken, SignatureScheme, TokenKind, TokenState
from gatepost.store.sessions import groups


def make_answer(**given: Any) -> TokenView:
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
    found = list_actions(make_answer(**given))
    assert [each.label for each in found] == labels
    assert all(each.asks for each in found)


def test_how_a_link_is_signed_is_shown_if_it_is() -> None:
    (signed,) = [each for each in LINK if each.name == "signature"]
    assert signed.show(make_answer()) is None
    assert str(getattr(signed.show(make_answer(signature=SignatureScheme.STRIPE)), "text", "")) == "stripe"


def test_a_link_shows_when_it_ends_or_what_has_ended_it() -> None:
    at = 1_767_225_600 * SECOND
    assert show_end(make_answer()) is None
    assert show_end(make_answer(expires_at=at)) == Moment("2026-01-01T00:00:00.000Z")
    assert show_end(make_answer(expires_at=at, state=TokenState.USED_UP)) == Badge("used up")


def test_what_most_people_say_of_a_link_stands_in_front_in_its_form() -> None:
    load_package("gatepost.serve.control.operations")
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
        for number in range(PAGE + 5):
            new = NewToken(kind=TokenKind.WEBHOOK, folder="home", created_by="operator")
            tokens.add(db, new, f"secret-{number}", SystemClock().now())

    await site.store.write(add)
    async with site.signed_in() as browser:
        page = (await browser.get("/dashboard/links")).text
        ids = [each.id for each in await site.store.read(tokens.list_all)]
        assert f"?before={ids[PAGE - 1]}" in page and ids[0] in page and ids[PAGE] not in page
        rest = (await browser.get(f"/dashboard/links?before={ids[PAGE - 1]}")).text
        assert ids[PAGE] in rest and ids[-1] in rest and ids[0] not in rest
