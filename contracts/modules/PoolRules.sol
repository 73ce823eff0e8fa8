// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {IDevices} from "../interfaces/IDevices.sol";
import {IEscrow} from "../interfaces/IEscrow.sol";
import {IPoolTerms} from "../interfaces/IPoolTerms.sol";
import {IProvisionTerms} from "../interfaces/IProvisionTerms.sol";
import {IStaking} from "../interfaces/IStaking.sol";
import {PoolArgs} from "../libraries/PoolArgs.sol";
import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";

/// @title What a pool can never change: the singletons it uses, its founder, label and parameters.
abstract contract PoolRules is IController {
    IEscrow public immutable override escrow;
    IStaking public immutable override staking;
    IDevices public immutable override devices;

    constructor(IEscrow escrow_, IStaking staking_, IDevices devices_) {
        escrow = escrow_;
        staking = staking_;
        devices = devices_;
    }

    /// @inheritdoc IController
    function params() public view returns (PoolParams memory) {
        return _args().params;
    }

    /// @inheritdoc IController
    function founder() public view returns (address) {
        return _args().founder;
    }

    /// @inheritdoc IController
    function label() external view returns (bytes32) {
        return _args().label;
    }

    /// @inheritdoc IProvisionTerms
    function provisionTerms()
        external
        view
        returns (address token, address slasher, uint32 thawPeriod, uint24 slashCapPpm)
    {
        PoolParams memory rules = params();
        return (rules.token, rules.slasher, rules.thawPeriod, rules.slashCapPpm);
    }

    /// @inheritdoc IPoolTerms
    function poolTerms()
        external
        view
        returns (address treasury, uint24 feePpm, uint24 burnPpm, uint24 claimWindow, uint16 depositSeconds)
    {
        return PoolArgs.takings();
    }

    function _args() private view returns (PoolArgs.Args memory) {
        return PoolArgs.unpack(Clones.fetchCloneArgs(address(this)));
    }
}
