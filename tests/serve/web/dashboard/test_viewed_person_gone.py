"""An owner who sees the page as somebody, when that person goes."""

from typing import Any

from tests.serve.web.dashboard.test_viewed_person import SEEN, set_up, view
from tests.serve.web.test_people import ANN

from gatepost.store.sessions import groups


async def test_who_is_seen_and_goes_leaves_the_owner_with_nothing_to_do(site: Any) -> None:
    await site.store.write(set_up)
    async with site.signed_in() as owner:
        await view(owner, ANN)
        assert SEEN in (await owner.get("/dashboard/groups/acme")).text
        await site.store.write(lambda db: db.run("DELETE FROM users WHERE id = ?", (ANN,)))
        answer = await owner.post("/dashboard/do/group.add", data={"folder": "planted"})
        assert answer.status_code != 200, "the page of somebody else became the owner's own, without a word"
    assert await site.store.read(groups.get, "planted") is None
