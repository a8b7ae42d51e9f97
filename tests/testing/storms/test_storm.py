"""Storms: people who write by a seed, and a judge that sees what went wrong."""

from pathlib import Path

from gatepost_testing.platforms.base import EmulatedPlatform, GivenMessage, ShownMessage
from gatepost_testing.storms.kill import KillCounts, Victim
from gatepost_testing.storms.prove import run_storms
from gatepost_testing.storms.storm import MODE, SEED, StormPeople, StormSize, StormVerdict, list_overtimes, load_storms

SIZE = StormSize(rooms=2, messages=8, open_turns=0, places=2)


class Parrot(EmulatedPlatform):
    """A platform whose bot answers at once; what it answers with can be changed."""

    kind = "parrot"

    def __init__(self) -> None:
        super().__init__()
        self.given: list[GivenMessage] = []

    def receive(self, given: GivenMessage) -> str:
        self.given.append(given)
        return str(len(self.given))

    def answer(self, *texts: str) -> None:
        for text in texts:
            self.record.append(ShownMessage(id=str(len(self.record)), room="", sender="bot", text=f"echo: {text}"))

    def answer_all(self) -> None:
        given, self.given = self.given, []
        self.answer(*(each.text for each in given))


def run_to_the_end(seed: int) -> tuple[StormPeople, Parrot, list[str]]:
    platform, order = Parrot(), list[str]()
    people = StormPeople(platform, SIZE, seed)
    people.start()
    while platform.given:
        order += [each.text for each in platform.given]
        platform.answer_all()
        people.judge()
    return people, platform, order


def test_people_write_all_messages_each_after_the_answer_to_the_last_ones() -> None:
    people, _, order = run_to_the_end(SEED)
    assert sorted(order) == [f"m{room}x{number}" for room in range(2) for number in range(4)]
    assert people.judge() == (0, 0, 0)


def test_the_same_seed_is_the_same_storm() -> None:
    assert run_to_the_end(1)[2] == run_to_the_end(1)[2]


def test_the_judge_sees_what_is_lost() -> None:
    platform = Parrot()
    people = StormPeople(platform, SIZE, SEED)
    people.start()
    sent = len(platform.given)
    platform.answer(platform.given[0].text)
    assert people.judge()[0] >= sent - 1


def test_the_judge_sees_what_is_said_twice_and_out_of_order() -> None:
    people, platform, _ = run_to_the_end(SEED)
    platform.answer("m0x2", "m1x0")
    assert people.judge() == (0, 2, 0)
    platform.record.clear()
    people = StormPeople(platform, SIZE, SEED)
    platform.answer("m0x1", "m0x0", "m1x0")
    assert people.judge()[1:] == (0, 1)


def make_counts(longest_s: float = 1.0, lost: int = 0) -> KillCounts:
    verdict = StormVerdict(seed=SEED, size=SIZE, lost=lost, doubled=0, disordered=0, unaccounted=0, audit_code=0)
    return KillCounts(victim=Victim.OTHER, verdict=verdict, open_turns=1, longest_s=longest_s, last_s=2.0)


def test_a_time_over_its_limit_is_no_fault_of_a_test_but_of_a_proof() -> None:
    assert make_counts(longest_s=60).list_faults() == []
    assert list_overtimes(make_counts(longest_s=60)) == ["too long: longest wait 60.0 s (limit 10 s)"]
    assert list_overtimes(make_counts()) == []


def test_storms_are_found_in_their_files() -> None:
    assert {f"kill {each}" for each in Victim} | {"drain", "zombie"} <= set(load_storms()[MODE])


def test_a_proof_runs_every_storm_and_counts_those_that_fail() -> None:
    def breaks_off(folder: Path, seed: int) -> KillCounts:
        raise AssertionError(f"waited in vain with seed {seed}")

    said: list[str] = []
    storms = {
        "good": lambda folder, seed: make_counts(),
        "lossy": lambda folder, seed: make_counts(lost=3),
        "slow": lambda folder, seed: make_counts(longest_s=11),
        "broken": breaks_off,
    }
    assert run_storms(storms, 5, said.append) == 3
    assert [line.split()[0] for line in said if not line.startswith(" ")] == ["ok", "FAILED", "FAILED", "FAILED"]
    assert "        3 lost" in said and "        waited in vain with seed 5" in said
