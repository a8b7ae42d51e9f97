"""Times as people say them: `every weekday at 9`, `friday at 18:00`, `in half an hour`. Pure.

Words become one of the exact forms that `times` reads: five fields, an interval, or a local date with its time of day.
Words that may mean two things are refused with both readings, so that nobody is woken at a time that was guessed. The
same forms are said in words again.
"""

import re
from calendar import monthrange
from datetime import date, datetime, timedelta
from typing import NoReturn

from gatepost.core.errors import Invalid, did_you_mean
from gatepost.core.late_pattern import late_pattern

SPOKEN = (
    "'every weekday at 9:00', 'every 1st of the month at 8:00', 'every 30 minutes', 'tomorrow at 18:00'"
    " or 'in two hours'"
)
_NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_TENS = {"thirty": 30, "forty": 40, "forty-five": 45, "fifty": 50, "sixty": 60, "ninety": 90}
_NUMBER = {name: number for number, name in enumerate(_NUMBERS)} | _TENS
_NUMBER_WORD = late_pattern(rf"\b(?:{'|'.join(sorted(_NUMBER, key=len, reverse=True))})\b")
_FRACTIONS = {
    "half an hour": "30 minutes",
    "half hour": "30 minutes",
    "an hour and a half": "90 minutes",
    "a quarter of an hour": "15 minutes",
    "quarter of an hour": "15 minutes",
    "half a day": "12 hours",
}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
_CLOCK = r"(?:noon|midnight|\d{1,2}(?:[:.]\d\d)?(?: ?(?:am|pm|a\.m\.|p\.m\.|o'clock))?)"
_SURE_CLOCK = r"(?:noon|midnight|\d{1,2}:\d\d(?: ?(?:am|pm))?|\d{1,2} ?(?:am|pm))"  # without `at` before it
_SEPARATOR = r"(?:,? and |, ?|,? or )"
_LIST = late_pattern(_SEPARATOR)
_ONE_CLOCK = late_pattern(r"(noon|midnight)|(\d{1,2})(?:[:.](\d\d))?(?: ?(am|pm|a\.m\.|p\.m\.|o'clock))?")
_SPLITS = (  # days and a time of day, in either order
    late_pattern(rf"(?:at )?(?P<clock>{_CLOCK}(?:{_SEPARATOR}{_CLOCK})*),? (?P<days>(?:every|each|on|today|tom).*)"),
    late_pattern(r"(?P<days>.*?),? ?\bat (?P<clock>.+)"),
    late_pattern(rf"(?:(?P<days>.+?),? )?(?P<clock>{_SURE_CLOCK})"),
)
_PART = late_pattern(r"(?:(?<= )|^)(?:in the |this )?(?P<part>morning|afternoon|evening|night)s?$")
_REPEATS = late_pattern(r"(?:on )?(?:every|each) ?|(?=daily|monthly|yearly|weekly)")
_ISO_DATE = late_pattern(r"(\d{4})-(\d\d)-(\d\d)")
_DOTTED_DATE = late_pattern(r"(\d{1,2})\.(\d{1,2})\.(\d{4})?")
_SLASHED_DATE = late_pattern(r"(\d{1,2})/(\d{1,2})(?:/\d{2,4})?")
_NTH = r"(\d{1,2})(?:st|nd|rd|th)?"
_MONTH = rf"({'|'.join(f'{name}|{name[:3]}' for name in _MONTHS)})\.?"
_DAY_MONTH = late_pattern(rf"(?:the )?{_NTH}\.? (?:of )?{_MONTH}(?:,? (\d{{4}}))?")
_MONTH_DAY = late_pattern(rf"{_MONTH} (?:the )?{_NTH}(?:,? (\d{{4}}))?")
_OF_MONTH = late_pattern(r"(?:the )?(?P<which>.+?) (?:day )?of (?P<month>the|every|each) month")
_MONTH_ON = late_pattern(r"month(?:ly)? on (?:the )?(?P<which>.+)")
_NTH_DAY = late_pattern(rf"(?P<nth>{'|'.join(_ORDINALS)}|last|[1-5](?:st|nd|rd|th)) (?P<day>[a-z]+)")
_IN_DAYS = late_pattern(r"in (\d{1,4}|an?) (days?|weeks?)")
_KNOWN = ("every day", "every weekday", "every weekend", "today", "tomorrow", *(f"every {day}" for day in _DAYS))
_WEEKDAYS = {"*": "every day", "1-5": "every weekday", "6,0": "every weekend", "0,6": "every weekend"}
_LONGEST_SHOWN = 64
_FIELDS = late_pattern(r"(\d{1,2}) (\d{1,2}(?:,\d{1,2})*|\*) ([\d,]+|L|\*) (\d{1,2}|\*) (\S+)")
_NTH_FIELD = late_pattern(r"([0-7])(?:#([1-5])|L)")

Days = tuple[str, str, str]  # of cron: the day of the month, the month, the day of the week
Clock = tuple[int, int]


def expand_numbers(text: str) -> str:
    """Write numbers that are words as digits: `two hours` is `2 hours`."""
    said = text.lower()
    for words, exact in _FRACTIONS.items():
        said = re.sub(rf"\b{words}\b", exact, said)
    return _NUMBER_WORD.sub(lambda found: str(_NUMBER[found[0]]), said)


def read_words(text: str, here: datetime, field: str) -> str | None:
    """Return the exact form of a time in words, None if it is none. `here`: the local time now. Raise Invalid with what
    is understood, if that is a part or may mean two things."""
    if not text.isascii():
        return None
    said = expand_numbers(text)
    for each in _SPLITS:
        if (found := each.fullmatch(said)) is not None:
            return _join((found["days"] or "").strip(), found["clock"].strip(), text, here, field)
    if _find_days(said, here, field) is not None:
        raise Invalid(field, f"{_cut(text)} says no time of day; write {_cut(f'{text} at 9:00')}")
    return None


def _join(days: str, clock: str, text: str, here: datetime, field: str) -> str | None:
    days, part = _split_part(days)
    clock, later = _split_part(clock)
    clocks = _read_clocks(clock, part or later)
    known = _find_days(days, here, field, clocks[0] if clocks else None)
    if known is None:
        if clocks and days:
            _refuse_days(days, clock, field)
        return None
    if not clocks and not days:
        return None
    if not clocks:
        raise Invalid(
            field, f"understood {_cut(days)}, but {_cut(clock)} is no time of day; write it like 9:00 or 6 pm"
        )
    if isinstance(known, date):
        if len(clocks) > 1:
            raise Invalid(field, f"{_cut(text)} says {len(clocks)} times, and a task that runs once has one")
        return f"{known} {clocks[0][0]:02}:{clocks[0][1]:02}"
    minutes = {minute for _, minute in clocks}
    if len(minutes) > 1:
        raise Invalid(field, f"{_cut(text)} says times with different minutes; make a task for each")
    return " ".join((str(minutes.pop()), ",".join(str(hour) for hour, _ in clocks), *known))


def _refuse_days(days: str, clock: str, field: str) -> NoReturn:
    """Say which words before a time of day are not understood."""
    near = did_you_mean(days, _KNOWN)
    raise Invalid(field, f"understood the time {_cut(clock)}, but not {_cut(days)}{near}; write it like {SPOKEN}")


def _cut(text: str) -> str:
    return repr(text[:_LONGEST_SHOWN])


def _split_part(text: str) -> tuple[str, str]:
    """Split off a part of the day: `tomorrow evening` is tomorrow, and 8 is then 20:00."""
    if text == "tonight":
        return "today", "night"
    found = _PART.search(text)
    if found is None:
        return text, ""
    return text[: found.start()].strip() or ("today" if found[0].startswith("this") else ""), found["part"]


def _read_clocks(text: str, part: str) -> list[Clock]:
    """Return the times of day that a list has, none if one of them is none."""
    clocks = [_read_clock(each, part) for each in _LIST.split(text)]
    return [] if None in clocks else sorted({each for each in clocks if each is not None})


def _read_clock(text: str, part: str) -> Clock | None:
    found = _ONE_CLOCK.fullmatch(text)
    if found is None:
        return None
    if found[1]:
        return (12, 0) if found[1] == "noon" else (0, 0)
    hour, minute, half = int(found[2]), int(found[3] or 0), (found[4] or "").replace(".", "")
    if half in ("am", "pm") and not 1 <= hour <= 12:
        return None
    if half == "am" or (part == "morning" and not half):
        hour %= 12 if half else 24
    elif half == "pm" or (part in ("afternoon", "evening", "night") and not half and 1 <= hour < 12):
        hour = hour % 12 + 12
    return (hour, minute) if hour < 24 and minute < 60 else None


def _find_days(text: str, here: datetime, field: str, clock: Clock | None = None) -> Days | date | None:
    """Return the days that words mean: those of a calendar, or one; None, if they mean none."""
    begun = _REPEATS.match(text)
    if begun is not None:
        return _find_repeating(text[begun.end() :].strip(), field)
    bare = re.sub(r"^(?:on|this) ", "", text)
    if bare.endswith("s") and (names := _read_day_list(bare, plural=True)):
        return ("*", "*", names)
    if bare in ("weekdays", "weekends", "workdays", "working days"):
        return _find_repeating(bare, field)
    if found := _OF_MONTH.fullmatch(bare):
        if found["month"] != "the":
            return _find_in_month(found["which"], field)
        raise Invalid(field, f"{_cut(text)} may be once or every month; write {_cut(f'every {found[0]}')} or a date")
    return _find_date(bare, here, field, clock)


def _find_repeating(text: str, field: str) -> Days | None:
    if text in ("", "day", "daily", "days"):
        return ("*", "*", "*")
    if text.rstrip("s") in ("weekday", "workday", "working day"):
        return ("*", "*", "1-5")
    if text.rstrip("s") == "weekend":
        return ("*", "*", "6,0")
    if found := re.fullmatch(r"(?:week|weekly) on (.+)", text):
        text = found[1]
    if names := _read_day_list(text) or _read_day_list(text, plural=True):
        return ("*", "*", names)
    if re.match(r"(?:other|second|2nd|third|3rd) ", text) and not _OF_MONTH.fullmatch(text):
        raise Invalid(
            field, f"a calendar has no 'every {text[:_LONGEST_SHOWN]}'; write 'every 2 days' or 'every 14 days'"
        )
    if found := _OF_MONTH.fullmatch(text) or _MONTH_ON.fullmatch(text):
        return _find_in_month(found["which"], field)
    of_year = re.sub(r"^(?:year|yearly) on ", "", text)
    if (month_day := _read_month_day(of_year)) and not month_day[2]:
        month, day, _ = month_day
        _check_day(2028, month, day, field)
        return (str(day), str(month), "*")
    return None


def _find_in_month(which: str, field: str) -> Days | None:
    """`1st and 15th`, `last`, `last day`, `first monday`."""
    if which in ("last", "last day"):
        return ("L", "*", "*")
    if (found := _NTH_DAY.fullmatch(which)) and (name := _read_day(found["day"])):
        nth = found["nth"]
        return ("*", "*", f"{name}L" if nth == "last" else f"{name}#{_ORDINALS.get(nth) or int(nth[0])}")
    numbers = [_read_nth(each.removeprefix("the ")) for each in _LIST.split(which)]
    if None in numbers:
        return None
    days = sorted({each for each in numbers if each is not None})
    if not 1 <= days[0] <= days[-1] <= 31:
        raise Invalid(field, f"a month has no {_cut(which)}; write it like 'every 1st of the month at 8:00'")
    return (",".join(map(str, days)), "*", "*")


def _read_nth(text: str) -> int | None:
    found = re.fullmatch(_NTH, text)
    return int(found[1]) if found else _ORDINALS.get(text)


def _read_day_list(text: str, *, plural: bool = False) -> str:
    """Return the days of the week as cron has them: `1,3`, or `1-5` for a range; '' if the text has others."""
    if found := re.fullmatch(r"([a-z]+)(?: to | through | until |-)([a-z]+)", text):
        first, last = (_read_day(each.removesuffix("s") if plural else each) for each in found.groups())
        return (
            f"{first}-{last if last != '0' else 7}" if first and last and first < (last if last != "0" else "7") else ""
        )
    names = [_read_day(each.removesuffix("s") if plural else each) for each in _LIST.split(text)]
    return ",".join(dict.fromkeys(names)) if all(names) else ""


def _read_day(text: str) -> str:
    """Return the number that cron has for a day of the week, '' if it is none."""
    short = {day[:length]: number for number, day in enumerate(_DAYS, 1) for length in (3, 4, len(day))}
    number = short.get(text.rstrip("."))
    return "" if number is None else str(number % 7)


def _find_date(text: str, here: datetime, field: str, clock: Clock | None) -> date | None:
    today = here.date()
    near = {"today": 0, "tomorrow": 1, "the day after tomorrow": 2, "day after tomorrow": 2}
    over = clock is not None and clock <= (here.hour, here.minute)
    if text in near:
        return today + timedelta(days=near[text])
    if not text and clock is not None:
        return today + timedelta(days=over)
    if found := _IN_DAYS.fullmatch(text):
        number = int(found[1]) if found[1].isdecimal() else 1
        return today + timedelta(days=number * (7 if found[2].startswith("week") else 1)) if clock else None
    if name := _read_day(text):
        ahead = (int(name) - today.isoweekday()) % 7
        return today + timedelta(days=7 if not ahead and over else ahead)
    if text.startswith("next ") and (name := _read_day(text.removeprefix("next "))):
        first = today + timedelta(days=(int(name) - today.isoweekday() - 1) % 7 + 1)
        both = " or ".join(f"'{render_day(first + timedelta(days=each))}'" for each in (0, 7))
        raise Invalid(field, f"{_cut(text)} may be two days; write {both}")
    return _find_calendar_date(text, today, field)


def _find_calendar_date(text: str, today: date, field: str) -> date | None:
    if found := _SLASHED_DATE.fullmatch(text):
        numbers = {(int(found[1]), int(found[2])), (int(found[2]), int(found[1]))}
        read = sorted(f"'{day} {_MONTHS[month - 1].title()}'" for day, month in numbers if 1 <= month <= 12)
        raise Invalid(field, f"{_cut(text)} is read differently in different countries; write {' or '.join(read)}")
    if found := _ISO_DATE.fullmatch(text):
        return _check_day(int(found[1]), int(found[2]), int(found[3]), field)
    if found := _DOTTED_DATE.fullmatch(text):
        day, month, year = int(found[1]), int(found[2]), found[3] or ""
    elif (month_day := _read_month_day(text)) is not None:
        month, day, year = month_day
    else:
        return None
    if year:
        return _check_day(int(year), month, day, field)
    this = today.year if (month, day) >= (today.month, today.day) else today.year + 1
    return _check_day(this, month, day, field)


def _read_month_day(text: str) -> tuple[int, int, str] | None:
    if found := _DAY_MONTH.fullmatch(text):
        day, month, year = found[1], found[2], found[3]
    elif found := _MONTH_DAY.fullmatch(text):
        month, day, year = found[1], found[2], found[3]
    else:
        return None
    return next(number for number, name in enumerate(_MONTHS, 1) if name[:3] == month[:3]), int(day), year or ""


def _check_day(year: int, month: int, day: int, field: str) -> date:
    if not (1 <= month <= 12 and 1 <= year <= 9999 and 1 <= day <= monthrange(year, month)[1]):
        name = _MONTHS[month - 1].title() if 1 <= month <= 12 else f"month {month}"
        raise Invalid(field, f"there is no {day} {name} {year}")
    return date(year, month, day)


def render_day(day: date) -> str:
    return f"{day.day} {_MONTHS[day.month - 1].title()}"


def render_cron(fields: str) -> str:
    """Return five fields in words that are read as the same, and those that no words are known for as they are."""
    if (found := _FIELDS.fullmatch(fields)) is None:
        return fields
    minute, hours, day, month, weekday = found.groups()
    days = _render_days(day, month, weekday)
    if hours == "*":
        return f"every hour at :{int(minute):02}" if days == "every day" else fields
    clocks = [f"{int(hour)}:{int(minute):02}" for hour in hours.split(",")]
    return f"{days} at {_render_list(clocks)}" if days else fields


def _render_list(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _render_days(day: str, month: str, weekday: str) -> str:
    """'' for days that no words are known for."""
    if (day, month) == ("*", "*"):
        return _render_weekdays(weekday)
    if weekday != "*" or day == "*":
        return ""
    if month == "*":
        numbers = [] if day == "L" else [_render_nth(int(each)) for each in day.split(",") if each]
        return f"every {_render_list(numbers) if numbers else 'last day'} of the month"
    known = day.isdecimal() and 1 <= int(month) <= 12
    return f"every year on {int(day)} {_MONTHS[int(month) - 1].title()}" if known else ""


def _render_weekdays(weekday: str) -> str:
    if weekday in _WEEKDAYS:
        return _WEEKDAYS[weekday]
    if found := _NTH_FIELD.fullmatch(weekday):
        nth = list(_ORDINALS)[int(found[2]) - 1] if found[2] else "last"
        return f"every {nth} {_name_day(found[1])} of the month"
    numbers = weekday.split(",")
    if not all(re.fullmatch("[0-7]", each) for each in numbers):
        return ""
    return f"every {_render_list([_name_day(each) for each in numbers])}"


def _name_day(number: str) -> str:
    return _DAYS[(int(number) - 1) % 7].title()


def _render_nth(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number not in (11, 12, 13) else "th"
    return f"{number}{ending}"
