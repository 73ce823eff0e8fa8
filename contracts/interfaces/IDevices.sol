// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title Providers, their keys and devices, and the slice ledger.
/// @notice A device is in at most one pool, by its owner's own call; only that pool moves its ledger.
interface IDevices {
    struct Provider {
        address operator;
        address payout;
    }

    struct Device {
        address provider;
        uint32 offerEpoch;
        uint8 kind;
        address pool;
        uint16 usedShare;
        uint32 usedMemoryMiB;
        uint32 memoryMiB;
        bytes32 model;
    }

    event ProviderRegistered(address indexed provider, address operator, address payout);
    event OperatorChanged(address indexed provider, address indexed previous, address indexed operator);
    event PayoutChanged(address indexed provider, address indexed previous, address indexed payout);
    event DeviceRegistered(bytes32 indexed device, address indexed provider, bytes32 uuidHash, uint8 kind, uint32 memoryMiB, bytes32 model);
    event DeviceJoined(bytes32 indexed device, address indexed pool);
    event DeviceLeft(bytes32 indexed device, address indexed pool);
    event OffersCancelled(bytes32 indexed device, uint32 epoch);
    event SliceReserved(bytes32 indexed device, uint16 share, uint32 memoryMiB);
    event SliceReleased(bytes32 indexed device, uint16 share, uint32 memoryMiB);

    error DevicesProviderKnown(address provider);
    error DevicesProviderUnknown(address provider);
    error DevicesZeroAddress();
    error DevicesKeysNotApart(address key);
    error DevicesDeviceKnown(bytes32 device);
    error DevicesDeviceUnknown(bytes32 device);
    error DevicesBadSpec();
    error DevicesNotOwner(address caller, address owner);
    error DevicesNotProvider(address caller, address provider);
    error DevicesInPool(bytes32 device, address pool);
    error DevicesNotInPool(bytes32 device, address pool);
    error DevicesInUse(bytes32 device, uint256 usedShare);
    error DevicesShareFull(uint256 free, uint256 needed);
    error DevicesMemoryFull(uint256 freeMiB, uint256 neededMiB);
    error DevicesEmptySlice();

    /// @notice Registers the caller as a provider. Owner, operator and payout keys: operator must differ from owner.
    function registerProvider(address operator, address payout) external;
    function setOperator(address operator) external;
    function setPayout(address payout) external;

    /// @notice Registers a device of the calling owner. `kind`: 0 cpu, 1 nvidia gpu; `model`: digest of the model's name.
    function registerDevice(bytes32 uuidHash, uint8 kind, uint32 memoryMiB, bytes32 model) external returns (bytes32 device);

    /// @notice Puts the caller's device into `pool`, whose rules of entry may refuse it.
    function join(bytes32 device, address pool) external;
    /// @notice Takes an unused device out of its pool. Owner only; the pool cannot refuse.
    function leave(bytes32 device) external;
    /// @notice Cancels every offer signed for the device so far. Owner or operator.
    function cancelOffers(bytes32 device) external returns (uint32 epoch);

    /* LEDGER: called by the device's pool */
    function reserve(bytes32 device, uint16 share, uint32 memoryMiB) external;
    function release(bytes32 device, uint16 share, uint32 memoryMiB) external;

    /* VIEWS */
    function deviceId(address provider, bytes32 uuidHash) external pure returns (bytes32);
    function deviceOf(bytes32 device) external view returns (Device memory);
    function providerOf(address provider) external view returns (Provider memory);
    function isOperator(address provider, address key) external view returns (bool);
}
