"""MkDocs hook and griffe extension: what the site shows besides `.ci/site`.

Pages keep their paths in the repository, so that a link between two of them works in both
places. The API pages are those of the modules that the package has when the site is built.
"""

import ast
from pathlib import Path

import griffe
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "LICENSE", *(f"examples/**/*.{kind}" for kind in ("md", "png", "svg")))


def api_pages(folder: Path) -> list:
    """Navigation below a package: its own page first, then its public modules."""
    entries: list = [f"api/{folder.relative_to(ROOT)}/index.md"]
    for path in sorted(folder.iterdir()):
        if path.name.startswith("_"):
            continue
        if (path / "__init__.py").exists():
            entries.append({path.name: api_pages(path)})
        elif path.suffix == ".py":
            source = path.relative_to(ROOT).with_suffix(".md")
            entries.append({path.stem: f"api/{source}"})
    return entries


def sources(entries: list) -> list[str]:
    """Paths of all pages of a navigation."""
    found = []
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            found += sources(value) if isinstance(value, list) else [value]
    return found


def on_files(files: Files, config) -> Files:
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            source = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, source, abs_src_path=str(path)))
    packages = ("graphormer_plugin", "cython_ext")
    api = [{package: api_pages(ROOT / package)} for package in packages]
    for source in sources(api):
        parts = Path(source).with_suffix("").parts[1:]
        name = ".".join(parts).removesuffix(".index")
        text = f"# {name}\n\n::: {name}\n"
        files.append(File.generated(config, source, content=text))
    config.nav.append({"API": api})
    return files


class Comments(griffe.Extension):
    """Docstrings of attributes that have none.

    An option has its help text, `field(metadata={"help": ...})`. A constant has the comment
    behind it.
    """

    def on_attribute(self, *, attr: griffe.Attribute, **_) -> None:
        text = None
        if isinstance(attr.value, griffe.ExprCall):
            for argument in attr.value.arguments:
                if getattr(argument, "name", "") == "metadata":
                    text = metadata_help(str(argument.value))
        elif attr.name.isupper() and attr.lineno == attr.endlineno:
            text = attr.source.partition("  # ")[2]
        if text and attr.docstring is None:
            attr.docstring = griffe.Docstring(text, parent=attr)


def metadata_help(source: str) -> str | None:
    """The "help" of a dictionary in source code, if it is a plain string."""
    table = ast.parse(source, mode="eval").body
    for key, value in zip(getattr(table, "keys", ()), getattr(table, "values", ())):
        if ast.unparse(key) == "'help'" and isinstance(value, ast.Constant):
            return value.value
    return None
