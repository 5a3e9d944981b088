"""
Writes the reference of every public name from its docstring, and of every command from its options.

``docs/build_site.py`` calls :func:`pages` when it builds the site.  Nothing of it is kept in the repository, so it is
always that of the source.

    >>> print(markdown("Wait for *it*; see :meth:`Run.signal`.\\n\\nArgs:\\n    timeout: in ``seconds``."))
    Wait for `it`; see `Run.signal`.
    <BLANKLINE>
    - `timeout`: in `seconds`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer

import weft
from weft.cli.app import app

# The pages of ``weft`` itself: title, and where the names on it are defined.
PARTS = {
    "components": ("weft: components", ("weft.core.components", "weft.core.compose", "weft.core.functions")),
    "runners": ("weft: runners and clients", ("weft.runner", "weft.fleet")),
    "runs": ("weft: workflows, runs and policies", ("weft.",)),
}
MODULES = (
    "weft.runner",
    "weft.policy",
    "weft.stores",
    "weft.ports.store",
    "weft.executors",
    "weft.schedulers",
    "weft.telemetry",
    "weft.log",
    "weft.events",
    "weft.testing",
    "weft.views",
    "weft.web",
    "weft.contrib.asgi",
    "weft.contrib.logs",
    "weft.contrib.otel",
    "weft.contrib.prometheus",
)
# What a user calls on a component; the other methods are for the plan and the fold.
ON_COMPONENTS = frozenset({"after", "before", "named", "on_error", "part", "tagged"})
ON_SOME = {
    "Step": {"bind"},
    "Rule": {"check"},
    "Saga": {"transaction"},
    "Aggregate": {"command", "event"},
    "ProcessManager": {"on"},
    "FSM": {"picture", "to_cytoscape", "to_dot", "to_edgelist", "to_mermaid", "to_svg"},
}
# Public for other packages of Weft alone.
INNER = {
    "Run": {"apply_outcome", "check_context", "extend", "failure_of", "from_memory", "frozen_copy", "nothing_produced"}
    | {"record_failure", "where"},
    "Workflow": {"assembled", "assembly", "compiled", "fitted", "name_of", "returns"},
    "Runnable": {"call", "enter"},
}
SECTION = re.compile(r"^(?P<name>Args|Returns|Raises|Yields|Attributes|Note|Example|Examples):[ ]*$", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(?P<name>[\w*., ]+): (?P<text>.*(?:\n(?: {5,}.*|[ ]*$))*)", re.MULTILINE)


def inline(text: str) -> str:
    """Return the marks of a docstring as those of Markdown."""
    text = re.sub(r":\w+:`~?\.?([^`]*)`", lambda found: f"`{found[1].removeprefix('weft.core.')}`", text)
    text = text.replace("``", "`")
    return re.sub(r"(?<![\w*`])\*(\w+)\*(?![\w*])", r"`\1`", text)


def blocks(text: str) -> Iterator[str]:
    """Return the paragraphs of a docstring, with its examples and drawings as code."""
    for block in re.split(r"\n{2,}", text.strip("\n")):
        if re.match(r" *>>> ", block):
            yield f"```pycon\n{inspect.cleandoc(block)}\n```"
        elif re.match(r" {4,}\S", block):
            yield f"```text\n{inspect.cleandoc(block)}\n```"
        else:
            yield inline(block)


def markdown(text: str) -> str:
    """Return a docstring as Markdown: its paragraphs, and lists of arguments and errors."""
    pieces = SECTION.split(inspect.cleandoc(text))
    found = list(blocks(pieces[0]))
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        entries = [f"- `{entry['name']}`: {inline(' '.join(entry['text'].split()))}" for entry in ENTRY.finditer(body)]
        label = "" if name == "Args" else f"{name}:\n\n"
        found.append(label + ("\n".join(entries) if entries else "\n\n".join(blocks(inspect.cleandoc(body)))))
    return "\n\n".join(found)


def signature(name: str, value: Any) -> str:
    """Return how *value* is called, one argument in a line if it has many; only the name if that cannot be known."""
    try:
        found = inspect.signature(value)
    except (NameError, TypeError, ValueError):  # NameError: a record whose annotations are for type checkers alone
        fields = getattr(value, "__struct_fields__", None)
        return f"{name}({', '.join(fields)})" if fields else name
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    if parameters and parameters[0].name in ("self", "cls"):
        del parameters[0]
    plain = str(found.replace(parameters=[each.replace(default=inspect.Parameter.empty) for each in parameters]))
    order = plain.partition(" ->")[0].strip("()").split(", ")  # with the / and * between them
    defaults = {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}
    written = [part + (f"={shown(defaults[part])}" if part in defaults else "") for part in order]
    line = f"{name}({', '.join(written)})"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(written) + ",\n)"


def shown(default: object) -> str:
    """Return a default as it is written; ... for one that cannot be written."""
    if isinstance(default, tuple) and default and all(inspect.isclass(each) for each in default):
        return f"({', '.join(each.__name__ for each in default)},)"
    return repr(default) if isinstance(default, str | int | float | None | tuple) else "..."


def own_text(value: object) -> str:
    """Return the docstring of *value*; nothing if it is generated."""
    text = inspect.getdoc(value) or ""
    return "" if text.startswith(f"{getattr(value, '__name__', '?')}(") else text


def documented(kind: type, name: str, member: object) -> str:
    """Return the docstring of a member; that of the asynchronous form if it only refers to it."""
    text = own_text(member)
    twin = {"Runner": weft.AsyncRunner, "Client": weft.AsyncClient}.get(kind.__name__)
    if re.search(r"see :meth:`(?:~?[\w.]*\.)?Async\w+", text) and twin is not None:
        return own_text(getattr(twin, name, None)) or text
    return text


def is_for_users(kind: type, name: str) -> bool:
    """Whether *name* is a member of *kind* that users call."""
    if name.startswith("_") or name in INNER.get(kind.__name__, ()):
        return False
    if kind is weft.Component:
        return name in ON_COMPONENTS
    return not issubclass(kind, weft.Component) or name in ON_SOME.get(kind.__name__, ())


def members(kind: type) -> Iterator[tuple[str, str, str]]:
    """Return the name, signature and docstring of the members of a class that users call."""
    for name in sorted(name for name in dir(kind) if is_for_users(kind, name)):
        holder = next((each for each in kind.__mro__ if name in vars(each)), kind)
        raw = vars(holder).get(name)
        if not holder.__module__.startswith("weft"):
            continue
        value = getattr(kind, name, None)
        if isinstance(raw, property):
            if text := own_text(raw):
                yield name, name, text
        elif inspect.isroutine(value) and (text := documented(kind, name, value)):
            yield name, signature(name, value), text


def entry(name: str, value: Any) -> str:
    """Return the part of a page about one name."""
    text = own_text(value)
    if not inspect.isclass(value) and not inspect.isroutine(value):
        return f"## {name}\n\n" + constant(value)
    parts = [f"## {name}", f"```python\n{signature(name, value)}\n```", markdown(text)]
    if inspect.isclass(value) and not issubclass(value, BaseException):
        parts += [
            f"### {name}.{member}\n\n```python\n{how}\n```\n\n{markdown(said)}" for member, how, said in members(value)
        ]
    return "\n\n".join(filter(None, parts))


def constant(value: Any) -> str:
    """Return what there is to say about a module, an alias or a value."""
    if inspect.ismodule(value):
        return f"The module `{value.__name__}`. " + inline((value.__doc__ or "").strip().partition("\n\n")[0])
    if getattr(value, "__module__", None) == "typing" or type(value).__module__ in ("types", "typing"):
        return "The name of a type."
    return f"A `{type(value).__name__}`. " + inline((type(value).__doc__ or "").strip().partition("\n\n")[0])


def part_of(value: object) -> str:
    """Return the page of ``weft`` that a name belongs to."""
    module = getattr(value, "__module__", None) or "weft."
    return next((key for key, (_, prefixes) in PARTS.items() if module.startswith(prefixes)), "runs")


def public(module: Any) -> list[str]:
    """Return the public names of *module*: those it lists, or those it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    )


def page(title: str, intro: str, module: Any, names: list[str]) -> str:
    """Return a page with an entry for each of *names*."""
    known = (
        {} if module is weft else {name: part_of(getattr(module, name)) for name in names if is_in_weft(module, name)}
    )
    elsewhere = [f"- [`{name}`]({where}.md#{name.lower()})" for name, where in known.items()]
    if elsewhere:
        elsewhere.insert(0, "Also in `weft`:\n")
    entries = [entry(name, getattr(module, name)) for name in names if name not in known]
    return "\n\n".join(filter(None, [f"# {title}", intro, "\n".join(elsewhere), *entries])) + "\n"


def is_in_weft(module: Any, name: str) -> bool:
    """Whether a name of *module* is the same in ``weft``."""
    return name in weft.__all__ and getattr(weft, name) is getattr(module, name)


def commands() -> str:
    """Return the page of every command with all its options."""
    intro = (
        "As `weft COMMAND --help` says it. [The command line](../reference/cli.md) explains them, with examples; "
        "the store is named [in the same way](../reference/cli.md#which-store) everywhere."
    )
    parts = ["# weft: every command", intro]
    for name, command in walk("weft", typer.main.get_command(app)):
        usage = " ".join([name, *(argument(each) for each in command.params if each.param_type_name == "argument")])
        rows = [
            f"| `{'`, `'.join((*option.opts, *option.secondary_opts))}` | {' '.join((option.help or '').split())} |"
            for option in command.params
            if option.param_type_name == "option" and not option.hidden and option.opts != ["--help"]
        ]
        table = "\n".join(["| option | means |", "| --- | --- |", *rows]) if rows else ""
        parts.append(
            "\n\n".join(filter(None, (f"## {name}", f"```sh\n{usage}\n```", inline(command.help or ""), table)))
        )
    return "\n\n".join(parts) + "\n"


def argument(parameter: Any) -> str:
    """Return an argument of a command as it is written in its usage: in brackets if it can be left out."""
    name = parameter.name.upper() + (" ..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Return *command*, unless it is only the root, and the commands below it."""
    if name != "weft":
        yield name, command
    for below, each in getattr(command, "commands", {}).items():
        yield from walk(f"{name} {below}", each)


def pages() -> dict[str, tuple[str, str]]:
    """Return the title and the text of every page, by its address on the site."""
    names: dict[str, list[str]] = {key: [] for key in PARTS}
    for name in sorted(weft.__all__, key=str.lower):
        names[part_of(getattr(weft, name))].append(name)
    found = {
        f"api/{key}.md": (title, page(title, "Imported from `weft`.", weft, names[key]))
        for key, (title, _) in PARTS.items()
    }
    for name in MODULES:
        module = importlib.import_module(name)
        intro = markdown(module.__doc__ or "")
        found[f"api/{name}.md"] = (name, page(name, intro, module, public(module)))
    return {**found, "api/commands.md": ("weft: every command", commands())}
