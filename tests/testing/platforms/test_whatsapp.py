"""The emulated WhatsApp refuses what Meta refuses."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from gatepost_testing.platforms.base import NotOffered
from gatepost_testing.platforms.whatsapp import NUMBER_ID, TOKEN, VERSION, WhatsAppPlatform


@pytest.fixture(scope="module")
def platform() -> Iterator[WhatsAppPlatform]:
    with WhatsAppPlatform() as made:
        assert isinstance(made, WhatsAppPlatform)
        yield made


def post(platform: WhatsAppPlatform, body: dict[str, Any], token: str = TOKEN) -> tuple[int, Any]:
    number = platform.get_number("ann")
    given = {"messaging_product": "whatsapp", "to": number, **body}
    url = f"{platform.url}/{VERSION}/{NUMBER_ID}/messages"
    with httpx2.Client(verify=False) as client:
        answer = client.post(url, json=given, headers={"authorization": f"Bearer {token}"})
    return answer.status_code, answer.json()


def list_message(count: int, title: str = "row") -> dict[str, Any]:
    rows = [{"id": f"r{number}", "title": title} for number in range(count)]
    action = {"button": "Choose", "sections": [{"rows": rows}]}
    return {"type": "interactive", "interactive": {"type": "list", "body": {"text": "x"}, "action": action}}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"type": "text", "text": {"body": "x" * 4097}}, 100),
        ({"type": "text", "text": {"body": ""}}, 100),
        ({"type": "text", "text": {"body": "x"}, "to": "123456789"}, 131026),
        ({"type": "text", "text": {"body": "x"}, "context": {"message_id": "wamid.none"}}, 131009),
        ({"type": "image", "image": {"id": "1"}}, 131053),
        ({"type": "audio", "audio": {"id": "1", "caption": "x"}}, 100),
        (list_message(11), 131009),
        (list_message(2, "x" * 25), 131009),
        ({"status": "read", "message_id": "wamid.none"}, 131009),
    ],
)
def test_what_meta_refuses_is_refused(platform: WhatsAppPlatform, body: dict[str, Any], code: int) -> None:
    status, answer = post(platform, body)
    assert (status, answer["error"]["code"]) == (400, code)
    assert platform.list_shown() == []


def test_a_wrong_token_is_refused(platform: WhatsAppPlatform) -> None:
    status, answer = post(platform, {"type": "text", "text": {"body": "x"}}, token="wrong")
    assert (status, answer["error"]["code"]) == (401, 190)


def test_marks_are_read_as_plain_words(platform: WhatsAppPlatform) -> None:
    status, answer = post(platform, {"type": "text", "text": {"body": "*bold* _it_ `code` 2*3*4 ~no~"}})
    assert status == 200
    shown = platform.find(answer["messages"][0]["id"])
    shown.deleted = True  # the other tests look at what is shown
    assert shown.text == "bold it code 2*3*4 no"


def test_there_are_no_groups(platform: WhatsAppPlatform) -> None:
    with pytest.raises(NotOffered):
        platform.send("x", room="team", sender="bob")
    assert platform.get_address("team") == platform.get_address("direct:ann")
