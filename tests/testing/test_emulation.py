"""The page of an emulated platform: in a real browser somebody writes, reacts, clicks and makes faults, by the same
interface for every platform."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import take_picture, visit

from gatepost.core import registry
from gatepost.core.errors import NotFound
from gatepost_testing.emulation import list_emulators, make_platform
from gatepost_testing.emulation.page import EmulationPage, serve_page
from gatepost_testing.platforms.base import EmulatedPlatform, PlatformFault
from gatepost_testing.platforms.toy import TOKEN, ToyPlatform
from gatepost_testing.waiting import PATIENCE_S

OURS = {"x-gatepost": "1"}


@asynccontextmanager
async def serving(platform: EmulatedPlatform) -> AsyncIterator[str]:
    """The address of its page."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve_page(EmulationPage(platform, ["gatepost channel add"]), 0, address.set_result))
    try:
        yield await asyncio.wait_for(address, PATIENCE_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def platform() -> AsyncIterator[ToyPlatform]:
    with ToyPlatform() as made:
        assert isinstance(made, ToyPlatform)
        yield made


@pytest.fixture
async def address(platform: ToyPlatform) -> AsyncIterator[str]:
    async with serving(platform) as found:
        yield found


@pytest.fixture
async def page(window: BrowserContext, address: str) -> AsyncIterator[Page]:
    async with visit(window, width=1280, height=800) as page:
        await page.goto(address)
        yield page


async def send_as_bot(platform: ToyPlatform, **message: object) -> str:
    async with httpx2.AsyncClient(timeout=PATIENCE_S, trust_env=False) as client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        answer = await client.post(f"{platform.url}/rooms/team/messages", json=message, headers=headers)
        return str(answer.json()["id"])


@pytest.mark.slow
async def test_somebody_writes_edits_reacts_and_clicks_on_the_page(page: Page, platform: ToyPlatform) -> None:
    await page.get_by_label("Message", exact=True).fill("hello <b>bot</b>")
    await page.keyboard.press("Enter")
    await expect(page.locator(".message .body")).to_have_text("hello <b>bot</b>")
    (written,) = platform.list_shown("team", by_bot=False)

    card = await send_as_bot(platform, text="May it?", buttons=[{"id": "1", "label": "Allow"}])
    await page.get_by_role("button", name="Allow", exact=True).click()
    await page.locator(".message.bot").get_by_role("button", name="👍").click()
    await page.locator(".message:not(.bot)").get_by_role("button", name="edit", exact=True).click()
    await page.get_by_label("Message", exact=True).fill("hello again")
    await page.keyboard.press("Enter")
    await expect(page.locator(".message:not(.bot) .body")).to_have_text("hello again")

    assert platform.find(written.id).edits == 1
    assert platform.find(card).reactions == [("👍", "ann")]
    assert [each["button"] for each in platform._events if each["type"] == "click"] == ["1"]
    await take_picture(page, "emulation-page")


@pytest.mark.slow
async def test_another_person_in_a_private_room_sends_a_file_and_sees_why_something_fails(
    page: Page, platform: ToyPlatform
) -> None:
    await page.get_by_role("button", name="direct:bob").click()
    await page.get_by_role("radio", name="bob").click()
    await page.locator("#file").set_input_files([{"name": "a.txt", "mimeType": "text/plain", "buffer": b"words"}])
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("link", name="a.txt (5 bytes)")).to_be_visible()
    (written,) = platform.list_shown("direct:bob", by_bot=False)
    assert (written.sender, written.files[0].data) == ("bob", b"words")

    await page.get_by_role("button", name="unauthorized").click()
    await expect(page.get_by_role("button", name="unauthorized")).to_have_attribute("aria-pressed", "true")
    assert platform.is_faulty(PlatformFault.UNAUTHORIZED)
    await page.get_by_role("button", name="All is well again").click()
    await expect(page.get_by_role("button", name="unauthorized")).to_have_attribute("aria-pressed", "false")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda headers: headers.pop("x-gatepost"), 403),
        (lambda headers: headers.update(origin="http://elsewhere.example"), 403),
        (lambda headers: headers.update(host="elsewhere.example"), 403),
        (lambda headers: None, 200),
    ],
)
async def test_a_write_comes_from_the_page_alone(
    address: str, change: Callable[[dict[str, str]], object], status: int
) -> None:
    headers = {**OURS, "origin": address.rstrip("/")}
    change(headers)
    async with httpx2.AsyncClient(timeout=PATIENCE_S, trust_env=False, base_url=address) as client:
        answer = await client.post("/act", json={"verb": "send", "text": "hello"}, headers=headers)
    assert answer.status_code == status


@pytest.mark.parametrize(
    "action",
    [
        {"verb": "fly"},
        {"verb": "edit", "message": "m999", "text": "x"},
        {"verb": "click", "message": "m1", "text": "none"},
        {"verb": "fault", "text": "none"},
        {"verb": "send", "text": 7},
    ],
)
async def test_what_cannot_be_done_is_answered_with_words(address: str, action: dict[str, object]) -> None:
    headers = {**OURS, "origin": address.rstrip("/")}
    async with httpx2.AsyncClient(timeout=PATIENCE_S, trust_env=False, base_url=address) as client:
        answer = await client.post("/act", json=action, headers=headers)
    assert answer.status_code in (400, 409)
    assert answer.json()["error"]


def test_every_emulator_is_found_by_its_kind() -> None:
    registry.load_package("gatepost.channels")
    assert "toy" in list_emulators()
    for kind in list_emulators():
        assert make_platform(kind).kind == kind
    with pytest.raises(NotFound, match=r"there are: .*toy"):
        make_platform("carrier-pigeon")


@pytest.mark.parametrize(
    ("kind", "signs"),
    [
        ("github", "webhook_secret"),
        ("slack", "signing_secret"),
        ("webhook", "secret"),
        ("whatsapp", "app_secret"),
    ],
)
def test_a_channel_that_is_emulated_takes_no_hook_that_a_stranger_can_sign(kind: str, signs: str) -> None:
    """`channel emulate KIND --add` gives it to a running gateway, and who signs a hook speaks as anybody there."""
    registry.load_package("gatepost.channels")
    first, second = (make_platform(kind).get_secrets()[signs] for _ in range(2))
    assert first != second and len(first) >= 32
