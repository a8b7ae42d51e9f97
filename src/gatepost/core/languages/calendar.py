"""Days and times as a calendar has them, in the language that is set for what is under way.

The name of a day or month is a text of the catalogue; so is the order in which they stand.
"""

from datetime import date, datetime

from gatepost.core.languages.catalogue import fill_text, translate_exact

DAY = "{Weekday}, {Day} {Month}"
DAY_OF_YEAR = "{Weekday} {Day} {Month} {Year}"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
MONTH = " (month)"  # behind its name in the catalogue


def render_day(day: date) -> str:
    """Render a day as `Friday, 20 November`."""
    return _fill(DAY, day)


def render_date(day: date) -> str:
    """Render a day as `Friday 20 November 2026`."""
    return _fill(DAY_OF_YEAR, day)


def render_clock(moment: datetime) -> str:
    return f"{moment.hour}:{moment:%M}"


def render_local(at: str) -> str:
    """Render a moment (RFC 3339) in its own zone as `Friday, 20 November, 8:00`. Anything that is no time is shown as
    it is."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return at
    return f"{render_day(moment)}, {render_clock(moment)}"


def _fill(pattern: str, day: date) -> str:
    weekday, month = translate_exact(WEEKDAYS[day.weekday()]), _get_month(MONTHS[day.month - 1])
    return fill_text(pattern, weekday=weekday, month=month, day=day.day, year=day.year)


def _get_month(name: str) -> str:
    """By a key of its own: the month of May is spelled as another word of ours."""
    return translate_exact(f"{name}{MONTH}").removesuffix(MONTH)
