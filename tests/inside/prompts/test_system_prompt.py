"""The system prompt: who the agent is, from plain files in its folder."""

import os
from pathlib import Path

from gatepost.core.records import replace
from gatepost.inside.prompts.system_prompt import LARGEST, system_prompt
from gatepost.inside.providers.contract import ProviderContext
from gatepost.mailbox.runner_frames import SkillLine
from gatepost_testing.provider_context import make_context


def place(agent: Path, start: Path | None = None) -> ProviderContext:
    return make_context(agent.parent, agent=agent, start=start or agent, state=agent, router=agent / "router.sock")


def test_persona_and_instructions_come_first(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("be brief")
    (tmp_path / "PERSONA.md").write_text("be kind")
    text = system_prompt(place(tmp_path))

    assert text.startswith("be kind\n\nbe brief\n\n# How you are reached")


def test_what_an_agent_reads_itself_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("be brief")
    text = system_prompt(place(tmp_path), without=("AGENTS.md",))

    assert text.startswith("# How you are reached")


def test_without_files_it_still_knows_its_name(tmp_path: Path) -> None:
    assert "You are Home" in system_prompt(place(tmp_path))


def test_what_is_no_plain_file_or_too_long_does_no_harm(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "PERSONA.md")
    (tmp_path / "AGENTS.md").write_text("x" * (LARGEST + 5))

    assert len(system_prompt(place(tmp_path))) < LARGEST + 2000


def test_skills_are_named_with_what_they_are_for(tmp_path: Path) -> None:
    lines = (SkillLine("bake", "Use it for bread."), SkillLine("plain"))
    text = system_prompt(replace(place(tmp_path), skill_lines=lines))

    assert "- /workspace/skills/bake/SKILL.md: Use it for bread.\n- /workspace/skills/plain/SKILL.md\n\n# How" in text
    assert "2 more are in" in system_prompt(replace(place(tmp_path), skill_lines=lines, more_skills=2))


def test_what_an_agent_wrote_into_its_own_folder_is_no_skill(tmp_path: Path) -> None:
    (tmp_path / "skills" / "bake").mkdir(parents=True)
    (tmp_path / "skills" / "bake" / "SKILL.md").write_text("---\ndescription: Use it for bread.\n---\n")

    assert "bake" not in system_prompt(place(tmp_path)) and "bread" not in system_prompt(place(tmp_path))


def test_who_starts_in_a_project_is_told_so_with_what_is_written_there(tmp_path: Path) -> None:
    own, project = tmp_path / "agent", tmp_path / "project"
    for folder, text in ((own, "be brief"), (project, "use tabs")):
        folder.mkdir()
        (folder / "AGENTS.md").write_text(text)
    text = system_prompt(place(own, project))

    assert text.startswith(f"be brief\n\n# Where you work\n\nYou start in {project}:")
    assert "\n\nuse tabs\n\n" in text
    assert "use tabs" not in system_prompt(place(own, project), without=("AGENTS.md",)), "it reads that itself"
    assert "be brief" in system_prompt(place(own, project), without=("AGENTS.md",)), "but not its group's"


def test_only_an_agent_that_somebody_manages_is_told_when_to_name_itself_and_its_branch(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    assert "set_title" not in system_prompt(place(tmp_path)) + system_prompt(place(tmp_path, work))
    managed = replace(place(tmp_path), managed=True)
    assert "set_title" in system_prompt(managed) and "set_branch" not in system_prompt(managed)
    assert "set_branch" in system_prompt(replace(managed, start=work))


def test_pinned_rules_stand_last_and_are_left_out_if_there_are_none(tmp_path: Path) -> None:
    text = system_prompt(replace(place(tmp_path), rules="- never merge"))

    assert text.endswith("\n\n- never merge") and "# Pinned rules" in text
    assert "# Pinned rules" not in system_prompt(place(tmp_path))
