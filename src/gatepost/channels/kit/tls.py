"""TLS to a server that the operator named: its certificate is always checked, for the name that was asked for."""

import ssl
from collections.abc import Iterator
from functools import cache

from gatepost.channels.contract import ChannelEnded, EndReason

MOST_CAUSES = 20
OUT_OF_TIME = frozenset({9, 10})  # OpenSSL's codes of a certificate that is not valid yet, or no longer


def make_tls(ca_file: str) -> ssl.SSLContext:
    """`ca_file`: the authorities that count in the place of the system's; empty: the system's. It reads files, so it
    runs off the loop."""
    if not ca_file:
        return _get_system_tls()
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise _make_error(ca_file, "it holds no certificate in PEM") from None
    except OSError as error:
        raise _make_error(ca_file, str(error.strerror).lower()) from None


def _make_error(ca_file: str, why: str) -> ChannelEnded:
    return ChannelEnded(EndReason.SETTING, f"ca_file {ca_file!r} cannot be used ({why})", "name a file of certificates")


@cache
def _get_system_tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def find_bad_certificate(host: str, error: object) -> ChannelEnded | None:
    """Return the end of a channel whose server's certificate is refused; None if the error is another one. One out of
    its time is waited for: it is renewed, or the clock of this machine is not set yet."""
    found = find_certificate_error(error)
    if found is None or found.verify_code in OUT_OF_TIME:
        return None
    why = f"the certificate of {host} is not valid ({found.verify_message.rstrip('.')})"
    remedy = "use the name that stands in it, or set ca_file to the authority that signed it"
    return ChannelEnded(EndReason.SETTING, why, remedy)


def find_certificate_error(error: object) -> ssl.SSLCertVerificationError | None:
    causes = list_causes(error) if isinstance(error, BaseException) else ()
    return next((each for each in causes if isinstance(each, ssl.SSLCertVerificationError)), None)


def list_causes(error: BaseException) -> Iterator[BaseException]:
    """List an error and what it came from; clients wrap those of the system several times."""
    waiting, known = [error], 0
    while waiting and known < MOST_CAUSES:
        each, known = waiting.pop(0), known + 1
        yield each
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
        waiting += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
