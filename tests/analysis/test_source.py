"""Hot lines, their marks, and the line of a finding, on listings written by hand."""

from __future__ import annotations

import pytest

from gputui.analysis.source import Source, hot_lines, lines_of
from gputui.model.source import Instruction, SourceLine, SourceListing

MEASURED = frozenset({"samples", "stalls", "executed", "threads", "global_sectors", "shared_wavefronts"})


def listing(*instructions: Instruction, text: dict[int, str] | None = None) -> SourceListing:
    lines = {("a.cu", number): SourceLine("a.cu", number, one) for number, one in (text or {}).items()}
    return SourceListing(instructions, MEASURED, lines)


def at(address: int, line: int, sass: str, **values: object) -> Instruction:
    return Instruction(address, sass, "a.cu" if line else "", line, **values)  # type: ignore[arg-type]


def test_lines_gather_their_instructions_and_come_by_samples() -> None:
    lines = hot_lines(
        listing(
            at(0, 7, "LDG.E R2, [R4.64]", samples=10, executed=100, threads=3200),
            at(16, 9, "FADD R2, R2, R3", samples=60, executed=100, threads=1600),
            at(32, 7, "STG.E [R4.64], R2", samples=30, executed=300, threads=9600),
            text={7: "  y[i] = x[i];", 9: "sum"},
        )
    )
    # 60 of 100 samples on line 9, 10 + 30 on line 7.
    assert [(line.line, line.share_pct, line.executed, line.threads) for line in lines] == [
        (9, 60.0, 100, 16.0),
        (7, 40.0, 400, 32.0),
    ]
    assert (lines[1].text, lines[1].number, lines[1].sass) == ("  y[i] = x[i];", 1, "STG.E [R4.64], R2")


def test_without_lines_each_instruction_stands_alone() -> None:
    source = Source(listing(at(0, 0, "MOV R1, R2", samples=1), at(16, 0, "EXIT", samples=3)))
    assert [(line.number, line.sass) for line in source.lines] == [(2, "EXIT"), (1, "MOV R1, R2")]
    assert (source.has_source, source.has_text, source.files) == (False, False, ())
    assert [line.number for line in source.in_program_order] == [1, 2]


def test_without_samples_lines_come_by_executed_instructions() -> None:
    source = Source(listing(at(0, 1, "MOV R1, R2", executed=5), at(16, 2, "MOV R1, R2", executed=9)))
    assert [(line.line, line.share_pct) for line in source.lines] == [(2, None), (1, None)]


def test_program_order_is_by_file_as_the_program_meets_it_then_by_line() -> None:
    source = Source(
        SourceListing(
            (
                Instruction(0, "A", "b.cu", 9, samples=1),
                Instruction(16, "B", "a.cu", 4, samples=2),
                Instruction(32, "C", "b.cu", 2, samples=3),
            ),
            MEASURED,
        )
    )
    assert [(line.file, line.line) for line in source.in_program_order] == [("b.cu", 2), ("b.cu", 9), ("a.cu", 4)]


def marks(*instructions: Instruction) -> dict[int, list[str]]:
    return {line.line: [flag.id for flag in line.flags] for line in Source(listing(*instructions)).lines}


@pytest.mark.parametrize(
    ("sectors", "ideal", "marked"),
    [
        (1000, 799, True),  # 20.1 % too many
        (1000, 801, False),  # 19.9 %
        (1000, 0, False),  # the report does not tell the ideal
    ],
)
def test_scattered_access_is_marked_from_a_fifth_of_excess(sectors: float, ideal: float, marked: bool) -> None:
    found = marks(at(0, 1, "LDG.E R2, [R4]", executed=1, global_sectors=sectors, global_ideal=ideal))
    assert found == {1: ["uncoalesced"] if marked else []}


def test_little_excess_of_a_kernel_with_much_traffic_is_not_marked() -> None:
    small = at(0, 1, "LDG.E R2, [R4]", executed=1, global_sectors=40, global_ideal=4)
    # 36 of 1,040 sectors: under 5 %; 36 of 700: over.
    assert marks(small, at(16, 2, "LDG.E R2, [R4]", executed=1, global_sectors=1000, global_ideal=1000))[1] == []
    assert marks(small, at(16, 2, "LDG.E R2, [R4]", executed=1, global_sectors=660, global_ideal=660))[1] == [
        "uncoalesced"
    ]


def test_other_marks() -> None:
    found = marks(
        at(0, 1, "LDS R2, [R4]", executed=100, threads=3200, shared_wavefronts=3200, shared_ideal=100),
        at(16, 2, "@!P1 LDL.128 R8, [R21]", executed=100, threads=3200),
        at(32, 3, "@P0 BRA 0x10", executed=100, threads=3200, divergent=60),
        at(48, 4, "FMUL R2, R2, R2", executed=100, threads=800),
        at(64, 5, "ATOMG.ADD R2, [R4]", executed=100, threads=3200),
        at(80, 6, "BAR.SYNC 0x0", executed=100, threads=3200),
        at(96, 7, "MOV R2, R3", executed=100, threads=3200),
    )
    assert found == {
        1: ["bank-conflicts"],
        2: ["local-memory"],
        3: ["divergent-branch"],
        4: ["few-threads"],
        5: ["atomic"],
        6: ["barrier"],
        7: [],
    }


@pytest.mark.parametrize(
    ("samples", "waiting", "hot"), [(11, 4, True), (10, 10, False), (11, 3, False)], ids=["hot", "cold", "mixed"]
)
def test_nvidias_mark_needs_over_10_percent_and_over_30_of_those_one_stall(
    samples: float, waiting: float, hot: bool
) -> None:
    stalls = {"long_scoreboard": waiting, "selected": samples - waiting}
    line = at(0, 1, "FADD R1, R2, R3", samples=samples, stalls=stalls)
    rest = at(16, 2, "FADD R1, R2, R3", samples=100 - samples, stalls={"selected": 100 - samples})
    lines = {one.line: one for one in hot_lines(listing(line, rest))}
    # 11 of 100 with 4 waiting: 36 %; with 3: 27 %.
    assert lines[1].is_hot is hot
    # Working is no waiting, however much there is of it.
    assert not lines[2].is_hot


def test_stall_shares_are_of_the_lines_samples() -> None:
    (line,) = hot_lines(listing(at(0, 1, "X", samples=8, stalls={"barrier": 2, "wait": 6, "drain": 0})))
    assert [(one.reason, one.share_pct) for one in line.stalls] == [("wait", 75.0), ("barrier", 25.0)]


KERNEL = listing(
    at(0, 1, "LDG.E R2, [R4.64]", executed=10, threads=320, global_sectors=320, global_ideal=40),
    at(16, 2, "LDG.E R3, [R6.64]", executed=10, threads=320, global_sectors=80, global_ideal=40),
    at(32, 3, "STG.E [R8.64], R3", executed=10, threads=320, global_sectors=90, global_ideal=40),
    at(48, 4, "LDS R3, [R6]", executed=10, threads=320, shared_wavefronts=40, shared_ideal=10),
    at(64, 5, "STL [R1], R3", executed=30, threads=960, local_sectors=120),
    at(80, 6, "@P0 BRA 0x0", executed=10, threads=320, divergent=5),
    at(96, 7, "DFMA R2, R4, R6, R8", executed=10, threads=80),
    at(112, 8, "BAR.SYNC 0x0", executed=10, threads=320),
    at(128, 9, "IADD3 R2, R3, R4, RZ", executed=10, threads=320),
    at(144, 10, "LDS R5, [R2]", executed=10, threads=320, samples=9, stalls={"barrier": 9.0}),
    at(160, 11, "FADD R1, R2, R3", executed=10, threads=320, samples=5, stalls={"long_scoreboard": 5.0}),
    at(176, 12, "RED.E.ADD [R2], R3", executed=10, threads=320, global_sectors=40, global_ideal=40),
)


@pytest.mark.parametrize(
    ("finding", "lines"),
    [
        ("uncoalesced-load", [1, 2]),  # 280 and 40 of 320 sectors too many
        ("uncoalesced-store", [3]),
        ("bank-conflicts", [4]),
        ("register-spill", [5]),
        ("thread-divergence", [6, 7]),  # the branch first, then where the threads are missing
        ("fp64-on-slow-part", [7]),
        ("stall-barrier", [8]),  # the waiting stands two instructions behind the barrier
        ("stall-long-scoreboard", [11]),
        ("atomic-contention", [12]),
        ("stall-drain", []),
        ("tail-wave", []),
    ],
)
def test_the_lines_of_a_finding(finding: str, lines: list[int]) -> None:
    assert [line.line for line in lines_of(finding, KERNEL)] == lines


def test_a_place_tells_its_share_of_what_is_counted() -> None:
    first, second = Source(KERNEL).places_of("uncoalesced-load")
    assert (first.share_pct, first.what) == (87.5, "sectors")
    assert second.share_pct == 12.5


def test_what_is_spread_over_many_lines_has_no_place() -> None:
    many = [at(16 * n, n, "STL [R1], R3", executed=10) for n in range(1, 12)]
    assert lines_of("register-spill", listing(*many)) == ()


def test_the_load_that_is_waited_for() -> None:
    source = Source(
        listing(
            at(0, 1, "LDG.E.128 R8, desc[UR4][R2.64]"),
            at(16, 2, "LDG.E R20, [R2.64]"),
            at(32, 3, "MOV R20, R1"),
            at(48, 4, "FFMA R7, R22, R20, R11", samples=9, stalls={"long_scoreboard": 9.0}),
            at(64, 5, "FADD R1, R20, R20", samples=9, stalls={"long_scoreboard": 9.0}),
            at(80, 6, "FADD R1, R11, R11", samples=9, stalls={"wait": 9.0}),
        )
    )
    code = source.listing.instructions
    # R11 is the last of the four registers that the wide load fills; R20 was set anew in between.
    assert source.feeder(code[3]) is code[0]
    assert source.feeder(code[4]) is None
    assert source.feeder(code[5]) is None


def test_the_text_around_a_line() -> None:
    source = Source(listing(at(0, 3, "X", samples=1), text={1: "one", 2: "two", 3: "three", 5: "five"}))
    assert source.around(source.lines[0], 1) == ((2, "two"), (3, "three"))
    assert source.around(source.lines[0], 9) == ((1, "one"), (2, "two"), (3, "three"), (5, "five"))


@pytest.mark.parametrize(
    ("sass", "opcode"),
    [("@!P0 LDG.E.128 R4, [R2]", "LDG"), ("@UP2 UMOV UR4, 0x1", "UMOV"), ("EXIT", "EXIT"), ("", ""), ("?!", "")],
)
def test_opcodes(sass: str, opcode: str) -> None:
    assert Instruction(0, sass).opcode == opcode


def test_an_empty_listing_has_no_lines() -> None:
    source = Source(SourceListing((), frozenset()))
    assert (source.lines, source.in_program_order, source.places_of("register-spill")) == ((), (), ())
