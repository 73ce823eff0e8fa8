// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title What Staking reads of a pool when a provision to it is made.
interface IProvisionTerms {
    function provisionTerms()
        external
        view
        returns (address token, address slasher, uint32 thawPeriod, uint24 slashCapPpm);
}
