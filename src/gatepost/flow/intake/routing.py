"""Routing: which groups get a message. Routes are asked in order of (seq, id); the first that holds wins, `also` routes
go on. Pure.

A match is tokens between blanks, all of which must hold; without any it always holds. A value with blanks is quoted.

    key=glob   key!=glob   key=a|b   key=* (present)   key= (absent)   key!= (present)   text=/regex/   text!=/regex/

A target is refused when it is written if it leads nowhere.

    folder          a turn of that group              folder#observe   context for it, no turn
    folder#topic    a turn in that pinned thread      folder:x         x (also when x is called `drop`)
    acme/{sender}   the sender as one path segment    drop             nobody gets it; that is recorded
    builtin:NAME    a named internal receiver (root's alone; there is none yet)

Every address is routed here, also `web:` ones. Deciding never fails: a stored match that cannot be read holds for
nothing, and says so when asked. Nor does it take long, because the writer waits for it. The routes that the agents of
one world made have a bounded effort for a message; the rest of them holds for nothing.
"""

import re
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache

from msgspec import Struct, field

from gatepost.access.tiers import ROOT_FOLDER, covers, world_of
from gatepost.core.errors import Invalid, did_you_mean
from gatepost.core.late_pattern import late_pattern
from gatepost.core.linear_patterns import GLOB_SIGNS
from gatepost.core.records import replace
from gatepost.flow.intake.patterns import (
    UNLIMITED,
    Matcher,
    MatchLimit,
    MatchLimitExceeded,
    compile_glob,
    compile_search,
    split_alternatives,
)
from gatepost.messages.address import Address, safe_segment
from gatepost.messages.inbound import SUBJECT_VERBS, Verb
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions.sessions import MODES, SessionMode

KEYS = ("platform", "channel", "room", "chat_jid", "sender", "verb", "text", "thread")
LONGEST_MATCH = 2000
MOST_CONDITIONS = 16  # of one match …
MOST_EXPRESSIONS = 4  # … and of these, regular expressions
LOOKED_AT = 4000  # characters of a text
MOST_OTHERS = 16  # further identities of a sender
MOST_BY_AGENTS = 200  # routes that the agents of one world made …
MOST_CHARACTERS = 20_000  # … and what their matches have together
EFFORT = 20_000  # for one message, of the routes that the agents of one world made
MADE_BY = "agent:"  # what stands before the folder whose agent made a route
BUILTINS: tuple[str, ...] = ()
LONGEST_TOPIC = 128

_TOKEN = late_pattern(r'(?:[^\s"]|"[^"]*")+')
_EXPRESSION = late_pattern(r"text!?=/.*/", re.DOTALL)
_ADDRESS = late_pattern(r"[a-z][a-z0-9_-]*:")
_VERBS = tuple(each.value for each in Verb)
_PART = late_pattern(r"([^=!]*)(!?=)(.*)", re.DOTALL)
_SEGMENT = late_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
_SENDER = "{sender}"


class MatchInput(Struct, frozen=True, kw_only=True):
    """The facts of a message that a match can ask about. `channel` is the instance, `chat_jid` the whole address."""

    platform: str
    channel: str
    room: str
    chat_jid: str
    sender: str = ""
    verb: str = "message"
    text: str = ""
    thread: str = ""
    others: tuple[str, ...] = ()  # further identities of the sender
    # By world, for all that is decided with this value: asked again in another way, a message costs no more.
    efforts: dict[str, MatchLimit] = field(default_factory=dict)


Waiver = Callable[[Route], bool]


def _waive_nothing(route: Route) -> bool:
    return False


def make_match_input(
    instance: str,
    address: Address,
    *,
    sender: str = "",
    verb: str = "message",
    text: str = "",
    thread: str = "",
    names: Collection[str] = (),
) -> MatchInput:
    """Return the facts of a message. `names`: all identities of the sender; a route about one of them holds for the
    person."""
    return MatchInput(
        platform=address.platform,
        channel=instance,
        room=address.rest,
        chat_jid=str(address),
        sender=sender,
        verb=verb,
        text=text[:LOOKED_AT],
        thread=thread,
        others=tuple(name for name in names if name != sender)[:MOST_OTHERS] if names else (),
    )


class MatchCondition(Struct, frozen=True):
    """One condition of a match."""

    written: str
    key: str
    negated: bool
    fits: Matcher


class RouteChoice(Struct, frozen=True):
    """One group that gets the message, and how. `via`: the group above it to which routes lead, if somebody named this
    one; '' if routes lead here. `session`: the conversation that runs there, for a command that ends it."""

    route: Route
    folder: str
    observe: bool
    topic: str | None
    mode: SessionMode
    via: str = ""
    session: str = ""
    elsewhere: bool = False  # it runs in another thread of the room


class RouteDecision(Struct, frozen=True):
    chosen: tuple[RouteChoice, ...]
    dropped_by: Route | None = None

    @property
    def why(self) -> str:
        took = [f"route {each.route.id} → {each.route.target}" for each in self.chosen]
        if self.dropped_by is not None:
            took.append(f"route {self.dropped_by.id} drops it")
        return ", ".join(took) or "no route matches"


def parse_match(text: str) -> tuple[MatchCondition, ...]:
    """Read a match; a bad one is refused with the token that is wrong."""
    if len(text) > LONGEST_MATCH:
        raise Invalid("match", f"a match of {len(text)} characters is too long; at most {LONGEST_MATCH} are possible")
    if text.count('"') % 2:
        raise Invalid("match", 'a double quote is not closed; quote a value like text="two words"')
    written = _TOKEN.findall(text)
    expressions = sum(1 for each in written if _EXPRESSION.fullmatch(each.replace('"', "")))
    if len(written) > MOST_CONDITIONS:
        raise Invalid("match", f"has {len(written)} conditions; at most {MOST_CONDITIONS} are possible: use two routes")
    if expressions > MOST_EXPRESSIONS:
        raise Invalid(
            "match", f"has {expressions} regular expressions; at most {MOST_EXPRESSIONS} are possible: join them by |"
        )
    return tuple(_token(each) for each in written)


def _token(written: str) -> MatchCondition:
    found = _PART.fullmatch(written.replace('"', ""))
    if found is None:
        raise Invalid("match", f"{written!r} has no '='; write key=pattern with a key of {', '.join(KEYS)}")
    key, sign, value = found.groups()
    if key not in KEYS:
        raise Invalid("match", f"unknown key {key!r} in {written!r}; the keys are {', '.join(KEYS)}")
    return MatchCondition(written, key, sign == "!=", _condition(key, value))


def _condition(key: str, value: str) -> Matcher:
    if value == "":
        return _absent
    if key == "text" and len(value) > 1 and value[0] == value[-1] == "/":
        return compile_search(value[1:-1])
    return compile_glob(value, key == "text")


def _absent(value: str, effort: MatchLimit = UNLIMITED) -> bool:
    return value == ""


@lru_cache(maxsize=4096)
def _parse_stored_match(match: str) -> tuple[MatchCondition, ...] | str:
    """Return the tokens of a stored match, or why it cannot be read."""
    try:
        return parse_match(match)
    except Invalid as fault:
        return str(fault)


def find_mismatch(route: Route, facts: MatchInput, waives: Waiver = _waive_nothing) -> str | MatchCondition | None:
    """Return the first condition that does not hold, or why none can be asked."""
    tokens = _parse_stored_match(route.match)
    if isinstance(tokens, str):
        return f"it cannot be read: {tokens}"
    if not tokens:
        return None
    maker = maker_of(route)
    world = world_of(maker) if maker else ""
    effort = facts.efforts.setdefault(world, MatchLimit(EFFORT)) if maker else UNLIMITED
    waived = waives(route)
    for token in tokens:
        if waived and is_address(token):
            continue
        try:
            if _holds(token, facts, effort) is token.negated:
                return token
        except MatchLimitExceeded:
            return (
                f"not asked: the routes that agents of {world} made take too long for this message; make them simpler"
            )
    return None


def _holds(token: MatchCondition, facts: MatchInput, effort: MatchLimit) -> bool:
    if token.fits(getattr(facts, token.key), effort):
        return True
    return token.key == "sender" and any(token.fits(name, effort) for name in facts.others)


class RouteTarget(Struct, frozen=True):
    """`folder` may hold `{sender}`; '' means that nobody gets it."""

    folder: str
    observe: bool = False
    topic: str | None = None

    @property
    def drops(self) -> bool:
        return not self.folder

    @property
    def template(self) -> bool:
        return _SENDER in self.folder


@lru_cache(maxsize=4096)
def parse_target(text: str) -> RouteTarget:
    """Read a target; a bad one is refused with what is wrong about it."""
    if text == "drop":
        return RouteTarget("")
    prefix, colon, rest = text.partition(":")
    if colon and prefix == "folder":
        text = rest
    elif colon and prefix == "builtin":
        raise Invalid("target", f"there is no builtin {rest!r}; built in: {', '.join(BUILTINS) or 'none yet'}")
    elif colon and prefix == "daemon":
        raise Invalid("target", "'daemon:' does not exist; an internal receiver is builtin:NAME, a group its folder")
    folder, hash_sign, pinned = text.partition("#")
    _check_folder(folder)
    if not hash_sign:
        return RouteTarget(folder)
    if pinned == "observe":
        return RouteTarget(folder, observe=True)
    if not pinned.strip() or len(pinned) > LONGEST_TOPIC or any(ord(char) < 32 for char in pinned):
        raise Invalid("target", f"after '#' stands observe or a topic of at most {LONGEST_TOPIC} printable characters")
    return RouteTarget(folder, topic=pinned)


def _check_folder(folder: str) -> None:
    for segment in folder.split("/"):
        filled = segment.replace(_SENDER, "x", 1)
        if "{" in filled or "}" in filled:
            raise Invalid("target", f"{segment!r}: only {{sender}} can be filled in, and once in a segment")
        if not _SEGMENT.match(filled):
            raise Invalid("target", f"{folder!r} is not a group's folder; it should look like acme/eng")
    if folder.count(_SENDER) > 1:
        raise Invalid("target", "{sender} can stand in one segment only")


def expand_target(target: RouteTarget, sender: str) -> str | None:
    """Return the folder with the sender filled in; None if there is nobody to fill in."""
    if not target.template:
        return target.folder
    return target.folder.replace(_SENDER, safe_segment(sender)) if sender else None


def find_target_parent(target: RouteTarget) -> str:
    """Return the folder, or the one above what {sender} is filled into; '' for any world."""
    return target.folder.partition(_SENDER)[0].rpartition("/")[0] if target.template else target.folder


def check_target(text: str, folders: Collection[str]) -> str | None:
    """Return the folder that the row of a target refers to; None if it names no one group. Refuse one that leads
    nowhere."""
    target = parse_target(text)
    if target.drops:
        return None
    if target.template:
        parent = find_target_parent(target)
        if parent and parent not in folders:
            raise Invalid("target", f"there is no group {parent!r} for {target.folder!r} to be under; add it first")
        return None
    if target.folder not in folders:
        known = ", ".join(sorted(folders)[:20]) or "none"
        raise Invalid("target", f"there is no group {target.folder!r}; add it first (groups: {known})")
    return target.folder


def check_route_count(routes: Iterable[Route], folder: str, more: Collection[str] = ("",)) -> None:
    """Refuse further routes (their matches) by the agent of that group where its world has made too many."""
    world = world_of(folder)
    made = [route for route in routes if route.created_by.startswith(MADE_BY)]
    own = [route.match for route in made if world_of(route.created_by.removeprefix(MADE_BY)) == world]
    if len(own) + len(more) > MOST_BY_AGENTS:
        raise Invalid(
            "route",
            f"agents of {world} made {len(own)} routes already; at most {MOST_BY_AGENTS} are possible, remove some with"
            " delete_route",
        )
    check_size(world, (*own, *more))


def check_size(world: str, matches: Iterable[str]) -> None:
    size = sum(map(len, matches))
    if size > MOST_CHARACTERS:
        raise Invalid(
            "match",
            f"the routes that agents of {world} made would have {size} characters of matches together; at most"
            f" {MOST_CHARACTERS} are possible, join some or remove them with delete_route",
        )


def check_syntax(match: str, target: str, mode: str) -> None:
    """Refuse a route that is malformed. It takes time by what is written there: never to be done in a transaction."""
    for token in parse_match(match):
        _check_room(token)
        _check_verb(token)
    if mode not in MODES:
        raise Invalid("session", f"{mode!r} is not a session mode; they are {', '.join(MODES)}")
    parse_target(target)


def _check_room(token: MatchCondition) -> None:
    """Refuse a whole address where a room is asked for: such a condition holds for nothing."""
    value = token.written.replace('"', "").partition("=")[2]
    if token.key == "room" and any(map(_ADDRESS.match, split_alternatives(value))):
        sign = "!=" if token.negated else "="
        raise Invalid("match", f"{token.written!r}: a room has no platform before it; write chat_jid{sign}{value}")


def _check_verb(token: MatchCondition) -> None:
    """Refuse an act that nobody knows: such a condition holds for nothing, or for everything."""
    written = token.written.replace('"', "").partition("=")[2]
    for value in split_alternatives(written) if written and token.key == "verb" else ():
        if not any(sign in value for sign in GLOB_SIGNS) and value not in _VERBS:
            near = did_you_mean(value, _VERBS)
            raise Invalid("match", f"{token.written!r}: nobody can {value!r}; there are {', '.join(_VERBS)}{near}")


def check_route(match: str, target: str, mode: str, folders: Collection[str]) -> str | None:
    """Return the folder of a route's group; None for drop and {sender}. Refuse a route that is malformed or leads
    nowhere."""
    check_syntax(match, target, mode)
    return check_target(target, folders)


def why_unreadable(route: Route) -> str:
    """Return why a stored route holds for nothing; '' if it can be read."""
    tokens = _parse_stored_match(route.match)
    if isinstance(tokens, str):
        return tokens
    try:
        parse_target(route.target)
    except Invalid as fault:
        return str(fault)
    return ""


def is_address(token: MatchCondition) -> bool:
    """Return True if it says how somebody speaks to the agent: by a verb, or by words. `text=*` asks for any."""
    return token.key in ("verb", "text") and not token.negated and token.written != "text=*"


def needs_words(route: Route) -> bool:
    """Return True if its match asks for words by which somebody speaks to the agent."""
    tokens = _parse_stored_match(route.match)
    return not isinstance(tokens, str) and any(token.key == "text" and is_address(token) for token in tokens)


def names_verb(route: Route) -> bool:
    """Return True if its match asks for certain verbs."""
    tokens = _parse_stored_match(route.match)
    if isinstance(tokens, str):
        return False
    return any(token.key == "verb" and not token.negated and token.written != "verb=*" for token in tokens)


def exists_everywhere(folder: str) -> bool:
    return True


class RouteTable(Struct, frozen=True):
    """Routes in the order in which they are asked, with what follows from all of them. Made once per change of them."""

    routes: tuple[Route, ...]
    makers: tuple[str, ...]  # groups whose agents made some, the highest first
    asks_sender: bool  # some may depend on who the sender is

    def decide(
        self, facts: MatchInput, exists: Callable[[str], bool] = exists_everywhere, waives: Waiver = _waive_nothing
    ) -> RouteDecision:
        """Return the groups that get this message. `exists`: whether the folder that a {sender} route gives is a
        group. `waives`: the routes that are not asked how somebody speaks to the agent (`is_address`).

        The operator's routes say who gets it. A route that an agent made says where below that agent's own group it
        goes instead, and never makes a turn of what is only observed. So nobody draws to itself what is given to
        another.
        """
        if not self.makers:
            return _decide(self.routes, facts, exists, waives)
        base = _decide([route for route in self.routes if not maker_of(route)], facts, exists, waives)
        chosen = base.chosen
        for maker in self.makers:  # the highest first: what it leads below is led on there
            theirs = [route for route in self.routes if maker_of(route) == maker]
            chosen = tuple(
                led for each in chosen for led in _apply_agent_routes(each, maker, theirs, facts, exists, waives)
            )
        return RouteDecision(tuple(dict.fromkeys(chosen)), base.dropped_by)


def make_route_table(routes: Iterable[Route]) -> RouteTable:
    rows = tuple(sorted(routes, key=lambda route: (route.seq, route.id)))
    makers = sorted({maker for route in rows if (maker := maker_of(route))}, key=lambda folder: folder.count("/"))
    return RouteTable(rows, tuple(makers), any("sender" in route.match for route in rows))


def decide(
    routes: Iterable[Route], facts: MatchInput, exists: Callable[[str], bool] = exists_everywhere
) -> RouteDecision:
    """Return the groups that get a message by routes that are asked only once."""
    return make_route_table(routes).decide(facts, exists)


def maker_of(route: Route) -> str:
    """Return the group whose agent made this route; '' for the operator's and root's, which hold for everybody."""
    maker = route.created_by.removeprefix(MADE_BY)
    return "" if maker in (route.created_by, ROOT_FOLDER) else maker


def _apply_agent_routes(
    given: RouteChoice,
    maker: str,
    theirs: list[Route],
    facts: MatchInput,
    exists: Callable[[str], bool],
    waives: Waiver,
) -> tuple[RouteChoice, ...]:
    """Return what becomes of a message that was given to a group, by the routes of one above it or its own."""
    if not covers(maker, given.folder):
        return (given,)
    led = _decide([*theirs, given.route], facts, exists, waives).chosen  # theirs first: the operator has had a say
    return tuple(replace(each, observe=True) for each in led) if given.observe else led


def _decide(rows: Iterable[Route], facts: MatchInput, exists: Callable[[str], bool], waives: Waiver) -> RouteDecision:
    chosen: list[RouteChoice] = []
    for route in rows:
        if find_mismatch(route, facts, waives) is not None:
            continue
        landing, why = resolve_target(route, facts, exists)
        if why:
            continue
        if landing is None:
            return RouteDecision(tuple(chosen), route)
        chosen.append(landing)
        if not route.also:
            break
    return RouteDecision(tuple(chosen))


def resolve_target(route: Route, facts: MatchInput, exists: Callable[[str], bool]) -> tuple[RouteChoice | None, str]:
    """Return where a route that holds leads (None: to nobody, it drops), or why it is passed over after all."""
    try:
        target = parse_target(route.target)
    except Invalid as fault:
        return None, f"its target cannot be read: {fault}"
    if not target.folder:
        return None, ""
    folder = expand_target(target, facts.sender) if _SENDER in target.folder else target.folder
    if folder is None:
        return None, "it needs a sender, and there is none"
    if folder != target.folder and not exists(folder):
        return None, f"there is no group {folder!r}"
    observe = target.observe or (facts.verb in SUBJECT_VERBS and not names_verb(route))
    return RouteChoice(route, folder, observe, target.topic, route.mode), ""
