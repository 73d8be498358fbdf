"""The report of a copy says what was copied, what was left, and why."""

from transfer_app.copy_report import CopiedName, CopyReport


def report(*copied: CopiedName, dry_run: bool = False) -> CopyReport:
    made = CopyReport(dry_run=dry_run)
    for each in copied:
        made.add(each)
    return made


def one(name: str, outcome: str, **more: object) -> CopiedName:
    return CopiedName(part="sessions", name=name, outcome=outcome, **more)  # type: ignore[arg-type]


def test_a_whole_copy_is_counted_and_has_no_fault() -> None:
    whole = report(one("a.json", "copied"), one("b.json", "same"), one("c.json", "same"))
    assert next(iter(whole.lines("s3://bucket/"))) == "     1  sessions copied, 2 there already"
    assert whole.fault() is None
    assert whole.as_json() == {
        "dry_run": False,
        "parts": {"sessions": {"copied": 1, "same": 2}},
        "left": [],
        "interrupted": [],
    }


def test_what_was_left_is_named_with_its_reason() -> None:
    partly = report(
        one("a.json", "different"), one("b.json", "unreadable", reason="a symbolic link")
    )
    assert [*partly.lines("there")][1:3] == [
        "left: sessions, a.json: another one is there",
        "left: sessions, b.json: a symbolic link",
    ]
    fault = partly.fault()
    assert fault == "sessions/a.json, sessions/b.json were left; nothing was overwritten."


def test_many_names_are_not_all_in_one_sentence() -> None:
    fault = report(*(one(f"{number}.json", "different") for number in range(7))).fault()
    assert fault is not None
    assert "and 2 more were left" in fault


def test_turns_without_an_end_are_named() -> None:
    text = "\n".join(report(one("a1b2c3d4e5.json", "copied", was_claimed=True)).lines("there"))
    assert "turns without an end" in text
    assert "a1b2c3d4e5" in text


def test_a_dry_run_says_what_would_be() -> None:
    [line] = report(one("a.json", "copied"), dry_run=True).lines("there")
    assert line == "     1  sessions would be copied"
    assert [*report().lines("there")] == ["There is nothing to copy."]
