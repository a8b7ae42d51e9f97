"""HAProxy, as docs/scale.md sets it up, before two gateways: a browser's chat goes on while one of them is killed."""

import os
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.waiting import PATIENCE_S, block_until

from .channel_desk import SETTINGS

HAPROXY = shutil.which("haproxy", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))
SCALE = Path(__file__).parents[2] / "docs" / "scale.md"
ECHO = ScriptBuilder().otherwise().say("echo: {text}")

pytestmark = [
    pytest.mark.alone,
    needs_chromium,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
    pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed: apt-get install haproxy"),
]


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, ("a", "b"), **SETTINGS, http_connections_per_peer="0") as cluster:
        assert cluster.first.gatepost("secret", "rotate").returncode == 0
        cluster.share_keys()
        for daemon in cluster.daemons.values():
            daemon.env["GATEPOST_LISTEN"] = f"127.0.0.1:{find_port()}"  # where the balancer finds it again
            daemon.start()
            ECHO.write(daemon.home / "groups" / "home").chmod(0o644)
        yield cluster


@pytest.fixture
def balancer(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """Its address."""
    found = re.search(r"```haproxy\n(.*?)```", SCALE.read_text(encoding="utf-8"), re.S)
    assert found is not None
    address, text = f"127.0.0.1:{find_port()}", found[1].replace("bind :8080", "bind ADDRESS")
    for host, name in (("first", "a"), ("second", "b")):
        text = text.replace(f"{host}.example:8420", cluster[name].env["GATEPOST_LISTEN"])
    config = tmp_path / "haproxy.cfg"
    config.write_text(text.replace("ADDRESS", address), encoding="utf-8")
    assert HAPROXY is not None
    with (tmp_path / "haproxy.log").open("wb") as log:
        process = subprocess.Popen([HAPROXY, "-db", "-f", str(config)], stdout=log, stderr=log)
    try:
        block_until(lambda: answers(f"http://{address}/readyz"), "the balancer")
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def wait_until_ready(cluster: Cluster, name: str) -> None:
    listen = cluster[name].env["GATEPOST_LISTEN"]
    block_until(lambda: answers(f"http://{listen}/readyz"), "it to be ready")


@pytest.fixture
async def page(window: BrowserContext) -> AsyncIterator[Page]:
    async with visit(window) as page:
        yield page


async def say(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")
    reply = page.locator(".message:not(.mine) .body").filter(has_text=f"echo: {text}")
    await expect(reply).to_have_count(1)


async def test_a_browsers_chat_goes_on_without_a_reload_while_either_gateway_is_killed(
    cluster: Cluster, balancer: str, page: Page
) -> None:
    link = cluster["a"].address
    await page.goto(re.sub(r"^http://[^/]*", balancer, link))
    await expect(page.locator(".live.on")).to_be_visible()
    await page.evaluate("window.neverReloaded = true")
    await say(page, "one")

    for number, name in enumerate(("a", "b")):
        cluster[name].kill()
        await say(page, f"without-{name}")
        await expect(page.locator(".live.on")).to_be_visible()
        await expect(page.locator(".message.mine")).to_have_count(2 + number)
        cluster[name].start()
        wait_until_ready(cluster, name)
    assert await page.evaluate("window.neverReloaded")
    assert cluster["a"].json("ledger", "check")["unaccounted"] == 0
