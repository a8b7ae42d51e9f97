"""The switch of passkeys: said by an operation, and decided by it on the sign-in page."""

from gatepost.core.settings import setting

PASSKEY_LOGIN = setting(
    "web.passkey_login",
    False,
    help="People may add passkeys and sign in to the web page with them. It needs gatepost[passkeys].",
)
LIBRARY = "fido2"
EXTRA = "passkeys"
