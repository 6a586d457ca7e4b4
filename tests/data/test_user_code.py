"""Folders of users that register datasets."""

import pytest

from graphormer_plugin.data import DatasetError, DatasetOptions, describe, get_store


def test_built_once(rings):
    store = get_store(rings())
    assert describe(store).startswith(
        "rings: 8 train / 1 valid / 1 test graphs, target size (nodes), fingerprint"
    )
    assert store.sizes.tolist() == list(range(3, 13))
    assert get_store(rings()).fingerprint == store.fingerprint
    assert rings.builds() == 1


def test_rebuilt_when_code_or_options_change(rings):
    first = get_store(rings())
    second = get_store(rings(extra="graphs[0].y = graphs[0].y + 1"))
    assert rings.builds() == 2 and second.fingerprint != first.fingerprint
    assert second.path == first.path  # the old one is replaced
    get_store(rings(extra="graphs[0].y = graphs[0].y + 1", rebuild=True))
    assert rings.builds() == 3


def test_modules_import_each_other(rings):
    (rings.folder / "helper.py").write_text("OFFSET = 1.0")
    options = rings(extra="from .helper import OFFSET; graphs[0].y += OFFSET")
    assert get_store(options).target[0, 0] == 4
    (rings.folder / "helper.py").write_text("OFFSET = 2.0")
    assert get_store(options).target[0, 0] == 5  # helpers count as code


def test_package(rings):
    (rings.folder / "__init__.py").write_text("from . import rings")
    assert len(get_store(rings())) == 10


def test_errors_name_file_and_line(rings):
    with pytest.raises(DatasetError, match=r"'rings' failed at .*rings.py:\d+: Ze"):
        get_store(rings(extra="1 / 0"))
    (rings.folder / "broken.py").write_text("import nothing_like_this")
    with pytest.raises(DatasetError, match=r"at .*broken.py:1: ModuleNotFoundErr"):
        get_store(rings())
    (rings.folder / "broken.py").write_text("def f(:\n")
    with pytest.raises(DatasetError, match=r"broken.py:1: SyntaxError"):
        get_store(rings())
    (rings.folder / "broken.py").unlink()
    assert len(get_store(rings())) == 10  # corrected: works in the same process


def test_folder(tmp_path):
    options = DatasetOptions("x", user_data_dir=str(tmp_path / "none"))
    with pytest.raises(DatasetError, match="does not exist"):
        get_store(options)
    options = DatasetOptions("x", user_data_dir=str(tmp_path))
    with pytest.raises(DatasetError, match="has no .py file"):
        get_store(options)


def test_taken_name(rings):
    options = rings()
    path = rings.folder / "rings.py"
    path.write_text(path.read_text().replace('"rings"', '"nci"'))
    with pytest.raises(DatasetError, match="'nci' is registered already"):
        get_store(options)
