"""Skills: which agents have which, drafts that nobody agreed to yet, and how a person agrees to one."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.arguments.groups import READ, WRITE
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.sessions.skills import AgreedSkill, SkillSource, render_folder, render_source, shorten_digest

LONGEST_SOURCE = 500  # characters
NONE = "none"  # in the place of a digest: nothing is agreed under the name
MOST_NAMED = 50  # skills of one source


class SkillCard(Struct, frozen=True, kw_only=True):
    """A content as a person decides by it. `before`: the digest that is agreed now under its name, '' for none.
    `changes`: the lines in which it differs from that."""

    name: Annotated[str, shown("Skill", ShownAs.ID, head="skill")]
    folder: Annotated[str, shown("For", head="for", render=render_folder)]
    digest: Annotated[str, shown("Digest", ShownAs.CODE, render=shorten_digest)]
    before: Annotated[str, shown("Agreed now", ShownAs.CODE, head="agreed now", render=shorten_digest)] = ""
    description: Annotated[str, shown("Says")]
    text_size: Annotated[int, shown("SKILL.md, bytes", ShownAs.NUMBER, head="text bytes")]
    size: Annotated[int, shown("Bytes", ShownAs.NUMBER)]
    files: Annotated[int, shown("Files", ShownAs.NUMBER)]
    origin: Annotated[str, shown("From", ShownAs.CODE)]
    revision: Annotated[str, shown("Commit", ShownAs.CODE)]
    license: Annotated[str, shown("License")]
    compatibility: Annotated[str, shown("Needs, it says", head="compatible")]
    allowed_tools: Annotated[list[str], shown("Tools that it asks for", head="tools")]
    scripts: Annotated[list[str], shown("Scripts")]
    hosts: Annotated[list[str], shown("Hosts named in it", head="hosts")]
    secrets: Annotated[list[str], shown("Keys that it wants", head="keys")]
    programs: Annotated[list[str], shown("Programs that it wants", head="programs")]
    notes: Annotated[list[str], shown("Mind", head="mind")]
    steps: Annotated[list[str], shown("To do before", head="to do")]
    changes: Annotated[list[str], shown("Changes", ShownAs.LONG)]

    @property
    def is_same(self) -> bool:
        """Return True if it is agreed to already."""
        return self.before == self.digest


class AgreedSkillView(AgreedSkill, frozen=True, kw_only=True):
    description: Annotated[str, shown("Says", head="says")] = ""


class DraftState(StrEnum):
    """The relation of a draft to what is agreed under its name."""

    NEW = "new"
    CHANGED = "changed"
    UNUSABLE = "unusable"


class SkillDraft(Struct, frozen=True, kw_only=True):
    """A folder in `skills/` of an agent's own folder, which it has not as a skill."""

    name: Annotated[str, shown("Draft", ShownAs.ID, head="draft")]
    folder: Annotated[str, shown("Agent", head="group")]
    state: Annotated[DraftState, shown("State", ShownAs.BADGE)]
    why: Annotated[str, shown("Why")] = ""  # it cannot be agreed to


class WaitingSkill(Struct, frozen=True, kw_only=True):
    """A content that was read and that nobody has agreed to. It is kept for a day."""

    name: Annotated[str, shown("Skill", ShownAs.ID, head="skill")]
    digest: Annotated[str, shown("Digest", ShownAs.CODE, render=shorten_digest)]
    description: Annotated[str, shown("Says", head="says")]
    source: Annotated[SkillSource, shown("Source", head="source", render=render_source)]
    origin: Annotated[str, shown("From", ShownAs.CODE)]
    read_at: Annotated[int, shown("Read", ShownAs.MOMENT, head="read")]


class SkillList(Struct, frozen=True):
    """`waiting`: only in the list of all. `more`: there are further drafts, which were not looked at."""

    skills: list[AgreedSkillView]
    drafts: list[SkillDraft]
    waiting: list[WaitingSkill] = []
    more: bool = False


class SkillDetails(AgreedSkill, frozen=True, kw_only=True):
    card: Annotated[SkillCard, shown("Card", details=True)]
    paths: Annotated[list[str], shown("Files", details=True)]
    text: Annotated[str, shown("SKILL.md", ShownAs.LONG, details=True)]


Digest = Annotated[str, Meta(max_length=64)]
SkillName = Annotated[str, Meta(max_length=100), argument("The skill.", "name", examples=("pr-review",))]
Holder = Annotated[
    str, option("The group; left out: every agent.", "group", metavar="GROUP", scope=True, examples=("acme/eng",))
]
Only = Annotated[list[str], Meta(max_length=MOST_NAMED), option("Only skills of this name.", metavar="NAME")]
Named = Annotated[str, Meta(max_length=100), option("Call it so.", metavar="NAME")]


@declares("skill.list", right=READ, needs_home=True)
class ListSkillsArgs(OperationArgs[SkillList], frozen=True):
    """List the skills that a group's agent has, from wherever they come, and drafts that nobody agreed to. Without
    GROUP, all of them."""

    folder: Annotated[str, argument("The agent's group.", "group", scope=True)] = ""


@declares("skill.show", right=READ, needs_home=True)
class ShowSkillArgs(OperationArgs[SkillDetails], frozen=True):
    """Show a skill that is agreed: who agreed to it, what is in it, and its SKILL.md."""

    name: SkillName
    folder: Holder = ""


@declares("skill.card", right=READ, needs_home=True)
class ShowSkillCardArgs(OperationArgs[SkillCard], frozen=True):
    """Show the card of a content that was read and that nobody has agreed to yet."""

    digest: Annotated[Digest, argument("The digest, as `skill list` shows it.")]
    folder: Annotated[
        str | None,
        option("The group that it is compared for; empty: every agent. Left out: that of the draft.", "group"),
    ] = None


@declares("skill.read", right=WRITE, of_machine=True)
class ReadSkillArgs(OperationArgs[list[SkillCard]], frozen=True):
    """Read the skills of a folder, a zip file or a git repository, and show each as a card. Nobody has them by that: it
    is kept for a day, for whoever agrees."""

    source: Annotated[
        str,
        Meta(max_length=LONGEST_SOURCE),
        argument("A folder, a .zip, or URL[@REF][#FOLDER].", "source", examples=("https://host/skills.git#pdf",)),
    ]
    target: Annotated[str, option("The group that it is compared for; left out: every agent.", "group")] = ""
    only: Only = field(default_factory=list)
    name: Named = ""


@declares("skill.read_draft", right=WRITE, needs_home=True)
class ReadSkillDraftArgs(OperationArgs[list[SkillCard]], frozen=True):
    """Read a draft of an agent as a card. It is kept as it is now, whatever the agent writes afterwards."""

    name: SkillName
    folder: Annotated[str, option("The agent's group.", "group", scope=True)]


@declares("skill.read_update", right=WRITE, of_machine=True)
class ReadSkillUpdateArgs(OperationArgs[list[SkillCard]], frozen=True):
    """Read a skill again from where it came, and show what is another there."""

    name: SkillName
    folder: Holder = ""


@declares("skill.agree", right=WRITE)
class AgreeSkillArgs(OperationArgs[AgreedSkill], frozen=True):
    """Agree to a content that was read: from the next turn on, agents have it. Another of the same name makes way."""

    name: SkillName
    digest: Annotated[Digest, option("The digest on its card.")]
    folder: Holder = ""
    before: Annotated[Digest | None, option(f"Only if this digest is agreed now, or `{NONE}` is.")] = None
    below: Annotated[bool | None, option("The groups below have it, too. Left out: as before.")] = None


@declares("skill.rm", right=WRITE)
class RemoveSkillArgs(OperationArgs[AgreedSkill], frozen=True):
    """Take a skill from a group, or from every agent. A draft of the agent stays where it is."""

    name: SkillName
    folder: Holder = ""
