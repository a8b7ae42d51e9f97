"""An authenticator in software: it answers as a phone or a security key does, and can be made to lie."""

import hashlib
import os
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorData,
    CollectedClientData,
)

VERIFIED = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.UV
PRESENT = AuthenticatorData.FLAG.UP


class SoftAuthenticator:
    def __init__(self) -> None:
        self.id, self.key, self.counter = os.urandom(16), ec.generate_private_key(ec.SECP256R1()), 1
        self.handle = b""

    def create(self, options: dict[str, Any], origin: str, flags: int = VERIFIED) -> dict[str, Any]:
        self.handle = websafe_decode(options["user"]["id"])
        public = ES256.from_cryptography_key(self.key.public_key())
        made = AttestedCredentialData.create(b"\0" * 16, self.id, public)
        data = self._make_data(options["rp"]["id"], flags | AuthenticatorData.FLAG.AT, made)
        said = self._make_client_data(CollectedClientData.TYPE.CREATE, options, origin)
        attestation = AttestationObject.create("none", data, {})
        return self._render({"clientDataJSON": said, "attestationObject": attestation})

    def get(self, options: dict[str, Any], origin: str, flags: int = VERIFIED, host: str = "") -> dict[str, Any]:
        self.counter += 1
        data = self._make_data(host or options["rpId"], flags)
        said = self._make_client_data(CollectedClientData.TYPE.GET, options, origin)
        signature = self.key.sign(data + said.hash, ec.ECDSA(hashes.SHA256()))
        answer = {"clientDataJSON": said, "authenticatorData": data, "signature": signature, "userHandle": self.handle}
        return self._render(answer)

    def _make_data(self, host: str, flags: int, more: bytes = b"") -> AuthenticatorData:
        hashed = hashlib.sha256(host.encode()).digest()
        return AuthenticatorData.create(hashed, AuthenticatorData.FLAG(flags), self.counter, more)

    def _make_client_data(self, kind: Any, options: dict[str, Any], origin: str) -> CollectedClientData:
        return CollectedClientData.create(kind, websafe_decode(options["challenge"]), origin)

    def _render(self, response: dict[str, bytes]) -> dict[str, Any]:
        name = websafe_encode(self.id)
        shown = {key: websafe_encode(value) for key, value in response.items()}
        return {"id": name, "rawId": name, "type": "public-key", "response": shown}
