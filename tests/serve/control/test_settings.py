"""Settings by operation: what is listed, what may be written, and what stays as it was."""

from pathlib import Path
from typing import Any

import pytest

from gatepost import declarations
from gatepost.core.errors import Invalid, NotFound, SetupError
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.serve.control.operations.settings import RUNNING
from gatepost.store.sqlite_store import SqliteStore
from gatepost.testing.clock import FixedClock

FILE = "# mine\n[log]\nlevel = 'info' # quiet\n"


@pytest.fixture
def deps(store: SqliteStore, store_path: Path) -> OperationDeps:
    declarations.load_package()
    home = Home(store_path.parent)
    (home.path / "gatepost.toml").write_text(FILE)
    return OperationDeps(
        home=home,
        store=store,
        clock=FixedClock(),
        config=Config({"log.level": "info"}, {"log.level": "gatepost.toml"}),
        bells=EventBus(),
        extra={RUNNING: object()},
    )


async def run(deps: OperationDeps, name: str, /, **args: Any) -> Any:
    return await OPERATIONS[name](deps, args)


async def _list_acts(deps: OperationDeps) -> list[str]:
    return [each["action"] for each in await run(deps, "audit.list")]


def read_file(deps: OperationDeps) -> str:
    return (deps.home.path / "gatepost.toml").read_text()


async def test_a_change_is_shown_first_and_written_with_its_record(deps: OperationDeps) -> None:
    shown = await run(deps, "settings.set", name="log.level", value="debug", dry_run=True)
    assert shown["diff"][1:] == [" # mine", " [log]", "-level = 'info' # quiet", '+level = "debug" # quiet']
    assert not shown["is_written"] and read_file(deps) == FILE
    assert await _list_acts(deps) == []

    written = await run(deps, "settings.set", name="log.level", value="debug")
    assert written["is_written"] and written["needs_restart"] and "gatepost up" in written["text"]
    assert read_file(deps) == '# mine\n[log]\nlevel = "debug" # quiet\n'
    assert await _list_acts(deps) == ["settings.set"]
    again = await run(deps, "settings.set", name="log.level", value="debug")
    assert again["diff"] == [] and not again["is_written"]


async def test_what_is_pending_is_listed_with_what_is_in_use(deps: OperationDeps) -> None:
    await run(deps, "settings.set", name="log.level", value="debug")
    found = {each["name"]: each for each in await run(deps, "settings.list")}
    level = found["log.level"]
    assert (level["value"], level["in_use"], level["is_pending"], level["origin"]) == ("debug", "info", True, "file")
    assert found["log.format"]["origin"] == "default" and not found["log.format"]["is_pending"]
    await run(deps, "settings.set", name="log.level", unset=True)
    assert read_file(deps) == "# mine\n[log]\n"


@pytest.mark.parametrize(
    ("name", "value", "kind", "said"),
    [
        ("log.levle", "x", NotFound, "did you mean"),
        ("log.level", "loud", Invalid, "is not one of"),
        ("web.login_days", "many", Invalid, "is not a whole number"),
        ("connectors", "{}", Invalid, "by hand"),
        ("channels.telegram.token", "1:x", Invalid, "secret"),
        ("timezone", "Nowhere/City", SetupError, "no time zone"),
        ("sessions.provider", "nobody", SetupError, "there is none such"),
    ],
)
async def test_what_a_start_would_refuse_is_not_written(
    deps: OperationDeps, name: str, value: str, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        await run(deps, "settings.set", name=name, value=value)
    assert read_file(deps) == FILE


async def test_what_the_environment_sets_is_not_written(deps: OperationDeps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEPOST_LOG_LEVEL", "error")
    with pytest.raises(Invalid, match="GATEPOST_LOG_LEVEL, which wins"):
        await run(deps, "settings.set", name="log.level", value="debug")
    found = {each["name"]: each for each in await run(deps, "settings.list")}
    assert found["log.level"]["origin"] == "environment"


async def test_an_endpoint_is_in_use_at_once(deps: OperationDeps) -> None:
    moved: list[Config] = []
    told = replace(deps, move_models=moved.append)
    done = await run(told, "settings.set", name="openai.base_url", value="http://127.0.0.1:1/v1")
    assert not done["needs_restart"] and len(moved) == 1
