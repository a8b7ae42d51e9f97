"""Ways of signing in to the web page that are set and do not work, or trust nobody."""

from collections.abc import Iterator

from gatepost.core.settings import Config
from gatepost.serve.health.findings import Finding
from gatepost.serve.web.signin.proxy_users import PROXY_USER_HEADER, TRUSTED_PROXIES
from gatepost.serve.web.signin.sign_in_methods import describe_missing, list_missing_methods

SUBJECT = "sign-in"


def check_sign_in(config: Config) -> Iterator[Finding]:
    for method in list_missing_methods(config):
        yield Finding("warn", SUBJECT, describe_missing(method), f"pip install 'gatepost[{method.extra}]'")
    if config[PROXY_USER_HEADER] and not config[TRUSTED_PROXIES]:
        text = f"web.proxy_user_header is {config[PROXY_USER_HEADER]}, and no proxy is trusted: the header is ignored"
        yield Finding("warn", SUBJECT, text, "set web.trusted_proxies to the address of the proxy, or unset the header")
