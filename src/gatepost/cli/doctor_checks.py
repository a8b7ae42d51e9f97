"""The doctor's checks: each looks at one thing and says whether it is well and, if not, the way out."""

import asyncio
import os
import pwd
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from gatepost import declarations
from gatepost.cli.gateway_retry import post_operation
from gatepost.cli.operation_runner import control_of
from gatepost.cli.sandbox_isolation import get_isolation
from gatepost.core import settings
from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError
from gatepost.core.home import LONGEST_SOCKET_PATH, Home
from gatepost.core.process import home_lock, listen_address
from gatepost.core.settings import SETTINGS, Config, list_mistyped
from gatepost.flow.channel_health import ChannelReport
from gatepost.flow.sessions.host.host_uids import uid_range
from gatepost.flow.sessions.sandbox.provider_specs import list_plugin_providers, load_spec
from gatepost.flow.sessions.sandbox.sandbox_plan import DEMO, KIND
from gatepost.flow.sessions.sandbox.sandbox_requirements import USUAL, program_mounts
from gatepost.flow.start_check import check_config
from gatepost.gate import connectors
from gatepost.messages.visible_text import show_hidden
from gatepost.sandboxes.contract import SANDBOXES, trouble_of
from gatepost.sandboxes.enforcement import LimitEnforcement, list_limits, read_machine
from gatepost.serve.control.arguments.connect import CheckModelsArgs, EndpointCheck
from gatepost.serve.control.client import ControlClient
from gatepost.serve.control.daemon_status import ask_daemon_status
from gatepost.serve.control.operations.connect import check_endpoints, list_model_uses
from gatepost.serve.health.agent_checks import check_agents
from gatepost.serve.health.backup_checks import check_backups
from gatepost.serve.health.channel_checks import check_channel_rows, check_reports
from gatepost.serve.health.findings import Finding, FindingLevel
from gatepost.serve.health.gateway_checks import check_gateways
from gatepost.serve.health.machine_checks import check_folder, check_space, check_walls
from gatepost.serve.health.security_checks import judge_security
from gatepost.serve.health.security_facts import read_security_facts
from gatepost.serve.health.store_checks import check_panic, check_rows
from gatepost.serve.telemetry.trace_receiver import check_telemetry
from gatepost.serve.web.signin.contract import check_sign_in
from gatepost.store.engine.place import check_place, get_place
from gatepost.store.engine.readonly import (
    find_damage,
    get_clock,
    get_newest_version,
    get_version,
    read_snapshot,
)
from gatepost.store.gateways.gateway_identity import make_identity
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.schedule.retention import can_shrink
from gatepost.store.sessions import groups

PYTHON = (3, 11)
ASK_MODELS_S = 30.0
BASICS = ("git", "curl", "python3", "pip3")
SEEN = "/usr/local/bin:/usr/bin"  # of this machine, in every sandbox that has no image of its own


class SandboxAvailability(Struct, frozen=True):
    """A sandbox kind on this machine."""

    name: str
    isolated: bool
    trouble: str | None


def run_checks(home: Home) -> list[Finding]:
    """Everything, in the order in which one would look."""
    findings = [*_python(), *check_folder(home), *check_space(home), *_lock(home)]
    try:
        declarations.load_all(home)
        config = settings.load(home.path)
        check_config(home, config)
    except GatepostError as error:
        findings.append(Finding("fail", "settings", str(error), "mend or remove what it names"))
        config = _load_readable_settings(home)
    else:
        findings.append(Finding("ok", "settings", f"{len(SETTINGS)} settings, every plug-in loads"))
        findings += [Finding("warn", "settings", each) for each in list_mistyped()]
    findings += [*_providers(home), *_control(home), *_sandboxes(home, config), *_limits(home, config)]
    findings += [*_connectors(home, config), *check_channels(home, config), *check_sign_in(config)]
    findings += check_backups(home, config, SystemClock().now())
    findings += [*check_agents(home, config), *check_models(home, config), *check_telemetry(config)]
    return drop_repeated([*findings, *_store(home, config), *_gateways(home, config)])


def run_security_checks(home: Home) -> list[Finding]:
    """List what is more open than it need be, the worst first."""
    declarations.load_all(home)
    config = _load_readable_settings(home)
    try:
        return judge_security(read_security_facts(home, config))
    except GatepostError as error:
        return [Finding("fail", "store", str(error), "`gatepost doctor` says more")]


def drop_repeated(findings: list[Finding]) -> list[Finding]:
    """Drop the findings of other checks that repeat why the store cannot be read: its own check says so once."""
    causes = {each.text for each in findings if (each.level, each.subject) == ("fail", "store")}
    return [each for each in findings if each.subject == "store" or not any(cause in each.text for cause in causes)]


def _load_readable_settings(home: Home) -> Config:
    """The settings that are well: one that is not, or a file that cannot be read, must not hide the rest."""
    config = settings.load_readable(home.path)
    if config[KIND] not in SANDBOXES:
        config = config.with_values({KIND.name: KIND.default}, "default")
    return config


def _python() -> Iterator[Finding]:
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < PYTHON:
        yield Finding("fail", "python", f"{found} is too old", "install Python 3.11 or newer")
    else:
        yield Finding("ok", "python", found)


def _lock(home: Home) -> Iterator[Finding]:
    holder, recorded = home_lock.find_holder(home), home_lock.read_holder(home)
    if holder is None:
        yield Finding("ok", "daemon", "is down")
        if home.pid_file.exists():
            yield Finding(
                "warn", "daemon", f"{home.pid_file.name} is left of one that was killed", "the next start replaces it"
            )
    elif recorded is None or recorded.pid != holder.pid:
        yield Finding(
            "warn", "daemon", f"runs as pid {holder.pid}, but {home.pid_file.name} does not say so", "restart it"
        )
    else:
        yield Finding("ok", "daemon", f"runs as pid {holder.pid} since {holder.started_at}")


def _providers(home: Home) -> Iterator[Finding]:
    """A provider runs inside a sandbox alone, so its file is read here and not run."""
    for name in sorted(list_plugin_providers(home)):
        try:
            load_spec(home, name)
        except GatepostError as error:
            yield Finding("fail", "plug-ins", str(error), "mend or remove it")


def _connectors(home: Home, config: Config) -> Iterator[Finding]:
    """Each is started as the gateway starts it to ask for its tools: without any secret."""
    if not home.path.is_dir():
        return
    for name, each in config[connectors.CONNECTORS].items():
        held = [tool for tool in connectors.read_cached_tools(home, name, each).held if each.offers(tool)]
        if held:
            named = ", ".join(show_hidden(tool[:40]) for tool in held[:5]) + (" …" if len(held) > 5 else "")
            text = f"{name}: new or told of in other words, and so not offered to agents: {named}"
            yield Finding("warn", "connectors", text, f"gatepost connector changes {name}")
    for found in asyncio.run(connectors.check_connectors(home, config[connectors.CONNECTORS])):
        if found.trouble:
            yield Finding("warn", "connectors", found.trouble, f"mend [connectors.{found.name}], or remove it")
        else:
            yield Finding("ok", "connectors", f"{found.name} has {len(found.tools)} tools")


def _control(home: Home) -> Iterator[Finding]:
    try:
        path = listen_address.find_control_path(home)
    except GatepostError:
        holder = home_lock.read_holder(home)  # the settings are told of as such
        path = Path(holder.control) if holder is not None and holder.control else home.control
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        yield Finding(
            "fail", "control", f"{path} is too long for a socket", "set GATEPOST_CONTROL_SOCK to a shorter path"
        )
        return
    if home_lock.find_holder(home) is None:
        if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
            yield Finding("fail", "control", f"{path} is no socket", "move it away; it will not be removed for you")
        return
    try:
        status = ask_daemon_status(ControlClient(path, home.path))
        yield Finding("ok", "control", f"{path} answers")
        if status.store_trouble:
            yield Finding("fail", "store", f"is not well: {status.store_trouble}")
    except GatepostError as error:
        yield Finding("fail", "control", str(error), "`gatepost logs` may say why; `gatepost down` ends it")


def list_sandboxes(config: Config) -> list[SandboxAvailability]:
    """Every kind with its exact trouble. They must be loaded before."""
    seen = []
    for name, make in SANDBOXES.items():
        kind = make(config)
        seen.append(SandboxAvailability(name, kind.isolated, trouble_of(kind)))
    return seen


def _sandboxes_of_groups(home: Home, config: Config) -> set[str]:
    """Return what groups ask for by name."""
    place = get_place(home, config)
    if not place.exists():
        return set()
    try:
        return {group.sandbox for group in read_snapshot(place, groups.list_all)}
    except GatepostError:
        return set()  # the store's own check says so


def _sandboxes(home: Home, config: Config) -> Iterator[Finding]:
    chosen, named = get_isolation(home, config), _sandboxes_of_groups(home, config)
    for each in list_sandboxes(config):
        if each.trouble is None:
            yield Finding("ok", "sandbox", f"{each.name} works" + ("" if each.isolated else " (it has no walls)"))
        else:
            unused = bool(chosen.kind) and each.name not in named
            note = " (nothing here uses it)" if unused else ""
            yield Finding("note" if unused else "warn", "sandbox", f"{each.name} does not work{note}: {each.trouble}")
    yield from check_walls(chosen)
    yield from _programs(home, config)


def _programs(home: Home, config: Config) -> Iterator[Finding]:
    """Programs of this machine that agents use most. An image of the operator's own has what it has."""
    if not get_isolation(home, config).isolated:
        return
    try:
        mounted = {each.target.rpartition("/")[2] for each in program_mounts(config, home, DEMO)}
    except GatepostError as error:
        yield Finding("warn", "programs", str(error))
        return
    wanted = (*BASICS, *USUAL)
    seen = [name for name in wanted if name in mounted or shutil.which(name, path=SEEN) is not None]
    yield Finding("ok", "shell", f"agents have {', '.join([*seen, *sorted(mounted - {*seen})]) or 'none'}")
    if missing := [name for name in wanted if name not in seen]:
        text = f"agents do not have {', '.join(missing)}"
        yield Finding("note", "shell", text, 'install them here, or set programs = ["uv=/path/to/uv"]')


def _uids(config: Config) -> Iterator[Finding]:
    """Users of this machine in the range that is meant for sandboxes."""
    wanted = uid_range(config)
    if os.geteuid() != 0 or wanted is None:
        return
    taken = [each for each in pwd.getpwall() if wanted[0] <= each.pw_uid <= wanted[1]]
    if taken:
        text = f"{taken[0].pw_name} (uid {taken[0].pw_uid}) is in sandbox.uids, which is for sandboxes alone"
        yield Finding("warn", "sandbox", text, "set sandbox.uids to a range that nobody has")


def _limits(home: Home, config: Config) -> Iterator[Finding]:
    """Which limits hold for the agents whose group says nothing else. A watched one is told, not ticked off."""
    chosen = get_isolation(home, config)
    if not chosen.kind:
        return
    try:
        machine = read_machine(config, home.path)
    except GatepostError as error:
        yield Finding("fail", "limits", str(error))
        return
    yield from _uids(config)
    levels: dict[LimitEnforcement, FindingLevel] = {
        LimitEnforcement.ENFORCED: "ok",
        LimitEnforcement.WATCHED: "note",
        LimitEnforcement.NONE: "note",
    }
    for fact in list_limits(chosen.kind, machine):
        yield Finding(levels[fact.hold], "limits", f"{chosen.kind}, {fact.limit}: {fact.hold}, {fact.by}")


def _store(home: Home, config: Config) -> Iterator[Finding]:
    place = get_place(home, config)
    try:
        check_place(place)
        if not place.exists():
            yield Finding("ok", "store", "none yet; `gatepost up` makes it")
            return
        yield from read_snapshot(place, _check_store, config, home_lock.find_holder(home) is not None)
    except GatepostError as error:
        yield Finding("fail", "store", str(error))


def _gateways(home: Home, config: Config) -> Iterator[Finding]:
    """Check the gateways on a store that several may share."""
    place = get_place(home, config)
    if not place.url:
        return
    try:
        own = make_identity(home, config, get_newest_version())
        now = get_clock(home, config).now()
        yield from read_snapshot(place, check_gateways, own, now, now - time.time_ns() // 1000)
    except GatepostError as error:
        yield Finding("fail", "gateways", str(error))


def _check_store(db: Db, config: Config, running: bool) -> list[Finding]:
    now = SystemClock().now()
    found: list[Finding] = []
    broken = find_damage(db)
    if broken:
        found.append(Finding("fail", "store", f"is damaged: {broken}", "restore a backup"))
    else:
        found.append(Finding("ok", "store", f"schema {get_version(db)} of {get_newest_version()}, whole"))
    if not can_shrink(db):
        text = "was made by an older gatepost: space that is freed is used again, but the file does not shrink"
        found.append(Finding("ok", "space", text))
    account = ledger.check(db, now, running=running)
    if account.unaccounted:
        text = f"{account.unaccounted} rows are unaccounted for"
        found.append(
            Finding("fail", "ledger", text, "start the gateway; if they stay, `gatepost ledger list` shows them")
        )
    else:
        found.append(Finding("ok", "ledger", f"0 unaccounted, {account.in_flight} in flight"))
    if account.overdue:
        text = f"{account.overdue} rows are late: nothing is lost, but nobody has looked at them in their time"
        found.append(Finding("warn", "ledger", text, "the machine may be busy; `gatepost logs` may say why"))
    return [*found, *check_panic(db), *check_rows(db, config, now)]


def check_channels(home: Home, config: Config) -> Iterator[Finding]:
    """Check the channels: as the running gateway reports them, and their rows in the store.

    Web and terminal are part of the gateway and left out.
    """
    place = get_place(home, config)
    if place.exists():
        try:
            yield from read_snapshot(place, check_channel_rows, config)
        except GatepostError as error:
            yield Finding("fail", "channels", str(error))
    yield from check_reports(list_running(home))


def list_running(home: Home) -> list[ChannelReport]:
    """List the channels as the running gateway sees them; none if it does not run or answer."""
    if home_lock.find_holder(home) is None:
        return []
    try:
        return ask_daemon_status(control_of(home)).channel_health
    except GatepostError:  # of another version, or it does not answer: that is found elsewhere
        return []


def check_models(home: Home, config: Config) -> Iterator[Finding]:
    """Ask the model endpoints if they are there and take the key. Nothing is spent.

    A running gateway asks with its keys. Without one no key is shown, and only the connection is checked.
    """
    if not get_place(home, config).exists():
        return
    try:
        if home_lock.find_holder(home) is not None:
            found = post_operation(control_of(home), CheckModelsArgs, {}, ASK_MODELS_S)
        else:
            found = _check_without_keys(home, config)
    except GatepostError as error:
        yield Finding("warn", "models", f"the endpoints could not be asked: {error}", "`gatepost logs` may say why")
        return
    for each in found:
        yield _make_model_finding(each)


def _check_without_keys(home: Home, config: Config) -> list[EndpointCheck]:
    later = "whether it takes the key is asked while the gateway runs"
    uses = read_snapshot(get_place(home, config), list_model_uses, home, config)
    return asyncio.run(check_endpoints([(use, later) for use in uses]))


def _make_model_finding(found: EndpointCheck) -> Finding:
    groups, agent = ", ".join(found.folders[:5]), found.provider
    who = f"{groups}{' …' if len(found.folders) > 5 else ''}: {agent}"
    if not found.reachable:
        way = (
            f"is it the right address, and is there a way to it? gatepost connect {agent} --base-url URL names another"
        )
        return Finding("warn", "models", f"{who} cannot reach {found.url}: {found.reason}", way)
    if found.accepted is False and found.key:
        way = f"gatepost connect {agent} --folder {found.folders[0]} --key-stdin < key.txt"
        return Finding("fail", "models", f"{found.url} refuses the key of {who} ({found.reason})", way)
    if found.accepted is False:
        way = f"gatepost connect {agent} --folder {found.folders[0]} --key-stdin < key.txt"
        return Finding("fail", "models", f"{found.url} wants a key, and {who} has none for it", way)
    if found.accepted:
        what = "answers and takes the key" if found.key else "answers without a key"
        return Finding("ok", "models", f"{who}: {found.url} {what}")
    return Finding("ok", "models", f"{who}: {found.url} can be reached; {found.reason}")
