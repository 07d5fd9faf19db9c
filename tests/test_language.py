"""The rules of docs/glossary.md that a program can check."""

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, *OTHERS = ("fencepost", "tests", "benchmarks", "tools")

PARTICIPLES = {
    *("asked", "begun", "changed", "done", "drawn", "found", "given", "got", "held", "joined", "kept"),
    *("learnt", "made", "mended", "merged", "parsed", "put", "renamed", "said", "seen", "sent", "settled"),
    *("shown", "taken", "told", "using", "validated", "wanted", "written"),
}
"""Not names of functions or values: they do not say what is done, nor what something is."""

WORDS = re.compile(
    r"\b(told|mend(ed|s)?|begins? anew|begun|goes on|go on|so many|whom|who bears|is no number|"
    r"behind the last|least confidence|is there already|are there already)\b",
    re.IGNORECASE,
)


def parse_modules(folder: str) -> dict[Path, ast.Module]:
    paths = sorted((ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


@pytest.mark.parametrize("folder", [PACKAGE, *OTHERS])
def test_no_function_or_value_is_a_bare_participle(folder):
    assert not [
        f"{path}:{line}: {name}"
        for path, tree in parse_modules(folder).items()
        for line, name in names(tree)
        if name.strip("_") in PARTICIPLES
    ]


def test_no_name_of_the_package_ends_in_a_participle():
    """A class or a compound name ends in a noun, except the names of conditions: `is_done`."""
    for path, tree in parse_modules(PACKAGE).items():
        classes = [(node.lineno, node.name) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for line, name in [*names(tree), *classes]:
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().strip("_").split("_")
            assert words[-1] not in PARTICIPLES or words[0] in {"is", "has"}, f"{path}:{line}: {name}"


def test_no_two_classes_have_the_same_name():
    places = defaultdict(list)
    for path, tree in parse_modules(PACKAGE).items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.strip("_")].append(f"{path}:{node.lineno}")
    assert not {name: where for name, where in places.items() if len(where) > 1}


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Return lines of comments, docstrings and names, which may have words between underscores.

    Other strings are left out: in tests and benchmarks, they are data.
    """
    with tokenize.open(path) as stream:
        for token in tokenize.generate_tokens(stream.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for line, name in names(tree):
        yield line, name.replace("_", " ")
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name, lineno=line):
                yield line, re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
            case ast.Expr(value=ast.Constant(value=str(text), lineno=line)):
                yield from enumerate(text.splitlines(), start=line)


def lines(path: Path) -> Iterator[tuple[int, str]]:
    return enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)


@pytest.mark.parametrize("folder", [PACKAGE, *OTHERS, "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_no_wording_that_the_glossary_advises_against(folder):
    paths = [ROOT / folder] if (ROOT / folder).is_file() else sorted((ROOT / folder).rglob("*"))
    texts = (path for path in paths if path.suffix in {".py", ".md", ".html", ".js", ".jinja"})
    assert not [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in texts
        if path.name not in {"glossary.md", "test_language.py"}
        for number, line in (prose if folder in OTHERS and path.suffix == ".py" else lines)(path)
        for match in WORDS.finditer(line)
    ]
