"""Published models by name: folders, downloads, and what a file may contain."""

import socket

import pytest
import torch

from graphormer_plugin.data import files as data_files
from graphormer_plugin.published import names as pretrained
from graphormer_plugin.published._shared import columns_of
from graphormer_plugin.published.names import Published, find_file, load_pretrained
from support.golden import golden_state, load_golden


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
    file = tmp_path / "server.pt"
    torch.save({"weight": torch.ones(3)}, file)
    model = Published("theirs.pt", file.as_uri())
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


def files(folder):
    return [path.name for path in folder.iterdir() if not path.name.endswith(".lock")]


def test_download_is_checked_and_kept(places, server):
    content = server.read_bytes()
    path = pretrained.download("some_model")
    assert path == places[2] / "some_model.pt"
    assert path.read_bytes() == content
    assert files(places[2]) == ["some_model.pt"]
    server.unlink()
    assert find_file("some_model") == path


@pytest.mark.parametrize("content", ["other", "half", "gone"])
def test_a_failed_download_says_where_the_file_belongs(places, server, content):
    whole = server.read_bytes()
    server.write_bytes(whole[: len(whole) // 2] if content == "half" else b"<html>")
    if content == "gone":
        server.unlink()
    with pytest.raises(ValueError) as error:
        pretrained.download("some_model")
    message, looked = str(error.value), ", ".join(map(str, places[1:]))
    assert message.startswith(
        f"some_model is in none of {looked}, and cannot be downloaded from file://"
    )
    assert f"theirs.pt, there by hand, as {places[2] / 'some_model.pt'}" in message
    assert files(places[2]) == []


def test_a_silent_address_ends(places, monkeypatch):
    monkeypatch.setattr(data_files, "NETWORK_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/theirs.pt"
        model = Published("theirs.pt", address)
        monkeypatch.setitem(pretrained.PUBLISHED, "some_model", model)
        with pytest.raises(ValueError, match="timed out"):
            pretrained.download("some_model")


def test_grpe_is_downloaded_by_hand(places):
    name = "pcqm4m_pretrained_standard_underfit"
    with pytest.raises(ValueError) as error:
        load_pretrained(name)
    assert f"download {name}.pt by hand from {pretrained.GRPE} and" in str(error.value)


def test_a_published_grpe_is_converted(places, caplog):
    """Its heads are in the table; its files begin names with `module.`, and have 30 edge
    types where OGB's bonds would make 41."""
    state = golden_state(load_golden("grpe_shared"))
    for part in ("query", "key", "value"):
        table = state[f"{part}_edge_emb.weight"]
        state[f"{part}_edge_emb.weight"] = torch.cat([table[:30], table[-4:]])
    state = {f"module.{name}": value for name, value in state.items()}
    torch.save(state, places[0] / "pcqm4mv2_pretrained_standard.pt")
    found = load_pretrained("pcqm4mv2_pretrained_standard", str(places[0]))
    assert found.options["encoder_attention_heads"] == 32
    assert "13 of 60 kinds of bonds have no vector in the checkpoint" in caplog.text


def test_a_table_of_fewer_columns_is_not_filled_up():
    with pytest.raises(ValueError, match="1024 rows, 3 feature columns need 1536"):
        columns_of(torch.zeros(1024, 2), 1, 3)


def test_unknown_name(places):
    with pytest.raises(ValueError) as error:
        load_pretrained("pcqm4mv3", str(places[0]))
    assert f"no pcqm4mv3.pt in {', '.join(map(str, places))}" in str(error.value)
    for known in ("grpe_minimol", "pcqm4mv2_graphormer_base"):
        assert known in str(error.value)
