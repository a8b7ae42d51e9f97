"""Ways of signing in to the web page that are set and do not work, or trust nobody."""

from collections.abc import Iterator

from gatepost.core.errors import SetupError
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.serve.health.findings import Finding
from gatepost.serve.web.signin import oidc
from gatepost.serve.web.signin.contract import SIGN_IN_WAYS
from gatepost.serve.web.signin.proxy_users import PROXY_USER_HEADER, TRUSTED_PROXIES, check_settings

SUBJECT = "sign-in"


def check_sign_in(config: Config) -> Iterator[Finding]:
    load_package("gatepost.serve.web.signin")
    for name, way in SIGN_IN_WAYS.items():
        if way.wanted(config) and not way.is_installed:
            text = f"{name} is set and needs what is not installed"
            yield Finding("warn", SUBJECT, text, f"pip install 'gatepost[{way.extra}]'")
    for check in (check_settings, oidc.check_settings):
        try:
            check(config)
        except SetupError as error:
            yield Finding("fail", SUBJECT, str(error), "mend it in gatepost.toml")
    if config[PROXY_USER_HEADER] and not config[TRUSTED_PROXIES]:
        text = f"web.proxy_user_header is {config[PROXY_USER_HEADER]}, and no proxy is trusted: the header is ignored"
        yield Finding("warn", SUBJECT, text, "set web.trusted_proxies to the address of the proxy, or unset the header")
