"""A document, summarised paragraph by paragraph by a model that is not always there."""

from __future__ import annotations

import http.client
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from model_server import Model, serving

from weft import Policy, Runnable, Runner, Workflow, collect, context, current, each, step
from weft.policy import ConcurrencyLimit, RateLimit, RetryWith


class Overloaded(Exception):
    """The model asks to be called later."""


class Refused(Exception):
    """The model will not answer this, however often it is asked."""


def call(port: int, model: str, text: str, words: int) -> Iterator[str]:
    """Yield the words of the answer as they arrive."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", "/", json.dumps({"model": model, "text": text, "words": words}))
        response = connection.getresponse()
        if response.status in (429, 503):
            raise Overloaded(f"HTTP {response.status}")
        if response.status != 200:
            raise Refused(f"HTTP {response.status}")
        for line in response:
            yield line.decode().strip()
    finally:
        connection.close()


@step
def paragraphs(document: str) -> list[str]:
    return [text.strip() for text in document.split("\n\n") if text.strip()]


@step
def summarise(text: str, port: int = context("port"), model: str = context("model", default="large")) -> str:
    return " ".join(call(port, model, text, 3)) + ("" if model == "large" else " (by the small model)")


def fall_back(runnable: Runnable, error: BaseException) -> RetryWith:
    """Ask the small model in place of the large one; called after the last attempt."""
    return RetryWith(model="small")


summaries = collect(name="summaries")


@step
def write(summaries: list[str], port: int = context("port")) -> str:
    tokens, written = current().stream("tokens"), []
    for word in call(port, "large", " / ".join(summaries), 1_000):
        tokens.write(word)
        written.append(word)
    return " ".join(written)


polite = Policy(
    max_retries=8,
    backoff="exponential",
    base_delay=0.02,
    max_delay=0.5,
    timeout=20,
    non_retryable=(Refused,),
    rate_limit=RateLimit("model", 50, per=1),
    concurrency_limit=ConcurrencyLimit("model", 3),
)
pipeline = Workflow(
    "documents",
    paragraphs >> each(summarise) >> summaries >> write,
    policies=[(summarise, polite.merge(Policy(fallback=fall_back))), (write, polite)],
)

DOCUMENT = "\n\n".join(
    f"Paragraph {number} is {'secret' if number == 4 else 'about tea'} and goes on for a while." for number in range(8)
)


def main(path: Path) -> None:
    """Run one document, and print its tokens while they come."""
    with serving() as port, Runner(path, context={"port": port}) as runner:
        handle = runner.start(pipeline, DOCUMENT, id="document-1")
        tokens = [item.value for item in handle.stream("tokens")]
        run = handle.wait()
    print(f"  {' '.join(tokens[:12])} …")
    print(f"  {len(run.values('summarise'))} summaries, one of them {run.value('summaries')[4]!r}")
    print(f"  {Model.calls} calls of the model, {len(tokens)} tokens streamed, {run.status}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "runs.db")
