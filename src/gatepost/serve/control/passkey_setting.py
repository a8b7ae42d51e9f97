"""Whether passkeys are on: said by an operation, and decided by it on the sign-in page."""

from gatepost.core.settings import setting

PASSKEY_LOGIN = setting(
    "web.passkey_login", False, help="Whether people may add passkeys and sign in to the web page with them."
)
LIBRARY = "fido2"
EXTRA = "passkeys"
