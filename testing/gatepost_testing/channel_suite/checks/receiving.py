"""Acts of people, and what the channel makes of them."""

from gatepost.core.errors import Unavailable
from gatepost.messages import address
from gatepost.messages.inbound import AttachmentKind, Inbound, Verb
from gatepost.messages.outbound import Feature
from gatepost_testing.channel_suite.trial import ChannelTrial
from gatepost_testing.grading import FeatureMissing
from gatepost_testing.platforms.base import GivenFile

MANY = 12
FILE_DATA = bytes(range(32, 127)) * 3000


async def check_a_message(trial: ChannelTrial) -> None:
    """A message has its room, its sender, its id and its words, in addresses that the gateway accepts."""
    await trial.start()
    for room in trial.rooms:
        written = trial.write(f"hello from {room}", room=room)
        event = await trial.receive_text(f"hello from {room}")
        assert event.address == trial.platform.get_address(room), f"the address is {event.address}"
        assert event.sender == trial.platform.get_sender("ann"), f"the sender is {event.sender}"
        assert event.platform_id == written, f"the id is {event.platform_id}, on the platform {written}"
        assert event.direct == room.startswith("direct:"), f"direct is {event.direct} in {room}"
        assert event.event == "message" and not event.own
        for each in (event.address, event.sender):
            assert address.parse(each).platform == trial.kind.name, f"{each} is no address of this channel"


async def check_order_in_a_room(trial: ChannelTrial) -> None:
    """Messages in several rooms at once are received in each room in their order."""
    await trial.start()
    for number in range(MANY):
        for room in trial.rooms:
            trial.write(f"word {number:02d}", room=room)
    await trial.until(lambda: len(trial.received.events) >= MANY * len(trial.rooms), "all messages")
    for room in trial.rooms:
        texts = [each.text for each in trial.received.events if each.address == trial.platform.get_address(room)]
        found = [next(number for number in range(MANY) if f"word {number:02d}" in text) for text in texts]
        assert found == list(range(MANY)), f"in {room} they came as {found}"


async def check_own_words(trial: ChannelTrial) -> None:
    """The bot's own messages are not received as somebody else's."""
    await trial.start()
    await trial.send(text="words of the bot")
    await trial.pass_marker()
    own = [each for each in trial.received.events if "words of the bot" in each.text]
    assert not own, "the bot receives its own words, and they are not flagged as its own"


async def check_kept_until_durable(trial: ChannelTrial) -> None:
    """An event that could not be stored comes again, and is acknowledged only then."""
    await trial.start()
    trial.received.error = Unavailable("the store", "the disk is full")
    trial.write("kept for later")
    await trial.until(lambda: trial.received.calls > 0, "the first try")
    trial.received.error = None
    await trial.receive_text("kept for later")
    assert len(trial.received.events) == 1, "it was received as two events"
    assert not trial.has_ended, "listen ended"


async def check_edits_in(trial: ChannelTrial) -> None:
    """An edit is an event of its own, with the new words and the id of the message."""
    await trial.start()
    written = trial.write("first words")
    await trial.receive_text("first words")
    trial.act(Verb.EDIT, trial.platform.edit, trial.room, written, "better words")
    edit = await trial.find_event(Verb.EDIT, lambda each: each.verb is Verb.EDIT)
    assert edit.platform_id == written, f"the edit is of {edit.platform_id}, the message is {written}"
    assert edit.event.startswith("edit:"), f"its event is {edit.event!r}"
    assert "better words" in edit.text
    trial.act(Verb.EDIT, trial.platform.edit, trial.room, written, "best words")
    second = await trial.receive_text("best words")
    assert second.event != edit.event, "two edits are one event"


async def check_deletes_in(trial: ChannelTrial) -> None:
    """A deletion is an event with the id of the message that is gone."""
    await trial.start()
    written = trial.write("soon gone")
    await trial.receive_text("soon gone")
    trial.act(Verb.DELETE, trial.platform.delete, trial.room, written)
    event = await trial.find_event(Verb.DELETE, lambda each: each.verb is Verb.DELETE)
    assert (event.platform_id, event.event) == (written, "delete")


async def check_reactions_in(trial: ChannelTrial) -> None:
    """A reaction names the message, the emoji and who reacted."""
    await trial.start()
    shown = await trial.send(text="what do you think")
    trial.act(Verb.LIKE, trial.platform.react, trial.room, shown.id, "👍", sender=trial.other)
    event = await trial.find_event(Verb.LIKE, lambda each: each.event.startswith("reaction:"))
    assert event.platform_id == shown.id, f"it is about {event.platform_id}, the message is {shown.id}"
    assert event.sender == trial.platform.get_sender(trial.other)
    assert event.event.endswith(event.sender), f"{event.event!r} does not name who reacted"


async def check_joins(trial: ChannelTrial) -> None:
    """Somebody who comes into a room is seen."""
    if "team" not in trial.rooms:
        raise FeatureMissing("there are only private rooms")
    await trial.start()
    trial.act(Verb.JOIN, trial.platform.join, "team", sender="bob")
    event = await trial.find_event(Verb.JOIN, lambda each: each.verb is Verb.JOIN)
    assert event.address == trial.platform.get_address("team")
    assert event.sender == trial.platform.get_sender("bob")


async def check_mentions(trial: ChannelTrial) -> None:
    """A message that names the bot is a mention; one that does not is none."""
    if "team" not in trial.rooms:
        raise FeatureMissing("there are only private rooms")
    await trial.start()
    trial.write("are you there", room="team", mention=True)
    event = await trial.find_event(Verb.MENTION, lambda each: each.verb is Verb.MENTION)
    assert "are you there" in event.text
    if trial.platform.only_mentions:
        trial.note = "a bot gets only what names it, so a message that is no mention is not tried"
        return
    trial.write("among ourselves", room="team")
    plain = await trial.receive_text("among ourselves")
    assert plain.verb is not Verb.MENTION, "every message counts as a mention"


async def check_replies_in(trial: ChannelTrial) -> None:
    """A reply names the message that it answers."""
    await trial.start()
    root = trial.write("a question")
    trial.write("an answer", reply_to=root, sender=trial.other)
    event = await trial.receive_text("an answer")
    if event.reply_to is None and not trial.has(Feature.REPLY):
        raise FeatureMissing("the platform has no replies")
    assert event.reply_to is not None, "the reply answers nothing"
    assert event.reply_to.platform_id == root, f"it answers {event.reply_to.platform_id}, not {root}"


async def check_threads_in(trial: ChannelTrial) -> None:
    """A message in a thread names the thread, always by the same name."""
    await trial.start()
    root = trial.write("a topic")
    trial.write("within the thread", thread=root)
    event = await trial.receive_text("within the thread")
    if not event.thread and not trial.has(Feature.THREADS):
        raise FeatureMissing("the platform has no threads")
    assert event.thread, "the message has no thread"
    trial.write("also within", thread=event.thread)
    assert (await trial.receive_text("also within")).thread == event.thread, "the thread has two names"


async def check_files_in(trial: ChannelTrial) -> None:
    """A file comes with its name and streams its bytes when they are asked for, not before."""
    await trial.start()
    name, mime = trial.platform.sample_file
    given = GivenFile(name, FILE_DATA, mime)
    trial.write("see the note", files=(given,))
    event = await trial.receive_one(lambda each: bool(each.attachments) or "see the note" in each.text, "the file")
    if not event.attachments and not trial.has(Feature.FILES):
        raise FeatureMissing("files are not received")
    event = await trial.receive_one(lambda each: bool(each.attachments), "the file")
    (file,) = event.attachments
    assert file.name == given.name, f"its name is {file.name!r}"
    assert file.open is not None, "it comes as bytes in memory, not as a stream"
    assert not file.data and file.kind in AttachmentKind
    data = b"".join([chunk async for chunk in file.open()])
    assert data == FILE_DATA, f"{len(data)} bytes of {len(FILE_DATA)} came, or others"


def find_texts(events: list[Inbound], wanted: tuple[str, ...]) -> list[str]:
    """Which of these words came, in the order in which they came."""
    return [word for each in events for word in wanted if word in each.text]
