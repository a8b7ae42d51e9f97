"""The page to which a browser goes once it is signed in: the one that was asked for, and never another site's."""

import re
from urllib.parse import unquote

FIRST_PAGE = "/"
LONGEST = 2000  # characters
MOST_DECODED = 3  # times that something may be encoded
_PATH = re.compile(r"/[!#-\[\]^_a-z|~]*\Z")  # printable ASCII without quotes, backslashes and braces
_LEADS_AWAY = re.compile(r"[/\\]{2}|/[\s\x00-\x1f]")  # a host, to a browser that reads `\` as `/` or skips white space
_NO_PAGE = ("/login", "/logout", "/api/", "/static/")


def parse_next(given: str) -> str:
    """Return the given path if it is one of ours, else the first page. A path that leads away once decoded is not
    ours."""
    if len(given) > LONGEST or not _PATH.match(given) or given.startswith(_NO_PAGE):
        return FIRST_PAGE
    decoded = given
    for _ in range(MOST_DECODED + 1):
        if _LEADS_AWAY.match(decoded):
            return FIRST_PAGE
        if (further := unquote(decoded)) == decoded:
            return given
        decoded = further
    return FIRST_PAGE
