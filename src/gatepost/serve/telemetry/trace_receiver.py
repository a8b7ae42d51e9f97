"""The receiver of traces: its address, its headers, and whether it is there. `otlp` sends to it."""

import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting, start_check
from gatepost.serve.health.findings import Finding

if TYPE_CHECKING:
    from gatepost.serve.telemetry.otlp import OtlpClient

ENDPOINT = setting(
    "telemetry.otlp_endpoint",
    help="Receiver of traces (OTLP over HTTP), as in http://127.0.0.1:4318. Empty: nowhere. It needs gatepost[otel].",
)
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"  # the variable that every such program reads: name=value, separated by commas
PATH = "/v1/traces"
TIMEOUT_S = 10.0  # of one request
PROBE_S = 5.0
NOT_INSTALLED = "telemetry.otlp_endpoint is set, and the extra is not installed: pip install 'gatepost[otel]'"


class ExportOutcome(StrEnum):
    """The outcome of an attempt to export spans."""

    SENT = "sent"
    REFUSED = "refused"  # these are never taken
    LATER = "later"


class SendResult(Struct, frozen=True):
    outcome: ExportOutcome
    reason: str = ""
    pause_s: float = 0.0  # that the endpoint asks for
    rejected: int = 0  # spans that it did not take, of those that it was sent


def get_url(config: Config) -> str:
    """'' if traces are off. SetupError: it could never work."""
    given = config[ENDPOINT].strip()
    if not given:
        return ""
    try:
        parts = urlsplit(given)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise SetupError(f"{ENDPOINT.name} = {given!r} is no address; write it like http://127.0.0.1:4318")
    if parts.username is not None or parts.password is not None:
        raise SetupError(f"{ENDPOINT.name} has a password in it; give it as a header in the variable {HEADERS}")
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith(PATH) else path + PATH}"


def check_installed() -> None:
    try:
        found = find_spec("opentelemetry.proto.collector.trace.v1")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise SetupError(NOT_INSTALLED)


@start_check
def check_endpoint(home: Home, config: Config) -> None:
    if get_url(config):
        check_installed()


def read_headers(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Parse the headers of the environment variable. A part without `=` is left out."""
    given = (os.environ if environ is None else environ).get(HEADERS, "")
    pairs = (part.partition("=") for part in given.split(",") if "=" in part)
    return {unquote(name.strip()).lower(): unquote(value.strip()) for name, _, value in pairs}


def open_client(config: Config, timeout_s: float = TIMEOUT_S) -> "OtlpClient":
    """Load what the extra `otel` brings. That takes a while, so it is for a thread."""
    from gatepost.serve.telemetry.otlp import OtlpClient

    return OtlpClient(get_url(config), read_headers(), timeout_s)


def check_telemetry(config: Config) -> Iterator[Finding]:
    """Ask the receiver whether it is there and takes spans; it is sent none. Nothing, if traces are off."""
    try:
        url = get_url(config)
        if not url:
            return
        check_installed()
    except SetupError as error:
        yield Finding("fail", "telemetry", str(error), f"mend it, or unset {ENDPOINT.name}")
        return
    result = open_client(config, PROBE_S).send([])
    if result.outcome is ExportOutcome.SENT:
        yield Finding("ok", "telemetry", f"{url} takes traces")
        return
    remedy = f"start it, or mend {ENDPOINT.name}; meanwhile messages go on, and traces wait"
    yield Finding("warn", "telemetry", f"{url} takes no traces: {result.reason}", remedy)
