"""Acts of the bot, and what people then see. A feature that is not declared must be refused, or degrade."""

import re

from gatepost.channels.contract import (
    MYSELF,
    SupportsDirect,
    SupportsHistory,
    SupportsReadMarks,
    SupportsSubscribe,
    SupportsTyping,
)
from gatepost.core.errors import Unsupported
from gatepost.core.records import replace
from gatepost.flow.delivery.content_fallback import check_supported
from gatepost.messages.card import Card, CardButton, render_text
from gatepost.messages.inbound import CLICK
from gatepost.messages.outbound import Feature, Op, PassedMessage, PromptButton
from gatepost.messages.text_size import measure
from gatepost.store.messages.outbox import EffectState
from gatepost_testing.channel_suite.trial import ChannelTrial
from gatepost_testing.grading import CheckImpossible, FeatureMissing
from gatepost_testing.markdown_scanner import strip_markdown
from gatepost_testing.platforms.base import NotOffered

BUTTONS = (CardButton("suite:0", "Allow once", "primary"), CardButton("suite:1", "Deny", "danger"))
CARD = Card(title="Home asks", text="May it?", buttons=BUTTONS)
DECIDED = Card(title="Home asks", text="May it?", done="Allowed by Ada.")
MARKED = """# A heading

Some **bold** and *slanted* words, `code here` and [a label](https://example.org/page).

| name | age |
|---|---|
| celia | 41 |

@everyone @here <!channel> <@123> should wake nobody."""
WORDS = ("heading", "bold", "slanted", "code here", "a label", "celia", "should wake nobody")
LARGEST_TRIED = 64 * 1024 * 1024


def require_hint(trial: ChannelTrial, op: Op) -> None:
    """An agent that asks for what is not there is refused, with a call that works."""
    try:
        check_supported(op, trial.kind.features, trial.kind.name)
    except Unsupported as refusal:
        assert refusal.hint, f"{op} is refused without a hint"
        return
    raise AssertionError(f"{op} is not declared and is not refused")


async def check_text(trial: ChannelTrial) -> None:
    """A message appears once, by the bot, under the id that the channel returned."""
    for room in trial.rooms:
        shown = await trial.send(room, text=f"good day in {room}")
        assert (shown.sender, shown.room) == ("bot", room), f"{shown.sender} said it in {shown.room}"
        assert f"good day in {room}" in shown.text
        assert sum(f"good day in {room}" in text for text in trial.platform.texts()) == 1


async def check_edits_out(trial: ChannelTrial) -> None:
    """An edited message has the new words, in its old place."""
    shown = await trial.send(text="old words")
    if not trial.has(Feature.EDIT):
        require_hint(trial, Op.EDIT)
        await trial.try_undeclared(op=Op.EDIT, target=shown.id, text="new words")
        assert "new words" not in trial.platform.find(shown.id).text, "edits work and are not declared"
        raise FeatureMissing("refused, with a hint")
    await trial.send(op=Op.EDIT, target=shown.id, text="new words")
    now = trial.platform.find(shown.id)
    assert "new words" in now.text and "old words" not in now.text, f"it says {now.text!r}"
    assert trial.count_shown("new words") == 1, "the edit is a message of its own"


async def check_deletes_out(trial: ChannelTrial) -> None:
    """A deleted message is gone."""
    shown = await trial.send(text="a slip")
    if not trial.has(Feature.DELETE):
        require_hint(trial, Op.DELETE)
        await trial.try_undeclared(op=Op.DELETE, target=shown.id)
        assert trial.count_shown("a slip"), "deleting works and is not declared"
        raise FeatureMissing("refused, with a hint")
    await trial.channel.send(trial.address, trial.make_message(op=Op.DELETE, target=shown.id))
    assert not trial.count_shown("a slip"), "the message is still there"


async def check_reactions_out(trial: ChannelTrial) -> None:
    """A reaction of the bot stands at the message; done twice, it is there once."""
    await trial.start()
    written = trial.write("well done")
    if not trial.has(Feature.REACT):
        require_hint(trial, Op.REACT)
        await trial.try_undeclared(op=Op.REACT, target=written, reaction="👍")
        assert not trial.platform.find(written).reactions, "reactions work and are not declared"
        raise FeatureMissing("refused, with a hint")
    for _ in range(2):
        reaction = trial.make_message(op=Op.REACT, target=written, reaction="👍")
        await trial.channel.send(trial.address, reaction)
    assert [who for _, who in trial.platform.find(written).reactions] == ["bot"]


async def check_replies_out(trial: ChannelTrial) -> None:
    """A reply of the bot stands at what it answers."""
    await trial.start()
    written = trial.write("a question")
    if not trial.has(Feature.REPLY):
        await trial.try_undeclared(text="an answer", reply_to=written)
        found = [each for each in trial.platform.list_shown(trial.room) if each.reply_to]
        assert not found, "replies work and are not declared"
        raise FeatureMissing("the delivery quotes instead")
    shown = await trial.send(text="an answer", reply_to=written)
    assert shown.reply_to == written, f"it answers {shown.reply_to!r}, not {written!r}"


async def check_threads_out(trial: ChannelTrial) -> None:
    """An answer goes into the thread in which somebody wrote."""
    await trial.start()
    root = trial.write("a topic")
    if not trial.has(Feature.THREADS):
        await trial.try_undeclared(text="within", thread=root)
        assert not any(each.thread for each in trial.platform.list_shown(trial.room)), "threads work, undeclared"
        raise FeatureMissing("the delivery answers in the room")
    trial.write("within the thread", thread=root)
    event = await trial.receive_text("within the thread")
    shown = await trial.send(text="also within", thread=event.thread)
    asked = trial.platform.find(event.platform_id)
    assert shown.thread and shown.thread == asked.thread, f"it is in {shown.thread!r}, not {asked.thread!r}"


async def check_files_out(trial: ChannelTrial) -> None:
    """A file arrives whole, with its name and with the words beside it."""
    data = bytes(range(256)) * 300
    if not trial.has(Feature.FILES):
        effect = await trial.deliver("see the data", [trial.make_file("data.bin", data)])
        assert effect.state is EffectState.SENT and trial.count_shown("data.bin"), "the file is not named instead"
        raise FeatureMissing("the delivery names the file instead")
    name, mime = trial.platform.sample_file
    file = trial.make_file(name, data, mime=mime)
    await trial.send(op=Op.FILE, text="see the data", files=(file,))
    files = [each for shown in trial.platform.list_shown(trial.room) for each in shown.files]
    assert [each.name for each in files] == [name], f"there are {[each.name for each in files]}"
    assert files[0].data == data, f"{len(files[0].data)} bytes of {len(data)} arrived"
    assert trial.count_shown("see the data") == 1, "the words beside it are missing, or there twice"


async def check_large_files_out(trial: ChannelTrial) -> None:
    """A file of the largest size arrives; one that is larger is named instead."""
    if not trial.has(Feature.FILES) or not trial.kind.largest_file:
        raise FeatureMissing("there are no files, or no limit is known")
    if trial.kind.largest_file <= LARGEST_TRIED:
        name, mime = trial.platform.sample_file
        await trial.send(op=Op.FILE, files=(trial.make_file(name, size=trial.kind.largest_file, mime=mime),))
        sizes = [len(file.data) for each in trial.platform.list_shown(trial.room) for file in each.files]
        assert sizes == [trial.kind.largest_file], f"files of {sizes} bytes are there"
    effect = await trial.deliver("see the film", [trial.make_file("film.bin", size=trial.kind.largest_file + 1)])
    assert effect.state is EffectState.SENT, f"it is {effect.state}: {effect.reason}"
    assert trial.count_shown("film.bin") == 1, "nobody is told that there is a file"


async def check_voice(trial: ChannelTrial) -> None:
    """Spoken words are a voice message where there are any, else a file."""
    voice = trial.make_file("voice.ogg", b"OggS" + bytes(400), mime="audio/ogg")
    if not trial.kind.features & {Feature.VOICE, Feature.FILES}:
        require_hint(trial, Op.VOICE)
        raise FeatureMissing("refused, with a hint")
    shown = await trial.send(op=Op.VOICE, text="spoken words", files=(voice,))
    spoken = [each for each in trial.platform.list_shown(trial.room) if each.voice]
    if not trial.has(Feature.VOICE):
        if not shown.files and "voice.ogg" in shown.text:
            raise FeatureMissing("the platform takes no sound; it is named")
        assert shown.files and not spoken, "voice works and is not declared" if spoken else "no file was sent"
        raise FeatureMissing("the sound is a file")
    assert len(spoken) == 1, f"{len(spoken)} voice messages are there"
    assert spoken[0].files[0].data == b"OggS" + bytes(400), "the sound is another"


async def check_long_texts(trial: ChannelTrial) -> None:
    """A long text with a code block arrives whole, in parts that the platform takes, each once and in order."""
    limit = trial.kind.max_text
    if not limit:
        raise FeatureMissing("there is no limit")
    words = [f"w{number:05d}" for number in range(max(limit // 3, 100))]
    half = len(words) // 2
    code = "\n".join(" ".join(words[at : at + 8]) for at in range(half, len(words), 8))
    effect = await trial.deliver(f"{' '.join(words[:half])}\n\n```python\n{code}\n```")
    assert effect.state is EffectState.SENT, f"the last part is {effect.state}: {effect.reason}"
    parts = trial.platform.texts(trial.room)
    found = [word for part in parts for word in re.findall(r"w\d{5}", part)]
    assert found == words, f"{len(found)} words of {len(words)} arrived, or in another order"
    assert len(parts) > 1, "it is one message, longer than the limit"
    longest = max(measure(" ".join(part.split()), trial.kind.text_unit) for part in parts)  # some wrap lines
    assert longest <= limit, f"a part has {longest} {trial.kind.text_unit}"


async def check_marked_text(trial: ChannelTrial) -> None:
    """Marked text is shown as the platform can, every word of it."""
    shown = await trial.send(text=MARKED)
    text = strip_markdown(shown.text) if trial.platform.reads_markdown else shown.text
    missing = [word for word in WORDS if word.lower() not in text.lower()]
    assert not missing, f"these words are gone: {missing}"
    assert "**bold**" not in text, "people read the marks"


async def check_pings_nobody(trial: ChannelTrial) -> None:
    """Words that wake people on the platform wake nobody if an agent writes them: in text, edits, files and cards."""
    rule = trial.platform.ping_rule
    if rule is None:
        raise FeatureMissing("words alone wake nobody there")
    pings = rule.list_pings(trial.platform)
    words = "\n".join(["news for " + ", ".join(pings), *pings, *(f"**{each}** and ({each})" for each in pings)])
    shown = await trial.send(text=words)
    require_silence(trial, "a text")
    if trial.has(Feature.EDIT):
        await trial.send(op=Op.EDIT, target=shown.id, text=f"again: {words}")
        require_silence(trial, "an edit")
    if trial.has(Feature.FILES):
        name, mime = trial.platform.sample_file
        await trial.send(op=Op.FILE, text=words, files=(trial.make_file(name, b"data", mime=mime),))
        require_silence(trial, "the words beside a file")
    card = Card(title=f"{pings[0]} asks", text=words, buttons=BUTTONS)
    await trial.send(op=Op.CARD, text=render_text(card), card=card)
    require_silence(trial, "a card")


def require_silence(trial: ChannelTrial, where: str) -> None:
    woken = trial.platform.list_woken()
    assert not woken, f"{where} wakes {', '.join(dict.fromkeys(woken))}"


async def check_typing(trial: ChannelTrial) -> None:
    """People see that somebody is at work."""
    if not trial.has(Feature.TYPING):
        assert not isinstance(trial.channel, SupportsTyping), "there is a method typing, and it is not declared"
        raise FeatureMissing("there is no such sign")
    assert isinstance(trial.channel, SupportsTyping), "TYPING is declared, and there is no method typing"
    await trial.start()
    asked = await trial.pass_marker("a question")  # on some platforms the sign belongs to a message
    if isinstance(trial.channel, SupportsReadMarks):  # and to one that an agent has taken
        await trial.channel.mark_read(trial.address, "", (asked.platform_id,))
    await trial.channel.typing(trial.address, "", True)
    try:
        await trial.until(lambda: trial.room in trial.platform.get_typing(), "the sign")
    except NotOffered:
        raise CheckImpossible("this platform does not show it") from None
    finally:
        await trial.channel.typing(trial.address, "", False)


async def check_cards(trial: ChannelTrial) -> None:
    """A card has its buttons, and a click comes back with the id of the button and who pressed it."""
    await trial.start()
    shown = await trial.send(op=Op.CARD, text=render_text(CARD), card=CARD)
    if not trial.has(Feature.CARDS):
        assert "1. Allow once" in shown.text and "2. Deny" in shown.text, f"the card says {shown.text!r}"
        assert not shown.buttons
        raise FeatureMissing("numbered answers instead")
    assert shown.buttons == ["Allow once", "Deny"], f"the buttons are {shown.buttons}"
    assert "Home asks" in shown.text and "May it?" in shown.text, f"the card says {shown.text!r}"
    try:
        trial.platform.click(trial.room, shown.id, "Deny", sender="ann")
    except NotOffered:
        raise CheckImpossible("nobody can click on this platform") from None
    event = await trial.receive_one(lambda each: each.event == CLICK, "the click")
    assert event.click == "suite:1", f"the click is {event.click!r}"
    assert (event.address, event.sender) == (trial.address, trial.platform.get_sender("ann"))


async def check_decided_cards(trial: ChannelTrial) -> None:
    """A card that is decided says so and has no buttons any more."""
    shown = await trial.send(op=Op.CARD, text=render_text(CARD), card=CARD)
    if not trial.has(Feature.EDIT):
        raise FeatureMissing("the decision is a message of its own")
    await trial.send(op=Op.EDIT, text=render_text(DECIDED), card=DECIDED, target=shown.id)
    now = trial.platform.find(shown.id)
    assert "Allowed by Ada" in now.text, f"it says {now.text!r}"
    assert not now.buttons, f"it still has {now.buttons}"


async def check_pins(trial: ChannelTrial) -> None:
    """A message is pinned and unpinned."""
    shown = await trial.send(text="remember this")
    pin, unpin = (trial.make_message(op=op, target=shown.id) for op in (Op.PIN, Op.UNPIN))
    if not trial.has(Feature.PIN):
        require_hint(trial, Op.PIN)
        await trial.try_undeclared(op=Op.PIN, target=shown.id)
        assert not trial.platform.find(shown.id).pinned, "pins work and are not declared"
        raise FeatureMissing("refused, with a hint")
    await trial.channel.send(trial.address, pin)
    await trial.until(lambda: trial.platform.find(shown.id).pinned, "the pin")
    await trial.channel.send(trial.address, unpin)
    await trial.until(lambda: not trial.platform.find(shown.id).pinned, "the end of the pin")


async def check_all_pins_removed(trial: ChannelTrial) -> None:
    """All pins of a room are removed by one operation."""
    if not trial.has(Feature.UNPIN_ALL):
        require_hint(trial, Op.UNPIN_ALL)
        raise FeatureMissing("refused, with a hint")
    shown = [await trial.send(text=f"remember {number}") for number in range(2)]
    for each in shown:
        await trial.channel.send(trial.address, trial.make_message(op=Op.PIN, target=each.id))
    await trial.until(lambda: all(trial.platform.find(each.id).pinned for each in shown), "both pins")
    await trial.channel.send(trial.address, trial.make_message(op=Op.UNPIN_ALL))
    await trial.until(lambda: not any(trial.platform.find(each.id).pinned for each in shown), "the end of all pins")


async def check_posts(trial: ChannelTrial) -> None:
    """A post of the bot's own appears, and answers nobody."""
    if not trial.has(Feature.POST):
        require_hint(trial, Op.POST)
        raise FeatureMissing("refused, with a hint")
    shown = await trial.send(op=Op.POST, text="news for all")
    assert "news for all" in shown.text and not shown.reply_to


async def check_passing_on(trial: ChannelTrial) -> None:
    """A message of somebody is forwarded, quoted or reposted, each if it is declared."""
    ops = {Op.FORWARD: Feature.FORWARD, Op.QUOTE: Feature.QUOTE, Op.REPOST: Feature.REPOST}
    for op, feature in ops.items():
        if feature not in trial.kind.features:
            require_hint(trial, op)
            continue
        await trial.start()
        written, before = trial.write(f"worth a {op}"), len(trial.platform.list_shown())
        asked = trial.make_message(op=op, target=written, source=trial.address, text="" if op != Op.QUOTE else "look")
        if op is Op.FORWARD:
            asked = replace(asked, passed=PassedMessage(author="Ann", text=f"worth a {op}"))
        assert await trial.channel.send(trial.address, asked)
        assert len(trial.platform.list_shown()) == before + 1, f"nothing is there after {op}"
        if op is Op.FORWARD:
            assert f"worth a {op}" in trial.platform.list_shown()[-1].text, "it is passed on without its words"
    if not trial.kind.features & set(ops.values()):
        raise FeatureMissing("refused, with a hint")


async def check_panes(trial: ChannelTrial) -> None:
    """A conversation in a pane has a title, and accepts prompts and another title."""
    if not trial.has(Feature.PANE):
        require_hint(trial, Op.PROMPTS)
        require_hint(trial, Op.TITLE)
        raise FeatureMissing("refused, with a hint")
    await trial.start()
    try:
        thread = trial.platform.open_pane("ann")
        await trial.until(lambda: trial.platform.get_title(thread), "the first title")
    except NotOffered:
        raise CheckImpossible("nobody can open a pane on this platform") from None
    address = trial.platform.get_address("direct:ann")
    prompts = (PromptButton("More", "tell me more"),)
    await trial.channel.send(address, trial.make_message(op=Op.PROMPTS, prompts=prompts, thread=thread))
    await trial.channel.send(address, trial.make_message(op=Op.TITLE, text="About stamps", thread=thread))
    assert trial.platform.get_title(thread) == "About stamps"


async def check_direct_rooms(trial: ChannelTrial) -> None:
    """The bot opens a private room with somebody, and can write there."""
    if not trial.has(Feature.DIRECT):
        assert not isinstance(trial.channel, SupportsDirect), "there is a method open_direct, and it is not declared"
        raise FeatureMissing("only people can open one")
    assert isinstance(trial.channel, SupportsDirect), "DIRECT is declared, and there is no method open_direct"
    await trial.start()
    opened = await trial.channel.open_direct(trial.platform.get_sender("ann"))
    assert opened == trial.platform.get_address("direct:ann"), f"it is {opened}"
    shown = await trial.send("direct:ann", text="between us")
    assert shown.room == "direct:ann"


async def check_history(trial: ChannelTrial) -> None:
    """Earlier messages can be asked for: oldest first, with their times, the bot's own marked."""
    if not trial.has(Feature.HISTORY):
        assert not isinstance(trial.channel, SupportsHistory), "there is a method history, and it is not declared"
        raise FeatureMissing("bots cannot look back")
    assert isinstance(trial.channel, SupportsHistory), "HISTORY is declared, and there is no method history"
    trial.write("said first")
    await trial.send(text="said second")
    trial.write("said third")
    found = await trial.channel.history(trial.address, None, 10)
    said = [each.text for each in found if "said" in each.text]
    order = [next(word for word in ("first", "second", "third") if word in text) for text in said]
    assert sorted(order) == ["first", "second", "third"], f"it tells {order}"
    assert [each.sender == MYSELF for each in found if "second" in each.text] == [True], (
        "the bot's words are not its own"
    )
    assert all(each.at for each in found), "a message has no time"
    assert len(await trial.channel.history(trial.address, None, 1)) == 1, "the limit is not kept"


async def check_subscribing(trial: ChannelTrial) -> None:
    """A thread can be followed."""
    if not trial.has(Feature.SUBSCRIBE):
        assert not isinstance(trial.channel, SupportsSubscribe), "there is a method subscribe, and it is not declared"
        raise FeatureMissing("the platform sends what is in threads by itself, or has none")
    assert isinstance(trial.channel, SupportsSubscribe), "SUBSCRIBE is declared, and there is no method subscribe"
    await trial.start()
    root = trial.write("a topic")
    await trial.channel.subscribe(trial.address, root)
    trial.write("news in the thread", thread=root)
    await trial.receive_text("news in the thread")
