"""ACL rows: who (principal) may do what (action) where (scope), or may not. A set without an order, in which deny wins.

Principals are a group's agent (`folder:acme/eng`), a person's identity (`telegram:user/9`), a room, or a role
(`role:ops`) that others are members of. A row that its giver could not give, or can give no longer, counts for nothing:
authority flows from the operator downward and ends where it is taken away.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from gatepost.access.grants import ParamCondition, check_condition, check_subject_condition, parse_params
from gatepost.access.subjects import ROOM_PARAM, find_subject
from gatepost.core.linear_patterns import BadPattern, compile_linear_regex, glob_to_regex, is_glob
from gatepost.messages.inbound import get_claimed, is_untrusted
from gatepost.store.rights.acl import ANYWHERE, OPERATOR, ROLE, AclEffect, AclRow

LONGEST_SCOPE = 512

RoleMemberships = Mapping[str, Sequence[str]]  # child → parents


def expand_roles(principals: Iterable[str], members: RoleMemberships) -> frozenset[str]:
    """The principals and every role above them. A circle, which the store refuses, would do no harm."""
    found: set[str] = set()
    waiting = list(principals)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting.extend(members.get(each, ()))
    return frozenset(found)


def list_other_names(identity: str, members: RoleMemberships) -> tuple[str, ...]:
    """Further identities of the same person: these are members of each other. For what is denied alone: to those of a
    sender whom no platform proves belong those of whoever they claim to be."""
    if is_untrusted(identity):
        claimed = get_claimed(identity)
        return (claimed, *list_other_names(claimed, members))
    if not identity or identity not in members:
        return ()
    return tuple(sorted(each for each in expand_roles([identity], members) if each != identity and not _is_role(each)))


def _is_role(principal: str) -> bool:
    return principal.startswith(ROLE)


def makes_cycle(child: str, parent: str, members: RoleMemberships) -> bool:
    """Would this membership make somebody a member of itself?"""
    return child in expand_roles([parent], members)


def covers_action(held: str, wanted: str) -> bool:
    """`*` is everything; `admin` is `interact` and every tool, not the rest; `mcp:*` is every tool, `op:*` every
    operation."""
    if held in ("*", wanted):
        return True
    kind = wanted.partition(":")[0]
    return held == f"{kind}:*" or (held == "admin" and kind in ("mcp", "interact"))


def _speaks_of(row: AclRow, action: str) -> bool:
    """`*` denies operations, too, and allows none: only an action that begins with `op:` does."""
    allows_all = row.action == "*" and row.effect is AclEffect.ALLOW
    return covers_action(row.action, action) and not (allows_all and action.startswith("op:"))


def matches_scope(glob: str, folder: str) -> bool:
    """`**` spans any number of segments, none too; `*`, `?` and `[…]` stay inside one."""
    fits = _compile_scope(glob)
    return fits is not None and fits(folder)


def covers_scope(held: str, wanted: str) -> bool:
    """Return True if `held` matches everything that `wanted` matches. Two globs that cannot be compared count as
    False."""
    if held in (ANYWHERE, wanted):
        return True
    base = held.removesuffix("/**")
    if base != held and not is_glob(base):
        return wanted == base or wanted.startswith(base + "/")
    return not is_glob(wanted) and matches_scope(held, wanted)


def may_reach(glob: str, folder: str) -> bool:
    """Could this scope match the folder or anything below it? In doubt it could."""
    signs = [at for at in (glob.find(sign) for sign in "*?[") if at >= 0]
    if not signs:
        return glob == folder or glob.startswith(folder + "/")
    base = glob[: min(signs)].rpartition("/")[0]
    return not base or base == folder or base.startswith(folder + "/") or folder.startswith(base + "/")


def matches_principal(pattern: str, principal: str) -> bool:
    """`google:*` is every plain id of google, `google:**` also those with slashes; `**` is everybody."""
    if "*" not in pattern:
        return pattern == principal
    if pattern == ANYWHERE:
        return True
    space, colon, rest = pattern.partition(":")
    own_space, own_colon, own_rest = principal.partition(":")
    if colon != own_colon:
        return False
    return matches_scope(space, own_space) and (not colon or matches_scope(rest, own_rest))


def concerns(row: AclRow, who: frozenset[str]) -> bool:
    return row.principal in who or ("*" in row.principal and any(matches_principal(row.principal, w) for w in who))


def applies(
    row: AclRow, who: frozenset[str], action: str, scope: str, params: Mapping[str, str], claims: Mapping[str, str]
) -> bool:
    """Return True if this row applies to this act. An unreadable scope or condition applies if the row denies, and
    never if it allows."""
    if not concerns(row, who) or not _speaks_of(row, action):
        return False
    if not matches_scope(row.scope, scope) and not (row.effect is AclEffect.DENY and _compile_scope(row.scope) is None):
        return False
    return _check_params(row, params) and _check_conditions(row.predicate, claims, row.effect, empty=False)


def denies_by_other_name(
    row: AclRow,
    who: frozenset[str],
    action: str,
    scope: str,
    params: Mapping[str, str],
    claims: Mapping[str, str],
    members: RoleMemberships,
) -> bool:
    """Return True if this row denies the act to another identity of the same user: a denial of one identity binds all
    of them."""
    if row.effect is not AclEffect.DENY or not row.predicate:
        return False
    others = list_other_names(claims.get("user", ""), members)
    return any(applies(row, who, action, scope, params, {**claims, "user": each}) for each in others)


def authorize(
    rows: Iterable[AclRow],
    who: frozenset[str],
    action: str,
    scope: str,
    params: Mapping[str, str] | None = None,
    claims: Mapping[str, str] | None = None,
) -> bool | None:
    """Return what the rows say: False if any denies, True if any allows, None if none speaks of it."""
    said: bool | None = None
    for row in rows:
        if applies(row, who, action, scope, params or {}, claims or {}):
            if row.effect is AclEffect.DENY:
                return False
            said = True
    return said


# Giving on.


def find_refusal_reason(rows: Sequence[AclRow], members: RoleMemberships, granter: str, wanted: AclRow) -> str:
    """Why this granter may not give this row; '' if it may. The operator may give everything."""
    who = expand_roles([granter], members)
    if OPERATOR in who:
        return ""
    return _find_refusal_reason([row for row in rows if concerns(row, who)], granter, wanted)


def _find_refusal_reason(own: Sequence[AclRow], granter: str, wanted: AclRow) -> str:
    """`own`: the rows that concern the granter."""
    if wanted.effect is AclEffect.DENY:
        return "only the operator can deny"
    if "*" in wanted.principal:
        return "only the operator can give to a pattern of principals"
    if any(row.effect is AclEffect.DENY and _overlaps(row, wanted) for row in own):
        return f"{granter} is denied {wanted.action} there itself"
    if not any(row.grant_option and row.effect is AclEffect.ALLOW and covers_row(row, wanted) for row in own):
        return f"{granter} does not hold {wanted.action} on {wanted.scope} with the right to give it on"
    return ""


def list_valid_rows(rows: Iterable[AclRow], members: RoleMemberships) -> tuple[AclRow, ...]:
    """The rows that count: those of the operator, and what was given on by somebody who can give it. The least such
    set, so that two who gave to each other what nobody gave them hold nothing."""
    return _list_valid_rows(tuple(rows), tuple((child, tuple(parents)) for child, parents in members.items()))


@lru_cache(maxsize=16)  # asked with every message once a row is about people
def _list_valid_rows(rows: tuple[AclRow, ...], edges: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[AclRow, ...]:
    members = dict(edges)
    ours = {granter: OPERATOR in expand_roles([granter], members) for granter in {row.granted_by for row in rows}}
    held = _HeldRows([row for row in rows if ours[row.granted_by]])
    waiting = [row for row in rows if not ours[row.granted_by]]
    who = {row.granted_by: expand_roles([row.granted_by], members) for row in waiting}
    before = -1
    while waiting and before != len(waiting):
        before, left = len(waiting), list[AclRow]()
        for row in waiting:
            if _find_refusal_reason(held.list_of(who[row.granted_by]), row.granted_by, row):
                left.append(row)
            else:
                held.add(row)
        waiting = left
    return tuple(sorted(held.rows, key=lambda row: row.id))


class _HeldRows:
    """Rows by their principals: somebody who has given to hundreds must not cost their square."""

    def __init__(self, rows: Iterable[AclRow]) -> None:
        self.rows: list[AclRow] = []
        self._named: dict[str, list[AclRow]] = {}
        self._patterns: list[AclRow] = []
        for row in rows:
            self.add(row)

    def add(self, row: AclRow) -> None:
        self.rows.append(row)
        (self._patterns if "*" in row.principal else self._named.setdefault(row.principal, [])).append(row)

    def list_of(self, who: frozenset[str]) -> list[AclRow]:
        named = [row for each in who for row in self._named.get(each, ())]
        return [*named, *(row for row in self._patterns if concerns(row, who))]


def covers_row(held: AclRow, wanted: AclRow) -> bool:
    """Does one row give everything that another would?"""
    return (
        _speaks_of(held, wanted.action)
        and covers_scope(held.scope, wanted.scope)
        and held.params in ("", wanted.params)
        and held.predicate in ("", wanted.predicate)
    )


def _overlaps(denied: AclRow, wanted: AclRow) -> bool:
    """Return True if a denial speaks of what is to be given; in doubt it does."""
    action = covers_action(denied.action, wanted.action) or covers_action(wanted.action, denied.action)
    action = action or (names_subject(denied) and wanted.action.startswith("mcp:"))  # which tools it stands for is open
    one, other = denied.scope, wanted.scope
    scope = covers_scope(one, other) or covers_scope(other, one) or (is_glob(one) and is_glob(other))
    return action and scope


def find_syntax_error(row: AclRow) -> tuple[str, str] | None:
    """(field, what is wrong) of a row that is to be written down."""
    if not row.scope or _compile_scope(row.scope) is None:
        return "scope", f"{row.scope!r} is no glob over folders, such as acme, acme/* or acme/**"
    for name, text in (("params", row.params), ("predicate", row.predicate)):
        if text and not _parse_conditions(text):
            return name, f"{text!r}; write name=glob, !name or name, separated by commas"
    return None


@lru_cache(maxsize=4096)
def _compile_scope(glob: str) -> Callable[[str], bool] | None:
    """None: it cannot be read. The usual ones need no expression."""
    if len(glob) > LONGEST_SCOPE:
        return None
    base = glob.removesuffix("/**")
    if not is_glob(base):
        return _FolderMatcher(base, base != glob).fits
    if glob == ANYWHERE:
        return _anything
    if glob == "*":
        return _one_segment
    try:
        expression = glob_to_regex(glob)
        compile_linear_regex(expression)
    except BadPattern:
        return None
    return lambda folder: compile_linear_regex(expression).fits(folder)


class _FolderMatcher:
    def __init__(self, base: str, below: bool) -> None:
        self._base, self._start = base, base + "/" if below else None

    def fits(self, folder: str) -> bool:
        return folder == self._base or (self._start is not None and folder.startswith(self._start))


def _anything(folder: str) -> bool:
    return True


def _one_segment(folder: str) -> bool:
    return "/" not in folder


@lru_cache(maxsize=4096)
def _parse_conditions(text: str) -> tuple[ParamCondition, ...] | None:
    return parse_params(text)


def names_subject(row: AclRow) -> bool:
    """Return True if a row applies to every tool that declares a subject."""
    return row.action.startswith("mcp:") and find_subject(row.action.removeprefix("mcp:")) is not None


def _check_params(row: AclRow, params: Mapping[str, str]) -> bool:
    """Return True if the conditions of a row hold. A row about a subject looks at the room alone, if it is known."""
    if not names_subject(row):
        return _check_conditions(row.params, params, row.effect, empty=True)
    deny = row.effect is AclEffect.DENY
    conditions = _parse_conditions(row.params) if row.params else ()
    if conditions is None:
        return deny
    return all(check_subject_condition(each, params.get(ROOM_PARAM), restricts=deny) for each in conditions)


def _check_conditions(text: str, given: Mapping[str, str], effect: AclEffect, *, empty: bool) -> bool:
    if not text:
        return True
    conditions = _parse_conditions(text)
    if conditions is None:
        return effect is AclEffect.DENY
    deny = effect is AclEffect.DENY
    return all(
        check_condition(each, given, deny=deny) and (empty or each.absent or bool(given.get(each.name)))
        for each in conditions
    )
