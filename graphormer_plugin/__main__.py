"""``python -m graphormer_plugin``: print versions, components and the plugin folder."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import cython_ext
import graphormer_plugin
from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.versions import versions


def plugin_folder() -> Path:
    """The folder to give to fairseq's ``--user-dir``."""
    return Path(graphormer_plugin.__file__).resolve().parent


def device() -> str:
    """The device that fairseq would train on."""
    import torch

    if torch.cuda.is_available():
        names = [
            torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())
        ]
        return "cuda: " + ", ".join(names)
    return f"cpu, {torch.get_num_threads()} threads"


def ours(registry: Mapping[str, object]) -> list[str]:
    """Names in a fairseq registry whose class this package defines."""
    package = graphormer_plugin.__name__ + "."
    return sorted(
        name
        for name, item in registry.items()
        if getattr(item, "__module__", "").startswith(package)
    )


def components() -> dict[str, list[str]]:
    """Registered names of this package, by kind."""
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_REGISTRY

    from graphormer_plugin import tasks  # noqa: F401  (registers)
    from graphormer_plugin.data.sources.registry import DATASETS
    from graphormer_plugin.models import list_architectures

    return {
        "tasks": ours(TASK_REGISTRY),
        "architectures": list_architectures(),
        "criterions": ours(REGISTRIES["criterion"]["registry"]),
        "datasets": sorted(DATASETS),
    }


@command
def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``python -m graphormer_plugin``."""
    parser = CommandParser(
        prog="python -m graphormer_plugin",
        description="Print versions, kernels, device and registered components.",
    )
    parser.add_argument(
        "--path", action="store_true", help="print only the folder for --user-dir"
    )
    if parser.parse_args(argv).path:
        print(plugin_folder())
        return
    rows = versions()
    rows["cython_ext"] = f"compiled ({Path(cython_ext.__file__).resolve().parent})"
    rows["device"] = device()
    rows["--user-dir"] = str(plugin_folder())
    for kind, names in components().items():
        rows[kind] = " ".join(names) or "none"
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:<{width}}  {value}")


if __name__ == "__main__":
    sys.exit(main())
