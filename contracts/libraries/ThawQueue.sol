// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IStaking} from "../interfaces/IStaking.sol";

/// @title Up to eight thawing amounts, each with its own clock, in order of maturity.
/// @notice `total` is always the sum of the live entries; an entry that is emptied is dropped.
library ThawQueue {
    using SafeCast for uint256;

    uint256 internal constant MOST = 8;

    struct Entry {
        uint96 amount;
        uint40 maturesAt;
    }

    struct Queue {
        uint96 total;
        uint8 head;
        uint8 count;
        Entry[MOST] entries;
    }

    /// @notice Adds an entry; the queue is not full and `maturesAt` not before the last entry's.
    function push(Queue storage queue, uint256 amount, uint256 maturesAt) internal {
        (uint256 head, uint256 count) = (queue.head, queue.count);
        queue.entries[(head + count) % MOST] = Entry(amount.toUint96(), maturesAt.toUint40());
        queue.total += amount.toUint96();
        queue.count = (count + 1).toUint8();
    }

    /// @notice Drops the entries that have matured by `time`; returns their sum.
    function popMatured(Queue storage queue, uint256 time) internal returns (uint256 amount) {
        (uint256 head, uint256 count) = (queue.head, queue.count);
        while (count > 0 && queue.entries[head].maturesAt <= time) {
            amount += queue.entries[head].amount;
            head = (head + 1) % MOST;
            --count;
        }
        _update(queue, head, count, amount);
    }

    /// @notice Takes up to `amount`, from the oldest entry first; returns what it took. No clock moves.
    function take(Queue storage queue, uint256 amount) internal returns (uint256 taken) {
        (uint256 head, uint256 count) = (queue.head, queue.count);
        while (count > 0 && taken < amount) {
            Entry storage entry = queue.entries[head];
            uint256 missing = amount - taken;
            if (entry.amount > missing) {
                entry.amount -= missing.toUint96();
                taken = amount;
            } else {
                taken += entry.amount;
                head = (head + 1) % MOST;
                --count;
            }
        }
        _update(queue, head, count, taken);
    }

    /// @notice The live entries, the oldest first.
    function list(Queue storage queue) internal view returns (IStaking.ThawEntry[] memory entries) {
        entries = new IStaking.ThawEntry[](queue.count);
        for (uint256 i = 0; i < entries.length; ++i) {
            Entry storage entry = queue.entries[(queue.head + i) % MOST];
            entries[i] = IStaking.ThawEntry(entry.amount, entry.maturesAt);
        }
    }

    function _update(Queue storage queue, uint256 head, uint256 count, uint256 removed) private {
        queue.head = head.toUint8();
        queue.count = count.toUint8();
        queue.total -= removed.toUint96();
    }
}
