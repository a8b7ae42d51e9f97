"""Passkeys and an OpenID provider in a real browser before a real daemon. The authenticator is Chromium's own."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect
from tests.browsers import add_authenticator, needs_chromium

from gatepost.serve.web.signin.oidc import SECRET
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.servers.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcAccount, OidcProvider
from gatepost_testing.waiting import PATIENCE_S

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with OidcProvider() as running:
        yield running


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, provider: OidcProvider) -> Iterator[DaemonProcess]:
    settings = {"web_passkey_login": "true", "web_oidc_issuer": provider.issuer, "web_oidc_client_id": CLIENT_ID}
    home = tmp_path_factory.mktemp("signin") / "home"
    with DaemonProcess(home, sessions_provider="demo", **settings) as running:
        running.gatepost("secret", "set", SECRET, CLIENT_SECRET)
        running.gatepost("user", "add", "oidc:ann-1", "--name", "Ann")
        yield running


async def open_context(browser: Browser) -> BrowserContext:
    context = await browser.new_context(viewport={"width": 1180, "height": 760}, locale="en-GB")
    context.set_default_timeout(PATIENCE_S * 1000)
    return context


def get_address(daemon: DaemonProcess) -> str:
    """By a name: passkeys are for no number. It also makes the provider, which has one, another site."""
    return daemon.address.replace("127.0.0.1", "localhost")


@pytest.mark.slow
@pytest.mark.page("credentials", "passkey_form.js: Add a passkey", "passkey.rm: Remove")
async def test_a_passkey_is_added_and_signs_in_and_its_copy_does_not(browser: Browser, daemon: DaemonProcess) -> None:
    context, address = await open_context(browser), get_address(daemon)
    base, page = address.partition("/#")[0], await context.new_page()
    await add_authenticator(page)
    await page.goto(address)
    await page.wait_for_selector("#text")
    await page.goto(f"{base}/dashboard/logins")
    await page.get_by_label("What you call it").fill("Test phone")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("cell", name="Test phone")).to_be_visible()
    await page.get_by_label("What you call it").fill("The same again")
    await page.get_by_role("button", name="Add a passkey").click()
    await expect(page.locator(".form-said")).to_contain_text("has a passkey for you already")
    await context.clear_cookies()
    sent: list[str] = []
    page.on("request", lambda each: sent.append(each.post_data or "") if each.url.endswith("/passkey/finish") else None)
    await page.goto(f"{base}/dashboard/logins")
    await page.get_by_role("button", name="Sign in with a passkey").click()
    await expect(page.get_by_role("cell", name="Test phone")).to_be_visible()
    assert len(sent) == 1
    await expect_a_copy_refused(base, sent[0])
    assert daemon.json("passkey", "list")["passkeys"][0]["label"] == "Test phone"
    await page.get_by_role("button", name="Remove").click()
    await page.locator("#dialog button[type=submit]").click()
    await expect(page.get_by_text("You have no passkey")).to_be_visible()
    assert daemon.json("passkey", "list")["passkeys"] == []
    await context.close()


async def expect_a_copy_refused(base: str, said: str) -> None:
    headers = {"origin": base, "x-gatepost": "1", "content-type": "application/json"}
    async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=PATIENCE_S) as thief:
        assert (await thief.post("/login/passkey/begin", json={})).status_code == 200
        assert (await thief.post("/login/passkey/finish", content=said)).status_code == 403


@pytest.mark.slow
async def test_a_provider_leads_back_to_the_page_that_was_asked_for(
    browser: Browser, daemon: DaemonProcess, provider: OidcProvider
) -> None:
    context, base = await open_context(browser), get_address(daemon).partition("/#")[0]
    page = await context.new_page()
    provider.account = OidcAccount(sub="nobody-9")
    await page.goto(f"{base}/dashboard/tasks")
    await page.get_by_role("button", name="Single sign-on").click()
    await page.get_by_role("link", name="Go on as nobody-9").click()
    await expect(page.get_by_text("Nobody here has linked this account")).to_be_visible()
    await expect(page.locator("pre").last).to_have_text("gatepost user add oidc:nobody-9")
    provider.account = OidcAccount(sub="ann-1")
    await sign_in_by_provider(page, base)
    await expect(page).to_have_url(f"{base}/dashboard/tasks")
    await expect(page.locator(".who-is-here")).to_contain_text("web:user/ann")
    await page.reload()
    await expect(page.locator(".who-is-here")).to_contain_text("web:user/ann")
    await context.close()


async def sign_in_by_provider(page: Page, base: str) -> None:
    await page.goto(f"{base}/dashboard/tasks")
    await page.get_by_role("button", name="Single sign-on").click()
    await page.get_by_role("link", name="Go on as ann-1").click()
