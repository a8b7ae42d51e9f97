"""Rooms in which a group is spoken to once and stays in the conversation for a while."""

from gatepost.core.clock import DAY, SECOND
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.intake.engagement import TTL_S
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.messages.inbound import Attachment, Inbound, MessageKind, Quote, Receipt, Verb
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.outbox import EffectOrigin, EffectState
from gatepost.store.money import ledger
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import engagements, rooms, routes
from gatepost.store.rooms.engagements import Engagement
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import NEVER_ENDS, Route
from gatepost.store.sessions import groups
from gatepost_testing.clock import NOON
from gatepost_testing.counting import CountingDb

from .conftest import MEMBER, OWNER, ROOM, STRANGER, World

TEN_MINUTES = 600 * SECOND


async def gate(world: World, ttl_s: int | None = None) -> None:
    """Mentions wake `home`; it observes the rest."""
    await world.route("verb=mention", "home", seq=10, ttl_s=ttl_s)
    await world.route("", "home#observe", seq=20)


async def engaged(world: World, thread: str = "") -> list[Engagement]:
    return await world.store.read(engagements.list_at, "tg", ROOM, thread)


async def states(world: World, receipt: Receipt) -> dict[str, str]:
    return {entry.folder: entry.state for entry in await world.entries(receipt)}


async def say_as_agent(world: World, folder: str, platform_id: str, thread: str = "") -> None:
    def say(db: Db) -> None:
        new = OutgoingMessage(
            key=platform_id,
            origin=EffectOrigin.RESULT,
            instance="tg",
            address=ROOM,
            thread=thread,
            text="well",
            folder=folder,
        )
        [effect] = add_outgoing_message(db, ChannelInstances({}), new, NOON)
        outbox.claim_head(db, "tg", ROOM, "me", NOON, DAY)
        outbox.record_outcome(db, effect.id, EffectState.SENT, "", NOON, platform_id=platform_id)

    await world.do(say)


async def test_arizuko_24_a_mention_engages_and_what_follows_needs_none_until_the_time_is_over(world: World) -> None:
    await gate(world)
    assert (await world.send("before")).state == "observed"
    assert (await world.send("hello", verb=Verb.MENTION)).state == "queued"
    assert (await world.send("and then?", MEMBER)).state == "queued"
    assert (await world.send("elsewhere", thread="T")).state == "observed"
    world.clock.advance(599)
    assert (await world.send("still here")).state == "queued"
    world.clock.advance(1)
    assert (await world.send("too late")).state == "observed"


async def test_what_people_write_does_not_extend_it_and_a_mention_does(world: World) -> None:
    await gate(world)
    await world.send("hello", verb=Verb.MENTION)
    world.clock.advance(400)
    await world.send("more")
    assert [each.until for each in await engaged(world)] == [NOON + TEN_MINUTES]
    await world.send("again", verb=Verb.MENTION)
    assert [each.until for each in await engaged(world)] == [NOON + 400 * SECOND + TEN_MINUTES]


async def test_what_an_agent_a_task_or_a_reaction_brings_engages_nobody(world: World) -> None:
    await gate(world)
    await say_as_agent(world, "home", "a1")
    await world.send("due", "agent:home", kind=MessageKind.CHAT, verb=Verb.MENTION)
    await world.send("due", "task:t1", kind=MessageKind.TASK, verb=Verb.MENTION)
    await world.send("👍", platform_id="a1", event=f"reaction:👍:{OWNER}")
    await world.send("/status", verb=Verb.MENTION)
    assert await engaged(world) == []


async def test_a_timers_message_is_no_plain_message_of_the_conversation(world: World) -> None:
    await gate(world)
    await world.send("hello", verb=Verb.MENTION)
    assert (await world.send("due", "task:t1", kind=MessageKind.TASK)).state != "queued"


async def test_who_is_woken_by_everything_is_never_written_down_as_engaged(routed: World) -> None:
    await routed.send("hello", direct=True)
    await routed.send("hello", verb=Verb.MENTION)
    assert await engaged(routed) == []


async def test_a_direct_message_engages_where_only_some_words_would_wake_the_group(world: World) -> None:
    await world.route("text=/^hey/", "home")
    assert (await world.send("hey you", direct=True)).state == "queued"
    assert (await world.send("and then?", direct=True)).state == "queued"


async def test_a_route_with_a_time_engages_by_its_words_and_one_without_does_not(world: World) -> None:
    await world.route("text=/^hey/", "home")
    await world.send("hey you")
    assert (await world.send("and then?")).reason == "no_route"
    await world.route("text=/^ho/", "home", ttl_s=60)
    await world.send("ho you")
    assert (await world.send("and then?")).state == "queued"
    world.clock.advance(60)
    assert (await world.send("and then?")).reason == "no_route"


async def test_a_time_of_nothing_engages_nobody_and_never_has_no_end(world: World) -> None:
    await gate(world, ttl_s=0)
    await world.send("hello", verb=Verb.MENTION)
    assert await engaged(world) == []
    await world.route("verb=mention", "home", seq=5, ttl_s=NEVER_ENDS)
    await world.send("hello", verb=Verb.MENTION, thread="T")
    world.clock.advance(3650 * DAY // SECOND)
    assert (await world.send("years later", thread="T")).state == "queued"
    assert (await world.send("elsewhere")).state == "observed"


async def test_a_removed_route_a_removed_group_and_a_drop_end_it_at_once(world: World) -> None:
    await world.do(lambda db: groups.add(db, "acme", "Acme", "scripted", NOON))
    await world.route("", "home#observe", seq=20)
    for end in ("route", "group", "drop"):
        route = await world.route("verb=mention", "acme", seq=10)
        assert (await world.send("hello", verb=Verb.MENTION)).state == "queued"
        assert (await states(world, await world.send("on")))["acme"] == "queued"
        if end == "route":
            await world.do(lambda db, gone=route: routes.remove(db, gone))
            assert await states(world, await world.send("over")) == {"home": "observed"}
        elif end == "group":
            await world.do(lambda db: groups.remove(db, "acme"))
            assert await states(world, await world.send("over")) == {"home": "observed"}
            await world.do(lambda db: groups.add(db, "acme", "Acme", "scripted", NOON))
        else:
            await world.route("", "drop", seq=1)
            assert (await world.send("over")).reason.startswith("dropped_by_route")


async def test_every_sender_is_judged_as_without_it(world: World) -> None:
    await gate(world)
    await world.send("hello", verb=Verb.MENTION)
    receipt = await world.send("let me in", STRANGER)
    assert (receipt.state, receipt.reason) == ("refused", "unknown_sender_strict")
    await world.send("me too", STRANGER, verb=Verb.MENTION, thread="T")
    assert await engaged(world, "T") == []


async def test_of_groups_whose_routes_do_not_go_on_the_last_that_was_spoken_to_is_engaged(world: World) -> None:
    for folder in ("a", "b"):
        await world.do(lambda db, folder=folder: groups.add(db, folder, folder, "scripted", NOON))
        await world.route(f"text=/^!{folder}/", folder, ttl_s=600)
    await world.send("!a hello")
    assert await states(world, await world.send("more")) == {"a": "queued"}
    await world.send("!b hello")
    assert await states(world, await world.send("more")) == {"b": "queued"}


async def test_two_agents_whose_routes_go_on_share_a_conversation_and_are_spoken_to_apart(world: World) -> None:
    for folder in ("a", "b"):
        await world.do(lambda db, folder=folder: groups.add(db, folder, folder, "scripted", NOON))
        await world.route(f"text=/^!{folder}/", folder, ttl_s=600, also=True)
    await world.send("!a hello")
    world.clock.advance(300)
    assert await states(world, await world.send("!b hello")) == {"b": "queued"}
    assert await states(world, await world.send("both?")) == {"a": "queued", "b": "queued"}
    world.clock.advance(300)
    assert await states(world, await world.send("still?")) == {"b": "queued"}


async def test_arizuko_23_a_reply_to_a_childs_words_goes_to_the_child_once_even_if_another_was_chosen(
    routed: World,
) -> None:
    for folder in ("home/eng", "home/ops"):
        await routed.do(lambda db, folder=folder: groups.add(db, folder, folder, "scripted", NOON))
    await say_as_agent(routed, "home/eng", "a1")
    await routed.send("@home/ops")
    assert await states(routed, await routed.send("why?", reply_to=Quote(platform_id="a1"))) == {"home/eng": "queued"}
    assert await states(routed, await routed.send("and this?")) == {"home/ops": "queued"}
    await routed.send("@")
    assert await states(routed, await routed.send("and this?")) == {"home": "queued"}


async def test_a_reaction_goes_to_the_group_whose_words_it_is_about_and_engages_nobody(world: World) -> None:
    await gate(world)
    await world.do(lambda db: groups.add(db, "home/eng", "Eng", "scripted", NOON))
    await say_as_agent(world, "home/eng", "a1")
    receipt = await world.send("👍", platform_id="a1", event=f"reaction:👍:{OWNER}")
    assert await states(world, receipt) == {"home/eng": "queued"}
    assert await engaged(world) == []


async def test_a_reply_that_is_edited_wakes_nobody_again(world: World) -> None:
    await gate(world)
    await say_as_agent(world, "home", "a1")
    reply = Quote(platform_id="a1")
    assert (await world.send("why?", reply_to=reply, platform_id="m77")).state == "queued"
    edited = await world.send("why not?", reply_to=reply, platform_id="m77", event="edit:1", verb=Verb.EDIT)
    assert edited.state == "observed"


async def test_arizuko_22_a_group_alone_is_chosen_confirmed_and_holds_for_its_sender_in_that_thread(
    routed: World,
) -> None:
    await routed.do(lambda db: groups.add(db, "home/eng", "Eng", "scripted", NOON))
    await routed.do(lambda db: users.add_member(db, MEMBER, "home/eng", "test", NOON))
    receipt = await routed.send("@home/eng", MEMBER)
    assert (receipt.state, receipt.reason) == ("answered", "chosen")
    assert await routed.notices() == ["From now on home/eng gets what you write here. Send @ alone to end that."]
    assert routed.rooms_woken == [ROOM]
    assert await states(routed, await routed.send("hello", MEMBER)) == {"home/eng": "queued"}
    assert await states(routed, await routed.send("hello")) == {"home": "queued"}
    assert await states(routed, await routed.send("hello", MEMBER, thread="T")) == {"home": "queued"}
    assert (await routed.send("@", MEMBER)).reason == "chosen"
    assert await states(routed, await routed.send("hello", MEMBER)) == {"home": "queued"}
    assert await states(routed, await routed.send("@", MEMBER)) == {"home": "queued"}  # nothing left to end: text
    assert (await routed.store.read(ledger.check, NOON)).unaccounted == 0


async def test_arizuko_22_what_names_nobody_reaches_the_agent_as_it_is(routed: World) -> None:
    for text in ("@unknown", "@unknown hello", "hello @eng", "#1 first"):
        receipt = await routed.send(text)
        assert await states(routed, receipt) == {"home": "queued"}
        assert (await routed.message(receipt)).content["text"] == text
    assert await routed.notices() == []


async def test_nobody_chooses_a_group_that_they_may_not_speak_to(world: World) -> None:
    await world.do(lambda db: groups.add(db, "acme", "Acme", "scripted", NOON))
    await world.route("text=/^!/", "acme", seq=5)
    await world.route("", "home", seq=10)
    receipt = await world.send("@acme", MEMBER)
    assert await states(world, receipt) == {"home": "queued"}
    assert await world.count("sticky_choices") == 0
    assert (await world.send("@home", STRANGER)).state == "refused"
    assert await world.count("sticky_choices") == 0


async def test_a_child_is_named_for_one_message_and_given_what_follows_its_name(routed: World) -> None:
    await routed.do(lambda db: groups.add(db, "home/eng", "Eng", "scripted", NOON))
    receipt = await routed.send("@eng look at this")
    assert await states(routed, receipt) == {"home/eng": "queued"}
    message = await routed.message(receipt)
    assert (message.text, message.content["text"]) == ("@eng look at this", "look at this")
    assert await states(routed, await routed.send("and this?")) == {"home": "queued"}


async def test_a_child_that_is_named_in_a_room_of_mentions_stays_in_the_conversation(world: World) -> None:
    await gate(world)
    await world.do(lambda db: groups.add(db, "home/eng", "Eng", "scripted", NOON))
    await world.send("@eng look at this")
    assert (await states(world, await world.send("and this?")))["home/eng"] == "queued"


async def test_a_stranger_reaches_no_world_by_its_name_where_routes_lead_to_root(world: World) -> None:
    await world.do(lambda db: groups.add(db, "root", "Root", "scripted", NOON))
    await world.do(lambda db: groups.add(db, "acme", "Acme", "scripted", NOON))
    await world.route("", "root")
    await world.send("first", OWNER)
    await world.do(lambda db: rooms.set_policy(db, "tg", ROOM, RoomPolicy.PUBLIC))
    assert (await world.send("hello", STRANGER)).state == "refused"
    for text in ("@acme hello", "@acme", "hello again"):
        assert (await world.send(text, STRANGER)).state == "refused"
    assert await world.count("sticky_choices") == 0

    assert await states(world, await world.send("@acme hello", OWNER)) == {"acme": "queued"}
    await world.do(lambda db: users.add(db, STRANGER, "Eve", NOON))
    await world.do(lambda db: users.add_member(db, STRANGER, "acme", "me", NOON))
    assert await states(world, await world.send("@acme hello", STRANGER)) == {"acme": "queued"}


async def test_a_file_with_a_name_alone_is_no_choice(routed: World) -> None:
    await routed.do(lambda db: groups.add(db, "home/eng", "Eng", "scripted", NOON))
    receipt = await routed.send("@eng", attachments=(Attachment(name="a.txt", data=b"x"),))
    assert (await states(routed, receipt), await routed.count("sticky_choices")) == ({"home": "queued"}, 0)


async def test_a_topic_has_a_conversation_of_its_own_once_or_until_it_is_ended(routed: World) -> None:
    await routed.send("hello")
    receipt = await routed.send("#daily what is new?")
    assert (await routed.message(receipt)).content["text"] == "what is new?"
    await routed.send("#daily")
    await routed.send("and today?")
    await routed.send("#")
    await routed.send("back again")
    by_thread = {session.thread: session.id for session in await routed.sessions()}
    rows = {
        thread: await routed.store.read(inbox.count_waiting, session_id) for thread, session_id in by_thread.items()
    }
    assert rows == {"": 2, "daily": 2}
    assert await routed.notices() == [
        "From now on what you write here belongs to the topic daily. Send # alone to end that.",
        "What you write here belongs to no topic of its own any more.",
    ]


class Talk:
    """Messages of one room through one cache, and the statements of each."""

    def __init__(self, db: Db) -> None:
        self._db, self._rules, self._count = db, RuleCache(), 0

    def forget(self) -> None:
        """This connection is not the writer's, which would notice by itself that something changed."""
        self._rules = RuleCache()

    def send(self, at: int, verb: Verb = Verb.MESSAGE) -> tuple[int, str]:
        self._count += 1
        inbound = Inbound(address=ROOM, platform_id=f"m{self._count}", sender=OWNER, text="hello", verb=verb)
        counting = CountingDb(self._db)
        arrival = make_arrival("tg", inbound, IntakeLimits(), at, 0)
        result = accept(counting, ChannelInstances({}), arrival, at, rules=self._rules)
        return counting.statements, result.receipt.state


def test_an_engaged_room_costs_no_statement_more_for_a_message(db: Db) -> None:
    groups.add(db, "home", "Home", "scripted", NOON)
    users.add(db, OWNER, "", NOON)
    users.add_role(db, OWNER, UserRole.OWNER, "", "test", NOON)
    for number, (match, target) in enumerate([("verb=mention", "home"), ("thread=T", "home"), ("", "home#observe")]):
        routes.add(db, Route(match=match, target=target, seq=number, folder="home", created_by="t", created_at=NOON))
    talk = Talk(db)
    observed = [talk.send(NOON + number) for number in range(3)][-1]
    assert observed[1] == "observed"
    talk.send(NOON + 10, Verb.MENTION)
    talk.forget()
    mentions = [talk.send(NOON + 20 + number, Verb.MENTION) for number in range(3)]
    plain = [talk.send(NOON + 30 + number) for number in range(3)]
    assert {state for _, state in (*mentions, *plain)} == {"queued"}
    assert plain[-1][0] == mentions[-1][0]  # a mention of a fresh engagement writes nothing either
    assert plain[-1][0] <= observed[0] + 1  # a row that wakes somebody needs no more than one that does not
    assert Config()[TTL_S] == 600


async def send_closing(world: World, number: int = 1, sender: str = OWNER) -> Receipt:
    return await world.send(
        "closed this issue", sender, platform_id="issue-1", event=f"close:{number}", verb=Verb.CLOSE
    )


async def test_what_somebody_does_without_words_is_context_unless_a_route_names_it(routed: World) -> None:
    assert (await send_closing(routed)).state == "observed"
    await routed.route("verb!=message", "home", seq=9)
    await routed.route("verb=*", "home", seq=8)
    await routed.route("text=/closed/", "home", seq=7)
    assert (await send_closing(routed, 2)).state == "observed"
    await routed.route("verb=merge|close", "home", seq=6)
    assert (await send_closing(routed, 3)).state == "queued"
    assert (await send_closing(routed, 3)).new is False


async def test_what_somebody_does_without_words_neither_engages_nor_counts_as_said_meanwhile(world: World) -> None:
    await world.route("verb=close", "home", seq=5, ttl_s=NEVER_ENDS)
    await world.route("verb=mention", "home", seq=10)
    await world.route("", "home#observe", seq=20)
    assert (await send_closing(world)).state == "queued"
    assert await engaged(world) == []
    await world.send("hello", verb=Verb.MENTION)
    reopened = await world.send("reopened", platform_id="issue-1", event="reopen:1", verb=Verb.REOPEN)
    assert reopened.state == "observed"


async def test_a_stranger_who_closes_something_is_refused_as_with_words(world: World) -> None:
    await world.route("verb=close", "home")
    assert (await send_closing(world, sender=STRANGER)).reason == "unknown_sender_strict"


async def test_what_begins_a_thread_below_an_agents_words_is_a_reply_and_engages_that_thread(world: World) -> None:
    """As on Slack, Discord and Matrix: the thread has the id of the message, and nothing is quoted."""
    await gate(world)
    await say_as_agent(world, "home", "a1")
    assert (await world.send("why?", thread="a1")).state == "queued"
    assert [each.folder for each in await engaged(world, "a1")] == ["home"]
    assert await engaged(world) == []
    assert (await world.send("and how?", MEMBER, thread="a1")).state == "queued"
    world.clock.advance(600)
    assert (await world.send("we go on among ourselves", thread="a1")).state == "observed"


async def test_where_everything_in_a_thread_quotes_its_root_only_the_first_is_a_reply(world: World) -> None:
    """As on Mattermost, which tells of no other replies."""
    await gate(world)
    await say_as_agent(world, "home", "a1")
    root = Quote(platform_id="a1")
    assert (await world.send("why?", thread="a1", reply_to=root, verb=Verb.REPLY)).state == "queued"
    world.clock.advance(600)
    assert (await world.send("among us", thread="a1", reply_to=root, verb=Verb.REPLY)).state == "observed"


async def test_a_reply_within_a_thread_or_a_topic_engages_there(world: World) -> None:
    """As on Telegram: a topic's id is no message of the agent's, and a reply quotes one."""
    await gate(world)
    await say_as_agent(world, "home", "a1", thread="77")
    assert (await world.send("a topic", thread="77")).state == "observed"
    assert (await world.send("why?", thread="77", reply_to=Quote(platform_id="a1"))).state == "queued"
    assert [each.folder for each in await engaged(world, "77")] == ["home"]


async def test_a_thread_below_somebody_elses_words_inherits_nothing_of_its_room(world: World) -> None:
    await gate(world)
    await world.send("hello", verb=Verb.MENTION, platform_id="p1")
    assert (await world.send("among us", thread="p1")).state == "observed"


async def test_a_thread_below_a_childs_words_is_for_the_child(world: World) -> None:
    await gate(world)
    await world.do(lambda db: groups.add(db, "home/eng", "Eng", "scripted", NOON))
    await say_as_agent(world, "home/eng", "a1")
    assert await states(world, await world.send("why?", thread="a1")) == {"home/eng": "queued"}
    assert (await states(world, await world.send("and?", thread="a1")))["home/eng"] == "queued"


async def test_who_left_a_thread_below_its_own_words_is_not_drawn_back(world: World) -> None:
    await gate(world)
    await say_as_agent(world, "home", "a1")
    await world.send("why?", thread="a1")
    await world.do(lambda db: engagements.remove(db, "tg", ROOM, "a1", "home"))
    assert (await world.send("thanks", thread="a1")).state == "observed"


async def test_a_stranger_who_begins_a_thread_engages_nobody(world: World) -> None:
    await gate(world)
    await say_as_agent(world, "home", "a1")
    assert (await world.send("why?", STRANGER, thread="a1")).state == "refused"
    assert await engaged(world, "a1") == []
    assert (await world.send("why?", thread="a1")).state == "queued"  # nor keeps others from it


async def test_a_program_neither_engages_nor_is_answered_for_being_there(world: World) -> None:
    """Two bots in one room would talk to each other without end."""
    bot = "tg:bot/5"
    await gate(world)
    await world.do(lambda db: users.add(db, bot, "", NOON))
    await world.do(lambda db: users.add_member(db, bot, "home", "test", NOON))
    assert (await world.send("build failed", bot, verb=Verb.MENTION)).state == "queued"
    assert await engaged(world) == []
    await world.send("hello", verb=Verb.MENTION)
    assert (await world.send("well", bot)).state == "observed"
    assert (await world.send("I, too", "tg:t/webhook/7")).state == "refused"


async def test_an_edit_that_adds_a_mention_neither_wakes_nor_engages(world: World) -> None:
    await gate(world)
    await world.send("helo", platform_id="m77")
    edited = await world.send("@bot hello", platform_id="m77", event="edit:1", verb=Verb.EDIT)
    assert (edited.state, await engaged(world)) == ("observed", [])
    await world.send("hello", verb=Verb.MENTION)
    again = await world.send("@bot hallo", platform_id="m77", event="edit:2", verb=Verb.EDIT)
    assert again.state == "observed"


async def test_a_choice_of_a_group_that_is_gone_or_forbidden_since_holds_no_longer(routed: World) -> None:
    for folder in ("home/eng", "home/ops"):
        await routed.do(lambda db, folder=folder: groups.add(db, folder, folder, "scripted", NOON))
        await routed.do(lambda db, folder=folder: users.add_member(db, MEMBER, folder, "test", NOON))
    await routed.send("@home/eng", MEMBER)
    assert await states(routed, await routed.send("hello", MEMBER)) == {"home/eng": "queued"}
    await routed.do(lambda db: groups.remove(db, "home/eng"))
    assert await states(routed, await routed.send("hello", MEMBER)) == {"home": "queued"}
    await routed.send("@home/ops", MEMBER)
    row = AclRow(id=0, principal=MEMBER, action="interact", scope="home/ops", effect=AclEffect.DENY)
    await routed.do(lambda db: acl.put(db, row, NOON))
    assert await states(routed, await routed.send("hello", MEMBER)) == {"home": "queued"}


async def test_who_may_not_speak_to_the_engaged_group_reaches_whom_routes_say(world: World) -> None:
    await world.do(lambda db: groups.add(db, "acme", "Acme", "scripted", NOON))
    await world.route("text=/^!a/", "acme", seq=5, ttl_s=600)
    await world.route("", "home", seq=10)
    await world.send("!a hello")
    assert await states(world, await world.send("and then?")) == {"acme": "queued"}
    assert await states(world, await world.send("what of me?", MEMBER)) == {"home": "queued"}
    assert (await world.send("and me?", STRANGER)).state == "refused"


async def test_a_group_that_leaves_takes_no_other_with_it(world: World) -> None:
    for folder in ("a", "b"):
        await world.do(lambda db, folder=folder: groups.add(db, folder, folder, "scripted", NOON))
        await world.route(f"text=/^!{folder}/", folder, ttl_s=NEVER_ENDS, also=True)
    await world.send("!a hello")
    await world.send("!b hello")
    await world.do(lambda db: engagements.remove(db, "tg", ROOM, "", "a"))
    assert await states(world, await world.send("more")) == {"b": "queued"}
