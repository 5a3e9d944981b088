"""The modules that have the code of a run."""

from __future__ import annotations

import json
import re

from weft import Policy, Workflow, each, step, wait_for
from weft.views.code import modules_of
from weft.views.text import short_type


def test_modules_of_the_application_are_named_once_and_those_of_python_are_left_out() -> None:
    def here(x: object) -> object:
        return x

    first, second = step(here, name="first"), step(lambda x: x, name="second")
    workflow = Workflow("w", first >> step(json.loads) >> second >> each(step(re.escape)))

    assert modules_of(workflow) == (__name__,)


def test_a_definition_that_was_stored_names_them_also_where_they_are_not_imported() -> None:
    data = Workflow("w", step(short_type, name="a") >> wait_for("go")).add_policy("a", Policy(max_retries=1)).to_dict()
    moved = json.loads(json.dumps(data).replace("weft.views.text", "shop.prices"))

    assert modules_of(Workflow.from_dict(moved)) == ("shop.prices",)


def test_the_code_of_a_prompt_cannot_be_imported_so_no_module_is_named() -> None:
    data = Workflow("w", step(short_type, name="a") >> step(lambda x: x, name="b")).to_dict()
    moved = json.loads(json.dumps(data).replace("weft.views.text", "shop.prices").replace(__name__, "__main__"))

    assert modules_of(Workflow.from_dict(moved)) == ()
