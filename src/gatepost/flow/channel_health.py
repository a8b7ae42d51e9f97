"""The health of a channel instance: what it does, since when, the evidence for it, and the ways out of an end. No I/O;
`channel_supervisor` acts on it.

An adapter does not know whether its channel runs or is being added. So the remedies that it names are completed here,
with the names of the instance.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from gatepost.channels.contract import ChannelEnded, ChannelKind, ChannelPulse, ChannelState, EndReason
from gatepost.core.clock import SECOND, Clock, to_microseconds
from gatepost.core.late_pattern import late_pattern
from gatepost.core.log import HIDDEN
from gatepost.flow.channel_specs import get_last_name

_SET_COMMAND = "`gatepost channel set`"
_SET_WITH = late_pattern(rf"(?P<before>and )?\bset (?P<what>(?:(?!\bset ).)+?) with {_SET_COMMAND}")
_START = late_pattern(r"start (?:this|the) channel again|restart (?:this|the) channel")
LONGEST_WAIT_S = 60.0
FIRST_WAIT_S = 1.0
UNPROVEN_S = 10.0  # so long a channel without evidence has to run until it counts as one that works
LONGEST_ERROR = 500
MOST_MISSES = 2  # tries to reach the platform: one that fails alone is a connection that was renewed
SHORTEST_HIDDEN = 6  # characters; a shorter one is a word that may stand anywhere
WELL = frozenset({ChannelState.STARTING, ChannelState.UP, ChannelState.OFF})
UNPROVEN = frozenset({ChannelState.STARTING, ChannelState.RETRYING, ChannelState.DEAF})


class ChannelReport(Struct, frozen=True, kw_only=True):
    """The health of an instance at a moment, for people and for `--json`."""

    instance: str
    kind: str
    state: ChannelState
    since_at: int
    error: str = ""  # why it is not well
    remedy: str = ""  # what somebody must do, of one that has ended
    reason: EndReason | None = None
    next_at: int | None = None  # when it is started again
    beat_at: int | None = None  # the last evidence that it receives
    event_at: int | None = None  # the last event that it brought
    restarts: int = 0
    note: str = ""  # what people should know of it although it is well

    @property
    def is_well(self) -> bool:
        return self.state in WELL


class ListenPulse(ChannelPulse):
    """The beats of a channel: whoever watches is told of each, and of tries that fail one after another."""

    def __init__(self, clock: Clock, on_beat: Callable[[], None], on_miss: Callable[[str], None]) -> None:
        super().__init__(clock)
        self._on_beat, self._on_miss = on_beat, on_miss

    def miss(self, why: str, *, at_once: bool = False) -> None:
        super().miss(why, at_once=at_once)
        if at_once or self.misses >= MOST_MISSES:
            self._on_miss(why)

    def beat(self) -> None:
        super().beat()
        self._on_beat()


class ChannelHealth:
    """The health of one instance. A channel that broke or was deaf counts as such until there is evidence of the
    contrary."""

    def __init__(self, instance: str, kind_name: str, clock: Clock, deaf_after_s: float = 0.0) -> None:
        self.instance, self.kind_name, self.deaf_after_s = instance, kind_name, deaf_after_s
        self.pulse = ListenPulse(clock, self._record_beat, self._record_miss)
        self._clock = clock
        self._kind: ChannelKind | None = None
        self.state, self._since = ChannelState.STARTING, clock.now()
        self._error = self._remedy = ""
        self._reason: EndReason | None = None
        self._next_at: int | None = None
        self._beat_at: int | None = None
        self._event_at: int | None = None
        self._restarts = 0
        self._hidden: set[str] = set()
        self.made_at = clock.now()
        self._failing_since: int | None = None  # by the monotonic clock
        self.started = clock.monotonic()  # the current listen
        self.on_state: Callable[[str], None] = lambda instance: None  # is told when the state has changed

    @classmethod
    def of(cls, instance: str, kind: ChannelKind, clock: Clock) -> "ChannelHealth":
        made = cls(instance, kind.name, clock, kind.deaf_after_s)
        made._kind = kind
        return made

    def hide(self, value: str) -> None:
        """Hide a secret that the channel has read: an error of its library may repeat it, and is shown to people."""
        if len(value) >= SHORTEST_HIDDEN:
            self._hidden.add(value)

    def scrub(self, text: str) -> str:
        for each in self._hidden:
            text = text.replace(each, HIDDEN)
        return " ".join(text.split())[:LONGEST_ERROR]

    def begin(self) -> None:
        """Note that a listen begins. Without any evidence to wait for, that is as good as can be known."""
        self.pulse.reset()
        self.started, self._next_at = self._clock.monotonic(), None
        if not self.deaf_after_s:
            self._set(ChannelState.UP)
        elif self.state not in UNPROVEN:
            self._set(ChannelState.STARTING)

    def record_event(self) -> None:
        """Record an event: it is evidence, too, also of a channel that never beats."""
        self.pulse.beat()
        self._event_at = self._beat_at

    def _record_beat(self) -> None:
        self._beat_at, self._failing_since = self._clock.now(), None
        if self.state in UNPROVEN:
            self._set(ChannelState.UP)

    def _record_miss(self, why: str) -> None:
        """Note that it listens and does not reach its platform: the channel goes on trying. One that never beats would
        count as broken for ever. Among several gateways this is no reason to leave it to another: it is away for
        all."""
        if self.deaf_after_s and self.state in (ChannelState.STARTING, ChannelState.UP, ChannelState.RETRYING):
            self._set(ChannelState.RETRYING, why)

    def record_break(self, error: str, wait_s: float) -> None:
        self._restart(ChannelState.RETRYING, error, wait_s)

    def record_deaf(self, wait_s: float) -> None:
        self._restart(ChannelState.DEAF, f"it gave no sign of receiving for {self.deaf_after_s:g} s", wait_s)

    def get_failing_s(self) -> float:
        """Return the seconds since it broke, was deaf or ended, without evidence since then that it works; 0.0 if it
        works. One that never gives any has to run for a while."""
        if self._failing_since is None:
            return 0.0
        now = self._clock.monotonic()
        runs = self.state is ChannelState.UP and now - self.started > to_microseconds(UNPROVEN_S)
        return 0.0 if runs else (now - self._failing_since) / SECOND

    def _restart(self, state: ChannelState, error: str, wait_s: float) -> None:
        if self._failing_since is None or wait_s <= FIRST_WAIT_S:  # the first break after it worked
            self._failing_since = self._clock.monotonic()
        self._restarts += 1
        self._set(state, error)
        self._next_at = self._clock.now() + to_microseconds(wait_s)

    def record_end(self, error: Exception) -> None:
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic()
        if isinstance(error, ChannelEnded):
            self._set(ChannelState.ENDED, error.why)
            remedy = render_for_running(error, self.instance, self._kind)
            self._reason, self._remedy = error.reason, self.scrub(remedy)
        else:
            self._set(ChannelState.ENDED, str(error) or type(error).__name__)
            self._reason = EndReason.SETTING
            self._remedy = f"mend that, then `gatepost channel restart {self.instance}`"

    def record_off(self) -> None:
        self._failing_since = None
        self._set(ChannelState.OFF)

    def _set(self, state: ChannelState, error: str = "") -> None:
        is_new = state is not self.state
        if is_new:
            self.state, self._since = state, self._clock.now()
        self._error = self.scrub(error)
        self._remedy, self._reason, self._next_at = "", None, None
        if is_new:
            self.on_state(self.instance)

    def is_deaf(self) -> bool:
        return is_deaf(self.started, self.pulse.last, self._clock.monotonic(), self.deaf_after_s)

    def next_wait(self, wait_s: float) -> float:
        """Before the next try, after one that followed a wait of `wait_s`."""
        return next_wait(wait_s, self.started, self.pulse.last, self._clock.monotonic())

    def report(self) -> ChannelReport:
        return ChannelReport(
            instance=self.instance,
            kind=self.kind_name,
            state=self.state,
            since_at=self._since,
            error=self._error,
            remedy=self._remedy,
            reason=self._reason,
            next_at=self._next_at,
            beat_at=self._beat_at,
            event_at=self._event_at,
            restarts=self._restarts,
            note=self.scrub(self.pulse.note),
        )


def is_deaf(started: int, last: int | None, now: int, deaf_after_s: float) -> bool:
    """Return True if there was no beat for too long, by moments of the monotonic clock. 0: it gives no such
    evidence."""
    return deaf_after_s > 0 and now - (started if last is None else last) > to_microseconds(deaf_after_s)


def next_wait(wait_s: float, started: int, last: int | None, now: int) -> float:
    """Return the wait before the next try. It doubles, and begins anew after a try that lived longer than the wait
    before it, by its last beat. A channel that never beats must have run for as long as the longest wait."""
    lived_s = (now - started) / SECOND
    proven_s = (last - started) / SECOND if last is not None else 0.0
    if proven_s > wait_s or (last is None and lived_s > LONGEST_WAIT_S):
        return FIRST_WAIT_S
    return min(wait_s * 2, LONGEST_WAIT_S) if wait_s else FIRST_WAIT_S


def render_trouble(report: ChannelReport) -> str:
    """Return why it is not well, in one line."""
    remedy = f"; {report.remedy}" if report.remedy else ""
    return f"{report.state}: {report.error}{remedy}" if report.error else str(report.state)


def render_for_running(error: ChannelEnded, instance: str, kind: ChannelKind | None) -> str:
    """Whole commands."""
    text = error.remedy.replace(_SET_COMMAND, f"`{_render_set(error.reason, instance, kind)}`")
    if error.reason is not EndReason.SECOND_POLLER or "`gatepost channel" in text:
        return text
    restart = f"`gatepost channel restart {instance}`"
    return _START.sub(restart, text) if _START.search(text) else f"{text}, then {restart}"


def _render_set(reason: EndReason, instance: str, kind: ChannelKind | None) -> str:
    command = f"gatepost channel set {instance}"
    if reason is EndReason.SETTING:
        return f"{command} --set …"
    secrets = [get_last_name(each) for each in kind.guide.ask if each.secret] if kind is not None else []
    return f"{command} --secret {secrets[0]}" if len(secrets) == 1 else command  # of several, each is asked for


def reword_for_new(error: ChannelEnded) -> ChannelEnded:
    """Nothing was added, so there is nothing to set or to restart; and nothing was accepted before."""
    why = error.why.replace("no longer accepts", "does not accept")
    remedy = _START.sub("add the channel again", _SET_WITH.sub(_render_again, error.remedy))
    return ChannelEnded(error.reason, why, remedy)


def _render_again(found: re.Match[str]) -> str:
    before, what = found["before"] or "", found["what"]
    if what == "it":
        what = "it" if before else "a valid one"
    return f"{before}add the channel again with {'another' if what == 'it anew' else what}"
