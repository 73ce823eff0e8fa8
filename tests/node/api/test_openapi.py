"""The OpenAPI document is valid, complete, and what the node really answers."""

import json
from pathlib import Path

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from millpond.protocol import wire
from millpond.storage.blocks import make_block
from millpond_node.api.app import OPEN, SIGNED
from millpond_node.api.edge import status_of
from millpond_node.api.openapi import document
from millpond_node.api.operations import JSON, OPERATIONS
from millpond_node.api.problems import BY_CODE, PROBLEMS

REST_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rest.md"
DOCUMENT = document()


def schema_of(part: dict) -> dict:
    return {**part, "components": DOCUMENT["components"]}


def answer_schema(method: str, path: str, status: int) -> dict | None:
    content = DOCUMENT["paths"][path][method]["responses"][str(status)].get("content", {})
    return schema_of(content[JSON]["schema"]) if JSON in content else None


def test_document_is_valid_openapi_3_1() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    validate(DOCUMENT, cls=OpenAPIV31SpecValidator)


async def test_document_names_every_route_and_the_node_serves_it(node) -> None:
    routes = {("GET", path) for path, _ in OPEN} | {(method, path) for method, path, _ in SIGNED}
    shown = {(item.method.upper(), item.path) for item in OPERATIONS}
    assert shown == routes | {("HEAD", "/v1/blocks/{cid}")}
    assert (await node.client.get("/v1/openapi.json")).json() == DOCUMENT


def test_document_changed_by_its_caller_stays_as_it_was_for_others() -> None:
    for path in document()["paths"].values():
        for item in path.values():
            for content in item.get("requestBody", {}).get("content", {}).values():
                content.get("example", {}).clear()
    assert document() == DOCUMENT


def test_every_operation_has_an_id_of_its_own() -> None:
    ids = [item["operationId"] for path in DOCUMENT["paths"].values() for item in path.values()]
    assert len(set(ids)) == len(ids) == len(OPERATIONS)


def test_every_write_says_what_makes_it_the_same_again() -> None:
    assert all(item.identity for item in OPERATIONS if item.method in ("post", "put"))


@pytest.mark.parametrize("item", OPERATIONS, ids=lambda item: f"{item.method} {item.path}")
def test_every_example_follows_its_schema(item) -> None:
    said = DOCUMENT["paths"][item.path][item.method]
    contents = [content for answer in said["responses"].values() for content in answer.get("content", {}).values()]
    contents += list(said.get("requestBody", {}).get("content", {}).values())
    for content in contents:
        if "example" in content:
            jsonschema.validate(content["example"], schema_of(content["schema"]))
    for parameter in said["parameters"]:
        if "$ref" not in parameter:
            jsonschema.validate(parameter["example"], parameter["schema"])


@pytest.mark.parametrize(
    "item", [item for item in OPERATIONS if item.body not in (None, bytes)], ids=lambda item: item.path
)
def test_every_example_of_a_body_is_read_as_its_message(item) -> None:
    example = DOCUMENT["paths"][item.path][item.method]["requestBody"]["content"][JSON]["example"]
    assert isinstance(wire.read(item.body, json.dumps(example)), item.body)


def every_error(kind: type) -> list[type]:
    return [kind, *(deeper for below in kind.__subclasses__() for deeper in every_error(below))]


def test_every_error_of_the_node_has_its_code_and_status_in_the_catalogue() -> None:
    from millpond.protocol.errors import NodeError

    mine = [kind for kind in every_error(NodeError) if kind.__module__ == "millpond_node.errors"]
    of_sockets = {"VersionSkewError", "WorkerBusyError", "WorkerRefusedError", "SequenceGapError"}
    for kind in mine:
        if kind.__name__ not in of_sockets:
            assert BY_CODE[kind.__name__].status == status_of(kind("x"))


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.code)
def test_every_code_is_in_the_reference(problem) -> None:
    assert f"| `{problem.code}` | {problem.status} | {problem.meaning} |" in REST_PAGE.read_text()


async def test_every_documented_answer_is_as_the_node_gives_it(kit, node) -> None:
    """Walks all operations of a pool with a lease and a job; each answer follows the schema of its status."""
    api, job = node.api(), kit.new_job()
    block = make_block(b"code" * 100)
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        await api.submit(job, rented.lease, 1)
        task = (await api.results(job))[0]["task"]
        known = {
            "hash": rented.request,
            "lease": rented.lease,
            "job": job,
            "task": task,
            "attempt": "1",
            "cid": block.cid,
        }
        bodies = {
            "/v1/requests": wire.write(kit.make_request(api.key)),
            "/v1/blocks/{cid}": block.data,
            "/v1/jobs/{job}/cancel": b"{}",
            "/v1/jobs/{job}/tasks": wire.write(kit.Submit(job, (rented.lease,), (kit.make_spec(job, 5),))),
        }
        done = {}
        for item in sorted(OPERATIONS, key=lambda item: item.method != "put"):
            path = item.path.format(**known)
            if any(query.is_required for query in item.query):
                path += f"?task={task}"
            answer = await api.send(item.method.upper(), path, bodies.get(item.path, b""))
            done[item.method, item.path] = answer.status_code
            said = DOCUMENT["paths"][item.path][item.method]["responses"]
            assert str(answer.status_code) in said, (path, answer.status_code, answer.text)
            schema = answer_schema(item.method, item.path, answer.status_code)
            if schema is not None:
                jsonschema.validate(answer.json(), schema)
    refused = {key for key, status in done.items() if status >= 400}
    assert refused <= {
        ("post", "/v1/leases/{lease}/vouchers"),
        ("post", "/v1/leases/{lease}/ladder"),
        ("get", "/v1/receipts/{task}/{attempt}"),
    }
