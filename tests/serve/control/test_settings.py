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
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.clock import FixedClock

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
        events=EventBus(),
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


async def test_a_setting_is_removed_from_the_file_with_its_record(deps: OperationDeps) -> None:
    shown = await run(deps, "settings.unset", name="log.level", dry_run=True)
    assert shown["diff"][1:] == [" # mine", " [log]", "-level = 'info' # quiet"] and read_file(deps) == FILE
    done = await run(deps, "settings.unset", name="log.level")
    assert done["is_written"] and done["needs_restart"] and read_file(deps) == "# mine\n[log]\n"
    assert await _list_acts(deps) == ["settings.unset"]
    again = await run(deps, "settings.unset", name="log.level")
    assert not again["is_written"] and "does not have it" in again["text"]
    with pytest.raises(NotFound, match="did you mean"):
        await run(deps, "settings.unset", name="log.levle")


@pytest.mark.parametrize("written", ["[log]\nlevel = 'loud'\n", "timezone = 'Nowhere/City'\n"])
async def test_what_is_wrong_in_the_file_can_be_removed_or_mended_one_by_one(deps: OperationDeps, written: str) -> None:
    file = deps.home.path / "gatepost.toml"
    file.write_text(written + "[web]\nlogin_days = 'many'\n[telemetry]\notlp_endpoint = 'nowhere'\n")
    await run(deps, "settings.unset", name="telemetry.otlp_endpoint")
    await run(deps, "settings.set", name="web.login_days", value="7")
    name = "log.level" if "log" in written else "timezone"
    await run(deps, "settings.unset", name=name)
    assert "loud" not in read_file(deps) and "Nowhere" not in read_file(deps) and "login_days = 7" in read_file(deps)


async def test_what_needs_another_setting_keeps_it(deps: OperationDeps) -> None:
    await run(deps, "settings.set", name="web.oidc_client_id", value="gatepost")
    await run(deps, "settings.set", name="web.oidc_issuer", value="https://id.example")
    with pytest.raises(SetupError, match=r"web\.oidc_client_id"):
        await run(deps, "settings.unset", name="web.oidc_client_id")


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
        ("telemetry.otlp_endpoint", "localhost:4318", SetupError, "telemetry.otlp_endpoint .* http://127.0.0.1:4318"),
        ("control.listen", "unix:/tmp/x", SetupError, "control.listen is for TCP"),
        ("control.listen", "host:99999", SetupError, "control.listen .* is not a port"),
        ("web.oidc_issuer", "http://id.example", SetupError, "web.oidc_issuer .* neither https"),
        ("web.oidc_issuer", "https://id.example", SetupError, "web.oidc_client_id is not: set that first"),
        ("web.trusted_proxies", "proxy.local", SetupError, "web.trusted_proxies: 'proxy.local'"),
        ("web.proxy_user_header", "Remote User", SetupError, "web.proxy_user_header"),
        ("tts.base_url", "speech", SetupError, "tts.base_url .* https://host/v1"),
        ("programs", "uv", SetupError, "programs: 'uv' .* write it like"),
        ("backup.recipients", "age1bob", SetupError, "backup.recipients: 'age1bob' is no recipient"),
        ("backup.folder", "backups", SetupError, "backup.folder: 'backups' is no whole path"),
        ("backup.folder", "/dev/null/backups", SetupError, "backup.folder: .* because /dev/null is no folder"),
        ("sandbox.uids", "many", SetupError, "sandbox.uids .* write it like"),
    ],
)
async def test_what_a_start_or_a_backup_would_refuse_is_not_written(
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
