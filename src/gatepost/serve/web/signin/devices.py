"""A browser's words about itself, in a few that a person knows it by. It may say anything."""

LONGEST_READ = 400  # characters of a User-Agent that are looked at
# Words of a User-Agent, and the names that people know. The first match counts: most browsers claim to be others, too.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("python-", "a Python program"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
)


def parse_device(user_agent: str) -> str:
    """Like "Firefox on Linux"; '' if it says nothing that we know."""
    said = user_agent[:LONGEST_READ]
    browser = next((name for sign, name in _BROWSERS if sign in said), "")
    system = next((name for sign, name in _SYSTEMS if sign in said), "")
    return f"{browser} on {system}" if browser and system else browser or system
