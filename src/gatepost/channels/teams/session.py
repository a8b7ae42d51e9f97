"""The bot's own token, the keys of the Bot Framework, and the service addresses that it answers to."""

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from gatepost.channels.contract import ChannelDeps, ChannelEnded, EndReason
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp, PlatformRefusal
from gatepost.channels.teams import APP_ID, APP_SECRET, LOGIN_URL, OPENID_URL, SERVICE_URLS, TENANT, wire
from gatepost.core import json_web_tokens
from gatepost.core.clock import HOUR, MINUTE, SECOND
from gatepost.core.errors import Refused, Unavailable
from gatepost.core.json_web_tokens import NotProven, TokenHeader, TokenTerms, find_key, read_keys

# The sender of an activity proves itself by a token of the Bot Framework. Every claim that Microsoft's page on the Bot
# Connector's authentication names is checked, and no other algorithm is read.

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


WAY_OUT = "make a new client secret for the bot's application, and set it with `gatepost channel set`"
NO_RIGHTS_WAY_OUT = "register it there, or correct the tenant"
CONTENDED = 412
UNKNOWN_APP = "unauthorized_client"
SCOPE = "https://api.botframework.com/.default"
KEYS_HELD, KEYS_LEAST = 24 * HOUR, 5 * MINUTE  # strangers may name any key, and cause no more requests than that
FAILED = 10 * SECOND  # after a try that failed, nobody tries for so long
EARLY_S = 300  # a token is renewed so long before its end
SERVICES = "services"  # the name of a cursor
MOST_SERVICES = 1000


def read_error(given: PlatformAnswer) -> Unavailable | None:
    """Several calls about one conversation at once are refused, and nothing was done: it asks us to try again."""
    if given.status == CONTENDED:
        return Unavailable("Microsoft Teams", "something else was under way in that conversation")
    return None


class TeamsSession:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._config = deps, deps.config
        self._clients: dict[str, PlatformHttp] = {}
        self._token, self._token_ends = "", 0
        self._keys: list[Mapping[str, Any]] = []
        self._keys_at: int | None = None
        self._failed_at: int | None = None
        self._reading_keys = asyncio.Lock()
        self._services: dict[str, str] = {}  # room -> service address, the newest last
        self._saved_services = ""  # that they were read from

    def check_settings(self) -> None:
        for each in (APP_ID, TENANT):
            if not self._config[each]:
                raise ChannelEnded(EndReason.SETTING, f"{each.name} is not set", "copy it from the Azure portal")

    # Incoming.

    async def prove(self, authorization: str, service_url: str) -> None:
        """Raises NotProven unless the Bot Framework sent it."""
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer":
            raise NotProven("there is no token")
        keys = await self._get_keys(read_header(token))
        now_s = self._deps.clock.now() // SECOND
        check_token(token, keys, app_id=self._config[APP_ID], service_url=service_url, now_s=now_s)
        if not wire.is_below(service_url, self._config[SERVICE_URLS]):
            raise NotProven("its service address is not among channels.teams.service_urls")

    async def _get_keys(self, wanted: TokenHeader) -> list[Mapping[str, Any]]:
        if self._keys_age < KEYS_HELD and find_key(self._keys, wanted) is not None:
            return self._keys  # a stranger's key, which is being looked for, holds up nobody
        async with self._reading_keys:
            if self._keys_age < (KEYS_HELD if find_key(self._keys, wanted) else KEYS_LEAST):
                return self._keys
            now = self._deps.clock.monotonic()
            if self._failed_at is not None and now - self._failed_at < FAILED:
                raise Unavailable("the Bot Framework", "its keys could not be read a moment ago")
            try:
                self._keys = await self._read_keys()
            except Unavailable:
                self._failed_at = now
                raise
            self._keys_at = now
        return self._keys

    @property
    def _keys_age(self) -> int:
        """In microseconds; those that were never read are too old."""
        return KEYS_HELD if self._keys_at is None else self._deps.clock.monotonic() - self._keys_at

    async def _read_keys(self) -> list[Mapping[str, Any]]:
        url = self._config[OPENID_URL]
        http = self._get_client(url)
        document = await http.call("GET", url, action="read the keys of the Bot Framework")
        found = str(document.get("jwks_uri") or "") if isinstance(document, Mapping) else ""
        if _get_origin(found) != _get_origin(url):
            raise Unavailable("the Bot Framework", "its document names keys on another host")
        return read_keys(await http.call("GET", found, action="read the keys of the Bot Framework"))

    # Outgoing.

    async def get_token(self, *, fresh: bool = False) -> str:
        now = self._deps.clock.monotonic()
        if fresh or not self._token or now >= self._token_ends:
            answer = await self._ask_for_token()
            token, lasts = answer.get("access_token"), answer.get("expires_in")
            if not isinstance(token, str) or not token:
                raise Unavailable("Microsoft's login", "it gave no token")
            seconds = lasts if isinstance(lasts, int) else 0
            self._token, self._token_ends = token, now + max(seconds - EARLY_S, 0) * SECOND
        return self._token

    async def _ask_for_token(self) -> Mapping[str, Any]:
        self.check_settings()
        secret = await self._deps.secret(APP_SECRET)
        if not secret:
            raise ChannelEnded(EndReason.TOKEN, "channels.teams.app_secret is not set", WAY_OUT)
        asked = {"grant_type": "client_credentials", "client_id": self._config[APP_ID], "scope": SCOPE}
        url = self._config[LOGIN_URL]
        try:
            answer = await self._get_client(url).call(
                "POST",
                f"{url.rstrip('/')}/{self._config[TENANT]}/oauth2/v2.0/token",
                data={**asked, "client_secret": secret},
                reads=True,
                action="get a token",
            )
        except PlatformRefusal as refusal:
            if isinstance(refusal.answer, Mapping) and refusal.answer.get("error") == UNKNOWN_APP:
                why = f"the application {self._config[APP_ID]} has no rights in the tenant {self._config[TENANT]}"
                raise ChannelEnded(EndReason.RIGHTS, why, NO_RIGHTS_WAY_OUT) from None
            why = f"Microsoft refuses the bot's credentials ({refusal.detail[:120]})"
            raise ChannelEnded(EndReason.TOKEN, why, WAY_OUT) from None
        return answer if isinstance(answer, Mapping) else {}

    async def call(self, address: str, method: str, path: str, **more: Any) -> Any:
        """A request to the service that this room belongs to."""
        token = await self.get_token()
        service = await self._get_service(address)
        http, url = self._get_client(service), f"{service.rstrip('/')}/{path}"
        try:
            return await http.call(method, url, headers={"Authorization": f"Bearer {token}"}, **more)
        except ChannelEnded:
            token = await self.get_token(fresh=True)  # it may have ended early; refused, nothing was done
            return await http.call(method, url, headers={"Authorization": f"Bearer {token}"}, **more)

    async def _get_service(self, address: str) -> str:
        services = await self._load_services()
        found = services.get(address) or next(reversed(services.values()), "")
        if not found or not wire.is_below(found, self._config[SERVICE_URLS]):
            why = "nobody has written to the bot yet, so its service address is not known"
            raise Refused("this bot", "write first", address, why)
        return found

    async def record_service(self, address: str, service_url: str) -> None:
        if (await self._load_services()).get(address) != service_url:
            await self._deps.cursor.update(partial(_add_service, address, service_url), SERVICES, durable=True)

    async def _load_services(self) -> dict[str, str]:
        """From the store each time: a room may have moved, and another gateway have heard of it."""
        saved = await self._deps.cursor.load(SERVICES)
        if saved != self._saved_services:
            self._services, self._saved_services = (json.loads(saved) if saved else {}), saved
        return self._services

    def _get_client(self, url: str) -> PlatformHttp:
        scheme, host = _get_origin(url)
        origin = f"{scheme}://{host}"
        if origin not in self._clients:
            self._clients[origin] = PlatformHttp("Microsoft Teams", origin, remedy=WAY_OUT, read_error=read_error)
        return self._clients[origin]

    async def close(self) -> None:
        while self._clients:
            _, client = self._clients.popitem()
            await client.close()


def _add_service(address: str, service_url: str, saved: str) -> str:
    services = json.loads(saved) if saved else {}
    services.pop(address, None)
    services[address] = service_url
    return json.dumps(dict(list(services.items())[-MOST_SERVICES:]))


def _get_origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
