"""An agent: a model chooses tools until it has an answer or its budget is used up."""

from __future__ import annotations

import ast
import operator
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from weft import Policy, Runner, Workflow, repeat, step
from weft.policy import ConcurrencyLimit

Message = tuple[str, str]


@dataclass(frozen=True)
class Talk:
    """A conversation so far: what was said, the tool that is wanted next, and what it has cost."""

    messages: tuple[Message, ...]
    budget: int
    tool: str = ""
    argument: str = ""
    answer: str = ""

    def said(self, who: str, text: str, **changes: object) -> Talk:
        return replace(self, messages=(*self.messages, (who, text)), **changes)


STOCK = {"tea": 40, "pots": 3}
OPERATORS = {ast.Add: operator.add, ast.Mult: operator.mul, ast.Sub: operator.sub}


def look_up(name: str) -> str:
    return str(STOCK[name])


def calculate(text: str) -> str:
    """Compute sums and products, and nothing else: a model must not run code."""

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
        raise ValueError(f"cannot compute {text!r}")

    return str(value(ast.parse(text, mode="eval").body))


TOOLS = {"look_up": look_up, "calculate": calculate}


def model(messages: tuple[Message, ...]) -> tuple[str, str]:
    """Stand for a language model: return a tool and its argument, or ``answer`` and a text."""
    seen = [text for who, text in messages if who == "tool"]
    match seen:
        case []:
            return "look_up", "tee"  # it makes mistakes, as models do
        case [error] if error.startswith("KeyError"):
            return "look_up", "tea"
        case [*_, count] if count == str(STOCK["tea"]):
            return "calculate", f"{count} * 4 + 12"
    return "answer", f"the tea is worth {seen[-1]} EUR"


@step
def think(talk: Talk) -> Talk:
    tool, argument = model(talk.messages)
    spent = talk.budget - sum(len(text) for _, text in talk.messages)
    if tool == "answer":
        return talk.said("model", argument, tool="", answer=argument, budget=spent)
    return talk.said("model", f"{tool}({argument})", tool=tool, argument=argument, budget=spent)


@step
def act(talk: Talk) -> Talk:
    if not talk.tool:
        return talk
    try:
        return talk.said("tool", TOOLS[talk.tool](talk.argument))
    except Exception as error:  # noqa: BLE001 - the model gets the error
        return talk.said("tool", f"{type(error).__name__}: {error}")


def is_done(talk: Talk) -> bool:
    return bool(talk.answer) or talk.budget <= 0


agent = repeat(think >> act, until=is_done, at_most=8, name="agent")
begin = step(lambda question: Talk(messages=(("user", question),), budget=400), name="begin")
assistant = Workflow(
    "assistant",
    begin >> agent,
    policies=[("agent.think", Policy.llm(concurrency_limit=ConcurrencyLimit("model", 2)))],
)


def main(path: Path) -> None:
    """Ask one question and print the conversation."""
    with Runner(path) as runner:
        runner.register(Talk)
        talk = runner.start(assistant, "What is our tea worth?", id="question-1").result()
        for who, text in talk.messages:
            print(f"  {who:5} {text}")
        turns = len(runner.get("question-1").values("agent.think"))
        print(f"  {turns} turns, {talk.budget} of 400 left: {talk.answer}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "runs.db")
