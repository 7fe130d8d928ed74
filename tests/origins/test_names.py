"""Origins by name: resolved again as their lifetime ends, without a request noticing."""

import time

import penstock
from penstock import Origins
from penstock.config import OriginLimits
from support.backends import Backend, film


async def test_a_name_that_stays_what_it_is_keeps_its_connections() -> None:
    limits = OriginLimits(name_lifetime=0.01)
    async with Backend() as only, penstock.Engine("4MiB", threads=1, limits=limits) as engine:
        url = f"http://localhost:{only.port}"
        origins = Origins([url])
        # Many lifetimes, and at each one that has ended a request beside which the name is resolved.
        end = time.monotonic() + 0.5
        asked = 0
        while time.monotonic() < end or asked < 20:
            async with engine.get(f"/{asked}", origins=origins) as response:
                assert await response.bytes() == film(f"/{asked}")
            asked += 1
        stats = engine.stats().origins[url]
        assert (stats.opened, stats.reused, stats.expired) == (1, asked - 1, 0)


async def test_a_single_origin_has_a_name_as_well() -> None:
    async with Backend() as only, penstock.Engine("4MiB", threads=1) as engine:
        for _ in range(3):
            async with engine.get(f"http://localhost:{only.port}/x") as response:
                assert await response.bytes() == film("/x")
        assert engine.stats().origins[f"http://localhost:{only.port}"].opened == 1
