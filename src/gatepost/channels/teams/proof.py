"""The sender of an activity: a JSON Web Token, signed with RS256 by a key of the Bot Framework. Pure.

Every claim that Microsoft's page on the Bot Connector's authentication names is checked. No other algorithm is read.
"""

from collections.abc import Mapping
from typing import Any

from gatepost.core import json_web_tokens
from gatepost.core.json_web_tokens import NotProven, TokenHeader, TokenTerms, find_key

ISSUER = "https://api.botframework.com"
CHANNEL = "msteams"
ALGORITHMS = ("RS256",)
SKEW_S = 300  # that Microsoft allows between two clocks
LONGEST_TOKEN = 16_384


def read_header(token: str) -> TokenHeader:
    """Return by which key the token says that it is signed."""
    if len(token) > LONGEST_TOKEN:
        raise NotProven("it is too long")
    header = json_web_tokens.read_header(token, ALGORITHMS)
    if not header.key_id:
        raise NotProven("it names no key")
    return header


def check_token(token: str, keys: list[Mapping[str, Any]], *, app_id: str, service_url: str, now_s: int) -> None:
    """Raises NotProven unless the Bot Framework signed this for our bot, now, and for this service."""
    key = find_key(keys, read_header(token))
    if key is None:
        raise NotProven("its key is unknown")
    endorsed = key.get("endorsements")  # the channels for which it may sign
    if not isinstance(endorsed, list) or CHANNEL not in endorsed:
        raise NotProven("its key is not for Teams")
    terms = TokenTerms(issuer=ISSUER, audience=app_id, skew_s=SKEW_S, algorithms=ALGORITHMS)
    claims = json_web_tokens.check_token(token, key, terms, now_s)
    if not app_id or claims.get("aud") != app_id:
        raise NotProven("it is for others, too")
    if not service_url or claims.get("serviceurl", claims.get("serviceUrl")) != service_url:
        raise NotProven("it is for another service address")
