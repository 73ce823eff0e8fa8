"""Jobs at the edge: checks of submissions, durable rows of tasks and results, and the lines of the result stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from millpond.protocol import wire
from millpond.protocol.hashing import sha256
from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.messages import INLINE_BYTES, MAX_TASKS_PER_SUBMIT, AttemptStatus, Submit, TaskResult, TaskSpec
from millpond.protocol.receipts import input_manifest
from millpond.protocol.views import JobView
from millpond.storage.cid import cid_of
from millpond_node.core import Core
from millpond_node.errors import BacklogError, NotFoundError, RequestRefusedError
from millpond_node.machine import dispatch
from millpond_node.machine.commands import SaveResult, SaveSent
from millpond_node.machine.tasks import CancelAsked, Job, JobOrphaned, Task, TasksSubmitted, TaskState

MAX_LEASES_PER_JOB = 256
MAX_ATTEMPTS = 100


class Jobs:
    """Rows: `job` (owner), `submit` (bodies as they came), `sent` (assignments), `result` (lines of the stream)."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._sent: dict[Bytes32, list[SaveSent]] = {}
        self._sent_row = 0
        self._submits: dict[Bytes32, int] = {}
        core.performs(SaveSent, self._save_sent)
        core.performs(SaveResult, self._save_result)
        core.durable.before.append(self._flush_sent)

    def submit(self, caller: Address, job_id: Bytes32, submit: Submit, body: bytes) -> tuple[int, int]:
        """(accepted, known). Durable once `core.durable.settled()` returns. Raises the errors of the checks, and then nothing was kept."""
        self._check_submit(caller, job_id, submit)
        job = self._core.books.desk.jobs.get(job_id)
        known = sum(spec.id in job.tasks for spec in submit.tasks) if job is not None else 0
        fresh = len(submit.tasks) - known
        if fresh or job is None or any(lease not in job.leases for lease in submit.leases):
            self._check_room(caller, job, fresh, len(body))
            self._put_submit(caller, job_id, body, is_new=job is None)
            self._core.on_task(TasksSubmitted(job_id, caller, submit.leases, submit.tasks))
        return fresh, known

    def cancel(self, caller: Address, job_id: Bytes32, tasks: tuple[Bytes32, ...]) -> JobView:
        job = self.job_of(caller, job_id)
        self._core.on_task(CancelAsked(job_id, tasks))
        return job.view()

    def job_of(self, caller: Address, job_id: Bytes32) -> Job:
        """Raises `NotFoundError`, alike for an unknown job and another's."""
        job = self._core.books.desk.jobs.get(job_id)
        if job is None or not self._may_see(caller, job):
            raise NotFoundError(f"there is no job {job_id}")
        return job

    def lines(self, job_id: Bytes32, after: int, limit: int = 512) -> list[tuple[int, bytes]]:
        """(cursor, line) of committed results beyond cursor `after`."""
        found = []
        for key, line in self._core.journal.scan("result", f"{job_id}/", after=_result_key(job_id, after)):
            found.append((int(key[-10:]), line))
            if len(found) == limit:
                break
        return found

    def result(self, job_id: Bytes32, cursor: int) -> TaskResult | None:
        line = self._core.journal.get("result", _result_key(job_id, cursor))
        return None if line is None else wire.read(TaskResult, line)

    def find(self, caller: Address, task_id: Bytes32) -> tuple[Job, Task] | None:
        """A task among the jobs the caller may see."""
        for job in self._core.books.desk.jobs.values():
            task = job.tasks.get(task_id)
            if task is not None and self._may_see(caller, job):
                return job, task
        return None

    def restore(self) -> Iterator[tuple[Bytes32, Task, TaskResult]]:
        """Reads all jobs back; yields every ended task with its result."""
        core, desk = self._core, self._core.books.desk
        owners = {Bytes32(key): Address(value.decode()) for key, value in core.journal.scan("job")}
        for key, body in core.journal.scan("submit"):
            submit = wire.read(Submit, body)
            dispatch.submit(desk, TasksSubmitted(submit.job, owners[submit.job], submit.leases, submit.tasks))
            self._submits[submit.job] = int(key[-8:])
        for key, body in core.journal.scan("sent"):
            self._sent_row = max(self._sent_row, int(key[-12:]))
            for entry in wire.read(list[SaveSent], body):
                job, task = self._known(entry.job, entry.task)
                dispatch.assign(desk, job, task, entry.lease, entry.attempt, entry.tries)
        for _, line in core.journal.scan("result"):
            result = wire.read(TaskResult, line)
            job, task = self._known(result.job, result.task)
            status = result.signed.receipt.status if result.signed is not None else _status_without_receipt(result)
            dispatch.end(desk, job, task, result.cursor, status, result.signed is not None, core.clock.monotonic())
            yield job.id, task, result
        self._requeue_restored()

    def sweep(self, now: float) -> None:
        """Ends tasks of jobs that lost all leases, and forgets jobs whose results were kept long enough."""
        live = self._core.books.leases.records
        for job in list(self._core.books.desk.jobs.values()):
            if job.open:
                self._watch_orphan(job, any(lease in live and not live[lease].is_over for lease in job.leases), now)
            elif now - job.ended_at > self._core.config.job_retention_s and job.final >= job.receipts:
                self._forget(job)

    def _check_submit(self, caller: Address, job_id: Bytes32, submit: Submit) -> None:
        if submit.job != job_id:
            raise RequestRefusedError(
                "the body names another job than the path", remedy="Send the job's own id in both."
            )
        if len(submit.tasks) > MAX_TASKS_PER_SUBMIT:
            raise RequestRefusedError(f"{len(submit.tasks)} tasks, at most {MAX_TASKS_PER_SUBMIT} in one submission")
        job = self._core.books.desk.jobs.get(job_id)
        if job is not None and not self._may_see(caller, job):
            raise NotFoundError(f"there is no job {job_id}")
        if not submit.leases or len(submit.leases) + len(job.leases if job else ()) > MAX_LEASES_PER_JOB:
            raise RequestRefusedError(
                f"a job runs on 1 to {MAX_LEASES_PER_JOB} leases", remedy="Name the leases to run on."
            )
        records = self._core.books.leases.records
        for lease in submit.leases:
            if lease not in records or not records[lease].has_party(caller):
                raise NotFoundError(f"there is no lease {lease}")
        for spec in submit.tasks:
            _check_spec(spec)

    def _check_room(self, caller: Address, job: Job | None, fresh: int, size: int) -> None:
        desk, limits = self._core.books.desk, self._core.config.limits
        if desk.open + fresh > limits.open_tasks:
            raise BacklogError(f"{desk.open} tasks are open, at most {limits.open_tasks} may be", open=desk.open)
        if desk.open_bytes + size > limits.open_task_mib << 20:
            raise BacklogError(f"open tasks hold {desk.open_bytes >> 20} MiB, at most {limits.open_task_mib} may be")
        if job is None and sum(other.owner == caller for other in desk.jobs.values()) >= limits.jobs_per_renter:
            raise BacklogError(f"{limits.jobs_per_renter} jobs of {caller} are kept, no more are")

    def _put_submit(self, caller: Address, job_id: Bytes32, body: bytes, *, is_new: bool) -> None:
        batch = self._core.durable.batch
        if is_new:
            batch.put("job", job_id, caller.encode())
        number = self._submits[job_id] = self._submits.get(job_id, 0) + 1
        batch.put("submit", f"{job_id}/{number:08}", body)

    def _may_see(self, caller: Address, job: Job) -> bool:
        if caller == job.owner:
            return True
        records = self._core.books.leases.records
        return any(lease in records and records[lease].has_party(caller) for lease in job.leases)

    def _save_sent(self, command: SaveSent) -> None:
        self._sent.setdefault(command.job, []).append(command)

    def _flush_sent(self) -> None:
        for job, entries in self._sent.items():
            self._sent_row += 1
            row = wire.write(entries, list[SaveSent])
            self._core.durable.batch.put("sent", f"{job}/{self._sent_row:012}", row)
        self._sent.clear()

    def _save_result(self, command: SaveResult) -> None:
        result = TaskResult(
            command.cursor, command.job, command.task, command.index, command.signed, command.value, command.failure
        )
        self._core.durable.batch.put("result", _result_key(command.job, command.cursor), wire.write(result))
        self._core.durable.after(lambda: self._core.signals.notify(command.job))
        self._core.counters["results"] += 1

    def _known(self, job_id: Bytes32, task_id: Bytes32) -> tuple[Job, Task]:
        job = self._core.books.desk.jobs[job_id]
        return job, job.tasks[task_id]

    def _requeue_restored(self) -> None:
        """The queues as they were: what is not sent and not ended, by index; a late cancel is asked again by its client."""
        for job in self._core.books.desk.jobs.values():
            waiting = [task for task in job.tasks.values() if task.state is TaskState.QUEUED]
            job.queue.clear()
            job.queue.extend(sorted(waiting, key=lambda task: task.index))

    def _watch_orphan(self, job: Job, has_lease: bool, now: float) -> None:
        if has_lease:
            job.orphan_since = 0.0
        elif not job.orphan_since:
            job.orphan_since = now
        elif now - job.orphan_since > self._core.config.orphan_seconds:
            self._core.on_task(JobOrphaned(job.id))

    def _forget(self, job: Job) -> None:
        dispatch.forget(self._core.books.desk, job.id)
        batch = self._core.durable.batch
        batch.delete("job", job.id)
        for table in ("submit", "sent", "result"):
            batch.delete_prefix(table, f"{job.id}/")
        self._submits.pop(job.id, None)
        self._core.durable.touch()


def args_digest_spec(spec: TaskSpec) -> TaskSpec:
    """The spec with `args_cid` filled in, as the receipt's input commits to it."""
    return replace(spec, args_cid=str(cid_of(spec.args))) if spec.args and not spec.args_cid else spec


def input_digest(spec: TaskSpec) -> bytes:
    """The digest in the CID of the task's input manifest."""
    return sha256(input_manifest(args_digest_spec(spec)))


def _result_key(job_id: Bytes32, cursor: int) -> str:
    return f"{job_id}/{cursor:010}"


def _status_without_receipt(result: TaskResult) -> int | None:
    is_cancelled = result.failure is not None and result.failure.type == "Cancelled"
    return AttemptStatus.CANCELLED if is_cancelled else None


def _check_spec(spec: TaskSpec) -> None:
    if bool(spec.entry) == bool(spec.command):
        raise RequestRefusedError(f"task {spec.id} needs exactly one of entry and command")
    if len(spec.args) > INLINE_BYTES:
        raise RequestRefusedError(
            f"task {spec.id} has {len(spec.args)} bytes of arguments inline, at most {INLINE_BYTES}"
        )
    if not 0 <= spec.index < 1 << 32 or not 1 <= spec.max_attempts <= MAX_ATTEMPTS:
        raise RequestRefusedError(f"task {spec.id}: index or max_attempts is out of range")
    if not 0 < spec.time_limit_s <= 90 * 86_400:
        raise RequestRefusedError(f"task {spec.id}: the time limit is not within 90 days")
