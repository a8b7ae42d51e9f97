"""Files: sent by way of the server's upload service, and read only from hosts that were named.

An address in a message is chosen by whoever wrote it. Fetched without a look, it would let them reach what only this
machine can reach.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import BinaryIO
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element

from gatepost.channels.kit.http import PlatformHttp
from gatepost.channels.kit.uploads import open_upload
from gatepost.channels.xmpp.render import UPLOAD, render_slot
from gatepost.channels.xmpp.session import PLATFORM, XmppConnection, XmppRefusal
from gatepost.core.errors import Unavailable, Unsupported
from gatepost.messages.inbound import OpenFile
from gatepost.messages.outbound import OutboundFile

ITEMS = "http://jabber.org/protocol/disco#items"
INFO = "http://jabber.org/protocol/disco#info"
MOST_SERVICES = 20
CHUNK = 64 * 1024
ALLOWED_HEADERS = frozenset({"authorization", "cookie", "expires"})  # that a slot may ask for, by XEP-0363


class XmppFiles:
    def __init__(self, own_jid: str, hosts: tuple[str, ...], ca_file: str = "") -> None:
        self._domain, self._hosts = own_jid.partition("@")[2], frozenset(each.lower() for each in hosts)
        # The authorities of the stream count here, too: the upload service is a part of the server (XEP-0363).
        self._http = PlatformHttp(PLATFORM, "https://localhost", ca_file=ca_file)
        self._service = ""

    async def close(self) -> None:
        await self._http.close()

    def open_url(self, url: str) -> OpenFile | None:
        """None for one that we do not fetch."""
        try:
            parts = urlsplit(url)
            host, place = (parts.hostname or "").lower(), parts.netloc.lower()
        except ValueError:
            return None
        own = self._domain and parts.scheme == "https" and (host == self._domain or host.endswith(f".{self._domain}"))
        if parts.scheme not in ("http", "https") or parts.username or not (own or {host, place} & self._hosts):
            return None

        def open_file() -> AsyncIterator[bytes]:
            return self._http.download(url, known_host=True)

        return open_file

    async def upload(self, connection: XmppConnection, file: OutboundFile) -> str:
        """The address by which people get it."""
        service = await self._find_service(connection)
        slot = await connection.ask("get", service, render_slot(file.name, file.size, file.mime))
        put, get = slot.find(f".//{{{UPLOAD}}}put"), slot.find(f".//{{{UPLOAD}}}get")
        if put is None or get is None or not put.get("url") or not get.get("url"):
            raise Unavailable(PLATFORM, "the upload service gave no place for a file")
        headers = {"content-type": file.mime, "content-length": str(file.size)}
        for each in put.findall(f"{{{UPLOAD}}}header"):
            name, value = (each.get("name") or "").lower(), " ".join((each.text or "").split())
            if name in ALLOWED_HEADERS:
                headers[name] = value
        async with open_upload(file) as data:
            url = str(put.get("url"))
            await self._http.call("PUT", url, action="send a file", reads=True, headers=headers, content=_stream(data))
        return str(get.get("url"))

    async def _find_service(self, connection: XmppConnection) -> str:
        if self._service:
            return self._service
        items = await connection.ask("get", self._domain, Element(f"{{{ITEMS}}}query"))
        named = [each.get("jid") or "" for each in items.findall(f".//{{{ITEMS}}}item")]
        for service in [self._domain, *named[:MOST_SERVICES]]:
            try:
                info = await connection.ask("get", service, Element(f"{{{INFO}}}query"))
            except XmppRefusal:
                continue
            if any(each.get("var") == UPLOAD for each in info.findall(f".//{{{INFO}}}feature")):
                self._service = service
                return service
        raise Unsupported("files", "xmpp", "the server has no upload service (XEP-0363); send the words alone")


async def _stream(data: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(data.read, CHUNK):
        yield chunk
