"""Older names of tools, with their older parameters, and other names of a tool's parameters. Hidden from tools/list;
the permission is that of the tool meant.

The map is data: a name, the tool, what its parameters are called there, and what is given in any case.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Alias:
    tool: str
    renamed: Mapping[str, str] = field(default_factory=dict)  # old parameter → new
    given: Mapping[str, Any] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()  # taken and of no effect

    def translate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the tool meant. What somebody said wins over what is given; a new name also works."""
        said = {self.renamed.get(name, name): value for name, value in arguments.items() if name not in self.dropped}
        return {**self.given, **said}


ROOM = {"jid": "chatJid", "chat_jid": "chatJid"}
ALIASES: Mapping[str, Alias] = {
    "send_message": Alias("send", {**ROOM, "message": "text", "content": "text"}),
    "send_reply": Alias("reply", {**ROOM, "message": "text", "content": "text", "reply_to": "replyToId"}),
    "send_document": Alias("send_file", {**ROOM, "path": "filepath", "name": "filename"}),
    "edit_message": Alias("edit", {**ROOM, "messageId": "targetId", "message_id": "targetId", "text": "content"}),
    "add_reaction": Alias("like", {**ROOM, "messageId": "targetId", "message_id": "targetId", "emoji": "reaction"}),
    "clear_session": Alias("reset_session", {"folder": "groupFolder", "group": "groupFolder"}),
    "get_groups": Alias("refresh_groups"),
    "spawn_group": Alias("register_group", {"chatJid": "jid"}, {"fromPrototype": True}),
    "register_agent_group": Alias("register_group", {"chatJid": "jid"}),
    "delegate_to_child": Alias("delegate_group", {"child": "group", "jid": "chatJid"}),
    "delegate_to_parent": Alias("escalate_group", {"jid": "chatJid"}),
    "create_agent": Alias("create_agent", {"provider": "agentType"}),  # as all other tools call it
    "get_task": Alias("inspect_tasks", {"taskId": "task_id", "id": "task_id"}),
}
