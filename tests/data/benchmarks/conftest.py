import pytest

from graphormer_plugin.data import DatasetOptions


@pytest.fixture
def options(monkeypatch):
    """Options of a benchmark whose files are in a folder; no network, no questions."""

    def refuse(*_, **__):
        raise OSError("no network in tests")

    def ask(*_):
        raise AssertionError("asked on standard input")

    # Not connect: workers talk over sockets, too.
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setattr("builtins.input", ask)

    def make(name, source="", **more):
        return DatasetOptions(name=name, source=source, **more)

    return make
