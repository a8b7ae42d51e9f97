"""The five kinds of error, named by who acts on them. Each carries its facts as attributes.

An error's text is written for a person: it names the thing and the way out. Tracebacks are for logs.
"""

import difflib
import math
from collections.abc import Iterable

LONGEST_PART = 4000  # characters, of the beginning and of the end
RETRY_S = 5.0  # after which it is worth a try, where nobody knows better


class GatepostError(Exception):
    """Anything that this program says no with. Never raised itself.

    A text that repeats much of what somebody sent is cut in its middle: it begins with the thing and ends with the way
    out. Bytes that are no text, as names of agents' files can hold, are escaped."""

    def __init__(self, text: str = "") -> None:
        text = text.encode(errors="backslashreplace").decode()
        super().__init__(text if len(text) <= 2 * LONGEST_PART else f"{text[:LONGEST_PART]} … {text[-LONGEST_PART:]}")


class SetupError(GatepostError):
    """The operator acts: a setting, a file, a port or a package is wrong."""


class Refused(GatepostError):
    """The caller may not do this to that target, and is not told more."""

    def __init__(self, caller: str, action: str, target: str = "", why: str = "") -> None:
        on = f" on {target}" if target else ""
        super().__init__(f"{caller} may not {action}{on}" + (f": {why}" if why else ""))
        self.caller, self.action, self.target, self.why = caller, action, target, why


class Invalid(Refused):
    """The caller's own words are wrong: a field is missing, malformed or out of the possible."""

    def __init__(self, field: str, why: str) -> None:
        GatepostError.__init__(self, f"{field}: {why}" if field else why)
        self.caller, self.action, self.target, self.why = "", "", field, why


class Unsupported(GatepostError):
    """The agent acts: this channel cannot do that; the hint names a call that would work."""

    def __init__(self, verb: str, platform: str, hint: str = "") -> None:
        super().__init__(f"unsupported: {verb} on {platform}" + (f"\nhint: {hint}" if hint else ""))
        self.verb, self.platform, self.hint = verb, platform, hint


class Unavailable(GatepostError):
    """Nobody acts, we wait: the other side is away. `uncertain` means that it may have acted all the same. `everywhere`
    means that `retry_after` holds for all rooms of a channel. `lasting` means that waiting alone will hardly help, so
    that a file is given up."""

    def __init__(
        self,
        what: str,
        why: str = "",
        *,
        retry_after: float | None = None,
        uncertain: bool = False,
        everywhere: bool = False,
        lasting: bool = False,
    ) -> None:
        super().__init__(f"{what} is unavailable" + (f": {why}" if why else ""))
        self.what, self.why, self.retry_after = what, why, retry_after
        self.uncertain, self.everywhere, self.lasting = uncertain, everywhere, lasting


class StoreAway(Unavailable):
    """The database does not answer, and nothing was written: the same may be asked again."""

    def __init__(self, why: str) -> None:
        super().__init__("the store", why)


def render_retry_after(error: Unavailable) -> str:
    """For the header of that name: whole seconds."""
    return str(max(1, math.ceil(RETRY_S if error.retry_after is None else error.retry_after)))


class NotFound(GatepostError):
    """The caller named something that is not there."""

    def __init__(self, kind: str, name: str, hint: str = "") -> None:
        super().__init__(f"no {kind} named {name!r}" + (f"; {hint}" if hint else ""))
        self.kind, self.name, self.hint = kind, name, hint


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, to be put behind an error; '' if nothing is near."""
    near = find_near(given, known)
    return f"; did you mean {str(near)!r}?" if near else ""


def find_near(given: str, known: Iterable[str], least: float = 0.6) -> str:
    """Return the name that is nearest; '' if none is. `least`: how much of both must be the same, of 1."""
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(given.lower()[:200], names, n=1, cutoff=least)
    return names[near[0]] if near else ""
