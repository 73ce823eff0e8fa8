// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

import {Accounts} from "./escrow/Accounts.sol";
import {Funding} from "./escrow/Funding.sol";
import {Paying} from "./escrow/Paying.sol";
import {Resizing} from "./escrow/Resizing.sol";
import {ITokens} from "./interfaces/ITokens.sol";

/// @notice Holds renters' money; the manual is `IEscrow`.
contract Escrow is Funding, Paying, Resizing {
    constructor(ITokens tokens, address burnSink) Accounts(tokens, burnSink) EIP712("Millpond", "1") {}
}
