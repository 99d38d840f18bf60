"""Follow a model whose log is in a real store: the follower gets every event once and in order, whatever happens."""

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hinged.service.engine.follow import PAGE_EVENTS, Feed, Follower
from hinged.service.errors import FellBehind
from hinged.service.model.events.learning import ClassAdded
from hinged.service.store.base import Event
from hinged.service.store.sqlite import SQLiteStore


class Scene:
    """A log that grows, its feed, and followers that read when they are asked to."""

    def __init__(self, store, kept):
        self.store = store
        self.name = f"m{len(store.models())}"
        self.store.create(self.name, record(1))
        self.published = 1
        self.feed = Feed(1, kept)
        self.followers = []

    def grow(self, count, *, snapshot=False):
        """Append a micro-batch of some events. A snapshot after the batch may be saved before the batch is
        published.
        """
        events = [ClassAdded(f"c{self.published + k}") for k in range(1, count + 1)]
        self.store.append(self.name, self.published, [Event(e.KIND, e.encode()) for e in events])
        for k, event in enumerate(events, 1):
            self.feed.note(self.published + k, event, ())
        self.published += count
        if snapshot:
            self.feed.tell(self.published, "snapshot")
        self.feed.publish()

    def follow(self, after):
        follower = Follower(self.feed, lambda a: self.store.read(self.name, a), lambda: self.published, after)
        return follower.pages(0.001)


def take(page, after, told):
    """Record the positions of a page's events. A snapshot must come after its events."""
    for news in page:
        if news.note:
            assert news.position <= (told[-1] if told else after)
        else:
            told.append(news.position)


def record(position):
    event = ClassAdded(f"c{position}")
    return Event(event.KIND, event.encode())


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = SQLiteStore(tmp_path_factory.mktemp("follow"))
    yield store
    store.close()


steps = st.lists(
    st.tuples(st.just("grow"), st.integers(1, 30))
    | st.tuples(st.just("grow with a snapshot"), st.integers(1, 30))
    | st.tuples(st.just("late snapshot"), st.integers(0, 5))
    | st.tuples(st.just("join"), st.integers(0, 200))
    | st.tuples(st.just("read"), st.integers(0, 4))
    | st.tuples(st.just("leave"), st.integers(0, 4)),
    min_size=5,
    max_size=30,
)


@pytest.mark.long
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, kept=st.integers(1, 40))
@example(  # a page that ends with a note of an earlier position
    steps=[("join", 0), ("read", 0), ("grow", 1), ("late snapshot", 1), ("read", 0), *3 * [("grow", 1)], ("read", 0)],
    kept=2,
)
def test_a_follower_gets_every_event_once_in_order_or_an_error_that_it_fell_behind(store, steps, kept):
    async def main():
        scene = Scene(store, kept)
        following = []  # the pages, the positions where they began, and the messages
        notes = 0
        for step, number in steps:
            if step.startswith("grow"):
                scene.grow(number, snapshot=step != "grow")
                notes += step != "grow"
            elif step == "late snapshot":
                scene.feed.tell(max(1, scene.published - number), "snapshot")
                notes += 1
            elif step == "join":
                after = number % (scene.published + 1)
                following.append((scene.follow(after), after, []))
            elif following:
                pages, after, told = following[number % len(following)]
                if step == "leave":
                    await pages.aclose()
                    following.remove((pages, after, told))
                    continue
                stood, behind = told[-1] if told else after, None
                try:
                    take(await anext(pages), after, told)
                except FellBehind as error:
                    behind = error.details
                    following.remove((pages, after, told))
                assert behind is None or (behind == {"position": stood} and scene.published + notes > stood + kept)
                assert told == list(range(after + 1, after + 1 + len(told)))
        for pages, after, told in following:
            try:
                while page := await anext(pages):
                    take(page, after, told)
                assert told == list(range(after + 1, scene.published + 1))
            except FellBehind:
                pass
            await pages.aclose()

    asyncio.run(main())


async def test_a_waiting_follower_is_woken_and_gets_an_empty_page_when_nothing_comes(store):
    scene = Scene(store, 10)
    async with aclosing(scene.follow(1)) as pages:
        assert await anext(pages) == []
        waiting = asyncio.create_task(anext(pages))
        scene.grow(3)
        assert [news.position for news in await waiting] == [2, 3, 4]


async def test_when_the_feed_is_over_a_follower_gets_the_rest_and_ends(store):
    scene = Scene(store, 1000)
    scene.grow(PAGE_EVENTS * 2)
    pages = scene.follow(0)
    scene.feed.end("because")
    assert [news.position async for page in pages for news in page] == list(range(1, PAGE_EVENTS * 2 + 2))


async def test_nothing_is_kept_while_nobody_follows(store):
    scene = Scene(store, 1000)
    scene.grow(50)
    assert not scene.feed._newest
    async with aclosing(scene.follow(10)) as pages:
        await anext(pages)
        scene.grow(5)
        assert len(scene.feed._newest) == 5
    assert not scene.feed._newest


async def test_an_event_that_is_appended_but_not_yet_applied_is_not_sent(store):
    scene = Scene(store, 10)
    scene.grow(2)
    scene.store.append(scene.name, 3, [record(4)])
    async with aclosing(scene.follow(0)) as pages:
        assert [news.position for news in await anext(pages)] == [1, 2, 3]
        assert await anext(pages) == []
