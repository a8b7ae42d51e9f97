"""The state of an emulated Reddit: posts with comments in one subreddit, and private messages."""

import itertools
import time
from typing import Any

from gatepost_testing.platforms.base import ShownMessage
from gatepost_testing.platforms.rest import RestPlatform

NAME, SUBREDDIT = "porter", "Testing"
CONTEXT = 8  # comments above one that are shown
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class RedditState(RestPlatform):
    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(36**5)
        self._posts: dict[str, dict[str, Any]] = {}  # room -> its post
        self._things: dict[str, dict[str, Any]] = {}  # name -> a comment, a message or a post

    def _get_post(self, room: str) -> dict[str, Any]:
        with self.changed:
            return self._posts.get(room) or self._add_post(room, "op", f"About {room}", "What do you think?")

    def _make_name(self, kind: str) -> tuple[str, str]:
        number, digits = next(self._numbers), ""
        while number:
            number, digit = divmod(number, 36)
            digits = DIGITS[digit] + digits
        return digits, f"{kind}_{digits}"

    def _add_post(self, room: str, sender: str, title: str, text: str) -> dict[str, Any]:
        number, name = self._make_name("t3")
        post = self._add(name, number, sender, title=title, selftext=text, is_self=True, subreddit=SUBREDDIT)
        self._posts[room] = post
        self.record.append(ShownMessage(id=name, room=room, sender=sender, text=f"{title}\n\n{text}"))
        return post

    def _add(self, name: str, number: str, sender: str, **fields: Any) -> dict[str, Any]:
        now = float(int(time.time()))
        thing = {"id": number, "name": name, "author": sender, "created_utc": now, "created": now, **fields}
        self._things[name] = thing
        return thing

    def _add_comment(self, sender: str, parent: str, text: str) -> str:
        number, name = self._make_name("t1")
        post = parent if parent.startswith("t3_") else str(self._things[parent]["link_id"])
        title = self._things[post]["title"]
        self._add(
            name, number, sender, parent_id=parent, link_id=post, link_title=title, body=text, subreddit=SUBREDDIT
        )
        room = next(each for each, found in self._posts.items() if found["name"] == post)
        answered = parent if parent.startswith("t1_") else ""
        self._show(name, room, sender, text, answered, self._find_root(name))
        return name

    def _add_message(self, sender: str, to: str, subject: str, text: str, parent: str) -> str:
        number, name = self._make_name("t4")
        first = self._things[parent].get("first_message_name") or parent if parent else None
        about = f"re: {subject}" if parent else subject
        self._add(
            name,
            number,
            sender,
            dest=to,
            subject=about,
            body=text,
            parent_id=parent or None,
            first_message_name=first,
            subreddit=None,
            replies="",
            was_comment=False,
        )
        other = to if sender == NAME else sender
        self._show(name, f"direct:{other}", sender, text, parent, "")
        return name

    def _show(self, name: str, room: str, sender: str, text: str, answered: str, thread: str) -> None:
        who = "bot" if sender == NAME else sender
        self.record.append(
            ShownMessage(id=name, room=room, sender=who, text=text, raw=text, reply_to=answered, thread=thread)
        )
        self.changed.notify_all()

    def _find_root(self, name: str) -> str:
        while str(self._things[name]["parent_id"]).startswith("t1_"):
            name = self._things[name]["parent_id"]
        return name

    def remove_thing(self, name: str) -> None:
        """Somebody deletes what they said. Others keep their answers to it; no list has it any more."""
        with self.changed:
            self._things[name] |= {"author": "[deleted]", "body": "[deleted]", "deleted": True}
            self.find(name).deleted = True

    def _find_above(self, name: str, steps: int) -> str:
        for _ in range(min(steps, CONTEXT)):
            if str(self._things[name]["parent_id"]).startswith("t3_"):
                break
            name = self._things[name]["parent_id"]
        return name

    def _list_there(self, kind: str) -> list[dict[str, Any]]:
        found = [each for name, each in self._things.items() if name.startswith(kind) and not each.get("deleted")]
        return found[::-1]
