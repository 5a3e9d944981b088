"""
The public names of a package, each imported when it is first used.

A package with such names imports next to nothing by itself.  It says each name twice: in imports that only a type
checker sees, and in the table that is given to `lazy_names`.  A test compares the two.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from sys import modules


def lazy_names(
    package: str, names: Mapping[str, tuple[str, ...]], submodules: Iterable[str] = ()
) -> Callable[[str], object]:
    """
    Return the function ``__getattr__`` of *package*.

    *names* are the public names, by the module that has them; *submodules* are the modules of the package that can be
    used as attributes without being imported first.

    >>> find = lazy_names("collections", {"fractions": ("Fraction",)}, ["abc"])
    >>> find("Fraction")(1, 2), find("abc").__name__
    (Fraction(1, 2), 'collections.abc')
    """
    home = {name: module for module, found in names.items() for name in found}
    inside = frozenset(submodules)

    def find(name: str) -> object:
        if name in inside:
            return import_module(f"{package}.{name}")  # being imported makes it an attribute
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home[name]), name)
        setattr(modules[package], name, found)  # it is not asked for again
        return found

    return find
