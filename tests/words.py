"""
Reports words that make the prose of Weft hard to read: ``python tests/words.py``, a part of ``make check``.

It reads the pages of the documentation, the docstrings, comments and messages of the code, and the docstrings and
comments of the tests, whose other strings are data.  Code in backticks and in fences is left out.  A line is let
through by ``# words: allow`` in code (for a docstring or a message: at the end of it) and by ``<!-- words: allow -->``
on a page.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]

# The pages and folders that have been rewritten; others are not read.
FINISHED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "examples", "src/weft", "tests")

# What not to write (a regular expression; a space matches any white space), and what to write instead.
WORDS = {
    r"whoever|whomever": "the caller, the worker, a client",
    r"somebody|someone": "a caller, a person, another process",
    r"nobody|no one": "no caller, no process, nothing",
    r"he|him|his|himself": "it, they, the user",
    r"(?<!there )(?<!there has )(?:is|are|was|were|been) no(?! longer| more| less| fewer)": "is not a",
    r"under way": "in flight, running",
    r"(?:is|are|was|were|be|been|stays|stayed) away": "is unavailable",
    r"gives(?! up| back)": "returns, produces, makes",
    r"(?:stands?|stood|standing) in line": "waits, is queued",
    r"burns?|burnt|burning": "uses up an attempt",
    r"anew": "again",
    r"(?<!one )of (?:its|their|one's) own": "its own, another",
    r"whether or no|yes or no": "whether, a bool",
    r"(?:loses?|lost|losing) patience": "gives up, runs into its timeout",
    r"offices?|premises|rosters?": "dispatcher, runtime, registry",
    r"pilots?|flights|a flight": "attempt, what is in flight",
    r"turnstiles?|custody|excuses?": "limit queue, ownership, diagnosis",
    r"rulebooks?|patience|kin": "policies, store retry, child runs",
    # Speech: a part of a program is notified and receives; a person is told to do something.
    r"(?<!caller )(?<!callers )(?:is|are|was|were|be|been) told(?! to| apart| from| that| wh)": "is notified, reported",
    r"hears?|heard|hearing": "receives, is notified, arrives",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"works? no more": "is no longer valid, does not work any more",
    r"as nearly always": "the usual case",
    r"(?:after|for|within|every) so many": "after *seconds*, this many",
    r"poolers? of transactions": "transaction pooler",
    r"liv(?:es?|ed|ing) long": "long-lived",
    r"let(?:s|ting)? go of": "releases, drops",
}
HEADLESS = re.compile(
    r"\s*(?:(?:What|Who|Whom|Those|That of|(?:With so|So) many|(?:For|After|About) how|(?:From w|Of w|W)hich|Until when"
    r"|Up to) |As (?=[:`]))(?![^.]*\?)"
)
HEADLESS_ADVICE = "begin with the subject: 'Returns …', 'The state of …'"

FORBIDDEN = {
    re.compile(rf"\b(?:{pattern})\b".replace(" ", r"\s"), re.IGNORECASE): advice for pattern, advice in WORDS.items()
}
ALLOWED = re.compile(r"(?:#|<!--) words: allow")
PAGE_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`|\]\([^)\n]*\)", re.MULTILINE | re.DOTALL)
STRING_CODE = re.compile(r"^ *(?:>>>|\.\.\. ).*$|``[^`]*``|\{[^{}]*\}", re.MULTILINE)
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


class Finding(NamedTuple):
    """One word that should be another, and the line it is on."""

    line: int
    word: str
    advice: str


def blank(match: re.Match[str]) -> str:
    """Return as many lines as *match* has, with nothing on them."""
    return "\n" * match[0].count("\n") or "·"


def search(text: str, first_line: int) -> Iterator[Finding]:
    """Find the words in *text*, whose first line has the number *first_line*."""
    text = re.sub(r"(?<=\n)[ \t]+", "", text)
    for pattern, advice in FORBIDDEN.items():
        for match in pattern.finditer(text):
            yield Finding(first_line + text.count("\n", 0, match.start()), " ".join(match[0].split()), advice)


def in_page(text: str) -> Iterator[Finding]:
    """Find the words in a page of Markdown."""
    lines = text.splitlines()
    for found in search(PAGE_CODE.sub(blank, text), 1):
        if not ALLOWED.search(lines[found.line - 1]):
            yield found


def blocks(source: str) -> Iterator[tuple[int, int, str, bool]]:
    """
    Return the strings and comments of *source* with their first and last line, and whether each is a string.

    Lines of comment are one block.
    """
    comment: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] != last + 1:
                yield last - len(comment) + 1, last, "\n".join(comment), False
                comment = []
            comment.append(token.string.lstrip("# "))
            last = token.start[0]
        elif token.type in STRINGS and " " in token.string:  # a single word is a name
            yield token.start[0], token.end[0], STRING_CODE.sub(blank, token.string), True
    if comment:
        yield last - len(comment) + 1, last, "\n".join(comment), False


def docstring_lines(source: str) -> set[int]:
    """Return on which lines docstrings begin."""
    return {
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def headless(source: str) -> Iterator[tuple[int, Finding]]:
    """Find the docstrings that begin with a relative clause or with "As :meth:", each with its last line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))) if HEADLESS.match(text):
                word = text.split(maxsplit=1)[0]
                yield node.end_lineno or node.lineno, Finding(node.lineno, f"{word} …", HEADLESS_ADVICE)


def in_code(source: str, *, is_test: bool = False) -> Iterator[Finding]:
    """Find the words in the docstrings, comments and messages of Python code; of a test, not in its other strings."""
    lines = source.splitlines()
    documented = docstring_lines(source)
    found = [
        (last, each)
        for first, last, text, is_string in blocks(source)
        if not (is_test and is_string) or first in documented
        for each in search(text, first)
    ]
    for last, each in [*found, *headless(source)]:
        if not any(ALLOWED.search(lines[number - 1]) for number in (each.line, last)):
            yield each


def files(repository: Path) -> Iterator[Path]:
    """Return the pages and modules that are finished."""
    for name in FINISHED:
        path = repository / name
        yield from [path] if path.is_file() else sorted({*path.rglob("*.md"), *path.rglob("*.py")})


def main(repository: Path = REPOSITORY) -> int:
    """Print what is found, and return how many findings there are, as an exit status."""
    count = 0
    for path in files(repository):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(repository)
        findings = in_page(text) if path.suffix == ".md" else in_code(text, is_test=name.parts[0] == "tests")
        for found in sorted(findings):
            count += 1
            print(f"{name}:{found.line}: {found.word}: say {found.advice}")  # noqa: T201 - its output
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
