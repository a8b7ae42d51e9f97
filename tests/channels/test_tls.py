"""TLS of the channels whose servers people run themselves: a certificate is checked, always and for the right name."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult

from gatepost.channels.contract import Channel, ChannelDeps, ChannelEnded, EndReason, MemoryCursor, SupportsClose
from gatepost.channels.email import MailSecurity
from gatepost.channels.email.imap import ImapSession, MailServerLogin
from gatepost.channels.email.smtp import open_smtp
from gatepost.channels.irc.adapter import IrcChannel
from gatepost.channels.kit.tls import make_tls
from gatepost.channels.matrix.session import MatrixSession
from gatepost.channels.xmpp.files import XmppFiles
from gatepost.channels.xmpp.session import XmppSession, close_connection
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config, Setting
from gatepost.messages.outbound import Outbound
from gatepost_testing.certificates import ServerCertificate, ThrowawayAuthority
from gatepost_testing.platforms.base import EmulatedPlatform, GivenFile
from gatepost_testing.platforms.imessage import BlueBubblesPlatform
from gatepost_testing.platforms.irc import IrcPlatform
from gatepost_testing.platforms.mastodon import MastodonPlatform
from gatepost_testing.platforms.mattermost import MattermostPlatform
from gatepost_testing.platforms.ntfy import NtfyPlatform
from gatepost_testing.platforms.signal import SignalPlatform
from gatepost_testing.platforms.webhook import WebhookPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.platforms.zulip import ZulipPlatform
from gatepost_testing.servers.dovecot import Dovecot, find_dovecot
from gatepost_testing.servers.prosody import Prosody, find_prosody
from gatepost_testing.waiting import PATIENCE_S, until

HOST, PASSWORD = "localhost", "the password"


class Shown(StrEnum):
    """What a server shows."""

    RIGHT = "right"
    WRONG_NAME = "wrong name"
    SELF_SIGNED = "self-signed"
    ENDED = "ended"


REFUSED = [
    (Shown.WRONG_NAME, r"Hostname mismatch, certificate is not valid for 'localhost'"),
    (Shown.SELF_SIGNED, r"self.signed certificate"),
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> ThrowawayAuthority:
    folder = tmp_path_factory.mktemp("authority")
    folder.chmod(0o755)
    return ThrowawayAuthority(folder)


def make_certificate(authority: ThrowawayAuthority, shown: Shown) -> ServerCertificate:
    if shown is Shown.SELF_SIGNED:
        return authority.make_self_signed(HOST)
    if shown is Shown.ENDED:
        return authority.sign(HOST, ended=timedelta(days=1))
    return authority.sign(HOST if shown is Shown.RIGHT else "other.example")


@contextmanager
def refused(words: str) -> Iterator[None]:
    with pytest.raises(ChannelEnded, match=rf"the certificate of localhost is not valid \({words}\)") as ended:
        yield
    assert ended.value.reason is EndReason.SETTING
    assert "ca_file" in str(ended.value) and "\n" not in str(ended.value)


def test_a_file_of_an_authority_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("no certificate")
    for name, why in (("missing", "no such file or directory"), ("words", "it holds no certificate in PEM")):
        with pytest.raises(ChannelEnded, match=rf"{name}' cannot be used \({why}\); name a file") as ended:
            make_tls(str(tmp_path / name))
        assert ended.value.reason is EndReason.SETTING


# IRC, by our own line server behind TLS.


@asynccontextmanager
async def irc_behind_tls(context: ssl.SSLContext) -> AsyncIterator[tuple[IrcPlatform, int]]:
    with IrcPlatform() as platform:
        assert isinstance(platform, IrcPlatform)

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            behind, before = await asyncio.open_connection("127.0.0.1", platform.port)
            await asyncio.wait(
                {asyncio.create_task(pump(reader, before)), asyncio.create_task(pump(behind, writer))},
                return_when=asyncio.FIRST_COMPLETED,
            )
            before.close()
            writer.close()

        async with await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context) as server:
            yield platform, server.sockets[0].getsockname()[1]


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # whoever is done hangs up
        while data := await reader.read(4096):
            writer.write(data)
            await writer.drain()


async def check_irc(authority: ThrowawayAuthority, shown: Shown, ca_file: str) -> str:
    async with irc_behind_tls(make_certificate(authority, shown).make_context()) as (platform, port):
        channel, _ = make_channel(platform, host=HOST, port=port, tls=True, ca_file=ca_file)
        assert isinstance(channel, IrcChannel)
        async with asyncio.timeout(PATIENCE_S):
            return (await channel.check()).name


async def test_irc_talks_to_a_server_with_the_right_certificate(authority: ThrowawayAuthority) -> None:
    assert await check_irc(authority, Shown.RIGHT, str(authority.ca_file))


@pytest.mark.parametrize(("shown", "words"), REFUSED)
async def test_irc_refuses_a_certificate_that_is_not_its_servers(
    authority: ThrowawayAuthority, shown: Shown, words: str
) -> None:
    with refused(words):
        await check_irc(authority, shown, str(authority.ca_file))


async def test_irc_does_not_know_an_authority_that_is_not_set(authority: ThrowawayAuthority) -> None:
    with refused("unable to get local issuer certificate"):
        await check_irc(authority, Shown.RIGHT, "")


async def test_irc_waits_for_a_server_whose_certificate_is_renewed_late(authority: ThrowawayAuthority) -> None:
    with pytest.raises(Unavailable, match="certificate has expired"):
        await check_irc(authority, Shown.ENDED, str(authority.ca_file))


# Files of XMPP, from an upload service behind TLS.


async def fetch_xmpp_file(authority: ThrowawayAuthority, shown: Shown, ca_file: str) -> bytes:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndata")
            await writer.drain()
        writer.close()

    context = make_certificate(authority, shown).make_context()
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        place = f"{HOST}:{server.sockets[0].getsockname()[1]}"
        files = XmppFiles("bot@example.org", (place,), ca_file)
        read = files.open_url(f"https://{place}/1/a.txt")
        assert read is not None
        try:
            return b"".join([chunk async for chunk in read()])
        finally:
            await files.close()


async def test_a_file_of_xmpp_is_read_by_the_authority_of_the_stream(authority: ThrowawayAuthority) -> None:
    assert await fetch_xmpp_file(authority, Shown.RIGHT, str(authority.ca_file)) == b"data"


@pytest.mark.parametrize("shown", [Shown.WRONG_NAME, Shown.SELF_SIGNED])
async def test_a_file_of_xmpp_behind_a_wrong_certificate_is_not_read(
    authority: ThrowawayAuthority, shown: Shown
) -> None:
    with pytest.raises(Unavailable):
        await fetch_xmpp_file(authority, shown, str(authority.ca_file))


# A homeserver of Matrix, for which HTTP is spoken by two libraries.


async def start_matrix(authority: ThrowawayAuthority, shown: Shown, ca_file: str) -> str:
    who = b'{"user_id": "@bot:localhost", "device_id": "DEVICE"}'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head + b"content-length: %d\r\n\r\n" % len(who) + who)
            await writer.drain()
        writer.close()

    async def read_secret(wanted: Setting[str]) -> str:
        return "a token" if wanted.name.endswith(".token") else ""

    context = make_certificate(authority, shown).make_context()
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        url = f"https://{HOST}:{server.sockets[0].getsockname()[1]}"
        values = {"channels.matrix.api_url": url, "channels.matrix.ca_file": ca_file}
        deps = ChannelDeps(instance="matrix", config=Config(values), clock=SystemClock(), secret=read_secret)
        session = MatrixSession(deps)
        try:
            await session.start()
            return str((await session.run(session.client.whoami())).user_id)
        finally:
            await session.close()


async def test_matrix_talks_to_a_homeserver_with_the_right_certificate(authority: ThrowawayAuthority) -> None:
    assert await start_matrix(authority, Shown.RIGHT, str(authority.ca_file)) == "@bot:localhost"


@pytest.mark.parametrize(("shown", "words"), REFUSED)
async def test_matrix_refuses_a_certificate_that_is_not_its_homeservers(
    authority: ThrowawayAuthority, shown: Shown, words: str
) -> None:
    with refused(words):
        await start_matrix(authority, shown, str(authority.ca_file))


async def test_matrix_does_not_know_an_authority_that_is_not_set(authority: ThrowawayAuthority) -> None:
    with refused("unable to get local issuer certificate"):
        await start_matrix(authority, Shown.RIGHT, "")


# Servers that people run themselves, and that speak HTTP: their emulators behind TLS.

OWN_SERVERS: list[type[EmulatedPlatform]] = [
    BlueBubblesPlatform,
    MastodonPlatform,
    MattermostPlatform,
    NtfyPlatform,
    SignalPlatform,
    WebhookPlatform,
    ZulipPlatform,
]
NEEDED_PLACES: dict[str, set[str]] = {  # that a channel saves before it is told of what is said
    "imessage": {""},
    "mastodon": {""},
    "mattermost": {""},
    "ntfy": {"team"},
    "signal": set(),
    "webhook": set(),
    "zulip": {""},
}
own_servers = pytest.mark.parametrize("platform_class", OWN_SERVERS, ids=lambda each: str(each.kind))


@contextmanager
def behind_tls(
    platform_class: type[EmulatedPlatform], authority: ThrowawayAuthority, shown: Shown, **more: Any
) -> Iterator[tuple[EmulatedPlatform, Channel]]:
    platform = platform_class()
    platform.host, platform.certificate = HOST, make_certificate(authority, shown)
    with platform:
        yield platform, make_channel(platform, **more)[0]


def list_files(platform: EmulatedPlatform) -> list[GivenFile]:
    return [] if platform.kind == "webhook" else [GivenFile("a.png", b"data", "image/png")]


@own_servers
async def test_words_and_files_go_over_the_authority_that_is_set(
    authority: ThrowawayAuthority, platform_class: type[EmulatedPlatform]
) -> None:
    more = {"cursor": (cursor := MemoryCursor()), "ca_file": str(authority.ca_file)}
    with behind_tls(platform_class, authority, Shown.RIGHT, **more) as (platform, channel):
        async with asyncio.timeout(PATIENCE_S), listening(channel) as received:
            await until(lambda: cursor.saved.keys() >= NEEDED_PLACES[platform.kind], "where it begins to read")
            platform.send("hello", mention=True, files=list_files(platform))
            (event,) = await received.wait_for(1)
            given = [each.open() for each in event.attachments if each.open is not None]
            assert [[chunk async for chunk in each] for each in given] == [[b"data"]] * len(list_files(platform))
            await channel.send(event.address, Outbound(key="k", text="hello back"))
            assert platform.texts() == ["hello back"]


async def use(channel: Channel, platform: EmulatedPlatform) -> None:
    """By what is first done with it; programs behind a webhook are called to say something alone."""
    if platform.kind == "webhook":
        await channel.send(platform.get_address("team"), Outbound(key="k", text="hello"))
    else:
        async with asyncio.timeout(PATIENCE_S):
            await channel.listen(ReceivedEvents().receive)


@own_servers
async def test_a_server_of_ones_own_whose_authority_is_not_set_ends_the_channel(
    authority: ThrowawayAuthority, platform_class: type[EmulatedPlatform]
) -> None:
    with behind_tls(platform_class, authority, Shown.RIGHT) as (platform, channel):
        try:
            with refused("unable to get local issuer certificate"):
                await use(channel, platform)
            assert platform.requests == []  # no token either
        finally:
            assert isinstance(channel, SupportsClose)
            await channel.close()


async def test_a_certificate_that_is_renewed_late_or_becomes_wrong_is_waited_for(authority: ThrowawayAuthority) -> None:
    ca_file = str(authority.ca_file)
    with behind_tls(WebhookPlatform, authority, Shown.ENDED, ca_file=ca_file) as (platform, channel):
        with pytest.raises(Unavailable, match="certificate has expired"):
            await use(channel, platform)

    with behind_tls(WebhookPlatform, authority, Shown.RIGHT, ca_file=ca_file) as (platform, channel):
        await use(channel, platform)
    after = WebhookPlatform()
    after.host, after.certificate = HOST, make_certificate(authority, Shown.SELF_SIGNED)
    after.start(platform.port)
    try:
        with pytest.raises(Unavailable, match=r"self.signed certificate"):
            await use(channel, platform)
    finally:
        after.stop()


# Mail that goes out.


@asynccontextmanager
async def smtp_server(security: MailSecurity, context: ssl.SSLContext) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    direct = security is MailSecurity.TLS

    def make() -> SMTP:
        return SMTP(
            object(),
            loop=loop,
            tls_context=None if direct else context,
            authenticator=lambda *given: AuthResult(success=True),
            auth_require_tls=not direct,
        )

    server = await loop.create_server(make, "127.0.0.1", 0, ssl=context if direct else None)
    async with server:
        yield server.sockets[0].getsockname()[1]


def make_login(authority: ThrowawayAuthority, security: MailSecurity, port: int, user: str = "bot") -> MailServerLogin:
    return MailServerLogin(
        host=HOST, port=port, security=security, user=user, password=PASSWORD, ca_file=str(authority.ca_file)
    )


@pytest.mark.parametrize("security", [MailSecurity.TLS, MailSecurity.STARTTLS])
async def test_mail_goes_to_a_server_with_the_right_certificate(
    authority: ThrowawayAuthority, security: MailSecurity
) -> None:
    context = make_certificate(authority, Shown.RIGHT).make_context()
    async with asyncio.timeout(PATIENCE_S), smtp_server(security, context) as port:
        client = await open_smtp(make_login(authority, security, port))
        assert client.get_transport_info("cipher") is not None
        client.close()


@pytest.mark.parametrize("security", [MailSecurity.TLS, MailSecurity.STARTTLS])
@pytest.mark.parametrize(("shown", "words"), REFUSED)
async def test_mail_does_not_go_to_a_server_with_another_certificate(
    authority: ThrowawayAuthority, security: MailSecurity, shown: Shown, words: str
) -> None:
    context = make_certificate(authority, shown).make_context()
    async with asyncio.timeout(PATIENCE_S), smtp_server(security, context) as port:
        with refused(words):
            await open_smtp(make_login(authority, security, port))


async def test_mail_does_not_go_out_in_the_clear_where_starttls_is_not_offered(authority: ThrowawayAuthority) -> None:
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: SMTP(object(), loop=loop), "127.0.0.1", 0) as server:
        with pytest.raises(Unavailable, match="STARTTLS"):
            await open_smtp(make_login(authority, MailSecurity.STARTTLS, server.sockets[0].getsockname()[1]))


# A mailbox, by a real Dovecot.

needs_dovecot = pytest.mark.skipif(find_dovecot() is None, reason="Dovecot is not installed; make test-all installs it")


def open_mailbox(authority: ThrowawayAuthority, shown: Shown, security: MailSecurity) -> int:
    server = Dovecot(make_certificate(authority, shown))
    try:
        server.set_passwords({"bot": PASSWORD})
        port = server.imaps_port if security is MailSecurity.TLS else server.imap_port
        mailbox = ImapSession(make_login(authority, security, port), "INBOX")
        try:
            mailbox.open()
            return mailbox.next_uid
        finally:
            mailbox.close()
    finally:
        server.stop()


@pytest.mark.slow
@needs_dovecot
@pytest.mark.parametrize("security", [MailSecurity.TLS, MailSecurity.STARTTLS])
def test_a_mailbox_is_opened_on_a_server_with_the_right_certificate(
    authority: ThrowawayAuthority, security: MailSecurity
) -> None:
    assert open_mailbox(authority, Shown.RIGHT, security) == 1


@pytest.mark.slow
@needs_dovecot
@pytest.mark.parametrize("security", [MailSecurity.TLS, MailSecurity.STARTTLS])
@pytest.mark.parametrize(("shown", "words"), REFUSED)
def test_no_password_goes_to_a_mailbox_with_another_certificate(
    authority: ThrowawayAuthority, security: MailSecurity, shown: Shown, words: str
) -> None:
    with refused(words):
        open_mailbox(authority, shown, security)


# XMPP, by a real Prosody.

needs_prosody = pytest.mark.skipif(find_prosody() is None, reason="Prosody is not installed; make test-all installs it")


async def log_in(authority: ThrowawayAuthority, shown: Shown | None, security: str) -> None:
    """`shown`: None for a server without TLS."""
    server = Prosody(certificate=None if shown is None else make_certificate(authority, shown))
    try:
        await asyncio.to_thread(server.wait_until_up)
        server.set_password("bot", PASSWORD)
        values: dict[str, Any] = {
            "channels.xmpp.user": f"bot@{HOST}",
            "channels.xmpp.server": f"127.0.0.1:{server.tls_port if security == 'tls' else server.port}",
            "channels.xmpp.security": security,
            "channels.xmpp.ca_file": str(authority.ca_file),
        }

        async def read_secret(wanted: Setting[str]) -> str:
            return PASSWORD

        deps = ChannelDeps(instance="xmpp", config=Config(values), clock=SystemClock(), secret=read_secret)
        connection = await XmppSession(deps).connect()
        await close_connection(connection)
    finally:
        await asyncio.to_thread(server.stop)


@pytest.mark.slow
@needs_prosody
@pytest.mark.parametrize("security", ["tls", "starttls"])
async def test_xmpp_logs_in_on_a_server_with_the_right_certificate(
    authority: ThrowawayAuthority, security: str
) -> None:
    await log_in(authority, Shown.RIGHT, security)


@pytest.mark.slow
@needs_prosody
@pytest.mark.parametrize("security", ["tls", "starttls"])
@pytest.mark.parametrize(("shown", "words"), REFUSED)
async def test_xmpp_refuses_a_certificate_that_is_not_its_servers(
    authority: ThrowawayAuthority, security: str, shown: Shown, words: str
) -> None:
    with refused(words):
        await log_in(authority, shown, security)


@pytest.mark.slow
@needs_prosody
async def test_xmpp_does_not_log_in_in_the_clear_where_starttls_is_not_offered(authority: ThrowawayAuthority) -> None:
    with pytest.raises((ChannelEnded, Unavailable)):
        await log_in(authority, None, "starttls")
