"""The emulated Bluesky, judged by the atproto library."""

import pytest

from gatepost_testing.platforms.bluesky import BOT_HANDLE, BlueskyPlatform

pytestmark = pytest.mark.slow


async def test_the_librarys_calls_do_what_they_say() -> None:
    atproto = pytest.importorskip("atproto")
    with BlueskyPlatform() as platform:
        assert isinstance(platform, BlueskyPlatform)
        client = atproto.AsyncClient(base_url=platform.url)
        await client.login(BOT_HANDLE, platform.token)
        theirs = platform.send("hello")
        listed = await client.app.bsky.notification.list_notifications()
        (note,) = listed.notifications
        assert (note.reason, note.uri) == ("mention", theirs)
        ref = atproto.models.create_strong_ref(note)
        mine = await client.send_post("hi", reply_to={"root": ref, "parent": ref})
        await client.like(note.uri, note.cid)
        again = await client.repost(note.uri, note.cid)
        (shown,) = (await client.get_posts([mine.uri])).posts
        assert shown.record.text == "hi" and platform.find(mine.uri).reply_to == theirs
        assert platform.find(theirs).reactions == [("❤", "bot")] and platform.find(again.uri).text.startswith("reposts")
        picture = await client.send_image("look", b"\x89PNG abc", "a picture")
        assert [each.data for each in platform.find(picture.uri).files] == [b"\x89PNG abc"]
        await client.delete_post(mine.uri)
        assert platform.find(mine.uri).deleted


async def test_the_librarys_private_messages_arrive() -> None:
    atproto = pytest.importorskip("atproto")
    with BlueskyPlatform() as platform:
        assert isinstance(platform, BlueskyPlatform)
        client = atproto.AsyncClient(base_url=platform.url)
        await client.login(BOT_HANDLE, platform.token)
        chat = client.with_bsky_chat_proxy().chat.bsky.convo
        did = platform.get_sender("ann").removeprefix("bluesky:user/")
        conversation = (await chat.get_convo_for_members({"members": [did]})).convo
        await chat.send_message({"convo_id": conversation.id, "message": {"text": "psst"}})
        assert platform.texts("direct:ann") == ["psst"]
        before = (await chat.get_log()).cursor
        platform.send("yes?", room="direct:ann")
        (entry,) = (await chat.get_log({"cursor": before})).logs
        assert entry.message.text == "yes?" and entry.convo_id == conversation.id


async def test_wrong_calls_of_the_library_are_refused_by_the_servers_names() -> None:
    atproto = pytest.importorskip("atproto")
    atproto_client = pytest.importorskip("atproto_client")
    with BlueskyPlatform() as platform:
        assert isinstance(platform, BlueskyPlatform)
        client = atproto.AsyncClient(base_url=platform.url)
        with pytest.raises(atproto_client.exceptions.UnauthorizedError, match="Invalid identifier or password"):
            await client.login(BOT_HANDLE, "wrong")
        await client.login(BOT_HANDLE, platform.token)
        platform.send("psst", room="direct:ann")
        chat = client.with_bsky_chat_proxy().chat.bsky.convo
        convo = platform.get_address("direct:ann").rpartition("/")[2]
        wrong = [
            (client.send_post("x" * 301), "300 graphemes"),
            (client.send_post("e" + "\u0301" * 1501), "3000 characters"),
            (client.get_post("3k", "did:plc:x"), "RecordNotFound"),
            (client.get_profile("nobody.test"), "Profile not found"),
            (chat.send_message({"convo_id": "3none", "message": {"text": "x"}}), "InvalidConvo"),
            (chat.send_message({"convo_id": convo, "message": {"text": "x" * 1001}}), "1000 graphemes"),
        ]
        for call, words in wrong:
            with pytest.raises(atproto_client.exceptions.BadRequestError) as refused:
                await call
            assert words in str(refused.value)
