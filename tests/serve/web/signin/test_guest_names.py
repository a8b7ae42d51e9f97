"""Names by which somebody invited could be taken for somebody else."""

from typing import Any

import pytest
from tests.serve.web.signin.test_invitation import invite, join, make_boss


@pytest.mark.parametrize("name", ["Boss\u200b", "Bo\u00adss", "\uff22oss", "The operator", "Gatepost"])
async def test_nobody_chooses_a_name_that_looks_like_somebody_elses(site: Any, name: str) -> None:
    """`Bo\u00adss` has a soft hyphen, `\uff22oss` a wide letter. `The operator` is how the page names the operator."""
    await make_boss(site)
    async with site.browser() as browser:
        answer = await join(browser, await invite(site), name)
        assert answer.status_code == 400, f"{name!a} was given away"
