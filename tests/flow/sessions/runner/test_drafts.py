"""What a runner writes reaches the room of its turn, while somebody watches it, and nothing else does."""

from collections.abc import Callable

import pytest

from gatepost.flow.sessions.runner import drafts
from gatepost.flow.sessions.runner.drafts import DraftRelay, SessionDraft
from gatepost.mailbox.runner_frames import LONGEST_DRAFT, DraftFrame, WatchFrame
from gatepost.messages.outbound import Draft
from gatepost.store.sessions.turns import Turn, TurnState
from gatepost_testing.waiting import until

ROOM = "web:home"


class Rooms:
    """A channel whose rooms somebody watches, or not."""

    def __init__(self) -> None:
        self.watched: set[str] = set()
        self.shown: list[Draft] = []
        self._listeners: list[Callable[[], None]] = []

    def is_watched(self, address: str) -> bool:
        return address in self.watched

    def on_watch(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def show_draft(self, draft: Draft) -> None:
        self.shown.append(draft)

    def watch(self, *addresses: str) -> None:
        self.watched = set(addresses)
        for listener in self._listeners:
            listener()

    @property
    def texts(self) -> list[str]:
        return [draft.text for draft in self.shown]


class Runner:
    def __init__(self) -> None:
        self.told: list[bool] = []

    def send(self, frame: WatchFrame) -> None:
        self.told.append(frame.on)


def a_turn(id: str = "t-1", epoch: int = 1, instance: str = "web", address: str = ROOM) -> Turn:
    return Turn(
        id=id,
        session_id="s-1",
        folder="home",
        provider="scripted",
        instance=instance,
        address=address,
        thread="",
        rights="owner",
        attempt=1,
        spared=0,
        state=TurnState.BEGUN,
        conversation="",
        error="",
        usage="",
        next_at=0,
        owner="",
        lease_until=0,
        epoch=epoch,
        started_at=0,
        begun_at=None,
        ended_at=None,
    )


@pytest.fixture
def rooms() -> Rooms:
    return Rooms()


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def relay(rooms: Rooms) -> DraftRelay:
    return DraftRelay({"web": rooms, "fake": object()})


@pytest.fixture
def draft(relay: DraftRelay, runner: Runner) -> SessionDraft:
    return SessionDraft(relay, "s-1", "Home", runner.send)


def frame(text: str, kept: int = 0, turn: str = "t-1", epoch: int = 1) -> DraftFrame:
    return DraftFrame(turn=turn, epoch=epoch, text=text, kept=kept)


async def test_a_runner_is_told_nothing_while_nobody_watches(draft: SessionDraft, rooms: Rooms, runner: Runner) -> None:
    rooms.watch("web:other")
    draft.begin(a_turn(), shown=True)
    draft.receive(frame("Hello"))
    draft.end()
    draft.begin(a_turn("t-2", instance="fake"), shown=True)
    draft.begin(a_turn("t-3", instance="nowhere"), shown=True)
    assert (runner.told, rooms.shown) == ([], [])


async def test_what_is_written_grows_in_the_room_of_the_turn(draft: SessionDraft, rooms: Rooms, runner: Runner) -> None:
    rooms.watch(ROOM)
    draft.begin(a_turn(), shown=True)
    draft.receive(frame("Hel"))
    draft.receive(frame("lo\x00", 3))
    assert runner.told == [True]
    assert rooms.shown[-1] == Draft(session="s-1", instance="web", address=ROOM, thread="", agent="Home", text="Hello")


async def test_a_runner_is_told_when_somebody_comes_or_goes_and_then_begins_anew(
    draft: SessionDraft, rooms: Rooms, runner: Runner
) -> None:
    draft.begin(a_turn(), shown=True)
    rooms.watch(ROOM)
    draft.receive(frame("Hello"))
    rooms.watch()
    draft.receive(frame(" you", 5))
    rooms.watch(ROOM)
    draft.receive(frame(" there", 9))  # it was on its way
    draft.receive(frame("Hello you there"))
    assert runner.told == [True, False, True]
    assert rooms.texts == ["Hello", "", "Hello you there"]


async def test_a_turn_of_another_session_or_an_older_epoch_is_not_believed(draft: SessionDraft, rooms: Rooms) -> None:
    rooms.watch(ROOM)
    draft.begin(a_turn(epoch=3), shown=True)
    draft.receive(frame("forged", turn="t-9", epoch=3))
    draft.receive(frame("old", epoch=2))
    assert rooms.shown == []


async def test_a_run_that_nobody_is_to_see_shows_no_draft(draft: SessionDraft, rooms: Rooms, runner: Runner) -> None:
    rooms.watch(ROOM)
    draft.begin(a_turn(), shown=False)
    draft.receive(frame("Hello"))
    assert (runner.told, rooms.shown) == ([], [])


async def test_a_message_takes_the_place_of_its_draft_when_it_is_delivered(
    relay: DraftRelay, draft: SessionDraft, rooms: Rooms
) -> None:
    rooms.watch(ROOM)
    draft.begin(a_turn(), shown=True)
    draft.receive(frame("Hello"))
    relay.delivered("web", ROOM, "")  # an earlier one
    draft.expect_delivery()
    draft.end()
    relay.delivered("web", "web:other", "")
    assert rooms.texts == ["Hello"]
    relay.delivered("web", ROOM, "")
    assert rooms.texts == ["Hello", ""]


async def test_what_was_said_and_is_never_delivered_goes_all_the_same(
    draft: SessionDraft, rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "LINGER_S", 0.01)
    rooms.watch(ROOM)
    draft.begin(a_turn(), shown=True)
    draft.receive(frame("Hello"))
    draft.expect_delivery()
    draft.end()
    await until(lambda: rooms.texts == ["Hello", ""])


@pytest.mark.parametrize("how", [SessionDraft.end, SessionDraft.stop])
async def test_a_draft_ends_with_its_turn(
    draft: SessionDraft, rooms: Rooms, how: Callable[[SessionDraft], None]
) -> None:
    rooms.watch(ROOM)
    draft.begin(a_turn(), shown=True)
    draft.receive(frame("Hello"))
    how(draft)
    draft.receive(frame("more"))
    assert rooms.texts == ["Hello", ""]


async def test_a_stop_takes_away_also_what_is_on_its_way(draft: SessionDraft, rooms: Rooms) -> None:
    rooms.watch(ROOM)
    draft.begin(a_turn(), shown=True)
    draft.receive(frame("Hello"))
    draft.expect_delivery()
    draft.stop()
    assert rooms.texts == ["Hello", ""]


async def test_a_flood_of_drafts_is_dropped_and_no_draft_grows_beyond_its_bound(
    draft: SessionDraft, rooms: Rooms
) -> None:
    rooms.watch(ROOM)
    draft.begin(a_turn(), shown=True)
    draft.receive(frame("x" * LONGEST_DRAFT))
    draft.receive(frame("y" * LONGEST_DRAFT, LONGEST_DRAFT // 2))
    for number in range(10_000):
        draft.receive(frame(str(number)))
    assert len(rooms.shown) <= drafts.FRAMES.burst + 2 * drafts.FRAMES.per_second
    assert max(map(len, rooms.texts)) == LONGEST_DRAFT


async def test_a_follow_up_that_joins_the_turn_changes_nothing(draft: SessionDraft, rooms: Rooms) -> None:
    rooms.watch(ROOM)
    draft.begin(a_turn(), shown=True)
    draft.receive(frame("Hello"))
    draft.begin(a_turn(), shown=True)
    assert rooms.texts == ["Hello"]
    draft.begin(a_turn("t-2"), shown=True)
    assert rooms.texts == ["Hello", ""]
