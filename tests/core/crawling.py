"""A small traced workflow, and the steps that it is made of."""

from __future__ import annotations

from typing import Any

from weft import step, workflow


@step
def fetch(url: str) -> str:
    return f"page of {url}"


@step
def title(page: str) -> str:
    return page.title()


@step
def words(page: str, minimum: int = 3) -> list[str]:
    return [word for word in page.split() if len(word) >= minimum]


@step
def report(title: str, words: list[str]) -> dict[str, Any]:
    return {"title": title, "words": words}


@step
def pair(a: Any, b: Any) -> list[Any]:
    return [a, b]


@workflow
def crawl(url: str) -> dict[str, Any]:
    page = fetch(url)
    return report(title(page), words(page, minimum=4))
