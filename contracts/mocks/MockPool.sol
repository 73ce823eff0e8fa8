// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IEscrow} from "../interfaces/IEscrow.sol";
import {IPoolTerms} from "../interfaces/IPoolTerms.sol";
import {IProvisionTerms} from "../interfaces/IProvisionTerms.sol";
import {IStaking} from "../interfaces/IStaking.sol";
import {Request, Resize} from "../types/Signed.sol";

/// @title Plays a Controller: does to Escrow and Staking whatever anyone tells it.
contract MockPool is IProvisionTerms, IPoolTerms {
    IEscrow public immutable ESCROW;
    IStaking public immutable STAKING;

    address private _token;
    address private _slasher;
    uint32 private _thawPeriod;
    uint24 private _slashCapPpm;
    IEscrow.PoolTerms private _poolTerms;

    constructor(IEscrow escrow, IStaking staking) {
        ESCROW = escrow;
        STAKING = staking;
    }

    function setTerms(address token, address slasher, uint32 thawPeriod, uint24 slashCapPpm) external {
        (_token, _slasher, _thawPeriod, _slashCapPpm) = (token, slasher, thawPeriod, slashCapPpm);
    }

    function setPoolTerms(IEscrow.PoolTerms calldata terms) external {
        _poolTerms = terms;
    }

    function openLease(Request calldata request, bytes calldata signature, IEscrow.LeaseTerms calldata terms)
        external
        returns (bytes32 lease)
    {
        return ESCROW.openLease(request, signature, terms);
    }

    function resizeLease(Resize calldata resize, bytes calldata signature) external {
        ESCROW.resizeLease(resize, signature);
    }

    function stopLease(bytes32 lease) external {
        ESCROW.stopLease(lease);
    }

    function settleEarly(bytes32 lease) external {
        ESCROW.settleEarly(lease);
    }

    function reserve(address provider, uint128 amount) external {
        STAKING.reserve(provider, amount);
    }

    function release(address provider, uint128 amount) external {
        STAKING.release(provider, amount);
    }

    function provisionTerms() external view returns (address, address, uint32, uint24) {
        return (_token, _slasher, _thawPeriod, _slashCapPpm);
    }

    function poolTerms() external view returns (address, uint24, uint24, uint24, uint16) {
        IEscrow.PoolTerms memory terms = _poolTerms;
        return (terms.treasury, terms.feePpm, terms.burnPpm, terms.claimWindow, terms.depositSeconds);
    }
}
