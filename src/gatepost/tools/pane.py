"""The pane beside a conversation, where a platform has one: what people may say next, and what it is about.

Both are shown with the agent's next message there, and stay until they are set anew.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.errors import Invalid
from gatepost.messages.outbound import Op
from gatepost.messages.text import clean
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import BODY, tool
from gatepost.tools.kit import outbox_effects
from gatepost.tools.kit.outbox_effects import Room, SendReceipt

MOST_PROMPTS = 16
LONGEST_TITLE = 256


class SuggestedPrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A button."""

    title: Annotated[str, Meta(description="What stands on it.")]
    message: Annotated[str, Meta(description="What the person says by pressing it.")]


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages", effects=(Subject.SPEAK,), idempotent=True)
async def pane_set_prompts(
    call: ToolCall,
    prompts: Annotated[
        list[SuggestedPrompt],
        Meta(description="1 to 16 buttons, of which people see three or four.", extra={BODY: True}),
    ],
    chatJid: Room = None,
) -> SendReceipt:
    """Suggest what people may say next, as buttons below the conversation, when you can tell what they will want.

    They come with your next message and replace the earlier ones. Only some platforms have them; elsewhere name the
    possibilities in your answer.
    """
    outbox_effects.require_feature(call, Op.PROMPTS)
    if not 1 <= len(prompts) <= MOST_PROMPTS:
        raise Invalid("prompts", f"has {len(prompts)} items; 1 to {MOST_PROMPTS} are possible")
    shown = [{"title": clean(each.title).strip(), "message": clean(each.message).strip()} for each in prompts]
    for place, each in enumerate(shown, start=1):
        for field, text in each.items():
            if not text:
                raise Invalid("prompts", f"item {place} has an empty {field}")
    titles = ", ".join(each["title"] for each in shown)
    return await outbox_effects.commit_effects(
        call,
        lambda db: [outbox_effects.add_effect(db, call, Op.PROMPTS, {"prompts": shown}, call.place.thread, titles)],
    )


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages", effects=(Subject.SPEAK,), idempotent=True)
async def pane_set_title(
    call: ToolCall,
    title: Annotated[str, Meta(description="At most 256 characters.")],
    chatJid: Room = None,
) -> SendReceipt:
    """Say what a conversation is about, in the title above it, when that has changed.

    It comes with your next message. Only some platforms have it.
    """
    outbox_effects.require_feature(call, Op.TITLE)
    said = " ".join(clean(title).split())
    if not said or len(said) > LONGEST_TITLE:
        raise Invalid("title", f"has {len(said)} characters; 1 to {LONGEST_TITLE} are possible")
    return await outbox_effects.commit_effects(
        call, lambda db: [outbox_effects.add_effect(db, call, Op.TITLE, {"text": said}, call.place.thread, said)]
    )
