"""Secrets: set, list, remove, rotate, bind to hosts, and the record of their uses. Egress: which hosts sandboxes may
reach."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rights.egress import EgressAttempt, EgressRule
from gatepost.store.rights.secret_rows import Binding, Secret, SecretUse

SECRETS_READ, SECRETS_WRITE = "secrets.read", "secrets.write"
SecretName = Annotated[str, argument("In capitals.", examples=("ANTHROPIC_API_KEY",))]
SecretHost = Annotated[
    str, argument("The host that it is sent to.", examples=("example.com", "example.com:8443", "http://box.lan:8080"))
]

EGRESS_READ, EGRESS_WRITE = "egress.read", "egress.write"


class SetSecretResult(Secret, frozen=True, kw_only=True):
    new: bool


class SecretListItem(Secret, frozen=True, kw_only=True):
    bound_to: Annotated[list[str], shown("Goes to", head="bound to")]


class SecretRemoval(Struct, frozen=True):
    name: str
    folder: str
    user_id: str


class BindSecretResult(Binding, frozen=True, kw_only=True):
    is_set: bool
    is_allowed: bool


class RotateKeysResult(Struct, frozen=True, kw_only=True):
    key_id: str
    resealed: int
    dropped: list[str]
    unused: list[str]
    kept_in: str
    is_file: bool
    is_new: bool  # there was no key ring before


@declares("secret.set", right=SECRETS_WRITE)
class SetSecretArgs(OperationArgs[SetSecretResult], frozen=True):
    """Set a secret. Without VALUE (or with -) it is read from standard input, or asked for on a terminal.

    Better without: other users of the machine can see a VALUE on the command line while the command runs, and the shell
    may keep it in its history.

    A model's key belongs to one endpoint, and is sent to no other, whatever the settings say later.
    """

    name: SecretName
    value: Annotated[str, argument("The value. It comes in and never goes out.", secret=True, hidden=True)]
    folder: Annotated[str, option("For this group and those below it.", scope=True)] = ""
    user: Annotated[str, option("For what this person asks for.", metavar="ID", examples=("telegram:user/9",))] = ""
    origin: Annotated[
        str, option("The endpoint of a model's key (default: the one in force).", "for", metavar="URL")
    ] = ""


@declares("secret.list", right=SECRETS_READ, reads=True)
class ListSecretsArgs(OperationArgs[list[SecretListItem]], frozen=True):
    """Secrets, without their values, and to which hosts they are bound."""


@declares("secret.log", right=SECRETS_READ, reads=True)
class SecretLogArgs(OperationArgs[list[SecretUse]], frozen=True):
    """Uses of secrets: by whom, when and for what, and who asked in vain; oldest first."""

    limit: Annotated[int, option("The newest N uses.", least=1, most=100_000)] = 50


@declares("secret.rm", right=SECRETS_WRITE)
class RemoveSecretArgs(OperationArgs[SecretRemoval], frozen=True):
    """Remove a secret. One of the same name farther up holds from then on."""

    name: SecretName
    folder: Annotated[str, option("The group whose it is.", scope=True)] = ""
    user: Annotated[str, option("The person whose it is.", metavar="ID", examples=("telegram:user/9",))] = ""
    origin: Annotated[str, option("Only the model's key for this endpoint.", "for", metavar="URL")] = ""


@declares("secret.bind", right=SECRETS_WRITE)
class BindSecretArgs(OperationArgs[BindSecretResult], frozen=True):
    """Put a secret into requests that agents make to HOST, outside their sandbox.

    HOST is example.com or example.com:8443, asked over https, or http://box.lan:8080. Inside, https://HOST/path is
    asked for at $GATEPOST_TO/HOST/path. The host must also be allowed.
    """

    name: SecretName
    host: SecretHost
    header: Annotated[str, option("{} stands for the value.", examples=("X-Api-Key: {}",))] = "Authorization: Bearer {}"
    # No scope: a binding sends secrets of the groups above as well.
    folder: Annotated[str, option("For this group and those below it (default: every group).")] = ""


@declares("secret.unbind", right=SECRETS_WRITE)
class UnbindSecretArgs(OperationArgs[list[Binding]], frozen=True):
    """Take back a binding; the secret itself stays."""

    name: SecretName
    host: SecretHost
    folder: Annotated[str, option("The group that it was bound for.", scope=True)] = ""


@declares("secret.bindings", right=SECRETS_READ, reads=True)
class ListBindingsArgs(OperationArgs[list[Binding]], frozen=True):
    """List which secret goes to which host."""


@declares("secret.rotate", right=SECRETS_WRITE)
class RotateKeysArgs(OperationArgs[RotateKeysResult], frozen=True):
    """Seal every secret with a new key and drop the old one. The values stay what they are.

    If the key ring is kept outside the home (GATEPOST_KEYRING, a systemd credential): add a key there, make it current
    and restart. This command then seals everything with it and names the keys that can go.
    """

    keep: Annotated[bool, option("Keep the old keys in the ring, to read older copies of the store.")] = False


class EgressRuleArgs(OperationArgs[EgressRule], frozen=True):
    host: Annotated[
        str, argument("A host, host:port, *.host or *.", examples=("example.com", "*.example.com", "example.com:8443"))
    ]
    folder: Annotated[str, option("For this group and those below it (default: every group).", scope=True)] = ""


@declares("egress.allow", right=EGRESS_WRITE)
class AllowHostArgs(EgressRuleArgs, frozen=True):
    """Allow HOST: example.com (with its sub-domains), *.example.com (these alone), example.com:8443 or *.

    Without a port: 80 and 443. A host of this machine or of a private network must be named exactly, with its port.
    """

    def get_scope(self) -> str:
        """The right is needed at the root for a host with its port: only such a rule can open a local host."""
        return "" if ":" in self.host and "*" not in self.host else self.folder


@declares("egress.deny", right=EGRESS_WRITE)
class DenyHostArgs(EgressRuleArgs, frozen=True):
    """Deny HOST, whatever else allows it; written as for allow. Without a port: every one."""


@declares("egress.rm", right=EGRESS_WRITE)
class RemoveEgressRuleArgs(OperationArgs[EgressRule], frozen=True):
    """Remove a rule by the id that `gatepost egress list` shows."""

    id: Annotated[int, argument("The rule's id.", "rule")]


@declares("egress.list", right=EGRESS_READ, reads=True)
class ListEgressRulesArgs(OperationArgs[list[EgressRule]], frozen=True):
    """Every rule."""

    folder: Annotated[str, option("Only what holds for this group, inherited rules too.", scope=True)] = ""


@declares("egress.log", right=EGRESS_READ, reads=True)
class EgressLogArgs(OperationArgs[list[EgressAttempt]], frozen=True):
    """Hosts that agents tried to reach, oldest first; the same try of a session is counted."""

    folder: Annotated[str, option("Only of this group.", scope=True)] = ""
    denied: Annotated[bool, option("Only what was denied.")] = False
    limit: Annotated[int, option("The newest N.", least=1, most=100_000)] = 50
