"""The checks of channels: how each is, what is wrong in the store, and what waits for one that is off."""

from collections.abc import Iterable, Iterator

from gatepost.channels.contract import CHANNELS
from gatepost.core.errors import GatepostError
from gatepost.core.settings import Config
from gatepost.flow import channel_specs
from gatepost.flow.channel_health import ChannelReport, render_trouble
from gatepost.flow.channel_specs import ChannelSpec, get_last_name
from gatepost.serve.health.findings import Finding
from gatepost.store.engine.readonly import list_waiting_instances
from gatepost.store.port import Db
from gatepost.store.rights import secrets
from gatepost.store.rooms import channel_instances


def check_reports(reports: Iterable[ChannelReport]) -> Iterator[Finding]:
    """As the running gateway sees those that people write on; web and terminal are part of it."""
    for report in reports:
        if not report.is_well:
            cure = report.remedy or f"`gatepost channel logs {report.instance}` tells more"
            yield Finding("fail" if report.remedy else "warn", "channels", _render(report), cure)
        elif (kind := CHANNELS.get(report.kind)) is not None and not kind.always:
            yield Finding("ok", "channels", f"{report.instance} is {report.state}")
            if report.note:
                yield Finding("note", "channels", f"{report.instance}: {report.note}")


def _render(report: ChannelReport) -> str:
    return f"{report.instance} is {report.state}: {report.error}" if report.error else render_trouble(report)


def check_channel_rows(db: Db, config: Config) -> list[Finding]:
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
            waiting = "1 message waits" if count == 1 else f"{count} messages wait"
            text = f"{waiting} for the channel {instance!r}, which does not run"
            yield Finding("fail", "channels", text, f"`gatepost channel set {instance} --on`, or add it again")
