import pytest

from millpond_worker.launch.docker_engine import DockerEngine
from millpond_worker.launch.errors import ContainerGoneError, EngineUnavailableError


async def test_version_on_a_machine_without_any_socket_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr("aiodocker.docker._sock_search_paths", [])

    with pytest.raises(EngineUnavailableError, match="no socket of an engine was found") as caught:
        await DockerEngine().version()
    assert "process" in caught.value.remedy


async def test_version_over_a_socket_nobody_serves_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")

    engine = DockerEngine()
    with pytest.raises(EngineUnavailableError, match="Docker does not answer"):
        await engine.version()
    await engine.close()


async def test_stats_that_are_null_mean_that_the_container_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def null(action: object, timeout_s: float = 0) -> None:
        return None

    engine = DockerEngine()
    monkeypatch.setattr(engine, "_call", null)
    with pytest.raises(ContainerGoneError):
        await engine.stats("c")
