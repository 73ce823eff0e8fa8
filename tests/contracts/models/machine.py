"""What the two state machines share: a clock that moves only when a rule says so, and one call against its model."""

import copy
from collections.abc import Callable
from typing import Any

import brownie
from models.escrow import Refused
from money import next_block_at, now, revert_text

PAUSES = (0, 1, 59, 600, 900, 3_600, 86_400, 10 * 86_400)


class Machine:
    """Base of a Brownie state machine over one contract and its model."""

    model: Any

    def start(self) -> None:
        self.now = now()

    def wait(self, seconds: int) -> int:
        """The time of the next transaction, `seconds` after the last."""
        self.now += seconds
        next_block_at(self.now)
        return self.now

    def step(self, on_model: Callable[[Any], Any], on_chain: Callable[[], Any]) -> Any:
        """Does one thing on both sides; they must agree on the result or on the refusal. Returns the transaction."""
        trial = copy.deepcopy(self.model)
        try:
            expected = on_model(trial)
        except Refused as refused:
            with brownie.reverts(revert_text(refused.error, *refused.values)):
                on_chain()
            return None
        transaction = on_chain()
        self.model = trial
        if expected is not None:
            assert transaction.return_value == expected
        return transaction
