"""What every command does with errors: the same two lines, the same JSON object, the same exit codes."""

import json

import click
import pytest

from millpond._commands import LazyGroup, run
from millpond.cli._main import cli as renter_cli
from millpond.protocol.errors import ChainError, MillpondError
from millpond_node.cli import cli as node_cli
from millpond_worker.cli.main import cli as worker_cli

TROUBLE = ChainError("the chain is away", remedy="Wait.", block=7)


def group_that(does: BaseException | int | str | None) -> click.Group:
    @click.group()
    def group() -> None:
        """A group."""

    @group.command(context_settings={"ignore_unknown_options": True})
    @click.option("--json", "as_json", is_flag=True)
    @click.option("--count", type=int)
    @click.argument("rest", nargs=-1)
    @click.pass_context
    def act(ctx: click.Context, as_json: bool, count: int | None, rest: tuple[str, ...]) -> str | None:
        if isinstance(does, BaseException):
            raise does
        if isinstance(does, int):
            ctx.exit(does)
        return does

    return group


def ended(group: click.Group, *arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        run(group, "tool", arguments)
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.mark.parametrize(
    ("does", "code"),
    [
        (None, 0),
        ("a value of the command is no exit code", 0),
        (5, 5),
        (TROUBLE, 4),
        (MillpondError("odd"), 1),
        (click.BadParameter("no"), 2),
        (click.Abort(), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_run_ends_with_the_exit_code_of_what_happened(does, code) -> None:
    assert ended(group_that(does), "act") == code


def test_run_error_as_text_is_two_lines_on_stderr_alone(capsys) -> None:
    ended(group_that(TROUBLE), "act")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "error: the chain is away\n  try: Wait.\n")


def test_run_error_as_json_is_one_object_on_stdout_alone(capsys) -> None:
    ended(group_that(TROUBLE), "act", "--json")
    said = capsys.readouterr()
    shown = {"error": "ChainError", "message": "the chain is away", "remedy": "Wait.", "fields": {"block": 7}}
    assert (json.loads(said.out), said.err) == (shown, "")


def test_run_json_of_somebody_elses_command_does_not_ask_for_json(capsys) -> None:
    ended(group_that(TROUBLE), "act", "--", "--json")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("cli", [renter_cli, worker_cli, node_cli], ids=["renter", "worker", "node"])
@pytest.mark.parametrize("arguments", [["no-such-command", "--json"], ["--json", "--no-such-option"]])
def test_run_wrong_usage_as_json_is_a_typed_error_with_exit_code_2(cli, arguments, capsys) -> None:
    assert ended(cli, *arguments) == 2
    shown = json.loads(capsys.readouterr().out)
    assert shown["error"] == "UsageError"
    assert shown["message"].startswith("No such ")


def test_run_wrong_value_as_json_names_the_help_of_its_command(capsys) -> None:
    assert ended(group_that(None), "act", "--json", "--count", "many") == 2
    assert json.loads(capsys.readouterr().out)["remedy"] == "See `tool act --help`."


def test_run_wrong_usage_as_text_keeps_clicks_own_words(capsys) -> None:
    assert ended(group_that(None), "act", "--count", "many") == 2
    assert "is not a valid integer" in capsys.readouterr().err


def test_lazy_group_refuses_before_a_command_is_loaded() -> None:
    def refuse() -> None:
        raise TROUBLE

    group = LazyGroup("tool", package="no.such.package", table={"act": ("act", "Acts.")}, before=refuse)
    assert ended(group, "act") == 4


def test_lazy_group_help_lists_every_command_and_loads_none(capsys) -> None:
    group = LazyGroup("tool", package="no.such.package", table={"b": ("b", "Does b."), "a": ("a", "Does a.")})
    assert ended(group, "--help") == 0
    out = capsys.readouterr().out
    assert out.index("Does a.") < out.index("Does b.")
