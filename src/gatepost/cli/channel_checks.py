"""The doctor's checks of channels: what the running gateway says of them, and what is wrong in the store and file."""

from collections.abc import Iterator

from gatepost.cli.operation_runner import control_of
from gatepost.core import home_lock
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.channel_health import ChannelReport, parse_report
from gatepost.serve.health.channel_checks import check_channel_rows, check_reports
from gatepost.serve.health.findings import Finding
from gatepost.store.place import get_place
from gatepost.store.readonly import read_snapshot


def check_channels(home: Home, config: Config) -> Iterator[Finding]:
    """Those that people write on; web and terminal are part of the gateway."""
    place = get_place(home, config)
    if place.exists():
        try:
            yield from read_snapshot(place, check_channel_rows, config)
        except GatepostError as error:
            yield Finding("fail", "channels", str(error))
    yield from check_reports(list_running(home))


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
