"""What an operator may do to secrets: judged before it is stored, recorded without the value."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.settings import Config
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import users
from gatepost.store.rights import audit
from gatepost.store.rights.secrets import SecretReader
from gatepost.store.sessions import groups

VALUE = "sk-ant-xyzzy-0123456789"


class Desk:
    def __init__(self, operation_deps: OperationDeps) -> None:
        self.operation_deps = operation_deps

    async def do(self, name: str, /, **args: Any) -> Any:
        return await OPERATIONS[name](self.operation_deps, args)

    async def get(self, name: str, folder: str, user: str | None = None) -> str | None:
        return await SecretReader(self.operation_deps.store, Keyring(self.operation_deps.home)).get(name, folder, user)

    async def recorded(self) -> list[tuple[str, Any]]:
        rows = await self.operation_deps.store.read(audit.list_latest, 100)
        return [(row[3], json.loads(row[5])) for row in reversed(rows)]


@pytest.fixture
async def desk(store: SqliteStore, tmp_path: Path) -> Desk:
    home = Home(tmp_path / "home")
    home.prepare()
    await store.write(groups.add, "acme", "Acme", "", 1)
    await store.write(users.add, "fake:user/1", "Ann", 1)
    return Desk(OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus()))


async def test_a_key_of_fewer_than_eight_characters_is_refused_unless_it_is_a_channels(desk: Desk) -> None:
    with pytest.raises(Invalid, match="fewer than 8 characters"):
        await desk.do("secret.set", name="TOKEN", value="k")
    assert await desk.do("secret.set", name="CHANNEL_HOME_TOKEN", value="k")


async def test_a_secret_is_set_listed_used_rotated_and_removed_and_its_value_told_to_nobody(desk: Desk) -> None:
    said = [
        await desk.do("secret.set", name="TOKEN", value=VALUE, folder="acme"),
        await desk.do("secret.set", name="TOKEN", value=VALUE, user="fake:user/1"),
    ]
    assert await desk.get("TOKEN", "acme/eng") == VALUE
    assert await desk.get("TOKEN", "other", "fake:user/1") == VALUE
    said += [
        await desk.do("secret.list"),
        await desk.do("secret.log"),
        await desk.do("secret.rotate"),
    ]
    assert await desk.get("TOKEN", "acme/eng") == VALUE
    said += [await desk.do("secret.rm", name="TOKEN", folder="acme"), await desk.recorded()]

    assert "xyzzy" not in json.dumps(said)
    assert await desk.get("TOKEN", "acme/eng") is None
    assert await desk.recorded() == [
        ("secret.set", {"name": "TOKEN", "folder": "acme"}),
        ("secret.set", {"name": "TOKEN", "user": "fake:user/1"}),
        ("secret.rotate", {}),
        ("secret.rm", {"name": "TOKEN", "folder": "acme"}),
    ]


async def test_a_rotation_says_which_keys_went_and_can_keep_them(desk: Desk) -> None:
    first = (await desk.do("secret.set", name="TOKEN", value=VALUE))["key_id"]

    kept = await desk.do("secret.rotate", keep=True)
    done = await desk.do("secret.rotate")

    assert (kept["resealed"], kept["dropped"], kept["unused"]) == (1, [], [first])
    assert (done["dropped"], done["unused"]) == (sorted([first, kept["key_id"]]), [])
    assert await desk.get("TOKEN", "acme") == VALUE


async def test_a_rotation_of_nothing_makes_a_key(desk: Desk) -> None:
    assert (await desk.do("secret.rotate"))["resealed"] == 0


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({"name": VALUE, "value": "TOKEN"}, "named in capitals"),
        ({"name": "", "value": VALUE}, "named in capitals"),
        ({"name": "TOKEN\n", "value": VALUE}, "named in capitals"),
        ({"name": "TOKEN", "value": " "}, "is empty"),
        ({"name": "TOKEN", "value": VALUE + "\x00"}, "no text"),
        ({"name": "TOKEN", "value": VALUE + "\ud800"}, "not text"),
        ({"name": "TOKEN", "value": VALUE * 4000}, "longer than"),
        ({"name": "TOKEN", "value": [VALUE]}, r"Expected `str`"),
        ({"name": "TOKEN", "value": VALUE, "folder": "../etc"}, "not a name"),
        ({"name": "TOKEN", "value": VALUE, "folder": "acme", "user": "fake:user/1"}, "not both"),
        ({"name": "TOKEN", "value": VALUE, "folder": "nowhere"}, "gatepost group add nowhere"),
        ({"name": "TOKEN", "value": VALUE, "user": "fake:user/2"}, "gatepost user add fake:user/2"),
    ],
)
async def test_what_cannot_be_a_secret_is_refused_without_repeating_it(
    desk: Desk, args: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(GatepostError, match=complaint) as error:
        await desk.do("secret.set", **args)

    assert "xyzzy" not in str(error.value)
    assert await desk.do("secret.list") == [] and await desk.recorded() == []


async def test_what_is_not_there_is_not_removed(desk: Desk) -> None:
    await desk.do("secret.set", name="TOKEN", value=VALUE)
    with pytest.raises(NotFound, match="folder acme has none of its own"):
        await desk.do("secret.rm", name="TOKEN", folder="acme")
    with pytest.raises(Invalid, match="named in capitals"):
        await desk.do("secret.rm", name=VALUE)


async def test_a_secret_can_be_removed_when_its_key_ring_is_gone(desk: Desk) -> None:
    await desk.do("secret.set", name="TOKEN", value=VALUE)
    (desk.operation_deps.home.path / "keyring.json").unlink()

    await desk.do("secret.rm", name="TOKEN")

    await desk.do("secret.set", name="TOKEN", value=VALUE)
    assert await desk.get("TOKEN", "acme") == VALUE


async def test_what_is_set_and_used_while_rotations_run_stays_readable(desk: Desk) -> None:
    names = [f"TOKEN_{number}" for number in range(12)]
    await asyncio.gather(*(desk.do("secret.set", name=name, value=f"old {name}") for name in names))

    async with asyncio.TaskGroup() as tasks:
        reads = []
        for name in names:
            tasks.create_task(desk.do("secret.rotate"))
            tasks.create_task(desk.do("secret.set", name=name, value=f"new {name}"))
            reads.append(tasks.create_task(desk.get(name, "acme")))

    for name, read in zip(names, reads, strict=True):
        assert read.result() in (f"old {name}", f"new {name}")
    assert [await desk.get(name, "acme") for name in names] == [f"new {name}" for name in names]
    ring = Keyring(desk.operation_deps.home).read()
    assert ring is not None and list(ring.keys) == [ring.current]


async def test_a_secret_is_bound_to_a_host_and_what_is_missing_is_said(desk: Desk) -> None:
    made = await desk.do("secret.bind", name="TOKEN", host="API.github.com", folder="acme")
    assert (made["scheme"], made["host"], made["port"], made["header"]) == (
        "https",
        "api.github.com",
        443,
        "authorization",
    )
    assert (made["is_set"], made["is_allowed"]) == (False, False)

    await desk.do("secret.set", name="TOKEN", value=VALUE)
    await desk.do("egress.allow", host="github.com")
    again = await desk.do("secret.bind", name="TOKEN", host="api.github.com", folder="acme", header="X-Key: {}")
    assert (again["is_set"], again["is_allowed"]) == (True, True)
    assert {each["header"] for each in await desk.do("secret.bindings")} == {"authorization", "x-key"}
    assert len(await desk.do("secret.unbind", name="TOKEN", host="api.github.com", folder="acme")) == 2
    assert [action for action, _ in await desk.recorded()][-1] == "secret.unbind"
    with pytest.raises(NotFound):
        await desk.do("secret.unbind", name="TOKEN", host="api.github.com", folder="acme")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"host": "*.github.com"}, "host"),
        ({"host": "10.0.0.1"}, "host"),
        ({"header": "Host: {}"}, "header"),
        ({"header": "X: value"}, "header"),
        ({"name": "token"}, "name"),
        ({"name": "CHANNEL_WORK_TOKEN"}, "name"),
    ],
)
async def test_what_cannot_be_bound_is_refused(desk: Desk, given: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid, match=f"^{field}: "):
        await desk.do("secret.bind", **{"name": "TOKEN", "host": "github.com", **given})


async def test_a_binding_goes_with_its_group(desk: Desk) -> None:
    await desk.do("secret.bind", name="TOKEN", host="github.com", folder="acme")
    await desk.operation_deps.store.write(groups.remove, "acme")
    assert await desk.do("secret.bindings") == []
    with pytest.raises(NotFound):
        await desk.do("secret.bind", name="TOKEN", host="github.com", folder="acme")


async def test_the_key_of_the_endpoint_that_transcribes_is_for_that_endpoint_and_never_for_any(desk: Desk) -> None:
    with pytest.raises(Invalid, match=r"media\.transcribe_base_url"):
        await desk.do("secret.set", name="TRANSCRIBE_API_KEY", value=VALUE)
    (desk.operation_deps.home.path / "gatepost.toml").write_text(
        '[media]\ntranscribe_base_url = "http://words.lan:8000/v1"\n'
    )

    assert (await desk.do("secret.set", name="TRANSCRIBE_API_KEY", value=VALUE))["origin"] == "http://words.lan:8000"
    there = await desk.do("secret.set", name="TRANSCRIBE_API_KEY", value=VALUE, origin="https://other.lan")
    assert there["origin"] == "https://other.lan:443"
