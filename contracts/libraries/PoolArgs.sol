// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";

/// @title A pool's founder, label and rules as the 160 bytes that follow the code of its clone.
/// @dev Five words:
/// token 160 | claimWindow 24 | disputeWindow 24 | feePpm 24 | burnPpm 24
/// slasher 160 | minProvision 96
/// treasury 160 | exposurePpm 24 | slashCapPpm 24 | depositSeconds 16 | grace 16
/// founder 160 | maxDuration 32 | thawPeriod 32
/// label 256
library PoolArgs {
    struct Args {
        address founder;
        bytes32 label;
        IController.PoolParams params;
    }

    uint256 internal constant LENGTH = 160;

    /// @dev Bytes of a clone's own code, before its arguments.
    uint256 private constant CODE_LENGTH = 45;

    function pack(address founder, bytes32 label, IController.PoolParams memory params)
        internal
        pure
        returns (bytes memory)
    {
        return abi.encode(_money(params), _stake(params), _shares(params), _times(founder, params), label);
    }

    function unpack(bytes memory packed) internal pure returns (Args memory args) {
        (uint256 money, uint256 stake, uint256 shares, uint256 times, bytes32 label) =
            abi.decode(packed, (uint256, uint256, uint256, uint256, bytes32));
        args.label = label;
        _readMoney(args.params, money);
        _readStake(args.params, stake);
        _readShares(args.params, shares);
        // The founder is the low 160 bits of this word; the times lie above them.
        // forge-lint: disable-next-line(unsafe-typecast)
        args.founder = address(uint160(times));
        _readTimes(args.params, times);
    }

    // Each cast below drops the neighbours of the field it reads.
    // forge-lint: disable-start(unsafe-typecast)

    /// @notice What an opening needs to know of the running clone; as `unpack` says it, for a fifth of its gas.
    function openingRules() internal view returns (address token, uint256 exposurePpm, uint256 maxDuration) {
        token = address(uint160(_word(0)));
        exposurePpm = uint24(_word(2) >> 160);
        maxDuration = uint32(_word(3) >> 160);
    }

    /// @notice What the running clone takes of its leases; as `unpack` says it.
    function takings()
        internal
        view
        returns (address treasury, uint24 feePpm, uint24 burnPpm, uint24 claimWindow, uint16 depositSeconds)
    {
        (uint256 money, uint256 shares) = (_word(0), _word(2));
        treasury = address(uint160(shares));
        feePpm = uint24(money >> 208);
        burnPpm = uint24(money >> 232);
        claimWindow = uint24(money >> 160);
        depositSeconds = uint16(shares >> 208);
    }

    // forge-lint: disable-end(unsafe-typecast)

    /// @dev Reads into the scratch space.
    function _word(uint256 index) private view returns (uint256 result) {
        assembly ("memory-safe") {
            extcodecopy(address(), 0, add(CODE_LENGTH, mul(32, index)), 32)
            result := mload(0)
        }
    }

    function _money(IController.PoolParams memory params) private pure returns (uint256) {
        return uint256(uint160(params.token)) | uint256(params.claimWindow) << 160 | uint256(params.disputeWindow)
            << 184 | uint256(params.feePpm) << 208 | uint256(params.burnPpm) << 232;
    }

    function _stake(IController.PoolParams memory params) private pure returns (uint256) {
        return uint256(uint160(params.slasher)) | uint256(params.minProvision) << 160;
    }

    function _shares(IController.PoolParams memory params) private pure returns (uint256) {
        return uint256(uint160(params.treasury)) | uint256(params.exposurePpm) << 160 | uint256(params.slashCapPpm)
            << 184 | uint256(params.depositSeconds) << 208 | uint256(params.grace) << 224;
    }

    function _times(address founder, IController.PoolParams memory params) private pure returns (uint256) {
        return uint256(uint160(founder)) | uint256(params.maxDuration) << 160 | uint256(params.thawPeriod) << 192;
    }

    // Each cast below drops the neighbours of the field it reads.
    // forge-lint: disable-start(unsafe-typecast)
    function _readMoney(IController.PoolParams memory params, uint256 word) private pure {
        params.token = address(uint160(word));
        params.claimWindow = uint24(word >> 160);
        params.disputeWindow = uint24(word >> 184);
        params.feePpm = uint24(word >> 208);
        params.burnPpm = uint24(word >> 232);
    }

    function _readStake(IController.PoolParams memory params, uint256 word) private pure {
        params.slasher = address(uint160(word));
        params.minProvision = uint96(word >> 160);
    }

    function _readShares(IController.PoolParams memory params, uint256 word) private pure {
        params.treasury = address(uint160(word));
        params.exposurePpm = uint24(word >> 160);
        params.slashCapPpm = uint24(word >> 184);
        params.depositSeconds = uint16(word >> 208);
        params.grace = uint16(word >> 224);
    }

    function _readTimes(IController.PoolParams memory params, uint256 word) private pure {
        params.maxDuration = uint32(word >> 160);
        params.thawPeriod = uint32(word >> 192);
    }
    // forge-lint: disable-end(unsafe-typecast)
}
