"""The bot's session with its homeserver: who it is, its device, and the requests that an adapter makes.

matrix-nio keeps the state of rooms and does the cryptography; everything else is plain HTTP, so that one place reads
what went wrong.
"""

import asyncio
import base64
import hashlib
import json
import os
import secrets
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
from aiohttp import ClientError
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from nio import AsyncClient, AsyncClientConfig, ErrorResponse, Response
from nio.store import SqliteMemoryStore, SqliteStore

from gatepost.channels.contract import ChannelDeps, ChannelEnded, EndReason
from gatepost.channels.kit.http import PlatformHttp, PlatformRefusal
from gatepost.channels.matrix import API_URL, CA_FILE, PASSWORD, TOKEN, USER
from gatepost.channels.matrix.wire import USER_ID, MatrixFile, is_id
from gatepost.core.errors import Invalid, Unavailable
from gatepost.messages.inbound import OpenFile
from gatepost.messages.outbound import OutboundFile

PLATFORM = "Matrix"
API = "_matrix/client/v3"
WAY_OUT = "set a valid one with `gatepost channel set`"
REQUEST_S = 25.0
LOGIN_FILE, KEY_FILE = "login.json", "keys.db"
CHUNK = 256 * 1024


def find_retry_after(_: httpx2.Response, answer: Any) -> float | None:
    """Older homeservers say it in the answer alone."""
    wait_ms = answer.get("retry_after_ms") if isinstance(answer, dict) else None
    return max(wait_ms, 0) / 1000 if isinstance(wait_ms, int | float) else None


def check_response(response: Response) -> None:
    """Raise for an error response of matrix-nio, by the same rules as for the channel's own requests."""
    if not isinstance(response, ErrorResponse):
        return
    status = response.transport_response.status if response.transport_response else 0
    code, said = response.status_code or "", (response.message or "")[:200]
    if status == 401 or code in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"):
        raise ChannelEnded(EndReason.TOKEN, f"{PLATFORM} no longer accepts the token ({said})", WAY_OUT)
    if status == 429 or code == "M_LIMIT_EXCEEDED":
        wait_ms = response.retry_after_ms
        raise Unavailable(
            PLATFORM, "it asks us to wait", retry_after=wait_ms / 1000 if wait_ms else None, everywhere=True
        )
    raise Unavailable(PLATFORM, f"it answers {status} {code} {said}".rstrip())


class DeviceKeysLost(ChannelEnded):
    """The homeserver has other keys of our device than we."""

    def __init__(self, device: str) -> None:
        why = f"the keys of the device {device} are not in this home, as after a restore"
        super().__init__(EndReason.TOKEN, why, "log in with the account again, and set the token of that new device")


class MatrixSession:
    """Made by `start`; `close` ends its connections."""

    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._url = deps, deps.config[API_URL].rstrip("/")
        self._starting = asyncio.Lock()
        self._http: PlatformHttp | None = None
        self._client: AsyncClient | None = None

    @property
    def http(self) -> PlatformHttp:
        if self._http is None:
            raise Unavailable(PLATFORM, "the channel is not connected yet")
        return self._http

    @property
    def client(self) -> AsyncClient:
        if self._client is None:
            raise Unavailable(PLATFORM, "the channel is not connected yet")
        return self._client

    @property
    def own_id(self) -> str:
        return str(self._client.user_id) if self._client else ""

    async def start(self) -> None:
        """Log in, once. A token that was kept from an earlier log-in is used again, and so is its device."""
        async with self._starting:
            if self._client is not None:
                return
            if not self._url:
                raise ChannelEnded(EndReason.SETTING, "no homeserver is set", "set `api_url`, as https://example.org")
            token, who = await self._log_in()
            user, device = str(who.get("user_id", "")), str(who.get("device_id", ""))
            if not is_id(user, USER_ID) or not device:
                why = "the token belongs to no device, so that it cannot read encrypted rooms"
                raise ChannelEnded(EndReason.TOKEN, why, "log in with the account, and use the token of that log-in")
            self._http = self._make_http(token)
            self._client = self._make_client(user, device, token, await self._http.get_tls())

    async def check_device_keys(self) -> None:
        """Before keys are published. A device has its keys once: with other ones, as after a restore, people's programs
        would rightly believe that somebody else took it over."""
        user, device, olm = self.client.user_id, self.client.device_id, self.client.olm
        if olm is None or olm.account.shared:
            return
        answer = await self.http.call("POST", f"{API}/keys/query", json={"device_keys": {user: [device]}}, reads=True)
        known = answer.get("device_keys") if isinstance(answer, dict) else None
        for name in (user, device, "keys", f"ed25519:{device}"):
            known = known.get(name) if isinstance(known, dict) else None
        if known is not None and known != olm.account.identity_keys["ed25519"]:
            raise DeviceKeysLost(device)

    async def drop_device(self) -> bool:
        """So that the next start logs in as a new device. False if it cannot: a token belongs to one."""
        if await self._deps.secret(TOKEN):
            return False
        await self.close()
        if self._deps.folder is not None:
            for name in (LOGIN_FILE, KEY_FILE):
                (self._deps.folder / name).unlink(missing_ok=True)
        return True

    async def close(self) -> None:
        client, http, self._client, self._http = self._client, self._http, None, None
        if client is not None:
            await client.close()
            if client.store is not None:
                client.store.database.close()
        if http is not None:
            await http.close()

    async def identify(self) -> dict[str, Any]:
        return await self.get("account/whoami")

    async def get(self, path: str, **query: Any) -> dict[str, Any]:
        answer = await self.http.call("GET", f"{API}/{path}", params=query or None)
        return answer if isinstance(answer, dict) else {}

    async def put(self, path: str, content: dict[str, Any], action: str) -> dict[str, Any]:
        answer = await self.http.call("PUT", f"{API}/{path}", json=content, action=action)
        return answer if isinstance(answer, dict) else {}

    async def post(self, path: str, content: dict[str, Any], action: str) -> dict[str, Any]:
        answer = await self.http.call("POST", f"{API}/{path}", json=content, action=action)
        return answer if isinstance(answer, dict) else {}

    async def run(self, request: Any) -> Any:
        """A request of matrix-nio; it raises what the rest of the channel raises."""
        try:
            response = await request
        except (ClientError, TimeoutError) as error:
            raise Unavailable(PLATFORM, f"the connection broke ({type(error).__name__})") from None
        check_response(response)
        return response

    async def upload(self, file: OutboundFile, encrypted: bool) -> dict[str, Any]:
        """Nobody sees a file before a message names it, so an upload that broke off is no uncertain effect."""
        path = Path(file.path)
        hidden = EncryptedUpload(path) if encrypted else None
        answer = await self.http.call(
            "POST",
            "_matrix/media/v3/upload",
            reads=True,
            action="upload a file",
            params=None if encrypted else {"filename": file.name},
            headers={
                "content-type": "application/octet-stream" if encrypted else file.mime,
                "content-length": str(path.stat().st_size),
            },
            content=hidden.chunks() if hidden else read_chunks(path),
        )
        url = str(answer["content_uri"])
        return {"file": hidden.render(url)} if hidden else {"url": url}

    def open_file(self, file: MatrixFile) -> OpenFile:
        def read() -> AsyncIterator[bytes]:
            chunks = self._download(file)
            return decrypt(chunks, file) if file.key else chunks

        return read

    async def _download(self, file: MatrixFile) -> AsyncIterator[bytes]:
        where = f"{quote(file.server, safe='')}/{quote(file.media_id, safe='')}"
        begun = False
        try:
            async for chunk in self.http.download(f"_matrix/client/v1/media/download/{where}"):
                begun = True
                yield chunk
        except PlatformRefusal as error:
            if begun or error.status not in (400, 404):
                raise
            async for chunk in self.http.download(f"_matrix/media/v3/download/{where}"):  # before Matrix 1.11
                yield chunk

    def _make_http(self, token: str) -> PlatformHttp:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return PlatformHttp(
            PLATFORM,
            self._url,
            headers=headers,
            timeout=REQUEST_S,
            remedy=WAY_OUT,
            find_retry_after=find_retry_after,
            ca_file=self._deps.config[CA_FILE],
        )

    def _make_client(self, user: str, device: str, token: str, tls: ssl.SSLContext) -> AsyncClient:
        folder = self._deps.folder
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = AsyncClientConfig(
            store=SqliteMemoryStore if folder is None else SqliteStore,
            store_name=KEY_FILE,  # nio would name it after ids that the homeserver chooses
            encryption_enabled=True,
            max_limit_exceeded=0,
            max_timeouts=0,
            request_timeout=REQUEST_S,
        )
        client = AsyncClient(self._url, user, device, store_path=str(folder) if folder else "", config=config)
        client.ssl = tls
        client.restore_login(user, device, token)
        return client

    async def _log_in(self) -> tuple[str, dict[str, Any]]:
        """The token, and what the homeserver says whose it is."""
        token = await self._deps.secret(TOKEN)
        if token:
            return token, await self._ask_identity(token)
        password, user = await self._deps.secret(PASSWORD), self._deps.config[USER]
        if not password or not is_id(user, USER_ID):
            raise ChannelEnded(
                EndReason.SETTING,
                "neither a token nor a user with a password is set",
                "set `token`, or `user` as @bot:example.org and `password`",
            )
        kept = self._read_login()
        if kept.get("user_id") == user and kept.get("api_url") == self._url:
            try:
                return kept["token"], await self._ask_identity(kept["token"])
            except ChannelEnded:  # logged out meanwhile: the same device logs in again
                pass
        made = await self._log_in_by_password(user, password, kept.get("device_id", ""))
        self._keep_login(made)
        return str(made["access_token"]), made

    async def _ask_identity(self, token: str) -> dict[str, Any]:
        http = self._make_http(token)
        try:
            answer = await http.call("GET", f"{API}/account/whoami")
        except PlatformRefusal as error:
            raise _no_homeserver(self._url, error) from None
        finally:
            await http.close()
        return answer if isinstance(answer, dict) else {}

    async def _log_in_by_password(self, user: str, password: str, device: str) -> dict[str, Any]:
        http = self._make_http("")
        wanted: dict[str, Any] = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": user},
            "password": password,
            "initial_device_display_name": "Gatepost",
        }
        try:
            answer: dict[str, Any] = await http.call(
                "POST", f"{API}/login", reads=True, json=wanted | ({"device_id": device} if device else {})
            )
        except PlatformRefusal as error:
            if error.status != 403:
                raise _no_homeserver(self._url, error) from None
            raise ChannelEnded(EndReason.TOKEN, f"{PLATFORM} refuses the password of {user}", WAY_OUT) from None
        finally:
            await http.close()
        return answer

    def _read_login(self) -> dict[str, str]:
        folder = self._deps.folder
        try:
            read = json.loads((folder / LOGIN_FILE).read_text(encoding="utf-8")) if folder else {}
        except (OSError, ValueError):
            return {}
        return read if isinstance(read, dict) else {}

    def _keep_login(self, made: dict[str, Any]) -> None:
        folder = self._deps.folder
        if folder is None:
            return
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = {"user_id": made["user_id"], "device_id": made["device_id"], "token": made["access_token"]}
        part = folder / f"{LOGIN_FILE}.new"
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            json.dump(kept | {"api_url": self._url}, target)
        part.rename(folder / LOGIN_FILE)


def _no_homeserver(url: str, error: PlatformRefusal) -> ChannelEnded:
    return ChannelEnded(EndReason.SETTING, f"{url} does not answer as a homeserver ({error.status})", "check `api_url`")


def _decode_base64(text: str) -> bytes:
    """With or without its padding, in either alphabet."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise Invalid("file", "its key is damaged") from None


def _encode(data: bytes, *, url: bool = False) -> str:
    return (base64.urlsafe_b64encode(data) if url else base64.b64encode(data)).decode().rstrip("=")


async def decrypt(chunks: AsyncIterator[bytes], file: MatrixFile) -> AsyncIterator[bytes]:
    """Yield the bytes of an encrypted file as they come.

    A wrong hash shows at the end and raises: the reader then drops the file.
    """
    key, iv = _decode_base64(file.key), _decode_base64(file.iv)
    if len(key) != 32 or len(iv) != 16:
        raise Invalid("file", "its key is damaged")
    cipher, digest = Cipher(AES(key), CTR(iv)).decryptor(), hashlib.sha256()
    async for chunk in chunks:
        digest.update(chunk)
        yield cipher.update(chunk)
    if digest.digest() != _decode_base64(file.sha256):
        raise Invalid("file", "it was changed on the server")


async def read_chunks(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as source:
        while chunk := await asyncio.to_thread(source.read, CHUNK):
            yield chunk


class EncryptedUpload:
    """A file of an encrypted room: read with AES-256 in counter mode, streamed, and hashed as it lies on the server.

    `render` then says how to decrypt it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._key = path, secrets.token_bytes(32)
        self._iv = secrets.token_bytes(8) + bytes(8)  # the counter's half begins at zero
        self._digest = hashlib.sha256()

    async def chunks(self) -> AsyncIterator[bytes]:
        cipher, self._digest = Cipher(AES(self._key), CTR(self._iv)).encryptor(), hashlib.sha256()
        async for chunk in read_chunks(self._path):
            encrypted = cipher.update(chunk)
            self._digest.update(encrypted)
            yield encrypted

    def render(self, url: str) -> dict[str, Any]:
        key = {"kty": "oct", "key_ops": ["encrypt", "decrypt"], "alg": "A256CTR", "k": _encode(self._key, url=True)}
        return {
            "url": url,
            "v": "v2",
            "key": key | {"ext": True},
            "iv": _encode(self._iv),
            "hashes": {"sha256": _encode(self._digest.digest())},
        }
