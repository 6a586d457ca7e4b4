"""Checkpoints as fairseq's commands read and write them."""

import os
import re
import resource
import shutil
import signal
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from graphormer_plugin.data.files import claim_folder, file_lock
from support.training import assert_same_weights, forked, trained_once, weights

pytestmark = pytest.mark.usefixtures("fresh_fairseq")


@pytest.fixture(scope="module")
def once(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("once") / "run"
    trained_once(data, folder, "--max-epoch", 2)
    return folder


@pytest.fixture
def trained(once, tmp_path):
    return shutil.copytree(once, tmp_path / "run")


def changed(path, target, **options):
    """A copy of a checkpoint with other options of its task."""
    state = weights(path)
    state["cfg"]["task"].update(options)
    torch.save(state, target)
    return target


@pytest.fixture
def refused(error):
    """Words of a line -> function that calls what exits with code 2 and this line."""

    def refused(*words):
        def call(function, *arguments, **options):
            line = error(function, *arguments, **options)
            assert [word for word in words if str(word) not in line] == []

        return call

    return refused


def flipped(content, place):
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


# Paths in a checkpoint


def test_nothing_is_imported_from_a_folder_that_a_checkpoint_names(
    trained, validate, tmp_path, data
):
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "code.py").write_text("open(__file__ + '.ran', 'w')\n")
    path = changed(
        trained / "checkpoint_last.pt",
        tmp_path / "evil.pt",
        user_data_dir=str(folder),
        data_root=str(tmp_path / "elsewhere"),
        results_path=str(tmp_path / "results"),
    )
    log = validate(path)
    assert not (folder / "code.py.ran").exists()
    assert not (tmp_path / "elsewhere").exists()
    assert not (tmp_path / "results").exists()
    (warning,) = re.findall("paths that .* names are not used.*", log)
    assert f"give --user-data-dir {folder} --results-path {tmp_path}" in warning

    log = validate(path, "--user-data-dir", str(folder))
    assert (folder / "code.py.ran").exists()
    assert "--user-data-dir" not in log

    (folder / "code.py.ran").unlink()
    overrides = {"data_root": str(tmp_path / "asked"), "user_data_dir": str(folder)}
    log = validate(path, "--model-overrides", repr(overrides))
    assert (tmp_path / "asked").exists()


def test_options_in_the_form_of_old_checkpoints_are_refused(
    trained, validate, train, tmp_path, refused
):
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "code.py").write_text("open(__file__ + '.ran', 'w')\n")
    state = weights(trained / "checkpoint_last.pt")
    task = {**state["cfg"]["task"], "task": "graph_prediction"}
    old = Namespace(**task, arch=state["cfg"]["model"]["_name"])
    old.user_data_dir = str(folder)
    path = tmp_path / "old.pt"
    torch.save({**state, "args": old}, path)
    refused(path, "options of fairseq before 0.10")(validate, path)
    refused(path, "fairseq before 0.10")(train, "other", "--restore-file", path)
    torch.save({**state, "args": old, "cfg": None}, path)
    refused(path)(validate, path)
    assert not (folder / "code.py.ran").exists()


# Torn files


def test_a_kill_while_copying_leaves_the_old_file(tmp_path):
    """The process dies after half of the copy, and also before the new name."""
    old, new = tmp_path / "checkpoint_last.pt", tmp_path / "checkpoint2.pt"
    old.write_bytes(b"old")
    new.write_bytes(b"new" * 1_000_000)

    def die(*arguments):
        os.kill(os.getpid(), signal.SIGKILL)

    def half(source, target, length):
        target.write(source.read(9))
        target.flush()
        die()

    def copy(module, name, function):
        setattr(module, name, function)
        PathManager.copy(str(new), str(old), overwrite=True)

    for dies in [
        (shutil, "copyfileobj", half),
        (os, "fsync", die),
        (os, "replace", die),
    ]:
        process = forked(copy, *dies)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert old.read_bytes() == b"old"
    assert PathManager.copy(str(new), str(old), overwrite=True)
    assert old.read_bytes() == new.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["checkpoint2.pt", "checkpoint_last.pt"]


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path, refused):
    path = tmp_path / "checkpoint_last.pt"
    path.write_bytes(b"old")
    (tmp_path / "large").write_bytes(b"new" * 100_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        refused(f"cannot write {path}", "File too large")(
            checkpoint_utils.torch_persistent_save, torch.zeros(100_000), str(path)
        )
        refused(f"cannot write {path}", "File too large")(
            PathManager.copy, str(tmp_path / "large"), str(path), overwrite=True
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["checkpoint_last.pt", "large"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: bytes(len(content)),
        lambda content: flipped(content, len(content) // 2),
        # Places in the archive become negative; zipfile then reports an OSError, as if
        # the disk were at fault.
        lambda content: content[:50] + content[2050:],
    ],
    ids="cut off|empty|zeros|bit|missing bytes".split("|"),
)
def test_training_goes_on_from_the_newest_intact_checkpoint(
    damage, trained, train, three_epochs
):
    path = trained / "checkpoint_last.pt"
    torn = damage(path.read_bytes())
    path.write_bytes(torn)
    (trained / "checkpoint_best.pt").write_bytes(torn)
    (warning,) = re.findall(".*goes on from.*", train("run"))
    assert str(path) in warning and str(trained / "checkpoint2.pt") in warning
    assert path.with_name("checkpoint_last.pt.damaged").read_bytes() == torn
    assert_same_weights(path, three_epochs[0] / "checkpoint_last.pt")


def test_without_an_intact_checkpoint_one_line_says_so(trained, train, refused):
    for path in trained.glob("checkpoint*.pt"):
        path.write_bytes(path.read_bytes()[:1000])
    refused(trained / "checkpoint_last.pt", "no intact checkpoint")(train, "run")
    assert not list(trained.glob("*.damaged"))


# Two trainings


def test_a_second_training_into_the_same_folder(train, tmp_path, refused):
    """Refused while the first one lives, also if its files are all there; not later."""
    folder = tmp_path / "run"
    folder.mkdir()
    ready, end = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        claim_folder(folder)
        if os.fork() == 0:  # a data worker outlives it
            os.read(end[0], 1)
            os._exit(0)
        os.write(ready[1], b"!")
        os.read(end[0], 1)
        os._exit(0)
    assert os.read(ready[0], 1)
    refused(folder, f"process {child} on", "give another --save-dir")(
        train, "run", "--max-epoch", 1
    )
    assert not list(folder.glob("*.pt"))
    train("run", "--max-epoch", 1, "--no-save")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    train("run", "--max-epoch", 1)
    train("run", "--max-epoch", 2)
    assert (folder / "checkpoint2.pt").exists()
    os.write(end[1], b"!")


def test_a_folder_that_is_removed_gets_no_checkpoint(tmp_path, capsys):
    """fairseq makes it anew, without the checkpoints that it had."""
    (folder := tmp_path / "run").mkdir()
    assert claim_folder(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(SystemExit):
        checkpoint_utils.torch_persistent_save({}, str(folder / "checkpoint.pt"))
    assert "removed while" in capsys.readouterr().err
    assert not list(folder.iterdir())


def test_a_planted_link_is_not_written_through(tmp_path):
    """In a folder of several people, another may name a file of ours ``.lock``."""
    precious, folder = tmp_path / "precious.txt", tmp_path / "run"
    precious.write_text("mine")
    folder.mkdir()
    for name in (".lock", ".store.lock"):
        (folder / name).symlink_to(precious)
    with pytest.raises(OSError, match=r"run/\.lock"):
        claim_folder(folder)
    with pytest.raises(OSError, match=r"run/\.store\.lock"):
        with file_lock(folder / "store"):
            pass
    assert precious.read_text() == "mine"
