"""Storms at the edges in a small size: restores, a full disk, no descriptors, damaged tables. And their judges, which
are given records in which something went wrong."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.core.records import replace
from gatepost_testing.platforms.base import ShownMessage
from gatepost_testing.storms.damage import FAULTS as DAMAGE_FAULTS
from gatepost_testing.storms.damage import run_damage_storm
from gatepost_testing.storms.edges import count_apologies
from gatepost_testing.storms.restore import FAULTS, FAULTY, RestoreRound, run_restore_storm
from gatepost_testing.storms.shortage import count_notices, judge, run_descriptor_storm, run_full_disk_storm
from gatepost_testing.storms.storm import SEED

Figures = Callable[[str], None]
# Each question is written before the backup. The gateway is killed at place 6, and the owner decides at place 8.
ROUND = RestoreRound(
    began=0,
    backup_from=4,
    backup_to=5,
    killed=6,
    restarted=7,
    decided=8,
    ended=20,
    sends=False,
    held=frozenset({"m0x1"}),
    unread=frozenset(),
    open_before=frozenset({"m0x1"}),
    known_before=frozenset({"m0x0", "m0x1"}),
    has_cursor=True,
)
WELL = ["m0x0", "echo: m0x0", "m0x1", "-", "-", "m0x2", "-", "m0x3", "echo: m0x3"]


def make_record(texts: list[str]) -> list[ShownMessage]:
    return [
        ShownMessage(id=str(place), room="direct:p0", sender="p0" if text.startswith("m") else "bot", text=text)
        for place, text in enumerate(texts)
    ]


def judge_round(asked: RestoreRound, texts: list[str]) -> dict[str, int]:
    counts = asked.judge(make_record(texts))
    return {name: found for name in FAULTY if (found := getattr(counts, name))}


def test_the_judge_of_restores_finds_nothing_where_all_is_well_and_counts_what_went_with_the_store() -> None:
    assert judge_round(ROUND, WELL) == {}
    assert ROUND.judge(make_record(WELL)).after_backup == 1
    assert judge_round(replace(ROUND, sends=True), [*WELL, "echo: m0x1"]) == {}


@pytest.mark.parametrize(
    ("change", "more", "found"),
    [
        ({}, ["echo: m0x0"], {"doubled": 1}),
        ({}, ["echo: m0x1"], {"unapproved": 1}),
        ({"held": frozenset[str](), "open_before": frozenset[str]()}, [], {"silent": 1}),
        ({"open_before": frozenset({"m0x0", "m0x1"})}, [], {"forgotten": 1}),
        ({"sends": True}, [], {"silent": 1}),
        ({"sends": True}, ["echo: m0x1", "echo: m0x1"], {"doubled": 1}),
        ({}, ["echo: m0x2"], {"reread": 1}),
        ({}, ["m0x4"], {"lost": 1}),
    ],
)
def test_the_judge_of_restores_sees_each_fault(change: dict[str, object], more: list[str], found: object) -> None:
    assert judge_round(replace(ROUND, **change), [*WELL, *more]) == found


def test_the_judge_of_shortages_sees_what_is_lost_doubled_and_told() -> None:
    assert judge(make_record(["m0x0", "echo: m0x0"])) == (0, 0)
    assert judge(make_record(["m0x0"])) == (1, 0)
    assert judge(make_record(["m0x0", "echo: m0x0", "echo: m0x0"])) == (0, 1)
    excused = make_record(["m0x0", "m0x1", "Sorry, I could not answer your message: x"])
    assert judge(excused) == (1, 0) and count_apologies(excused).total() == 1
    assert count_notices(make_record(["the disk is full"])) == 0  # to somebody who is not the owner


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_restores_say_nothing_again_and_leave_nothing_in_silence(tmp_path: Path, figures: Figures) -> None:
    counts = run_restore_storm(tmp_path, SEED, rounds=2, rooms=6)
    figures(f"restores: {counts.render()}")
    assert counts.list_faults() == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_of_restores_is_seen(tmp_path: Path, figures: Figures, fault: str) -> None:
    counts = run_restore_storm(tmp_path, SEED, rounds=2, rooms=6, fault=fault)
    figures(f"restores with {fault}: {counts.render()}")
    assert sum(counts.sum(name) for name in FAULTY) > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_loses_nothing_and_the_owner_is_told(tmp_path: Path, figures: Figures) -> None:
    counts = run_full_disk_storm(tmp_path, SEED, rounds=2, rooms=6)
    figures(f"full disk: {counts.render()}")
    assert counts.list_faults() == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_gateway_that_gets_no_descriptors_for_a_while_loses_nothing(tmp_path: Path, figures: Figures) -> None:
    counts = run_descriptor_storm(tmp_path, SEED, rounds=2, rooms=6)
    figures(f"descriptors: {counts.render()}")
    assert counts.list_faults() == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_damaged_table_is_told_of_and_its_backup_says_nothing_again(tmp_path: Path, figures: Figures) -> None:
    counts = run_damage_storm(tmp_path, SEED, tables=("inbox", "outbox"), rooms=4)
    figures(f"damaged tables: {counts.render()}")
    assert counts.list_faults() == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", DAMAGE_FAULTS)
def test_a_planted_fault_of_damaged_tables_is_seen(tmp_path: Path, figures: Figures, fault: str) -> None:
    counts = run_damage_storm(tmp_path, SEED, tables=("inbox", "steps"), rooms=4, fault=fault)
    figures(f"damaged tables with {fault}: {counts.render()}")
    assert counts.list_faults() != []
