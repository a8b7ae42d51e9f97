"""Pages of groups: who sees which, and under which host names."""

from typing import Annotated

from msgspec import Meta, Struct, field

from gatepost.core.record_fields import argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.web.web_routes import WebAccess, WebHost, WebRoute, WebRouteFields, WebRouteKey

READ, WRITE = "sites.read", "sites.write"
MOST_LISTED = 200
Hostname = Annotated[str, argument("The host name.", examples=("docs.example.com",)), Meta(max_length=300)]
Limit = Annotated[int, option("How many at most.", least=1, most=MOST_LISTED)]


class GroupSite(Struct, frozen=True, kw_only=True):
    """`public`, `private`: their addresses below ours, '' if the group has no such pages. `access`: who sees the first
    page of public_html/ there."""

    folder: Annotated[str, shown("Group", head="group")]
    public: Annotated[str, shown("public_html", head="public_html")]
    access: Annotated[WebAccess, shown("Who sees it", head="who sees it")] = WebAccess.AUTH
    private: Annotated[str, shown("private_html", head="private_html")]


class SiteList(Struct, frozen=True):
    """`next`: give it as `after` for more; '' if there are none. `elsewhere`: groups that were passed over, because
    another gateway has their folders; it lists and serves their pages."""

    sites: list[GroupSite]
    next: str
    elsewhere: list[str] = field(default_factory=list)


@declares("site.list", right=READ, answers_all=True, needs_home=True)
class ListSitesArgs(OperationArgs[SiteList], frozen=True):
    """The groups that have pages, as far as the caller may see them: public_html/ or private_html/ in their folder."""

    after: Annotated[str, option("Only those behind this group."), Meta(max_length=300)] = ""
    limit: Limit = 100


@declares("site.routes", right=READ, reads=True)
class ListWebRoutesArgs(OperationArgs[list[WebRoute]], frozen=True):
    """List pages and who sees them, by path. A path without an entry is for people who are signed in and may see the
    group."""

    after: Annotated[str, option("Only those behind this path."), Meta(max_length=1000)] = ""
    limit: Limit = 100


@declares("site.set", right=WRITE)
class SetWebRouteArgs(WebRouteFields, OperationArgs[WebRoute], frozen=True, kw_only=True):
    """Set who sees a path of a group's pages.

    `public` is everybody, `auth` people who are signed in and may see the group, `deny` nobody. `redirect` leads to
    another path of the same group.

    The longest path decides. A path that is closed here cannot be opened by an agent further down.
    """


@declares("site.rm", right=WRITE)
class RemoveWebRouteArgs(WebRouteKey, OperationArgs[WebRoute], frozen=True, kw_only=True):
    """Take back what `site set` or an agent said about a path."""


@declares("site.hosts", right=READ, reads=True)
class ListWebHostsArgs(OperationArgs[list[WebHost]], frozen=True):
    """The host names that lead to the pages of a group."""

    after: Annotated[str, option("Only those behind this name."), Meta(max_length=300)] = ""
    limit: Limit = 100


@declares("site.bind", right=WRITE)
class BindWebHostArgs(OperationArgs[WebHost], frozen=True):
    """Show the public pages of a group under a host name of its own, to everybody. Its DNS must lead to this gateway.

    The right is needed at the root: a name belongs to the whole gateway.
    """

    hostname: Hostname
    folder: Annotated[str, argument("The group whose pages are shown.", examples=("acme/eng",))]


@declares("site.unbind", right=WRITE)
class UnbindWebHostArgs(OperationArgs[WebHost], frozen=True):
    """Take back what `site bind` or an agent said about a host name."""

    hostname: Hostname
