"""Answers while they are written: from a runner's frames to the room of its turn, if somebody watches that room.

The runner is not believed: a draft belongs to the turn that the ledger gave it, and to no other room. One text of each
session is in memory, the latest. It goes when the message that it became is delivered, or with its turn. If a turn is
stopped or fails, the text that people saw stays as a message (`keep_draft`).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from gatepost.core.token_bucket import Rate, TokenBucket
from gatepost.flow.delivery.growing_messages import GrowingMessages
from gatepost.mailbox import runner_frames
from gatepost.messages.outbound import Draft
from gatepost.messages.text import clean
from gatepost.store.sessions.turns import Turn

FRAMES = Rate(per_second=30, burst=60, patience_s=float("inf"))  # of one session; an honest runner sends 25 a second
LINGER_S = 2.0  # for what is said and on its way, beyond the end of its turn


@runtime_checkable
class ShowsDrafts(Protocol):
    """A channel whose rooms people look at as drafts come. Nothing that it is given here may take it long."""

    def is_watched(self, address: str) -> bool: ...

    def on_watch(self, listener: Callable[[], None]) -> None:
        """Call this whenever somebody begins or ceases to watch a room."""

    def show_draft(self, draft: Draft) -> None: ...


class DraftRelay:
    """One for the gateway: which sessions have a turn that somebody may watch."""

    def __init__(
        self,
        adapters: Mapping[str, object] | None = None,
        growing: GrowingMessages | None = None,
        grows: Callable[[str], bool] = lambda instance: False,
    ) -> None:
        """`growing`: shows drafts in the rooms of instances that do not show them themselves, where `grows`."""
        self._adapters = adapters if adapters is not None else {}
        self._growing, self._grows = growing, grows
        self._known: dict[str, tuple[object, ShowsDrafts | None]] = {}  # by instance: asked once of each channel
        self._open: set[SessionDraft] = set()

    def find_channel(self, instance: str) -> ShowsDrafts | None:
        if self._growing is not None and self._grows(instance):
            return self._growing
        channel = self._adapters.get(instance)
        known = self._known.get(instance)
        if known is None or known[0] is not channel:
            shows = channel if isinstance(channel, ShowsDrafts) else None
            known = self._known[instance] = (channel, shows)
            if shows is not None:
                shows.on_watch(self._check_watchers)
        return known[1]

    def add(self, draft: "SessionDraft") -> None:
        self._open.add(draft)

    def discard(self, draft: "SessionDraft") -> None:
        self._open.discard(draft)

    def get_text(self, session_id: str) -> str:
        """Return what people see of a session's next message, '' if nothing. Called on other threads, too."""
        return next((each.shown for each in tuple(self._open) if each.session_id == session_id), "")

    def close(self, session_id: str, turn_id: str, text: str) -> None:
        """Nothing of this turn is shown as a draft any more. `text`: what was, and became no message."""
        if self._growing is not None:
            self._growing.end(session_id, turn_id, text)

    def delivered(self, instance: str, address: str, thread: str) -> None:
        """End the drafts that became a message which has arrived there."""
        for draft in list(self._open):
            draft.delivered(instance, address, thread)

    def _check_watchers(self) -> None:
        for draft in list(self._open):
            draft.check_watchers()


class SessionDraft:
    """The draft of one session. `send`: to its runner."""

    def __init__(
        self, relay: DraftRelay, session_id: str, agent: str, send: Callable[[runner_frames.WatchFrame], None]
    ) -> None:
        self._relay, self._session, self._agent, self._send = relay, session_id, agent, send
        self._turn: Turn | None = None
        self.channel: ShowsDrafts | None = None  # None: nobody sees it
        self._is_watched = False  # as the runner knows
        self._text = ""
        self._is_sent = False  # it became a message, which is on its way
        self._is_frozen = False  # its turn is being ended: it grows no more
        self._bucket: TokenBucket | None = None
        self._lingering: asyncio.TimerHandle | None = None

    @property
    def session_id(self) -> str:
        return self._session

    @property
    def shown(self) -> str:
        """The text that people see and that is no message yet."""
        return "" if self._is_sent else self._text

    def freeze(self) -> None:
        """Stop growing: its turn is being ended. The text that people see stays until that is settled."""
        self._is_frozen = True
        if isinstance(self.channel, GrowingMessages):
            self.channel.stop(self._session)

    def begin(self, turn: Turn, *, shown: bool) -> None:
        """Begin with a turn. Not `shown`: nobody knows yet if it says anything, or nobody is to see how."""
        if self._turn is not None and self._turn.id == turn.id:
            return
        if self._turn is not None:
            self.stop()
        self._turn = turn
        self.channel = self._relay.find_channel(turn.instance) if shown else None
        if self.channel is not None:
            self._relay.add(self)
        if self.channel is not None or self._is_watched:
            self.check_watchers()

    def check_watchers(self) -> None:
        """Look again at who watches."""
        turn, channel = self._turn, self.channel
        if turn is None:
            return
        watched = channel is not None and channel.is_watched(turn.address)
        if watched != self._is_watched:
            self._is_watched = watched
            self._send(runner_frames.WatchFrame(on=watched))
            self._show("")

    def receive(self, frame: runner_frames.DraftFrame) -> None:
        """Show a draft. It costs little whatever it is: a runner may send as many as it likes."""
        turn = self._turn
        if (
            turn is None
            or (turn.id, turn.epoch) != (frame.turn, frame.epoch)
            or not self._is_watched
            or self._is_frozen
        ):
            return
        now = asyncio.get_running_loop().time()
        self._bucket = self._bucket or TokenBucket(FRAMES, now)
        if self._bucket.charge(0, now) or frame.kept > len(self._text):
            return  # too many, or one before it was lost: the next that begins anew is shown
        self._bucket.charge(1, now)
        self._show((self._text[: frame.kept] + frame.text)[: runner_frames.LONGEST_DRAFT])

    def expect_delivery(self) -> None:
        """Wait for the message that the text became; it takes the text's place when it is delivered."""
        self._is_sent = bool(self._text)
        if isinstance(self.channel, GrowingMessages):
            self.channel.stop(self._session)

    def delivered(self, instance: str, address: str, thread: str) -> None:
        turn = self._turn
        if (
            turn is not None
            and (self._is_sent or self._is_frozen)
            and (turn.instance, turn.address, turn.thread)
            == (
                instance,
                address,
                thread,
            )
        ):
            self._show("")
            if self._lingering is not None:
                self.stop()

    def end(self) -> None:
        """End with the turn. A text that is on its way as a message is not taken away before that is there."""
        if not self._is_sent:
            self.stop()
        elif self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(LINGER_S, self.stop)

    def stop(self) -> None:
        """Show nothing of it any more."""
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if self.channel is not None:
            text = self.shown
            self._show("")
            if self._turn is not None and (text or isinstance(self.channel, GrowingMessages)):
                self._relay.close(self._session, self._turn.id, text)
            self._relay.discard(self)
        self._turn = self.channel = None

    def _show(self, text: str) -> None:
        turn, channel, before = self._turn, self.channel, self._text
        self._text, self._is_sent = text, False
        if turn is None or channel is None or text == before:
            return
        draft = Draft(
            session=self._session,
            instance=turn.instance,
            address=turn.address,
            thread=turn.thread,
            agent=self._agent,
            text=clean(text),
        )
        channel.show_draft(draft)
