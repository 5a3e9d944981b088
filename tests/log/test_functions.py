"""Functions are found where they stand, in this process and in another, and nowhere else."""

from __future__ import annotations

import functools
import operator
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import flows
import pytest

from weft import Run, Workflow, step
from weft.core.functions.offered import offer, offer_module
from weft.log import decode, encode
from weft.log.functions import is_portable, named, refer, resolve
from weft.log.module_names import home, modules
from weft.log.wire_names import FUNCTIONS


@pytest.mark.parametrize(
    "call",
    [
        flows.pair,
        flows.order.function.call,
        flows.double.function.call,
        flows.halved.functions()["when"].call,
        flows.Service.plain,
        flows.service,
        flows.Order,
        len,
        str.upper,
        operator.add,
        functools.reduce,
        dict.fromkeys,
    ],
    ids=lambda call: getattr(call, "__qualname__", type(call).__name__),
)
def test_a_function_with_a_place_is_found_again_once_it_is_offered(call: Callable[..., Any]) -> None:
    reference = refer(call)
    offer(call)

    assert is_portable(reference)
    assert resolve(reference) == call


def test_a_method_of_an_object_at_the_top_of_a_module_is_found_again() -> None:
    for method in (flows.service.shift, flows.Service.named):
        offer(method)
        found = resolve(refer(method))
        assert found == method
    assert not is_portable(refer(flows.Service(4).shift))


def test_a_function_of_weft_itself_keeps_its_name_wherever_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    (place, function) = next(iter(FUNCTIONS.items()))
    monkeypatch.setattr(function, "__module__", "weft.somewhere.else")

    reference = refer(function)

    assert (reference["module"], reference["name"]) == place == ("weft.core.projection", "itself")
    assert resolve(reference) is function


def test_a_function_without_a_place_is_not_looked_for() -> None:
    def inside() -> None:
        """Has no place."""

    for call in (inside, lambda: 1, functools.wraps(flows.pair)(lambda a, b: (b, a))):
        reference = refer(call)
        assert not is_portable(reference)
        assert resolve(reference) is None


# -- what was not offered ------------------------------------------------------------------------

APPLICATION = """
import functools, os
from os import system
from os.path import join
from dataclasses import dataclass
from pathlib import Path
from weft import Workflow, step

def plain(x): return x

@functools.cache
def cached(x): return x

class Service:
    def shift(self, x): return x
    @staticmethod
    def static(x): return x
    @classmethod
    def named(cls, x): return x
    @classmethod
    @property
    def computed(cls): raise AssertionError("it was computed")
    shell = os.system

class Strict(ValueError): pass

@dataclass(frozen=True, slots=True)
class Scale:
    factor: int
    def __call__(self, x): return x * self.factor

service, triple, here = Service(), Scale(3), Path()
double = step(lambda x: x * 2, name="double")
tripled = Workflow("tripled", step(triple, name="triple"))
"""

UNOFFERED = ["plain", "cached", "Service.shift", "Service.static", "Service.named", "service:shift"]
"""Functions that the application defines, and makes nothing of."""
NEVER = [
    *("system", "join", "Service", "Service.shell", "Service.computed", "Service.missing", "Path", "here:touch"),
    *("here", "os", "os.system", "__builtins__", "__builtins__.eval", "plain.__globals__", "service.shift"),
    *("Strict", "dataclass", "Path.cwd", "Workflow", "step", "functools.reduce", "Service.__class__", ""),
]


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that is imported, and not named."""
    module = ModuleType("application")
    monkeypatch.setitem(sys.modules, "application", module)
    exec(APPLICATION, module.__dict__)  # noqa: S102
    return module


def reference_to(name: str, module: str = "application") -> dict[str, Any]:
    """Return a reference that was written by hand; ``object:method`` for a method."""
    name, _, method = name.partition(":")
    return {"module": module, "name": name, "code": "", **({"method": method} if method else {})}


@pytest.mark.usefixtures("application")
@pytest.mark.parametrize("name", [*UNOFFERED, *NEVER])
def test_a_bare_name_in_an_imported_module_leads_to_nothing(name: str) -> None:
    assert resolve(reference_to(name)) is None


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(
            ("os", "system"),
            ("posix", "system"),
            ("builtins", "eval"),
            ("builtins", "exec"),
            ("builtins", "__import__"),
        ),
        *(("subprocess", "run"), ("subprocess", "Popen"), ("importlib", "import_module"), ("pickle", "loads")),
        *(("shutil", "rmtree"), ("os", "environ"), ("sys", "exit"), ("builtins", "object.__subclasses__")),
        *(
            ("weft.core.functions.offered", "offer"),
            ("weft.log.functions", "resolve"),
            ("weft.cli.modules", "imported"),
        ),
    ],
)
@pytest.mark.parametrize("main", [False, True])
def test_the_standard_library_and_weft_itself_are_never_offered_by_name(module: str, name: str, main: bool) -> None:
    assert resolve({**reference_to(name, module), "main": main}) is None


def test_a_module_that_is_named_offers_what_it_defines_and_not_what_it_imported(application: ModuleType) -> None:
    offer_module(application)

    found = {name: resolve(reference_to(name)) for name in UNOFFERED}

    assert all(callable(call) for call in found.values()), found
    assert found["service:shift"] == application.service.shift
    assert {name: resolve(reference_to(name)) for name in NEVER} == dict.fromkeys(NEVER)


def test_a_component_at_the_top_of_a_module_was_offered_by_being_made(application: ModuleType) -> None:
    reference = {**reference_to("double"), "part": ""}

    assert resolve(reference) is application.double.function.call
    assert resolve({**reference, "part": "when"}) is None


def test_an_object_without_weak_references_is_offered_by_its_name(application: ModuleType) -> None:
    assert resolve(reference_to("triple")) is application.triple


def test_a_function_is_offered_where_a_component_is_made_of_it_in_another_module(application: ModuleType) -> None:
    made = step(application.plain)

    assert resolve(reference_to("plain")) is application.plain
    assert resolve(reference_to("cached")) is None
    del made
    assert resolve(reference_to("plain")) is application.plain, "whether the component still exists is chance"


def test_a_name_for_a_callback_follows_the_same_rule(application: ModuleType) -> None:
    names = [f"application:{name.replace(':', '.')}" for name in (*UNOFFERED, *NEVER)]
    assert [name for name in names if named(name) is not None] == []
    assert named("application:double") is application.double
    assert named("application:plain", unoffered=True) is application.plain

    offer_module(application)

    assert named("application:plain") is application.plain
    assert named("application:service.shift") == application.service.shift
    assert named("application:system") is None


def test_a_module_that_imports_when_it_is_looked_at_is_not_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lazy(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"it was asked for {name}")

    monkeypatch.setitem(sys.modules, "sleepy", Lazy("sleepy"))

    found = resolve({"module": "sleepy", "name": "anything", "code": ""})

    assert found is None


def test_an_attribute_that_is_computed_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("computed")

    def fail(name: str) -> Any:
        raise AssertionError(f"it was asked for {name}")

    module.__dict__["__getattr__"] = fail
    monkeypatch.setitem(sys.modules, "computed", module)

    assert resolve({"module": "computed", "name": "lazy.thing", "code": ""}) is None


def test_where_a_module_lives_does_not_depend_on_how_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    script = ModuleType("__main__")
    script.__file__ = "/srv/app/couriers.py"
    script.__spec__ = None
    monkeypatch.setitem(sys.modules, "__main__", script)

    assert home("__main__") == "couriers"
    assert modules("couriers", was_main=True) == [script]
    assert modules("shop.couriers", was_main=False) == [script]
    del script.__file__
    assert home("__main__") == "__main__", "a notebook has no file"
    assert modules("__main__", was_main=True) == [script]


# -- other processes -----------------------------------------------------------------------------

APP = """
import sys
from dataclasses import dataclass
from weft import Run, Workflow, rule, step
from weft.log import decode, encode

ran = []

@dataclass
class Item:
    size: int

@step
def fetch(x: int) -> list[Item]:
    ran.append("fetch")
    return [Item(n) for n in range(x)]

total = step(lambda items: sum(item.size for item in items), name="total")
big = rule(when=lambda x: x > 2, then=lambda x: x * 100, name="big")
wf = Workflow("app", fetch >> total >> big)

def write():
    sys.stdout.buffer.write(encode(wf.react(4, id="r").log(), portable=True))

def read():
    run = Run.from_log(decode(sys.stdin.buffer.read(), strict=True))
    assert run.workflow == wf and run.workflow.unresolved == (), run.workflow.unresolved
    assert ran == []
    assert run.value("fetch") == [Item(n) for n in range(4)], run.value("fetch")
    run.react_until_satisfied()
    assert ran == [] and run.value("big") == 600
    print("restored")

if __name__ == "__main__":
    write() if sys.argv[1] == "write" else read()
"""


def started(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Return what a Python process in *folder* says."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, input=given, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An application: a module that can be run and imported, also as a part of a package."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "app.py").write_text(APP)
    return tmp_path


WAYS = {
    "as a script": ["app.py"],
    "as a module": ["-m", "app"],
    "imported": ["-c", "import sys, app; getattr(app, sys.argv[1])()"],
}


@pytest.mark.parametrize("reader", WAYS)
@pytest.mark.parametrize("writer", WAYS)
def test_a_run_goes_on_in_another_process(folder: Path, writer: str, reader: str) -> None:
    data = started(folder, *WAYS[writer], "write")

    assert started(folder, *WAYS[reader], "read", given=data).strip() == b"restored"


def test_a_run_of_a_package_goes_on_where_it_is_imported(folder: Path) -> None:
    data = started(folder, "-m", "pack.app", "write")

    said = started(folder, "-c", "import pack.app; pack.app.read()", given=data)

    assert said.strip() == b"restored"


PATTERNS = """
import sys
from dataclasses import dataclass
from weft import Run, Workflow, rule
from weft.log import decode, encode

@dataclass
class Parcel:
    weight: int
    to: str

heavy = rule(given=Parcel, when=lambda weight: weight > 10, then=lambda parcel, to: (parcel.weight, to), name="heavy")
light = rule(given={"parcel": Parcel}, then=lambda parcel: parcel.to, name="light")
wf = Workflow("app", heavy, light)

def write():
    run = wf.plan(Parcel(20, "Bergen"), id="r").plan({"parcel": Parcel(1, "Oslo")})
    sys.stdout.buffer.write(encode(run.log(), portable=True))

def read():
    run = Run.from_log(decode(sys.stdin.buffer.read(), strict=True))
    assert run.workflow == wf and run.workflow.unresolved == (), run.workflow.unresolved
    assert run.workflow.components["heavy"].given.classes == (Parcel,)
    run.react_until_satisfied()
    assert run.results() == {"heavy": (20, "Bergen"), "light": "Oslo"}, (run.results(), run.failures)
    print("restored")

if __name__ == "__main__":
    write() if sys.argv[1] == "write" else read()
"""


@pytest.mark.parametrize("reader", WAYS)
@pytest.mark.parametrize("writer", WAYS)
def test_patterns_fit_the_same_values_in_another_process(tmp_path: Path, writer: str, reader: str) -> None:
    (tmp_path / "app.py").write_text(PATTERNS)
    data = started(tmp_path, *WAYS[writer], "write")

    assert started(tmp_path, *WAYS[reader], "read", given=data).strip() == b"restored"


SPAWNING = """
import multiprocessing, sys
from weft import Run, Workflow, step
from weft.log import decode, encode

@step
def double(x): return 2 * x

def child(data, answers):
    run = Run.from_log(decode(data, strict=True)).react_until_satisfied()
    answers.put(encode(run.log(), portable=True))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    data = encode(Workflow("w", double).plan(4).log(), portable=True)
    process = context.Process(target=child, args=(data, answers))
    process.start()
    run = Run.from_log(decode(answers.get(timeout=50), strict=True))
    process.join()
    print(run.value("double"), run.workflow.unresolved)
"""


def test_a_run_goes_to_a_process_that_was_spawned_and_comes_back(tmp_path: Path) -> None:
    (tmp_path / "spawning.py").write_text(SPAWNING)

    assert started(tmp_path, "spawning.py").split() == [b"8", b"()"]


def test_a_process_that_has_not_imported_the_application_still_reads_the_log(folder: Path) -> None:
    data = started(folder, "app.py", "write")

    run = Run.from_log(decode(data))

    assert set(run.workflow.unresolved) == {"fetch", "total", "big"}
    assert "app" not in sys.modules
    assert [record.fields for record in run.value("fetch")] == [{"size": n} for n in range(4)]
    assert encode(run.log()) == data, "what passes through a stranger is not changed"


def test_a_notebook_goes_on_within_its_process(folder: Path) -> None:
    said = started(
        folder,
        "-c",
        "from weft import Run, Workflow, step\n"
        "from weft.log import decode, encode\n"
        "from weft.errors import UnresolvedFunction\n"
        "@step\n"
        "def double(x): return 2 * x\n"
        "log = Workflow('w', double).plan(4).log()\n"
        "print(Run.from_log(decode(encode(log))).react_until_satisfied().value('double'))\n"
        "try: encode(log, portable=True)\n"
        "except UnresolvedFunction as error: print(error.component)\n",
    )

    assert said.split() == [b"8", b"double"]


def test_a_step_stands_for_its_function() -> None:
    workflow = Workflow("w", flows.order)

    (event, *_) = decode(encode(workflow.run(1).log()))

    assert event.workflow.component("order").function.call is flows.order.function.call


def test_a_function_that_moved_is_taken_from_the_workflow_that_is_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = ModuleType("before")
    exec("def work(x): return x + 1", before.__dict__)  # noqa: S102
    monkeypatch.setitem(sys.modules, "before", before)
    data = encode(Workflow("w", step(before.work)).plan(1).log(), portable=True)
    monkeypatch.delitem(sys.modules, "before")
    here = Workflow("w", step(lambda x: x + 1, name="work"))

    alone, given_back = decode(data), decode(data, workflow=here, strict=True)

    assert alone[0].workflow.unresolved == ("work",)
    assert Run.from_log(given_back).react_until_satisfied().value("work") == 2
