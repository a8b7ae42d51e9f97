"""The right of a task to act when its time comes. It has the rights that its maker, everybody on whose behalf it was
made, and its group in the room have now. So whichever way a right is lost, the next firing is refused. A rule that
holds an agent's `send` holds its texts, unless somebody agreed to that before."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import asdict

from gatepost.access import acl as judged_rows
from gatepost.access.grants import GrantRule, parse
from gatepost.access.policy import AccessRequest, AccessRules, GroupHold, GroupPolicy
from gatepost.access.senders import check_sender
from gatepost.access.subjects import Subject, make_effects
from gatepost.access.tiers import Tier, tier_of
from gatepost.core.records import replace
from gatepost.flow import sender_rights
from gatepost.flow.schedule.firing_facts import make_place_request, render_no_way
from gatepost.flow.schedule.held_texts import BY_AGENT, get_maker
from gatepost.flow.sender_rights import SenderAccess, has_operation_right
from gatepost.messages.inbound import OPERATOR, is_person
from gatepost.store.messages.outbox import REPLAY_INSTANCE
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rooms import rooms
from gatepost.store.rooms.origins import Origin
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.schedule import scheduled_texts, task_places, tasks
from gatepost.store.schedule.tasks import MissedPolicy, NewTask, Task, TaskContext, TaskState
from gatepost.store.sessions import agents, errands, groups, sessions

SCHEDULE, SEND = "schedule_task", "send"  # the tools that make a task, and that say now what a text says later
EFFECTS = {  # as the tools declare them
    SCHEDULE: make_effects([Subject.SCHEDULE, Subject.SPEAK]),
    SEND: make_effects([Subject.SPEAK]),
}
RIGHT = "op:tasks.write"  # what a person needs to make one
NO_RULES = AccessRules()
OWN_INSTANCES = frozenset({agents.INSTANCE, errands.INSTANCE, REPLAY_INSTANCE})  # whose rooms have no policy


class JudgedTasks(Struct, frozen=True):
    """By task: why it may not run; what holds its text; on whose behalf it was made."""

    refused: Mapping[str, str]
    held: Mapping[str, tuple[GroupHold, ...]]
    behind: Mapping[str, Sequence[Origin]]


def judge_tasks(db: Db, due: Sequence[Task], *, placed: bool = False) -> JudgedTasks:
    """`placed`: somebody else sees to it that they have a way to their rooms."""
    judge = TaskJudge(db, due)
    find = judge.find_rights_refusal if placed else judge.find_refusal
    refused = {each.id: why for each in due if (why := find(each))}
    texts = [each for each in due if each.text and each.id not in refused]
    held = {each.id: holds for each in texts if (holds := judge.list_holds(each))}
    return JudgedTasks(refused, held, judge.behind)


def find_makers_refusal(db: Db, new: NewTask, behind: Sequence[Origin], now: int, *, asked: bool) -> str:
    """Why the agent that is to have made it may not make it; '' if it may. `asked`: a call of the agent was judged, so
    people were asked if a rule holds it."""
    task = Task(
        **asdict(new),
        id="",
        state=TaskState.ACTIVE,
        reason="",
        runs=0,
        failures=0,
        depth=1,
        created_at=now,
        updated_at=now,
    )
    judge = TaskJudge(db, [], {task.id: list(behind)})
    return judge.find_makers_refusal(task) or ("" if asked else judge.find_hold(task))


def agree_to_holds(db: Db, task: Task) -> None:
    """Record that the rules which hold the task's text now were agreed to, by the person who allowed the call or set
    the text."""
    held = TaskJudge(db, [task]).list_holds(task)
    scheduled_texts.add_agreed(db, task.id, [(each.folder, each.rule) for each in held])


def load_access_rules(db: Db) -> AccessRules:
    """Return what decides about calls. Which tools a group is shown has no say in it."""
    if not acl.has_any(db):
        return NO_RULES
    rules: dict[str, list[GrantRule]] = defaultdict(list)
    for rule in acl.list_rules(db):
        rules[rule.folder].append(parse(rule.text))
    members = acl.list_members(db)
    return AccessRules(
        rules={folder: tuple(each) for folder, each in rules.items()},
        rows=judged_rows.list_valid_rows(acl.list_rows(db), members),
        members=members,
    )


class TaskJudge:
    """For tasks that are due together: what is the same for several of them is read once."""

    def __init__(self, db: Db, due: Sequence[Task], behind: Mapping[str, list[Origin]] | None = None) -> None:
        """`behind`: on whose behalf each is made, if they are not in the store."""
        self._db = db
        self.behind = tasks.list_origins_of(db, [each.id for each in due]) if due else behind or {}
        self._facts: AccessRules | None = None
        self._policies: dict[str, GroupPolicy | None] = {}  # by who made a task
        self._alike: dict[tuple[str, bool], str] = {}  # the same, and whether it is a text: why none of these may run
        self._access: dict[str, SenderAccess] = {}
        self._rooms: dict[tuple[str, str], RoomPolicy] = {}

    def find_refusal(self, task: Task) -> str:
        """'' if it may run."""
        if not task_places.find_places(self._db, [make_place_request(task)])[task.id].reached:
            return render_no_way(task)
        return self.find_rights_refusal(task)

    def find_rights_refusal(self, task: Task) -> str:
        """The same for one that has a way to its room."""
        behind = self.behind[task.id]
        if behind and not all(self._may_speak(task, each) for each in behind):
            return f"somebody on whose behalf it was made may not speak to {task.folder} any more"
        return self.find_makers_refusal(task)

    def find_makers_refusal(self, task: Task) -> str:
        alike = (task.created_by, task.text != "")
        if (known := self._alike.get(alike)) is not None:
            return known
        if task.created_by.startswith(BY_AGENT):
            why = self._find_agents_refusal(task)
            if (policy := self._find_policy(task)) is None or policy.plain:  # nothing of the task itself has a say
                self._alike[alike] = why
            return why
        if is_person(task.created_by) and task.created_by != OPERATOR:
            params = render_operation_params(task)
            if not has_operation_right(self._db, task.created_by, RIGHT, task.folder, params):
                return f"{task.created_by}, who made it, has no right to tasks of {task.folder} any more ({RIGHT})"
        return ""

    def find_hold(self, task: Task) -> str:
        """Why its agent could make it only with somebody's word; '' if it could without."""
        policy = self._find_policy(task)
        if policy is None:
            return ""
        ask = _make_request(SCHEDULE, Tier.WORKER, policy.folder, task)
        return next((each.render() for each in policy.list_holds(ask)), "")

    def list_holds(self, task: Task) -> tuple[GroupHold, ...]:
        """Return the rules that would hold a `send` of the agent that made the task. Tasks of people and operators are
        never held."""
        policy = self._find_policy(task) if task.text else None
        if policy is None or not policy.holds:
            return ()
        found = policy.list_holds(_make_request(SEND, Tier.AGENT, policy.folder, task))
        agreed = scheduled_texts.list_agreed(self._db, task.id) if found else frozenset()
        return tuple(each for each in found if (each.folder, each.rule) not in agreed)

    def _may_speak(self, task: Task, origin: Origin) -> bool:
        """Return True if somebody could still ask for it where they asked. A person who made it by a command needs
        another right."""
        person = origin.person
        if not person or person == OPERATOR or not is_person(person):
            return True
        access = self._find_access(person)
        if access.judge(task.folder) is None:
            return False
        if person == task.created_by or origin.instance in OWN_INSTANCES:
            return True
        policy = self._find_room_policy(origin)
        if self._is_let_in(access, policy, (task.folder, get_maker(task))):
            return True
        if has_operation_right(self._db, person, RIGHT, task.folder, render_operation_params(task)):
            return True  # they changed it by a command
        if task.depth <= 1:
            return False
        asked = {each.folder for each in sessions.list_in_room(self._db, origin.address)}  # who passed it on
        return self._is_let_in(access, policy, asked)

    @staticmethod
    def _is_let_in(access: SenderAccess, policy: RoomPolicy, folders: Iterable[str]) -> bool:
        judged = [(rights, each) for each in folders if (rights := access.judge(each)) is not None]
        return any(check_sender(policy, rights, each).allowed for rights, each in judged)

    def _find_agents_refusal(self, task: Task) -> str:
        policy = self._find_policy(task)
        if policy is None:
            return f"the group {get_maker(task)}, whose agent made it, is gone"
        if not self._may_call(policy, task, SCHEDULE, Tier.WORKER):
            return f"a rule of this gateway forbids {policy.folder} to schedule it"
        if task.text and not self._may_call(policy, task, SEND, Tier.AGENT):
            return f"a rule of this gateway forbids {policy.folder} to send there"
        return ""

    def _may_call(self, policy: GroupPolicy, task: Task, tool: str, tier: Tier) -> bool:
        """As for a call: for the agent, and for everybody on whose behalf it would act."""
        if not policy.has_rules_for(tool, EFFECTS[tool]):
            return policy.tier <= tier
        request = _make_request(tool, tier, task.folder, task)
        claims = {"folder": policy.folder, "tier": str(int(tier_of(policy.folder)))}
        asks = [replace(request, claims=claims, also=(task.address,))]
        for each in self.behind[task.id]:
            known = {**claims, "room": each.address, "topic": each.thread, "user": each.person}
            also = (each.address, each.person) if each.person else (each.address,)
            asks.append(replace(request, claims=known, also=also))
        return all(map(policy.decide, asks))

    def _find_policy(self, task: Task) -> GroupPolicy | None:
        """Return the policy of the agent that made it; None if no agent did, or its group is gone."""
        maker = task.created_by
        if maker not in self._policies:
            self._policies[maker] = self._load_policy(task) if maker.startswith(BY_AGENT) else None
        return self._policies[maker]

    def _load_policy(self, task: Task) -> GroupPolicy | None:
        folder, self._facts = get_maker(task), self._facts or load_access_rules(self._db)
        own = task.id and folder == task.folder  # of a task that is stored: a group that goes takes its tasks with it
        there = own or groups.find_deepest(self._db, [folder])
        if not there:
            return None
        return _get_plain_policy(folder) if self._facts is NO_RULES else GroupPolicy(folder, self._facts)

    def _find_access(self, person: str) -> SenderAccess:
        if person not in self._access:
            self._access[person] = sender_rights.read_access(self._db, person)
        return self._access[person]

    def _find_room_policy(self, origin: Origin) -> RoomPolicy:
        """A room is known once somebody was let in there. One that is not known any more lets no stranger in."""
        place = (origin.instance, origin.address)
        if place not in self._rooms:
            room = rooms.get(self._db, *place)
            self._rooms[place] = room.policy if room is not None else RoomPolicy.STRICT
        return self._rooms[place]


@lru_cache(maxsize=1024)
def _get_plain_policy(folder: str) -> GroupPolicy:
    """Return the policy of a group without rules, which is the same each time."""
    return GroupPolicy(folder, NO_RULES)


def _make_request(tool: str, tier: Tier, scope: str, task: Task) -> AccessRequest:
    params = render_schedule_params(task) if tool == SCHEDULE else render_send_params(task)
    return AccessRequest(tool, tier, scope, params, effects=EFFECTS[tool], room=task.address)


def render_send_params(task: Task) -> dict[str, str]:
    """Return what rules about `send` may speak of."""
    return {"text": task.text, "jid": task.address, "chatJid": task.address}


def render_schedule_params(task: Task) -> dict[str, str]:
    said = {"prompt": task.prompt, "text": task.text, "script": task.script, "cron": task.schedule}
    return {
        "chatJid": task.address,
        "targetJid": task.address,  # as rules may still call it
        "jid": task.address,
        "missed": task.missed,
        **{name: value for name, value in said.items() if value},
        **({"contextMode": task.context} if task.context is not TaskContext.GROUP else {}),
    }


def render_operation_params(task: Task) -> dict[str, str]:
    said = {"prompt": task.prompt, "text": task.text, "script": task.script, "room": task.address}
    return {
        "folder": task.folder,
        **{name: value for name, value in said.items() if value},
        **({"missed": task.missed} if task.missed is not MissedPolicy.ONCE else {}),
        **({"context": task.context} if task.context is not TaskContext.GROUP else {}),
    }
