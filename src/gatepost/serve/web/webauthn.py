"""The two ceremonies of passkeys: what a browser is asked for, and whether its answer proves anything. Pure.

A passkey is tied to a host by the browser, and signs where it was asked. So a page elsewhere that looks like ours gets
nothing which works here. An import of this loads the library.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from fido2.server import Fido2Server
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from gatepost.serve.web.signin.relying_party import PasskeyOwner, PasskeyRefusal, ProvenCredential, RelyingParty

NAME = "Gatepost"
ALGORITHMS = (-8, -7, -257)  # EdDSA, ES256, RS256: what authenticators have
LONGEST_CREDENTIAL_ID = 1023  # bytes, as the standard has it
LARGEST_CREDENTIAL = 4096
_WRONG = (  # what the library raises for answers that no authenticator gave
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError, OverflowError),
    *(RecursionError, NotImplementedError, UnsupportedAlgorithm, struct.error),
)


class PasskeyCeremonies:
    """Those of one site."""

    def __init__(self, party: RelyingParty) -> None:
        entity = PublicKeyCredentialRpEntity(id=party.host, name=NAME)
        self._server = Fido2Server(entity, verify_origin=lambda origin: origin == party.page_url)
        self._server.allowed_algorithms = [each for each in self._server.allowed_algorithms if each.alg in ALGORITHMS]

    def render_creation(self, owner: PasskeyOwner, challenge: bytes, known: Iterable[bytes]) -> Any:
        """Return what `navigator.credentials.create` is given, with bytes as base64url."""
        kind = PublicKeyCredentialType.PUBLIC_KEY
        options, _ = self._server.register_begin(
            PublicKeyCredentialUserEntity(id=owner.handle, name=owner.user, display_name=owner.called),
            [PublicKeyCredentialDescriptor(type=kind, id=each) for each in known],
            resident_key_requirement=ResidentKeyRequirement.REQUIRED,
            user_verification=UserVerificationRequirement.REQUIRED,
            challenge=challenge,
        )
        return dict(options)["publicKey"]

    def render_request(self, challenge: bytes) -> Any:
        """Return what `navigator.credentials.get` is given. It names no credential: the person chooses who they are."""
        required = UserVerificationRequirement.REQUIRED
        options, _ = self._server.authenticate_begin(user_verification=required, challenge=challenge)
        return dict(options)["publicKey"]

    def check_creation(self, challenge: bytes, answer: Mapping[str, Any]) -> ProvenCredential:
        """Raises PasskeyRefusal."""
        try:
            data = self._server.register_complete(_make_state(challenge), answer)
        except _WRONG as error:
            raise PasskeyRefusal(_render_reason(error)) from None
        made = data.credential_data
        if made is None or made.public_key.ALGORITHM not in ALGORITHMS:
            raise PasskeyRefusal("its key is of a kind that was not asked for")
        if not 0 < len(made.credential_id) <= LONGEST_CREDENTIAL_ID or len(made) > LARGEST_CREDENTIAL:
            raise PasskeyRefusal("it is too large")
        return ProvenCredential(bytes(made.credential_id), bytes(made), data.counter)

    def read_credential_id(self, answer: Mapping[str, Any]) -> bytes:
        """By which passkey an answer says that it is signed. Raises PasskeyRefusal."""
        given = answer.get("rawId")
        if not isinstance(given, str) or len(given) > 2 * LONGEST_CREDENTIAL_ID:
            raise PasskeyRefusal("it names no passkey")
        try:
            return websafe_decode(given)
        except _WRONG:
            raise PasskeyRefusal("it names no passkey") from None

    def check_assertion(self, challenge: bytes, credential: bytes, handle: bytes, answer: Mapping[str, Any]) -> int:
        """How often the passkey has signed. Raises PasskeyRefusal."""
        try:
            self._server.authenticate_complete(_make_state(challenge), [AttestedCredentialData(credential)], answer)
            response = AuthenticationResponse.from_dict(answer).response
        except _WRONG as error:
            raise PasskeyRefusal(_render_reason(error)) from None
        if response.client_data.cross_origin:
            raise PasskeyRefusal("another page asked for it")
        if response.user_handle is not None and bytes(response.user_handle) != handle:
            raise PasskeyRefusal("it is somebody else's")
        return int(response.authenticator_data.counter)


def _make_state(challenge: bytes) -> dict[str, Any]:
    return {"challenge": websafe_encode(challenge), "user_verification": UserVerificationRequirement.REQUIRED}


def _render_reason(error: Exception) -> str:
    return str(error)[:200] if isinstance(error, ValueError) and str(error) else "it is no answer of an authenticator"
