"""Files that are written whole or not at all."""

import pytest

from graphormer_plugin.data.files import atomic_write


def test_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    with atomic_write(tmp_path / "whole") as file:
        file.write(b"all")
    modes = {(tmp_path / name).stat().st_mode for name in ("usual", "whole")}
    assert len(modes) == 1 and (tmp_path / "whole").read_bytes() == b"all"


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        with atomic_write(path, "w", encoding="utf-8") as file:
            file.write("half")
            raise KeyboardInterrupt
    with pytest.raises(OSError, match=rf"^cannot write {path}: No space left"):
        with atomic_write(path) as file:
            raise OSError(28, "No space left on device")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
