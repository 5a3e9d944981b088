"""Functions that worker processes run, in the text of a module that they can import."""

from __future__ import annotations

import asyncio
from textwrap import dedent
from typing import Any

from weft.executors import ProcessExecutor
from weft.testing.contracts.owner import Owner

SHOP = dedent("""
    import asyncio, ctypes, multiprocessing, os, socket, threading

    import weft
    from weft import context, reduce, step

    class Declined(Exception):
        pass

    class Detailed(Exception):
        def __init__(self, code, text):
            super().__init__(f"{text} ({code})")

    class Coded(Exception):
        def __init__(self, text, code=0):
            super().__init__(f"{text} ({code})")

    def refuse_to_load():
        raise SystemExit("not here")

    class Unloadable:
        def __call__(self):
            pass

        def __reduce__(self):
            return refuse_to_load, ()

    @step
    def price(x):
        return x * 10

    @step
    async def later(x):
        await asyncio.sleep(0)
        return x + 1

    @reduce(init=list)
    def gather(acc, x):
        return [*acc, x]

    def decline(x):
        raise Declined("no money", x)

    def decline_in_detail(x):
        raise Detailed(402, "no money")

    def decline_with_a_code(x):
        raise Coded("no money", 402)

    def interrupt(x):
        raise KeyboardInterrupt

    def make_lock(x):
        return threading.Lock()

    def runnable_id(x):
        return weft.current().runnable_id

    def inputs(x):
        return weft.current().inputs

    def add_more(x):
        weft.current().add(price, to="it")
        return x

    def add_what_cannot_cross(x):
        weft.current().add(step(lambda x: x, name="more"))

    def beat(address):
        for _ in range(100):
            weft.current().heartbeat()

    def beat_when_let_in(address):
        def wait(current):
            with socket.create_connection(address) as connection:
                connection.recv(16)
                current.heartbeat()

        threading.Thread(target=wait, args=[weft.current()], daemon=True).start()
        return os.getpid()

    def return_twice(x):
        os.fork()
        return os.getpid()

    def use_a_pool_of_its_own(x):
        with multiprocessing.get_context("fork").Pool(1) as pool:  # ends its processes with SIGTERM
            return pool.apply(abs, [x])

    def greet(x, greeting=context("greeting")):
        return f"{greeting}, {x}"

    kept = []

    def stay_connected(address):
        kept.append(socket.create_connection(address))

    def stand_still(address):
        stay_connected(address)
        ctypes.PyDLL(None).pause()  # native code that lets no other thread run

    def leave_a_child(address):
        if os.fork() == 0:
            with socket.create_connection(address) as connection:
                connection.recv(16)
            os._exit(0)
        os._exit(5)
""")


def run_in_a_process(*work: tuple[Any, Any]) -> list[Any]:
    """Return what each function returned for its value, or raised, one after the other in one worker."""

    async def main() -> list[Any]:
        owner = Owner(ProcessExecutor(1))
        for ticket, (function, value) in enumerate(work):
            owner.submit(ticket, function, value)
            await owner.result(ticket)
        await owner.close()
        return [outcome.error or outcome.result for outcome in owner.outcomes.values()]

    return asyncio.run(main())
