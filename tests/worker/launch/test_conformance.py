"""What every launcher does alike. Tests with `launcher` run on the fake too; those with `real` on Docker and processes."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millpond.protocol.errors import TaskError
from millpond.protocol.values import decode
from millpond_worker.launch.errors import (
    ContainerGoneError,
    OutputTooLargeError,
    TaskOutOfMemoryError,
    TaskTimeoutError,
)
from millpond_worker.launch.outcomes import error_of
from millpond_worker.launch.port import CodeBundle, Limits, TaskStatus

_PLACE = Path(__file__).with_name("conftest.py")
_SPEC = importlib.util.spec_from_file_location("launch_helpers", _PLACE)
assert _SPEC is not None
assert _SPEC.loader is not None
helpers = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(helpers)
frame, spec = helpers.frame, helpers.spec


def left_under(folder: Path, pattern: str) -> list[Path]:
    return list(folder.rglob(pattern))


# EVERY LAUNCHER


async def test_check_usable_launcher_finds_no_failure(launcher: Any) -> None:
    assert "fail" not in {finding.level for finding in await launcher.check()}


async def test_image_digest_known_image_is_64_hex_digits(launcher: Any) -> None:
    digest = await launcher.image_digest(helpers.IMAGE)
    assert len(bytes.fromhex(digest)) == 32
    assert digest == await launcher.pull(helpers.IMAGE)


async def test_start_gives_facts_and_digest(launcher: Any) -> None:
    container = await launcher.start(spec())
    assert container.runner.python >= (3, 9, 0)
    assert container.image_digest == await launcher.image_digest(helpers.IMAGE)
    assert container.lease == "lease-1"


async def test_execute_plain_function_returns_its_value(real: Any) -> None:
    container = await real.start(spec())
    outcome = await real.execute(container, frame("job:double", 21))
    assert outcome.status is TaskStatus.OK
    assert decode(outcome.value) == 42
    assert error_of(outcome) is None


async def test_execute_failing_function_tells_type_message_and_traceback(launcher: Any) -> None:
    container = await launcher.start(spec())
    code = CodeBundle({"job.py": b"def fail():\n    raise KeyError('mine')\n"})
    outcome = await launcher.execute(container, frame("job:fail", code=code))
    assert outcome.status is TaskStatus.FAILED
    assert (outcome.failure.type, outcome.failure.message) == ("KeyError", "'mine'")
    assert "in fail" in outcome.failure.traceback
    assert isinstance(error_of(outcome), TaskError)


async def test_stop_twice_does_nothing_and_execute_says_gone(launcher: Any) -> None:
    container = await launcher.start(spec())
    await launcher.stop(container)
    await launcher.stop(container)
    with pytest.raises(ContainerGoneError):
        await launcher.execute(container, frame("job:double", 1))


async def test_list_owned_warm_container_is_listed_until_wiped(launcher: Any) -> None:
    container = await launcher.start(spec("lease-7"))
    (owned,) = await launcher.list_owned()
    assert (owned.id, owned.kind, owned.lease, owned.is_running) == (container.id, "warm", "lease-7", True)
    await launcher.wipe("lease-7")
    assert await launcher.list_owned() == []


async def test_wipe_other_lease_stays(launcher: Any) -> None:
    await launcher.start(spec("lease-a"))
    await launcher.start(spec("lease-b"))
    await launcher.wipe("lease-a")
    assert [owned.lease for owned in await launcher.list_owned()] == ["lease-b"]


# TASKS


@pytest.mark.parametrize(("entry", "value"), [("job:twice", 10), ("job:later", 5)])
async def test_execute_decorated_and_async_functions_run(real: Any, entry: str, value: int) -> None:
    container = await real.start(spec())
    assert decode((await real.execute(container, frame(entry, 5))).value) == value


async def test_execute_script_loads_as_mp_main(real: Any) -> None:
    container = await real.start(spec())
    code = CodeBundle({"run/job.py": helpers.SOURCE, "run/aside.py": b"X = 3"}, main="run/job.py")
    assert decode((await real.execute(container, frame("__mp_main__:name", code=code))).value) == "__mp_main__"


async def test_execute_package_imports_its_modules(real: Any) -> None:
    container = await real.start(spec())
    code = CodeBundle({"pkg/__init__.py": b"", "pkg/a.py": b"from .b import go", "pkg/b.py": b"def go(): return 'b'"})
    assert decode((await real.execute(container, frame("pkg.a:go", code=code))).value) == "b"


async def test_execute_same_code_keeps_the_executor_other_code_does_not(real: Any) -> None:
    container = await real.start(spec())
    first, second = [decode((await real.execute(container, frame("job:pid"))).value) for _ in range(2)]
    other = CodeBundle({"job.py": helpers.SOURCE + b"\n# other\n"})
    third = decode((await real.execute(container, frame("job:pid", code=other))).value)
    assert first == second != third


async def test_execute_overlapping_calls_each_get_their_own_result(real: Any) -> None:
    container = await real.start(spec())
    outcomes = await asyncio.gather(*[real.execute(container, frame("job:double", number)) for number in range(50)])
    assert [decode(outcome.value) for outcome in outcomes] == [2 * number for number in range(50)]


async def test_execute_over_time_is_killed_and_the_next_task_runs(real: Any) -> None:
    container = await real.start(spec())
    late = await real.execute(container, frame("job:nap", 60, time_limit_s=0.3))
    assert late.status is TaskStatus.TIMEOUT
    assert isinstance(error_of(late), TaskTimeoutError)
    assert 0.3 <= late.run_s < 5
    assert (await real.execute(container, frame("job:double", 1))).status is TaskStatus.OK


async def test_execute_over_memory_is_oom_with_the_limit_and_the_next_task_runs(real: Any) -> None:
    container = await real.start(spec(limits=Limits(1000, 128)))
    outcome = await real.execute(container, frame("job:allocate", 400))
    assert outcome.status is TaskStatus.OOM
    assert "128 MiB" in outcome.failure.message
    assert isinstance(error_of(outcome), TaskOutOfMemoryError)
    assert (await real.execute(container, frame("job:double", 1))).status is TaskStatus.OK


async def test_execute_process_that_leaves_tells_the_exit_code(real: Any) -> None:
    container = await real.start(spec())
    outcome = await real.execute(container, frame("job:leave"))
    assert (outcome.status, outcome.exit_code) == (TaskStatus.FAILED, 7)


async def test_execute_unknown_entry_fails_with_its_name(real: Any) -> None:
    container = await real.start(spec())
    outcome = await real.execute(container, frame("nowhere:f"))
    assert (outcome.status, outcome.failure.type) == (TaskStatus.FAILED, "ModuleNotFoundError")


async def test_execute_result_over_the_cap_fails(real: Any) -> None:
    container = await real.start(spec())
    outcome = await real.execute(container, frame("job:large", 2000, max_result_bytes=1000))
    assert outcome.status is TaskStatus.FAILED
    assert "MILLPOND_OUT" in outcome.failure.message


async def test_execute_large_arguments_and_results_arrive_whole(real: Any) -> None:
    container = await real.start(spec())
    assert len(decode((await real.execute(container, frame("job:double", bytes(5 << 20)))).value)) == 10 << 20


async def test_cancel_running_and_queued_attempts_end_cancelled(real: Any) -> None:
    container = await real.start(spec())
    running = asyncio.create_task(real.execute(container, frame("job:nap", 60, task="one")))
    queued = asyncio.create_task(real.execute(container, frame("job:nap", 60, task="two")))
    await asyncio.sleep(0.2)
    await real.cancel(container, "two", 1)
    await real.cancel(container, "one", 1)
    assert {(await running).status, (await queued).status} == {TaskStatus.CANCELLED}


async def test_execute_cancelled_call_frees_the_container(real: Any) -> None:
    container = await real.start(spec())
    call = asyncio.create_task(real.execute(container, frame("job:nap", 60)))
    await asyncio.sleep(0.2)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await real.execute(container, frame("job:double", 1))).status is TaskStatus.OK


async def test_stop_running_attempt_is_lost(real: Any) -> None:
    container = await real.start(spec())
    call = asyncio.create_task(real.execute(container, frame("job:nap", 60)))
    await asyncio.sleep(0.2)
    await real.stop(container)
    assert (await call).status is TaskStatus.LOST


async def test_pause_running_attempt_stands_still_and_its_limit_too(real: Any) -> None:
    container = await real.start(spec())
    call = asyncio.create_task(real.execute(container, frame("job:nap", 0.2, time_limit_s=1.5)))
    await asyncio.sleep(0.05)
    await real.pause(container)
    await asyncio.sleep(3.0)
    assert not call.done()
    await real.unpause(container)
    assert (await call).status is TaskStatus.OK


async def test_stop_paused_container_is_removed(real: Any) -> None:
    container = await real.start(spec())
    await real.pause(container)
    async with asyncio.timeout(20):
        await real.stop(container)
    assert await real.list_owned() == []


async def test_wipe_paused_container_with_a_running_attempt_is_removed(real: Any) -> None:
    container = await real.start(spec())
    call = asyncio.create_task(real.execute(container, frame("job:nap", 60)))
    await asyncio.sleep(0.2)
    await real.pause(container)
    async with asyncio.timeout(20):
        await real.wipe("lease-1")
    assert (await call).status is TaskStatus.LOST
    assert await real.list_owned() == []


async def test_execute_array_argument_can_be_changed_in_place(real: Any) -> None:
    code = CodeBundle({"job.py": b"def go(array):\n    array += 1\n    return array.reshape(2, 3), array.sum()\n"})
    container = await real.start(spec())
    outcome = await real.execute(container, frame("job:go", np.arange(6.0), code=code))
    array, total = decode(outcome.value)
    assert array.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert total == np.float64(21)


# LOGS


async def test_logs_both_streams_arrive_with_offsets_and_without_gaps(real: Any) -> None:
    container, chunks = await real.start(spec()), []
    outcome = await real.execute(container, frame("job:shout", 300_000), chunks.append)
    for stream, letter in (("stdout", b"o"), ("stderr", b"e")):
        found = [chunk for chunk in chunks if chunk.stream == stream]
        assert [chunk.offset for chunk in found] == [sum(len(c.data) for c in found[:n]) for n in range(len(found))]
        assert b"".join(chunk.data for chunk in found) == letter * 300_000
    assert outcome.log_bytes == 600_000
    assert outcome.log_tail.endswith(b"e") or outcome.log_tail.endswith(b"o")


async def test_logs_over_the_cap_are_dropped_and_the_task_succeeds(real: Any) -> None:
    container, chunks = await real.start(spec()), []
    outcome = await real.execute(container, frame("job:shout", 200_000, max_log_bytes=100_000), chunks.append)
    assert outcome.status is TaskStatus.OK
    assert sum(len(chunk.data) for chunk in chunks) <= 100_000
    assert outcome.log_bytes == 400_000


async def test_logs_of_a_killed_task_are_kept(real: Any) -> None:
    code = CodeBundle({"job.py": b"import time\ndef go():\n    print('before the end')\n    time.sleep(60)\n"})
    container = await real.start(spec())
    outcome = await real.execute(container, frame("job:go", code=code, time_limit_s=0.5))
    assert outcome.log_tail == b"before the end\n"


# FILES


async def test_inputs_are_readable_and_outputs_come_back(real: Any, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"digits")
    container = await real.start(spec(inputs={"shared/data": tmp_path / "data"}))
    assert decode((await real.execute(container, frame("job:read", "shared/data"))).value) == b"digits"
    own = frame("job:read", "own", inputs={"own": tmp_path / "data"})
    assert decode((await real.execute(container, own)).value) == b"digits"
    outcome = await real.execute(container, frame("job:write", "deep/result.bin", 3_000_000))
    assert [(file.name, file.size) for file in outcome.outputs] == [("deep/result.bin", 3_000_000)]
    assert outcome.outputs[0].path.read_bytes() == bytes(3_000_000)


@pytest.mark.parametrize("entry", ["job:link", "job:fifo"])
async def test_outputs_other_than_regular_files_are_refused(real: Any, entry: str) -> None:
    container = await real.start(spec())
    outcome = await real.execute(container, frame(entry))
    assert outcome.status is TaskStatus.OUTPUT
    assert outcome.outputs == ()
    assert isinstance(error_of(outcome), OutputTooLargeError)


async def test_outputs_too_large_are_refused(real: Any) -> None:
    container = await real.start(spec(limits=Limits(1000, 256, tmp_mib=64, out_mib=8)))
    outcome = await real.execute(container, frame("job:write", "big", 12 << 20))
    assert outcome.status is TaskStatus.OUTPUT


async def test_S02_outputs_that_keep_growing_are_stopped_while_running(real: Any) -> None:
    code = CodeBundle(
        {
            "job.py": b"import os\ndef go():\n    n = 0\n    while True:\n"
            b"        open(os.path.join(os.environ['MILLPOND_OUT'], str(n % 8)), 'ab').write(bytes(1 << 18)); n += 1\n"
        }
    )
    container = await real.start(spec(limits=Limits(1000, 256, out_mib=32)))
    outcome = await real.execute(container, frame("job:go", code=code))
    assert outcome.status in (TaskStatus.OUTPUT, TaskStatus.FAILED)
    assert outcome.failure.type in ("OutputTooLargeError", "OSError")


# COLD


async def test_cold_command_ends_with_logs_outputs_and_exit_code(real: Any) -> None:
    chunks: list[Any] = []
    command = ["sh", "-c", "echo out; echo err >&2; echo result > $MILLPOND_OUT/r"]
    outcome = await real.run_cold(spec(task="c", attempt=2), command, 30.0, chunks.append)
    assert (outcome.status, outcome.exit_code, outcome.task, outcome.attempt) == (TaskStatus.OK, 0, "c", 2)
    assert {(chunk.stream, chunk.data) for chunk in chunks} == {("stdout", b"out\n"), ("stderr", b"err\n")}
    assert [(file.name, file.size) for file in outcome.outputs] == [("r", 7)]
    assert await real.list_owned() == []


async def test_cold_command_that_fails_tells_its_exit_code(real: Any) -> None:
    outcome = await real.run_cold(spec(task="c"), ["sh", "-c", "exit 3"], 30.0)
    assert (outcome.status, outcome.exit_code) == (TaskStatus.FAILED, 3)


async def test_cold_command_over_time_is_killed(real: Any) -> None:
    outcome = await real.run_cold(spec(task="c"), ["sleep", "60"], 0.5)
    assert outcome.status is TaskStatus.TIMEOUT
    assert await real.list_owned() == []


async def test_S15_after_a_wipe_nothing_of_the_lease_is_left(real: Any, tmp_path: Path) -> None:
    container = await real.start(spec())
    await real.execute(container, frame("job:write", "kept", 1000))
    await real.run_cold(spec(task="c"), ["sh", "-c", "echo x > $MILLPOND_OUT/r"], 30.0)
    await real.wipe("lease-1")
    assert await real.list_owned() == []
    assert left_under(tmp_path, "lease-1") == []


async def test_start_file_input_missing_leaves_nothing(real: Any, tmp_path: Path) -> None:
    from millpond_worker.launch.spool import InputPathError

    for name, source in (("a", tmp_path / "none"), ("../a", _PLACE)):
        with pytest.raises(InputPathError):
            await real.start(dataclasses.replace(spec(), inputs={name: source}))
    assert await real.list_owned() == []
    assert left_under(tmp_path, "rooms/*") == []


async def test_measure_running_container_says_memory_and_cpu(launcher: Any) -> None:
    container = await launcher.start(spec())
    (owned,) = [one for one in await launcher.list_owned() if one.id == container.id]
    measured = await launcher.measure(owned)
    assert measured.memory_bytes > 0
    assert measured.cpu_ms > 0
    await launcher.stop(container)
    with pytest.raises(ContainerGoneError):
        await launcher.measure(owned)
