"""Views at every level over sources that change meanwhile and runners that crash, simulated."""

import os

import pytest

from headwater.check.levels import Level
from headwater.lab.generate import Shape
from tests.pipeline.deployment import Deployment

SEEDS = range(2000 if os.environ.get("HEADWATER_STRESS") == "1" else 40)
SHAPES = {
    "two sources": Shape("source-local", relations=2, sources=2, transactions=8),
    "three sources": Shape("source-local", relations=3, sources=3, transactions=8),
    "two relations of a source": Shape("source-local", relations=3, sources=2, transactions=8),
    "a self-join": Shape("source-local", relations=2, sources=2, transactions=8, self_join=True),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("crashes", [0, 3])
def test_every_commit_is_the_view_at_its_vector(shape: str, crashes: int) -> None:
    for seed in SEEDS:
        world = Deployment(seed, ("strong", "complete"), crashes, SHAPES[shape])
        world.run()
        strong, complete = world.certificates()
        assert strong.level >= Level.STRONG, (seed, strong)
        assert complete.level == Level.COMPLETE, (seed, complete)
