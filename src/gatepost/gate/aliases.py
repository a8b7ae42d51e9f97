"""Older names of tools, with their older parameters, and other names of a tool's parameters. Hidden from tools/list;
the permission is that of the tool meant.

The map is data: a name, the tool, what its parameters are called there, and what is given in any case.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field


class ToolAlias(Struct, frozen=True):
    tool: str
    renamed: Mapping[str, str] = field(default_factory=dict)  # old parameter → new
    given: Mapping[str, Any] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()  # taken and of no effect

    def translate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments for the tool that is meant. Arguments of the call win over those of the alias; new names
        also work."""
        said = {self.renamed.get(name, name): value for name, value in arguments.items() if name not in self.dropped}
        return {**self.given, **said}


ROOM = {"jid": "chatJid", "chat_jid": "chatJid"}
ALIASES: Mapping[str, ToolAlias] = {
    "send_message": ToolAlias("send", {**ROOM, "message": "text", "content": "text"}),
    "send_reply": ToolAlias("reply", {**ROOM, "message": "text", "content": "text", "reply_to": "replyToId"}),
    "send_document": ToolAlias("send_file", {**ROOM, "path": "filepath", "name": "filename"}),
    "edit_message": ToolAlias("edit", {**ROOM, "messageId": "targetId", "message_id": "targetId", "text": "content"}),
    "add_reaction": ToolAlias("like", {**ROOM, "messageId": "targetId", "message_id": "targetId", "emoji": "reaction"}),
    "clear_session": ToolAlias("reset_session", {"folder": "groupFolder", "group": "groupFolder"}),
    "get_groups": ToolAlias("refresh_groups"),
    "spawn_group": ToolAlias("register_group", {"chatJid": "jid"}, {"fromPrototype": True}),
    "register_agent_group": ToolAlias("register_group", {"chatJid": "jid"}),
    "delegate_to_child": ToolAlias("delegate_group", {"child": "group", "jid": "chatJid"}),
    "delegate_to_parent": ToolAlias("escalate_group", {"jid": "chatJid"}),
    "create_agent": ToolAlias("create_agent", {"provider": "agentType"}),  # as all other tools call it
    "get_task": ToolAlias("inspect_tasks", {"taskId": "task_id", "id": "task_id"}),
}
