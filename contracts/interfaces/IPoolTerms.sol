// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title What a pool takes of its leases' money, read once by Escrow when the pool opens its first lease.
interface IPoolTerms {
    function poolTerms()
        external
        view
        returns (address treasury, uint24 feePpm, uint24 burnPpm, uint24 claimWindow, uint16 depositSeconds);
}
