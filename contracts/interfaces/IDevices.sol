// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title Providers, their keys and devices, and the slice ledger.
/// @notice A device is in at most one pool, by its owner's own call; only that pool moves its ledger.
/// @dev A hostile pool can fill the ledger of its own devices, never beyond 90 days ahead, and not once the owner drains the device:
/// so the owner is out one day after the longest reservation, with nobody's help.
interface IDevices {
    struct Provider {
        address operator;
        address payout;
    }

    /// @notice `stint` counts the stays that ended with slices still reserved; `latestEnd` is the end of the longest reservation.
    struct Device {
        address provider;
        uint32 offerEpoch;
        uint8 kind;
        uint32 memoryMiB;
        uint16 stint;
        address pool;
        uint16 usedShare;
        uint32 usedMemoryMiB;
        uint40 latestEnd;
        bool isDraining;
        bytes32 model;
    }

    /// @notice Whose a device is, where it is, and who signs and is paid for it.
    struct Standing {
        address provider;
        address pool;
        address operator;
        address payout;
        uint32 offerEpoch;
        uint16 stint;
    }

    event ProviderRegistered(address indexed provider, address operator, address payout);
    event OperatorChanged(address indexed provider, address indexed previous, address indexed operator);
    event PayoutChanged(address indexed provider, address indexed previous, address indexed payout);
    event DeviceRegistered(
        bytes32 indexed device, address indexed provider, bytes32 uuidHash, uint8 kind, uint32 memoryMiB, bytes32 model
    );
    event DeviceJoined(bytes32 indexed device, address indexed pool);
    event DeviceLeft(bytes32 indexed device, address indexed pool);
    event DeviceDraining(bytes32 indexed device, bool isDraining);
    event OffersCancelled(bytes32 indexed device, uint32 epoch);
    event SliceReserved(bytes32 indexed device, uint16 share, uint32 memoryMiB, uint256 until);
    event SliceResized(
        bytes32 indexed device, uint16 previousShare, uint32 previousMemoryMiB, uint16 share, uint32 memoryMiB
    );
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
    error DevicesInUse(bytes32 device, uint256 usedShare, uint256 freeAt);
    error DevicesDraining(bytes32 device);
    error DevicesReservationTooLong(uint256 until, uint256 latest);
    error DevicesReleaseAbove(uint256 used, uint256 released);
    error DevicesShareFull(uint256 free, uint256 needed);
    error DevicesMemoryFull(uint256 freeMiB, uint256 neededMiB);
    error DevicesEmptySlice();

    /// @notice Registers the caller as a provider. The operator's key must be neither the owner's nor the payout's.
    function registerProvider(address operator, address payout) external;

    /// @notice Replaces the operator's key; the old one loses every power at once.
    function setOperator(address operator) external;
    function setPayout(address payout) external;

    /// @notice Registers a device of the calling owner, with more than 0 MiB of memory. `kind`: 0 cpu, 1 nvidia gpu; `model`: digest of the model's name.
    function registerDevice(bytes32 uuidHash, uint8 kind, uint32 memoryMiB, bytes32 model)
        external
        returns (bytes32 device);

    /// @notice Puts the caller's device into `pool`, whose rules of entry may refuse it.
    function join(bytes32 device, address pool) external;

    /// @notice Takes a device out of its pool: when nothing of it is reserved, or one day after its longest reservation. Owner only;
    /// the pool cannot refuse.
    function leave(bytes32 device) external;

    /// @notice While draining, no slice of the device can be reserved. Owner only.
    function setDraining(bytes32 device, bool isDraining) external;

    /// @notice Cancels every offer signed for the device so far. Owner or operator.
    function cancelOffers(bytes32 device) external returns (uint32 epoch);

    /* LEDGER: called by the device's pool */

    /// @notice Reserves a slice until `until`, at most 90 days ahead.
    function reserve(bytes32 device, uint16 share, uint32 memoryMiB, uint256 until) external;

    /// @notice Frees a slice reserved in the device's stay `stint`; without effect when that stay is over. Returns whether it did.
    function release(bytes32 device, uint16 share, uint32 memoryMiB, uint16 stint) external returns (bool);

    /// @notice Gives a slice reserved in the device's present stay `stint` another size, until the same time.
    function reslice(
        bytes32 device,
        uint16 stint,
        uint16 previousShare,
        uint32 previousMemoryMiB,
        uint16 share,
        uint32 memoryMiB
    ) external;

    /* VIEWS */
    function deviceId(address provider, bytes32 uuidHash) external pure returns (bytes32);

    /// @notice Reverts for an unknown device.
    function deviceOf(bytes32 device) external view returns (Device memory);

    /// @notice Reverts for an unknown device.
    function standingOf(bytes32 device) external view returns (Standing memory);

    /// @notice Reverts for an unknown provider.
    function providerOf(address provider) external view returns (Provider memory);

    function isOperator(address provider, address key) external view returns (bool);
}
