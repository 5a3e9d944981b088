"""A decoder of a definition is shared by the runs of a runner, as long as nothing is missing from it."""

from __future__ import annotations

import operator

import pytest

from weft import Workflow, step
from weft.log import Decoder
from weft.ports.store import RunRecord
from weft.runner.durability import ownership
from weft.runner.durability.ownership import Ownership
from weft.stores import MemoryStore

RECORD = RunRecord(id="r", workflow="w", version="1", created_at=0.0, updated_at=0.0)


def decoder(kept: Ownership, record: RunRecord = RECORD, workflow: Workflow | None = None) -> Decoder:
    with kept.decoder(record, workflow, strict=False) as found:
        return found


@pytest.fixture
def kept() -> Ownership:
    return Ownership(MemoryStore(), lambda: True, lambda: True, lambda _: False)


def test_runs_of_one_definition_share_a_decoder(kept: Ownership) -> None:
    live = Workflow("w", step(operator.neg))
    another = RunRecord(id="s", workflow="w", version="2", created_at=0.0, updated_at=0.0)

    assert decoder(kept) is decoder(kept)
    assert len({id(decoder(kept)), id(decoder(kept, another)), id(decoder(kept, workflow=live))}) == 3


def test_one_that_lacks_a_function_is_not_kept_since_it_may_be_offered_later(
    kept: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Decoder, "is_complete", False)

    assert decoder(kept) is not decoder(kept)


def test_not_more_than_a_few_are_kept(kept: Ownership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "DECODERS", 3)

    for version in range(10):
        decoder(kept, RunRecord(id="r", workflow="w", version=str(version), created_at=0.0, updated_at=0.0))

    assert len(kept._decoders) <= 3
