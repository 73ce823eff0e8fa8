// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "./IController.sol";

/// @title Makes one Controller clone per pool; anyone may.
interface IPoolFactory {
    event PoolCreated(address indexed pool, address indexed owner, bytes32 indexed label, address node, IController.PoolParams params);

    error PoolFactoryParamOutside(bytes32 param, uint256 value, uint256 bound);
    error PoolFactoryTokenNotListed(address token);
    error PoolFactoryZeroAddress();
    error PoolFactoryExists(address pool);

    /// @notice Makes a pool owned by the caller, at the address `predict` tells.
    function createPool(bytes32 label, address node, IController.PoolParams calldata params) external returns (address pool);
    function predict(address owner, bytes32 label, IController.PoolParams calldata params) external view returns (address pool);
    function isPool(address pool) external view returns (bool);
    function poolCount() external view returns (uint256);
    /// @notice Pools number `from` to `from + most - 1`, in order of creation.
    function pools(uint256 from, uint256 most) external view returns (address[] memory);
}
