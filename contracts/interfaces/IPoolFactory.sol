// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "./IController.sol";

/// @title Makes one Controller clone per pool; anyone may.
interface IPoolFactory {
    event PoolCreated(
        address indexed pool, address indexed owner, bytes32 indexed label, address node, IController.PoolParams params
    );

    error PoolFactoryParamOutside(bytes32 param, uint256 value, uint256 bound);
    error PoolFactoryTokenNotListed(address token);
    error PoolFactoryZeroAddress();
    error PoolFactoryExists(address pool);

    /// @notice Makes a pool owned by the caller, at the address `predict` tells, which depends on owner, label and every parameter.
    /// @dev Bounds: token listed; slasher and treasury not zero; fee <= 250,000 ppm; burn <= 100,000 ppm; exposure <= 10,000,000 ppm;
    /// slash cap 1 to 1,000,000 ppm; claim and dispute windows 1 to 30 days; longest lease 60 s to 90 days;
    /// thaw >= longest lease + claim + dispute + appeal (7 days) + 48 h, <= 120 days; deposit >= 60 s; grace 60 to 840 s.
    function createPool(bytes32 label, address node, IController.PoolParams calldata params)
        external
        returns (address pool);
    function predict(address owner, bytes32 label, IController.PoolParams calldata params)
        external
        view
        returns (address pool);

    /// @notice Whether this factory made `pool`.
    function isPool(address pool) external view returns (bool);
    function poolCount() external view returns (uint256);

    /// @notice Pools number `from` to `from + most - 1`, in order of creation.
    function pools(uint256 from, uint256 most) external view returns (address[] memory);

    /// @notice The Controller that every pool of this factory delegates to.
    function implementation() external view returns (address);
}
