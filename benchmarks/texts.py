"""Texts as counted words, and as embeddings: accuracy on held-out texts after 50, 200 and 1,000 labels.

    PYTHONPATH=.:benchmarks python benchmarks/texts.py

docstrings: the docstrings of ten modules and packages of Python's library; the label is the package.
packages: the short descriptions of Debian's packages in ten sections; the label is the section. Needs apt-cache.
"""

import argparse
import ast
import random
import subprocess
import sysconfig
from collections import defaultdict
from pathlib import Path

import numpy as np

from hinged.sklearn import HingedClassifier

LABELS, HELD_OUT = (50, 200, 1000), 1000
PACKAGES = "asyncio", "email", "http", "importlib", "logging", "multiprocessing", "tkinter", "turtle", "unittest", "xml"
SECTIONS = "admin", "database", "games", "graphics", "mail", "math", "net", "science", "sound", "web"
WAYS = {
    "counted, linear": ({}, "linear"),
    "counted, rbf": ({}, "rbf"),
    "embedded, linear": ({"embedding": "wordllama"}, "linear"),
    "embedded, rbf": ({"embedding": "wordllama"}, "rbf"),
}


def docstrings():
    library, found = Path(sysconfig.get_paths()["stdlib"]), {}
    for package in PACKAGES:
        files = (
            [library / f"{package}.py"] if (library / f"{package}.py").exists() else (library / package).rglob("*.py")
        )
        for file in sorted(files):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    text = ast.get_docstring(node)
                    if text:
                        found[text] = package
    return found


def packages():
    told = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    by_section = defaultdict(set)
    for paragraph in told.split("\n\n"):
        facts = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        text = facts.get("Description") or facts.get("Description-en")
        if text and facts.get("Section") in SECTIONS:
            by_section[facts["Section"]].add(text)
    return {text: section for section, texts in by_section.items() for text in sorted(texts)[:1000]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=["docstrings", "packages"])
    given = parser.parse_args()
    for name in given.sets:
        texts = sorted({"docstrings": docstrings, "packages": packages}[name]().items())
        print(f"{name}: {len(texts)} texts")
        accuracies = defaultdict(list)
        for draw in range(given.draws):
            random.Random(draw).shuffle(texts)  # noqa: S311
            held = texts[:HELD_OUT]
            X, y = zip(*texts[HELD_OUT:], strict=True)
            for n in (n for n in LABELS if n <= len(y)):
                for way, (more, kernel) in WAYS.items():
                    parts = {"features": {"type": "text", **more}, "kernel": {"type": kernel}}
                    model = HingedClassifier(configuration=parts).fit(list(X[:n]), list(y[:n]))
                    accuracies[way, n].append(model.score([x for x, _ in held], [label for _, label in held]))
        for way in WAYS:
            cells = [
                f"{100 * np.mean(found):.1f} ({100 * min(found):.1f} to {100 * max(found):.1f}) %"
                for n in LABELS
                if (found := accuracies[way, n])
            ]
            print(f"| {name} | {way} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
