"""Errors in one line."""

import errno

from graphormer_plugin.data.errors import error_line


def test_a_full_disk_without_a_file_may_be_the_shared_memory():
    text = "No space left on device"
    assert "/dev/shm, which processes" in error_line(OSError(errno.ENOSPC, text), [])
    named = error_line(OSError(errno.ENOSPC, text, "out.csv"), [])
    assert "out.csv" in named and "/dev/shm" not in named
