"""A run whose owners keep dying is told apart from one that was merely present."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import example, given
from hypothesis import strategies as st

from weft.core import events as ev
from weft.core.failure import describe
from weft.runner.durability.takeover import MOST, NO_PROGRESS, Takeover, takeover

DETAIL = describe(ValueError("no"))
PROGRESS: list[Any] = [
    ev.ReactionOccurred(0, "a", (2,), 1),
    ev.FannedOut(0, "a", (2,), [1]),
    ev.StateChanged(0, "a", (2,), 1),
    ev.ConditionEvaluated(0, "a", (2,), holds=True),
    ev.AttemptFailed(0, "a", (2,), DETAIL, 1),
    ev.RunnableFailed(0, "a", (2,), DETAIL),
    ev.RunnableSkipped(0, "a", (2,)),
    ev.RunnableRetried(0, "a", (2,)),
    ev.PolicyChanged(0, ()),
    ev.Notified(0),
    ev.SignalTaken(0, "a", (2,), 1, 1),
    ev.TimerFired(0, "a", (2,), 1, 1.0),
    ev.CompletionAwaited(0, "a", (2,)),
    ev.CompletionReceived(0, "a", (2,), 1),
    ev.FailureReceived(0, "a", (2,), DETAIL),
    ev.RunnableCancelled(0, "a", (2,)),
    ev.RunRetried(0, (3,)),
    ev.RunForked(0, "origin", 3),
    ev.RunImported(0, "origin", b""),
]
NONE: list[Any] = [
    ev.InputReceived(0, 1, 1),
    ev.RunnableDispatched(0, "a", (2,)),
    ev.RunnableDelayed(0, "a", (2,), 1.0),
    ev.ChildStarted(0, "a", (2,), "child"),
    ev.RunFinished(0),
    ev.SignalReceived(0, "go", 1),
    ev.SignalRefused(0, "go", "no"),
    ev.TimerStarted(0, "a", (2,), 1.0, 0.0),
    ev.TokenIssued(0, "a", (2,), "secret"),
]
BEGUN: list[Any] = [ev.WorkflowDefined(1, "r", None), ev.InputReceived(2, 5, 1)]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class Life:
    """The time in which one owner has the run."""

    def __init__(self, starts: bool, does: list[Any], dies: bool, notes: bool = True, asks: int = 1) -> None:
        self.starts, self.does, self.dies = starts and notes, does if starts and notes else [], dies
        self.notes = notes
        """Whether it can write: one that cannot load the run, or dies at once, has only acquired it."""
        self.asks = asks
        """How often it acquires the run: the first answers may be lost."""

    @classmethod
    def fatal(cls) -> Life:
        """Return the time of one that dies of what it starts."""
        return cls(starts=True, does=[], dies=True)

    @classmethod
    def mute(cls, *, dies: bool) -> Life:
        """Return the time of one that acquires the run, and writes nothing."""
        return cls(starts=False, does=[], dies=dies, notes=False)

    @classmethod
    def idle(cls, *, dies: bool) -> Life:
        """Return the time of one that starts nothing."""
        return cls(starts=False, does=[], dies=dies)

    def __repr__(self) -> str:
        does = [type(each).__name__ for each in self.does]
        return f"Life({self.starts=}, {does}, {self.dies=}, {self.notes=}, {self.asks=})"


def lives(progress: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[list[Life]]:
    """Draw what one owner after the other does, each with such progress."""
    nothing = st.lists(st.sampled_from(NONE), max_size=3)
    does = st.tuples(nothing, progress, nothing).map(lambda parts: [each for part in parts for each in part])
    life = st.builds(Life, st.booleans(), does, st.booleans(), st.integers(0, 3).map(bool), st.integers(1, 2))
    return st.lists(life, max_size=12)


SOME = st.lists(st.sampled_from(PROGRESS), max_size=2)


class Story:
    """A run, owner by owner: its log, and how an observer who sees everything would count."""

    def __init__(self) -> None:
        self.log = list(BEGUN)
        self.epoch = 0
        self.died = self.is_parked = False
        self.first_death: tuple[int, int] | None = None
        """The first owner that died since the last event, and the head then: the store remembers both."""
        self.fatal = 0
        """How many owners have died after they had started something, without progress."""
        self.starts = 0
        """How many have started something since the last progress, or since a person has looked at it."""

    def acquire(self) -> int | None:
        """Return what the store says of deaths."""
        self.epoch += 1
        if self.died and (self.first_death is None or self.first_death[1] != len(self.log)):
            self.first_death = self.epoch - 1, len(self.log)
        self.died = False
        return self.first_death[0] if self.first_death and self.first_death[1] == len(self.log) else None

    def begin(self, life: Life | None = None) -> Takeover | None:
        """Take the run over, for this *life*; a run that was parked is so by a person."""
        for _ in range(1 if life is None else life.asks):
            died_in = self.acquire()
        if life is not None and not life.notes:
            return None
        found = takeover(self.log, died_in, was_parked=self.is_parked)
        if self.is_parked:
            self.is_parked, self.starts, self.fatal = False, 0, 0
        elif found is not None and found.is_poison:
            self.is_parked, self.died = True, False
        if found is not None and found.is_news and not self.is_parked:
            self.log.append(ev.RunTakenOver(0, found.deaths, self.epoch - 1))
        return found

    def live(self, life: Life, noted: Takeover | None) -> None:
        """Do what this owner does."""
        if life.starts:
            self.starts += 1
            if noted is not None:
                self.log.append(ev.RunTakenOver(0, noted.deaths, self.epoch, "a"))
            self.log += life.does
            if any(each in PROGRESS for each in life.does):
                self.starts = self.fatal = 0
        self.fatal += life.dies and life.starts
        self.died = life.dies


def test_every_event_is_progress_or_is_not() -> None:
    told = {type(each) for each in PROGRESS} | {
        *(ev.ComponentAdded, ev.ComponentRemoved, ev.RunCancelled, ev.RunUpgraded, ev.ContinuedAsNew),
    }

    assert told | set(NO_PROGRESS) == set(get_args(ev.AnyEvent))
    assert not told & set(NO_PROGRESS)


@given(lives(SOME))
@example([*[Life.fatal()] * 4, Life.idle(dies=True), Life.fatal(), Life.fatal()])
@example([*[Life.fatal()] * 4, Life.idle(dies=False), Life.fatal(), Life.fatal()])
def test_a_run_is_parked_only_after_three_starts_without_progress(drawn: list[Life]) -> None:
    story = Story()
    for life in drawn:
        noted = story.begin(life)
        if story.is_parked:
            # Of the first death it is not known whether it had started something, only that it could have.
            assert story.fatal >= MOST - 1
            continue
        story.live(life, noted)


@given(lives(SOME))
@example([Life.fatal(), Life.fatal(), Life.idle(dies=True), Life.fatal(), Life.fatal()])
@example([Life.fatal(), Life.fatal(), Life.mute(dies=True), Life.fatal(), Life.fatal()])
@example([Life.fatal(), *[Life(starts=True, does=[], dies=True, asks=2)] * 4])
@example([Life.fatal(), Life.idle(dies=True), Life.fatal(), Life.idle(dies=True), Life.fatal(), Life.fatal()])
def test_no_run_is_started_more_than_three_times_without_progress_and_without_a_release(drawn: list[Life]) -> None:
    story = Story()
    for life in drawn:
        life.dies = True
        noted = story.begin(life)
        if story.is_parked:
            continue
        story.live(life, noted)
        assert story.starts <= MOST


@given(lives(st.lists(st.sampled_from(PROGRESS), min_size=1, max_size=2)))
def test_a_run_that_makes_progress_whenever_it_is_started_is_never_parked(drawn: list[Life]) -> None:
    story = Story()
    for life in drawn:
        noted = story.begin()
        assert not story.is_parked
        story.live(life, noted)


def test_an_owner_that_starts_nothing_and_goes_hides_no_death() -> None:
    for idle in (Life.idle(dies=True), Life.idle(dies=False), Life.mute(dies=True), Life.mute(dies=False)):
        story = Story()
        for life in (Life.fatal(), Life.fatal(), idle, idle, Life.fatal()):
            noted = story.begin(life)
            assert not story.is_parked
            story.live(life, noted)

        story.begin()

        assert story.is_parked
        assert story.starts == MOST


@given(st.integers(0, 50))
def test_a_run_that_merely_waited_when_its_owners_died_is_never_parked(deaths: int) -> None:
    story = Story()
    story.live(Life(starts=True, does=[], dies=True), None)
    for _ in range(deaths):
        noted = story.begin()
        assert noted == Takeover(1)
        story.live(Life(starts=False, does=[], dies=True), noted)


@given(lives(SOME).map(lambda drawn: [Life(each.starts, each.does, dies=False) for each in drawn]))
def test_a_run_that_its_owners_have_released_is_not_suspected(drawn: list[Life]) -> None:
    story = Story()
    for life in drawn:
        assert story.begin() is None
        story.live(life, None)


def test_a_run_that_kills_every_process_is_started_three_times_and_again_when_a_person_resumes_it() -> None:
    story, kills = Story(), Life(starts=True, does=[], dies=True)
    for _ in range(2):
        begun = 0
        while True:
            noted = story.begin()
            if story.is_parked:
                break
            begun += 1
            story.live(kills, noted)
        assert begun == MOST
