"""The form of a kind of channel: its questions, and what comes back from them."""

from typing import Any

from gatepost.serve.control.arguments.channels import AskedSetting, ChannelKindItem
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.web.dashboard.operation_form import parse_form
from gatepost.serve.web.dashboard.view import InputKind
from gatepost.serve.web.pages.channels import make_form


def ask(name: str, default: Any = "", **changes: Any) -> AskedSetting:
    asked = {"name": name, "help": f"The {name}.", "default": default, "choices": (), "is_secret": False}
    return AskedSetting(**{**asked, "is_optional": True, **changes})


KIND = ChannelKindItem(
    name="beacon",
    title="Beacon",
    before="",
    asks=[ask("token", is_secret=True, is_optional=False), ask("url", is_optional=False)],
    settings=[
        ask("token", is_secret=True),
        ask("url"),
        ask("color", "green", choices=("green", "red")),
        ask("loud", False),
    ],
    tested_against="",
    extra="",
)


def test_what_the_kind_asks_for_comes_first_and_secrets_are_hidden() -> None:
    form = make_form(KIND)
    assert [(each.name, each.kind, each.required) for each in form.inputs] == [
        ("secrets.token", InputKind.SECRET, True),
        ("settings.url", InputKind.TEXT, True),
    ]
    assert [each.name for each in form.further] == ["instance", "settings.color", "settings.loud"]
    assert form.further[1].value == "green" and form.further[2].choices == ("", "true", "false")


def test_the_answers_are_the_tables_of_the_operation() -> None:
    sent = {"kind": "beacon", "instance": "", "secrets.token": "t", "settings.url": "http://x", "settings.loud": ""}
    assert parse_form(OPERATIONS["channel.add"], sent) == {
        "kind": "beacon",
        "secrets": {"token": "t"},
        "settings": {"url": "http://x"},
    }


async def test_a_channel_that_is_refused_says_why_to_the_form(site: Any) -> None:
    async with site.signed_in() as browser:
        page = await browser.get("/dashboard/channels/add/telegram")
        assert 'name="secrets.token" type="password"' in page.text
        sent = {"kind": "telegram", "secrets.token": "<b>no token"}
        answer = await browser.post("/dashboard/do/channel.add", data=sent, headers={"accept": "application/json"})
        assert answer.status_code in (400, 503) and answer.json()["error"]
        assert (await browser.get("/dashboard/channels/add/no-such")).status_code == 404
