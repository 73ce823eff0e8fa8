"""What the two state machines share: a clock that moves only when a rule says so, and one call against its model."""

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import brownie
from models.escrow import Refused
from money import next_block_at, now, revert_text, warp_to

BURST = 15
PAUSES = (0, 0, 1, 1, 59, 600, 900, 3_600, 86_400, 10 * 86_400)


class Machine:
    """Base of a Brownie state machine over one contract and its model. Hypothesis draws seeds; each seed is a burst of actions."""

    model: Any
    random: Random
    gifts: int
    actions: tuple[tuple[int, str], ...]

    def start(self, model: Any) -> None:
        self.model = model
        self.gifts = 0
        self.now = now()
        self.random = Random(0)

    def burst(self, seed: int) -> None:
        self.random = Random(seed)
        weights = [weight for weight, _ in self.actions]
        for _, name in self.random.choices(self.actions, weights, k=BURST):
            getattr(self, name)()

    def wait(self) -> int:
        """The time of the next transaction, a random pause after the last; a block of that time is mined."""
        self.now += self.random.choice(PAUSES)
        warp_to(self.now)
        return self.now

    def step(self, on_model: Callable[[Any], Any], method: Any, *arguments: Any, sender: Any) -> Any:
        """Does one thing on both sides; they must agree on the result or on the refusal. Returns the result, or None."""
        trial = copy.deepcopy(self.model)
        try:
            expected = on_model(trial)
        except Refused as refused:
            with brownie.reverts(revert_text(refused.error, *refused.values)):
                method.call(*arguments, {"from": sender})
            return None
        returned = method.call(*arguments, {"from": sender})
        assert expected is None or returned == expected
        next_block_at(self.now)
        method(*arguments, {"from": sender})
        self.model = trial
        return returned
