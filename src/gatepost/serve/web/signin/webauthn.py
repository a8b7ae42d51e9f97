"""The two ceremonies of passkeys: what a browser is asked for, and whether its answer proves anything. Pure.

A passkey is tied to a host by the browser, and signs where it was asked. So a page elsewhere that looks like ours gets
nothing which works here. The library is loaded when the first passkey is used.
"""

import ipaddress
import struct
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from msgspec import Struct

NAME = "Gatepost"
ALGORITHMS = (-8, -7, -257)  # EdDSA, ES256, RS256: what authenticators have
LOCALHOST = "localhost"
LONGEST_CREDENTIAL_ID = 1023  # bytes, as the standard has it
LARGEST_CREDENTIAL = 4096
ONLY_THERE = (
    "Browsers use passkeys on pages with https, and on http://localhost. Open the page by such an address: a number in"
    " its place, like 127.0.0.1, will not do."
)
_WRONG = (  # what the library raises for answers that no authenticator gave
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError, OverflowError),
    *(RecursionError, NotImplementedError, UnsupportedAlgorithm, struct.error),
)


class RelyingParty(Struct, frozen=True):
    """The site that passkeys are for. `host`: without a port; `page_url`: its origin, as browsers say it."""

    host: str
    page_url: str

    @property
    def place(self) -> str:
        """The host with its port: a passkey works on the port where it was added, and on no other.

        Browsers let the pages of all ports use a host's passkeys, and a program may name any port when it asks us.
        """
        return self.page_url.partition("://")[2]


class PasskeyOwner(Struct, frozen=True):
    """The person who adds a passkey. `handle`: what the authenticator knows them by."""

    handle: bytes
    user: str
    called: str


class ProvenCredential(Struct, frozen=True):
    """A new authenticator."""

    id: bytes
    data: bytes
    sign_count: int


class PasskeyRefusal(Exception):
    """A browser's answer proves nothing; the words say why."""


def find_relying_party(origin: str) -> RelyingParty | None:
    """`origin`: of a request that is ours. None: browsers have no passkeys there."""
    try:
        parts = urlsplit(origin)
        host = parts.hostname or ""
    except ValueError:
        return None
    safe = parts.scheme == "https" or (parts.scheme == "http" and host == LOCALHOST)
    return RelyingParty(host, origin) if safe and host and not _is_number(host) else None


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def render_creation(party: RelyingParty, owner: PasskeyOwner, challenge: bytes, known: Iterable[bytes]) -> Any:
    """Return what `navigator.credentials.create` is given, with bytes as base64url."""
    from fido2.webauthn import (
        PublicKeyCredentialDescriptor,
        PublicKeyCredentialType,
        PublicKeyCredentialUserEntity,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    kind = PublicKeyCredentialType.PUBLIC_KEY
    options, _ = _make_server(party).register_begin(
        PublicKeyCredentialUserEntity(id=owner.handle, name=owner.user, display_name=owner.called),
        [PublicKeyCredentialDescriptor(type=kind, id=each) for each in known],
        resident_key_requirement=ResidentKeyRequirement.REQUIRED,
        user_verification=UserVerificationRequirement.REQUIRED,
        challenge=challenge,
    )
    return dict(options)["publicKey"]


def render_request(party: RelyingParty, challenge: bytes) -> Any:
    """Return what `navigator.credentials.get` is given. It names no credential: the person chooses who they are."""
    from fido2.webauthn import UserVerificationRequirement

    required = UserVerificationRequirement.REQUIRED
    options, _ = _make_server(party).authenticate_begin(user_verification=required, challenge=challenge)
    return dict(options)["publicKey"]


def check_creation(party: RelyingParty, challenge: bytes, answer: Mapping[str, Any]) -> ProvenCredential:
    """Raises PasskeyRefusal."""
    try:
        data = _make_server(party).register_complete(_make_state(challenge), answer)
    except _WRONG as error:
        raise PasskeyRefusal(_render_reason(error)) from None
    made = data.credential_data
    if made is None or made.public_key.ALGORITHM not in ALGORITHMS:
        raise PasskeyRefusal("its key is of a kind that was not asked for")
    if not 0 < len(made.credential_id) <= LONGEST_CREDENTIAL_ID or len(made) > LARGEST_CREDENTIAL:
        raise PasskeyRefusal("it is too large")
    return ProvenCredential(bytes(made.credential_id), bytes(made), data.counter)


def read_credential_id(answer: Mapping[str, Any]) -> bytes:
    """By which passkey an answer says that it is signed. Raises PasskeyRefusal."""
    from fido2.utils import websafe_decode

    given = answer.get("rawId")
    if not isinstance(given, str) or len(given) > 2 * LONGEST_CREDENTIAL_ID:
        raise PasskeyRefusal("it names no passkey")
    try:
        return websafe_decode(given)
    except _WRONG:
        raise PasskeyRefusal("it names no passkey") from None


def check_assertion(
    party: RelyingParty, challenge: bytes, credential: bytes, handle: bytes, answer: Mapping[str, Any]
) -> int:
    """How often the passkey has signed. Raises PasskeyRefusal."""
    from fido2.webauthn import AttestedCredentialData, AuthenticationResponse

    try:
        server, known = _make_server(party), AttestedCredentialData(credential)
        server.authenticate_complete(_make_state(challenge), [known], answer)
        response = AuthenticationResponse.from_dict(answer).response
    except _WRONG as error:
        raise PasskeyRefusal(_render_reason(error)) from None
    if response.client_data.cross_origin:
        raise PasskeyRefusal("another page asked for it")
    if response.user_handle is not None and bytes(response.user_handle) != handle:
        raise PasskeyRefusal("it is somebody else's")
    return int(response.authenticator_data.counter)


def _make_server(party: RelyingParty) -> Any:
    from fido2.server import Fido2Server
    from fido2.webauthn import PublicKeyCredentialRpEntity

    entity = PublicKeyCredentialRpEntity(id=party.host, name=NAME)
    made = Fido2Server(entity, verify_origin=lambda origin: origin == party.page_url)
    made.allowed_algorithms = [each for each in made.allowed_algorithms if each.alg in ALGORITHMS]
    return made


def _make_state(challenge: bytes) -> dict[str, Any]:
    from fido2.utils import websafe_encode
    from fido2.webauthn import UserVerificationRequirement

    return {"challenge": websafe_encode(challenge), "user_verification": UserVerificationRequirement.REQUIRED}


def _render_reason(error: Exception) -> str:
    return str(error)[:200] if isinstance(error, ValueError) and str(error) else "it is no answer of an authenticator"
