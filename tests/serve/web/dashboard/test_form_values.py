"""Forms offer what is there, and show what a setting is now."""

import re
from typing import Any

from msgspec import convert

from gatepost.core.clock import SystemClock
from gatepost.serve.control.arguments.spending import ListedPrice
from gatepost.serve.web.dashboard.form_values import render_model_price
from gatepost.serve.web.signin.one_time_link import make_login_url
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups

ANN = "fake:user/ann"


def prepare(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    groups.update(db, "acme", {"model": "large-one", "limits": {"turn_s": 60}})
    rooms.add(db, "fake", "fake:group/1", "fake:group/1", False, RoomPolicy.PUBLIC, 1)
    users.add(db, ANN, "Ann", 1)


async def test_agents_and_rooms_can_be_picked_and_what_holds_now_is_shown(site: Any) -> None:
    await site.store.write(prepare)
    async with site.signed_in() as browser:
        form = (await browser.get("/dashboard/do/task.add", headers={"hx-request": "true"})).text
        assert '<option value="acme">Acme</option>' in form and "its usual room" in form
        form = (await browser.get("/dashboard/do/room.policy", headers={"hx-request": "true"})).text
        assert '<option value="fake:group/1">' in form
        form = (await browser.get("/dashboard/do/group.set?folder=acme", headers={"hx-request": "true"})).text
        assert 'placeholder="large-one"' in form and 'placeholder="turn_s=60"' in form


async def test_whoever_may_see_no_agents_is_offered_none(site: Any) -> None:
    await site.store.write(prepare)
    url = await make_login_url(site.store, SystemClock(), site.answerer.hub, site.base, ANN)
    async with site.browser() as browser:
        assert (await browser.post("/login", json={"token": url.partition("#token=")[2]})).status_code == 200
        for operation in ("task.add", "group.set?folder=acme"):
            form = await browser.get(f"/dashboard/do/{operation}", headers={"hx-request": "true"})
            assert form.status_code == 200
            assert "large-one" not in form.text
            assert '<option value="acme">' not in form.text and '<option value="fake:group/1">' not in form.text


async def test_models_tools_and_zones_can_be_picked_with_what_to_know_of_them(site: Any) -> None:
    await site.store.write(prepare)
    async with site.signed_in() as browser:
        form = (await browser.get("/dashboard/do/group.set?folder=acme", headers={"hx-request": "true"})).text
        assert re.search(r'<option value="claude-[^"]+" label="claude-[^"]+ · \$[\d.]+ in, \$[\d.]+ out', form)
        form = (await browser.get("/dashboard/do/task.add", headers={"hx-request": "true"})).text
        assert '<option value="Europe/Berlin">' in form and 'inputmode="decimal"' in form


def test_a_price_is_said_in_its_own_unit() -> None:
    nothing = dict.fromkeys(("input", "output", "cache_read", "cache_write", "minute"), 0)
    nothing |= {"characters": None, "checked": "", "source": ""}

    def say(**own: int) -> str:
        return render_model_price(convert({"model": "x"} | nothing | own, ListedPrice))

    assert say() == "free"
    assert say(input=3_000_000, output=15_000_000) == "$3.00 in, $15.00 out, for a million tokens"
    assert say(minute=6_000) == "$0.006 for a minute of sound"
    assert say(characters=15_000_000) == "$15.00 for a million characters"
