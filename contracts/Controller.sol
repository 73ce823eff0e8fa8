// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "./interfaces/IController.sol";
import {IDevices} from "./interfaces/IDevices.sol";
import {IEscrow} from "./interfaces/IEscrow.sol";
import {IStaking} from "./interfaces/IStaking.sol";
import {Metadata} from "./modules/Metadata.sol";
import {Opening} from "./modules/Opening.sol";
import {PoolRules} from "./modules/PoolRules.sol";
import {Reclaiming} from "./modules/Reclaiming.sol";
import {Regrading} from "./modules/Regrading.sol";
import {Settling} from "./modules/Settling.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

/// @title Code of every pool; each pool is a clone with its rules as immutable arguments.
contract Controller is IController, Metadata, Opening, Regrading, Reclaiming, Settling {
    constructor(IEscrow escrow_, IStaking staking_, IDevices devices_)
        PoolRules(escrow_, staking_, devices_)
        EIP712("Millpond", "1")
    {}
}
