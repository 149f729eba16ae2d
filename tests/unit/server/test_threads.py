from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref

import pytest

from mcpost.server.threads import Threads
from tests.helpers.loop import run
from tests.helpers.until import DEADLINE, until


def test_a_value_and_an_error_come_back() -> None:
    async def main() -> None:
        threads = Threads(2)
        assert await threads.run(lambda a: a + 1, {"a": 1}) == 2
        with pytest.raises(KeyError):
            await threads.run(lambda: {}["x"], {})  # type: ignore[index]

    run(main())


def test_a_stop_iteration_does_not_hang_the_call() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        run(Threads(1).run(lambda: next(iter(())), {}))


def test_context_variables_are_carried() -> None:
    variable = contextvars.ContextVar("variable", default="none")

    async def main() -> str:
        variable.set("set")
        return str(await Threads(1).run(variable.get, {}))

    assert run(main()) == "set"


def test_no_more_threads_run_than_allowed_and_all_work_is_done() -> None:
    lock, now, most = threading.Lock(), 0, 0
    together = threading.Barrier(3)

    def work() -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        # All that may run at once meet here; nobody comes alone.
        together.wait(DEADLINE)
        with lock:
            now -= 1
        return 1

    async def main() -> list[int]:
        threads = Threads(3)
        return await asyncio.gather(*(threads.run(work, {}) for _ in range(30)))

    assert sum(run(main())) == 30
    assert most == 3


def test_an_idle_thread_is_used_again() -> None:
    async def main() -> set[threading.Thread]:
        threads = Threads(10)
        return {await threads.run(threading.current_thread, {}) for _ in range(200)}

    assert len(run(main())) == 1


def test_what_a_call_was_about_is_not_kept_by_an_idle_thread() -> None:
    class Thing:
        pass

    def fail(thing: Thing) -> None:
        raise LookupError(thing)

    async def main() -> list[weakref.ref[Thing]]:
        threads, kept = Threads(1), []
        for function in (lambda thing: thing, fail):
            thing = Thing()
            kept.append(weakref.ref(thing))
            await asyncio.gather(threads.run(function, {"thing": thing}), return_exceptions=True)
            del thing
        # The thread works on for some steps after its caller has heard of the outcome.
        await until(lambda: gc.collect() >= 0 and not any(each() for each in kept))
        return kept

    assert [each() for each in run(main())] == [None, None]


def test_work_that_was_cancelled_before_its_turn_is_not_done() -> None:
    done: list[str] = []
    gate = threading.Event()

    async def main() -> None:
        threads = Threads(1)
        first = asyncio.ensure_future(threads.run(gate.wait, {"timeout": DEADLINE}))
        second = asyncio.ensure_future(threads.run(done.append, {}))
        await asyncio.sleep(0)
        second.cancel()
        gate.set()
        await first
        await threads.run(lambda: None, {})

    run(main())

    assert done == []


def test_a_cancelled_call_does_not_wait_for_its_thread() -> None:
    gate = threading.Event()

    async def main() -> None:
        call = asyncio.ensure_future(Threads(1).run(gate.wait, {"timeout": DEADLINE}))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    run(main())
    # The thread ends after its loop: nobody hears of it.
    gate.set()


def test_the_threads_do_not_keep_a_process_alive() -> None:
    found: list[threading.Thread] = []
    run(Threads(1).run(lambda: found.append(threading.current_thread()), {}))

    assert found[0].daemon


def test_an_idle_thread_ends_and_another_takes_its_place() -> None:
    threads = Threads(1, patience=0.01)
    first = run(threads.run(threading.current_thread, {}))
    first.join(DEADLINE)

    second = run(threads.run(threading.current_thread, {}))

    assert not first.is_alive()
    assert second is not first


def test_work_does_not_wait_for_a_function_that_blocks() -> None:
    gate = threading.Event()

    async def main() -> list[int]:
        threads = Threads(4)
        blocked = [
            asyncio.ensure_future(threads.run(gate.wait, {"timeout": DEADLINE})) for _ in range(3)
        ]
        done = await asyncio.gather(*(threads.run(lambda: 1, {}) for _ in range(50)))
        assert not any(each.done() for each in blocked)
        gate.set()
        await asyncio.gather(*blocked)
        return done

    assert run(main()) == [1] * 50


def test_threads_that_come_and_go_lose_no_work() -> None:
    # So impatient that threads leave at the very moment at which they are chosen.
    threads = Threads(3, patience=0.000_01)

    async def main() -> int:
        total = 0
        for size in range(1, 200):
            total += sum(
                await asyncio.gather(*(threads.run(lambda: 1, {}) for _ in range(size % 7)))
            )
        return total

    assert run(main()) == sum(size % 7 for size in range(1, 200))


def test_one_pool_serves_several_loops() -> None:
    threads = Threads(2)

    assert [run(threads.run(lambda: 1, {})) for _ in range(5)] == [1] * 5
