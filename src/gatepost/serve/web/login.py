"""Who may see the page: a one-time address lets one browser in, as the owner. Even on loopback nobody else gets in.

The token stands in the fragment of the address, which no server log and no referrer ever sees; the page redeems it by
POST. Only hashes are kept.
"""

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import DAY, MINUTE, Clock
from gatepost.core.settings import setting
from gatepost.store import logins, users
from gatepost.store.port import Db, Store
from gatepost.store.users import UserRole

ONCE = 10 * MINUTE  # how long a one-time address may be redeemed
BROWSER_DAYS = setting("web.login_days", 30, help="How long a browser stays signed in to the web page, in days.")


def _issue_one_time_token(db: Db, user: str, now: int) -> str:
    users.add(db, user, "owner", now)
    users.add_role(db, user, UserRole.OWNER, "", "gatepost:system", now)
    return logins.issue(db, "once", user, now + ONCE, now)


async def make_login_url(store: Store, clock: Clock, hub: LocalChannel, base: str) -> str:
    """An address that signs the first browser that opens it in as the owner, for ten minutes."""
    token = await store.write(_issue_one_time_token, hub.owner, clock.now())
    return f"{base.rstrip('/')}/#token={token}"


def redeem(db: Db, token: str, now: int, days: int) -> str | None:
    """A browser's own token for a one-time one, in one transaction; None if that is unknown, used or too old."""
    user = logins.redeem(db, token, now)
    return logins.issue(db, "browser", user, now + days * DAY, now) if user else None
