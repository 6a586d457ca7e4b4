"""Published models by name: folders, downloads, and what a file may contain."""

import hashlib
import os
import pickle
from pathlib import Path

import pytest
import torch

from graphormer_plugin.finetune import published as pretrained
from graphormer_plugin.finetune.published import Published, find_file, load_pretrained


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The three folders: of the flag, of the environment, the cache."""
    root = tmp_path / "root"
    folders = [tmp_path / "flag", tmp_path / "variable", root / "pretrained"]
    for folder in folders:
        folder.mkdir(parents=True)
    monkeypatch.setenv("GRAPHORMER_PRETRAINED_DIR", str(folders[1]))
    monkeypatch.setenv("GRAPHORMER_DATA_ROOT", str(root))
    return folders


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A published file at an address."""
    file = tmp_path / "server.pt"
    file.write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    model = Published("theirs.pt", address=file.as_uri(), sha256=digest)
    monkeypatch.setitem(pretrained.PUBLISHED, "some_model", model)
    return file


def test_folders_are_searched_in_order(places):
    flag, variable, cache = places
    name = "pcqm4mv2_graphormer_base"
    for folder, file in [
        (cache, "checkpoint_best_pcqm4mv2.pt"),
        (variable, f"{name}.pt"),
        (flag, "checkpoint_best_pcqm4mv2.pt"),
    ]:
        (folder / file).touch()
        assert find_file(name, str(flag)) == folder / file
    assert find_file(name) == variable / f"{name}.pt"


def test_download_is_checked_and_kept(places, server):
    path = pretrained.download("some_model")
    assert path == places[2] / "some_model.pt"
    assert path.read_bytes() == b"weights"
    server.unlink()
    assert find_file("some_model") == path


def test_another_file_is_refused(places, server):
    server.write_bytes(b"other weights")
    with pytest.raises(ValueError, match="is another file than some_model was"):
        pretrained.download("some_model")
    assert find_file("some_model") is None
    assert [path for path in places[2].iterdir() if path.suffix == ".pt"] == []


def test_a_dead_address_says_where_the_file_belongs(places, server):
    server.unlink()
    with pytest.raises(ValueError) as error:
        pretrained.download("some_model")
    message = str(error.value)
    assert message.startswith("cannot download some_model from file://")
    assert f"theirs.pt there by hand, as {places[2] / 'some_model.pt'}" in message


def test_without_a_checksum_nothing_is_downloaded(places, server, monkeypatch):
    model = Published("theirs.pt", address=server.as_uri())
    monkeypatch.setitem(pretrained.PUBLISHED, "some_model", model)
    with pytest.raises(ValueError) as error:
        pretrained.download("some_model")
    message = str(error.value)
    assert f"{server.as_uri()} gives is not downloaded" in message
    assert f"theirs.pt there by hand, as {places[2] / 'some_model.pt'}" in message
    assert list(places[2].iterdir()) == []


def test_the_page_has_all_of_them():
    page = Path(__file__).parents[2] / "examples/published/README.md"
    text = page.read_text(encoding="utf-8")
    for name, model in pretrained.PUBLISHED.items():
        assert model.address.endswith(f"/{model.file}")
        assert f"| `{name}` | {model.address} |" in text


def test_unknown_name(places):
    with pytest.raises(ValueError) as error:
        load_pretrained("pcqm4mv3", str(places[0]))
    assert f"no pcqm4mv3.pt in {places[0]}, {places[1]}, {places[2]}" in str(
        error.value
    )
    assert "pcqm4mv2_graphormer_base" in str(error.value)


class Evil:
    def __reduce__(self):
        return os.system, ("touch executed",)


@pytest.mark.parametrize("name", ["pcqm4mv1_graphormer_base", "mine"])
def test_nothing_in_a_file_is_executed(places, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    path = places[0] / f"{name}.pt"
    torch.save({"model": Evil()}, path)
    with pytest.raises(ValueError, match=f"{name}.pt"):
        load_pretrained(name, str(places[0]))
    path.write_bytes(pickle.dumps({"model": Evil()}))
    with pytest.raises(ValueError, match=f"{name}.pt"):
        load_pretrained(name, str(places[0]))
    assert not (tmp_path / "executed").exists()
