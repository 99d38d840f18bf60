"""Find signs of English that people must read twice, in documents, comments, docstrings, messages and the page.

    python -m tests.helpers.tells [FILE_OR_FOLDER ...]
    python -m tests.helpers.tells --sample SIZE SEED

The first command lists the signs with file and line. The second command draws sentences at random, for readers to
judge. CONTRIBUTING.md has the rules. A program finds only some breaches of the rules, by the patterns below.
"""

import ast
import io
import random
import re
import sys
import tokenize

from tests.helpers.server import ROOT

FOLDERS = ("benchmarks", "docker", "docs", "hinged", "service", "solvers", "tests")
PLACES = (*FOLDERS, *(path.name for path in (*ROOT.glob("*.md"), *ROOT.glob("*.py"))))
"""Folders and files of the repository in which there is prose."""
CODE = re.compile(r"[{}=<>\\]")
"""Signs that a text is code, which nobody reads as a sentence."""
WORDS_MAX = 35
"""Maximum number of words in a sentence. A longer sentence usually has two ideas."""
FSTRING = getattr(tokenize, "FSTRING_MIDDLE", None)
"""Token of the text of an f-string, from Python 3.12 on."""
START = r"(?:^|(?<=[.;:!?] ))"
TELLS = {
    "name the noun again": r"\b(?:that|those) of\b",
    "write 'instead of'": r"\bin (?:the|its|their) place of\b",
    "write 'invalid'": r"\bmakes? no sense\b",
    "write 'there is no ...' or 'not'": r"\b(?:is|are|was|were) none\b",
    "name the person's role, or write 'they'": r"\b(?:he|his|him)\b",
    "name the noun instead of `one`": r"\b(?:that|this|such a|another|a new|an old|each) one\b"
    r"|\bthe one (?:that|which|of|with|in)\b"
    r"|\b\w+ ones\b",
    "name the noun instead of `others`": r"\bothers\b",
    "write 'because'": r", for (?:it|they|there|nobody|nothing|each|all) ",
    "begin with the subject, not with a clause": START
    + r"(?:Who|Whoever|What|Whatever|Whose|Which|To whom) [^?]*?(?:[.;]|$)",
    "write 'amounts to' or 'is'": r"\b(?:comes?|came) to (?:about|some|\d|more|less)",
    "say who tells or says it, or write 'is reported', 'is set'": r"\b(?:is|are|was|were) (?:told|said)\b",
    "write 'at most N of ...'": r"\bso (?:many|much) (?:at most|of)\b",
    "write 'again'": r"\banew\b",
}
"""Instructions. Each has a pattern that shows where the instruction applies."""


def of_text(text):
    """Return the tells of one paragraph, each with the words that show it."""
    found = [(told, match[0]) for told, pattern in TELLS.items() for match in re.finditer(pattern, text)]
    sentences = re.split(r"(?<=[.!?;:]) ", text)
    return found + [(f"at most {WORDS_MAX} words", each) for each in sentences if len(each.split()) > WORDS_MAX]


def paragraphs(path):
    """Yield (line, text) for each paragraph of prose in a file."""
    read = {".md": _of_markdown, ".py": _of_python, ".js": _of_javascript}[path.suffix]
    for line, text in read(path.read_text()):
        yield line, " ".join(re.sub(r"\]\([^)]*\)", "]", text).split())


def _of_markdown(text):
    text = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL)
    start, lines = 1, []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if not line.strip() or re.match(r"[-|#>]|\d+\. ", line):
            yield start, " ".join(lines)
            lines = []
        if line.strip() and not line.startswith("#"):
            cells = line.strip("| ").split(" | ") if line.startswith("|") else [line.removeprefix("- ")]
            for cell in cells[:-1]:
                yield number, cell
            start = start if lines else number
            lines.append(re.sub(r"^\d+\. ", "", cells[-1]))


def _of_python(text):
    comment, start = [], 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            start = start if comment else token.start[0]
            comment.append(token.string.lstrip("#: "))
        elif token.type != tokenize.NL:
            if comment:
                yield start, " ".join(comment)
                comment = []
            if token.type == tokenize.STRING and len(token.string.split()) > 3:
                yield from _of_string(token)
            elif token.type == FSTRING and len(token.string.split()) > 3:
                yield token.start[0], token.string


def _of_string(token):
    try:
        value = ast.literal_eval(token.string)
    except (SyntaxError, ValueError):
        value = token.string.strip("rf\"'")
    if isinstance(value, str):
        for block in value.split("\n\n"):
            if not block.startswith("    ") or token.string.startswith('"""'):
                yield token.start[0], block


def _of_javascript(text):
    for number, line in enumerate(text.split("\n"), 1):
        for said in re.findall(r"//(.*)|\"([^\"]{12,})\"|`([^`]{12,})`", line):
            yield number, "".join(said)


def files(places=PLACES):
    """Yield the files below these places that contain prose."""
    for place in map(ROOT.joinpath, places):
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            known = path.suffix in (".md", ".py", ".js") and "vendor" not in path.parts and not path.is_symlink()
            # A decision that was replaced keeps its text.
            if known and path.is_file() and "\nStatus: replaced" not in path.read_text():
                yield path


def tells(path):
    """Yield (line, instruction, words) for each tell of a file. Code between backticks counts as one word."""
    for line, text in paragraphs(path):
        for told, words in of_text(re.sub(r"`[^`]*`", "X", text)):
            yield line, told, words


def sample(size, seed):
    """Draw sentences of at least four words at random, as (file, line, sentence)."""
    found = []
    for path in files():
        for line, text in paragraphs(path):
            found += [
                (path, line, each)
                for each in re.split(r"(?<=[.!?]) ", text)
                if len(each.split()) >= 4 and not CODE.search(each)
            ]
    return random.Random(seed).sample(found, size)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sample"]:
        for path, line, sentence in sample(*map(int, sys.argv[2:4])):
            print(f"{path.relative_to(ROOT)}:{line}: {sentence}")
        sys.exit()
    found = [(path, *tell) for path in files(sys.argv[1:] or PLACES) for tell in tells(path)]
    for path, line, told, words in found:
        print(f"{path.relative_to(ROOT)}:{line}: {told}: {words[:120]}")
    sys.exit(bool(found))
