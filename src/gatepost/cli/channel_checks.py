"""The doctor's checks of channels: what the running gateway says of them, and what is wrong in the store and file."""

from collections.abc import Iterator

from gatepost.channels.contract import CHANNELS
from gatepost.cli.findings import Finding
from gatepost.cli.operation_runner import control_of
from gatepost.core import home_lock
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow import channel_specs
from gatepost.flow.channel_health import ChannelReport, parse_report, render_trouble
from gatepost.flow.channel_specs import ChannelSpec, get_last_name
from gatepost.store import channel_instances, secrets
from gatepost.store.port import Db
from gatepost.store.readonly import list_waiting_instances, read_snapshot


def check_channels(home: Home, config: Config) -> Iterator[Finding]:
    """Those that people write on; web and terminal are part of the gateway."""
    if home.store.is_file():
        try:
            yield from read_snapshot(home.store, _check_rows, config)
        except GatepostError as error:
            yield Finding("fail", "channels", str(error))
    for report in list_running(home):
        if not report.is_well:
            cure = report.way_out or f"`gatepost channel logs {report.instance}` tells more"
            yield Finding("fail" if report.way_out else "warn", "channels", _render(report), cure)
        elif (kind := CHANNELS.get(report.kind)) is not None and not kind.always:
            yield Finding("ok", "channels", f"{report.instance} is {report.state}")


def _render(report: ChannelReport) -> str:
    return f"{report.instance} is {report.state}: {report.error}" if report.error else render_trouble(report)


def list_running(home: Home) -> list[ChannelReport]:
    """As the running gateway sees them; none if it does not run or answer."""
    if home_lock.find_holder(home) is None:
        return []
    try:
        return [
            parse_report(each) for each in control_of(home).get("/v1/status", timeout=5)["result"]["channel_health"]
        ]
    except (GatepostError, KeyError):  # of another version, or it does not answer: that is found elsewhere
        return []


def _check_rows(db: Db, config: Config) -> list[Finding]:
    try:
        in_file = {each.instance: each for each in channel_specs.list_file_specs(config)}
    except GatepostError:
        return []  # told as what is wrong with the settings
    rows = channel_instances.list_all(db)
    found = []
    for row in rows:
        if row.instance in in_file:
            text = f"{row.instance} is in gatepost.toml and was also added by `gatepost channel add`; the file counts"
            found.append(Finding("warn", "channels", text, "rename the one in the file, or remove it there"))
    specs, broken = channel_specs.list_specs(config, rows)
    found += [Finding("fail", "channels", str(each.error), f"`gatepost channel rm {each.instance}`") for each in broken]
    there = {each.name for each in secrets.list_all(db) if not each.folder and not each.user_id}
    return found + [finding for spec in specs if spec.is_on for finding in _check_secrets(spec, there)]


def _check_secrets(spec: ChannelSpec, there: set[str]) -> Iterator[Finding]:
    names = spec.list_secrets()
    for each in spec.kind.guide.ask:
        if each.secret and each not in spec.kind.guide.optional and names[get_last_name(each)] not in there:
            name = get_last_name(each)
            cure = f"`gatepost channel set {spec.instance} --secret {name}` asks for it"
            yield Finding("fail", "channels", f"{spec.instance} has no {name}", cure)


def check_waiting(db: Db, config: Config) -> Iterator[Finding]:
    """Messages for channels that do not run."""
    try:
        specs, _ = channel_specs.list_specs(config, channel_instances.list_all(db))
    except GatepostError:
        return
    running = {each.instance for each in specs if each.is_on}
    for instance, count in list_waiting_instances(db):
        if instance not in running:
            text = f"{count} messages wait for the channel {instance!r}, which does not run"
            yield Finding("fail", "channels", text, f"`gatepost channel set {instance} --on`, or add it again")
