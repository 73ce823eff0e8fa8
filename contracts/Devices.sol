// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "./interfaces/IController.sol";
import {IDevices} from "./interfaces/IDevices.sol";
import {PoolLimits} from "./libraries/PoolLimits.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

/// @title Providers, their keys and devices, and the slice ledger.
contract Devices is IDevices {
    using SafeCast for uint256;

    uint256 internal constant WHOLE = 1000;
    uint256 internal constant EXIT_MARGIN = 1 days;
    uint8 internal constant LAST_KIND = 1;

    mapping(address provider => Provider) private _providers;

    /// @dev Slots: who and what; pool and ledger; model. A reservation rewrites the second only.
    mapping(bytes32 device => Device) private _devices;

    /* PROVIDERS */

    /// @inheritdoc IDevices
    function registerProvider(address operator, address payout) external {
        require(_providers[msg.sender].operator == address(0), DevicesProviderKnown(msg.sender));
        _checkKeys(operator, payout);
        _providers[msg.sender] = Provider({operator: operator, payout: payout});
        emit ProviderRegistered(msg.sender, operator, payout);
    }

    /// @inheritdoc IDevices
    function setOperator(address operator) external {
        Provider storage provider = _provider(msg.sender);
        _checkKeys(operator, provider.payout);
        address previous = provider.operator;
        provider.operator = operator;
        emit OperatorChanged(msg.sender, previous, operator);
    }

    /// @inheritdoc IDevices
    function setPayout(address payout) external {
        Provider storage provider = _provider(msg.sender);
        _checkKeys(provider.operator, payout);
        address previous = provider.payout;
        provider.payout = payout;
        emit PayoutChanged(msg.sender, previous, payout);
    }

    /* DEVICES */

    /// @inheritdoc IDevices
    function registerDevice(bytes32 uuidHash, uint8 kind, uint32 memoryMiB, bytes32 model)
        external
        returns (bytes32 device)
    {
        _provider(msg.sender);
        require(kind <= LAST_KIND && memoryMiB != 0, DevicesBadSpec());
        device = deviceId(msg.sender, uuidHash);
        Device storage record = _devices[device];
        require(record.provider == address(0), DevicesDeviceKnown(device));

        record.provider = msg.sender;
        record.kind = kind;
        record.memoryMiB = memoryMiB;
        record.model = model;

        emit DeviceRegistered(device, msg.sender, uuidHash, kind, memoryMiB, model);
    }

    /// @inheritdoc IDevices
    function join(bytes32 device, address pool) external {
        Device storage record = _owned(device);
        require(pool != address(0), DevicesZeroAddress());
        require(record.pool == address(0), DevicesInPool(device, record.pool));

        record.pool = pool;

        emit DeviceJoined(device, pool);

        IController(pool).onDeviceJoin(device, msg.sender);
    }

    /// @inheritdoc IDevices
    function leave(bytes32 device) external {
        Device storage record = _owned(device);
        address pool = record.pool;
        require(pool != address(0), DevicesNotInPool(device, pool));
        if (record.usedShare != 0) _abandon(device, record);

        record.pool = address(0);
        record.usedShare = 0;
        record.usedMemoryMiB = 0;
        record.latestEnd = 0;
        record.isDraining = false;

        emit DeviceLeft(device, pool);
    }

    /// @inheritdoc IDevices
    function setDraining(bytes32 device, bool isDraining) external {
        Device storage record = _owned(device);
        record.isDraining = isDraining;
        emit DeviceDraining(device, isDraining);
    }

    /// @inheritdoc IDevices
    function cancelOffers(bytes32 device) external returns (uint32 epoch) {
        Device storage record = _known(device);
        address owner = record.provider;
        require(msg.sender == owner || isOperator(owner, msg.sender), DevicesNotProvider(msg.sender, owner));
        epoch = ++record.offerEpoch;
        emit OffersCancelled(device, epoch);
    }

    /* LEDGER */

    /// @inheritdoc IDevices
    function reserve(bytes32 device, uint16 share, uint32 memoryMiB, uint256 until) external {
        Device storage record = _devices[device];
        require(record.pool == msg.sender, DevicesNotInPool(device, msg.sender));
        require(!record.isDraining, DevicesDraining(device));
        require(share != 0 && memoryMiB != 0, DevicesEmptySlice());
        uint256 latest = block.timestamp + PoolLimits.LONGEST_LEASE;
        require(until <= latest, DevicesReservationTooLong(until, latest));
        uint256 freeShare = WHOLE - record.usedShare;
        require(share <= freeShare, DevicesShareFull(freeShare, share));
        uint256 freeMemory = record.memoryMiB - record.usedMemoryMiB;
        require(memoryMiB <= freeMemory, DevicesMemoryFull(freeMemory, memoryMiB));

        record.usedShare += share;
        record.usedMemoryMiB += memoryMiB;
        record.latestEnd = Math.max(record.latestEnd, until).toUint40();

        emit SliceReserved(device, share, memoryMiB, until);
    }

    /// @inheritdoc IDevices
    function release(bytes32 device, uint16 share, uint32 memoryMiB, uint16 stint) external returns (bool) {
        Device storage record = _devices[device];
        if (record.stint != stint) return false;
        require(record.pool == msg.sender, DevicesNotInPool(device, msg.sender));
        require(share <= record.usedShare, DevicesReleaseAbove(record.usedShare, share));
        require(memoryMiB <= record.usedMemoryMiB, DevicesReleaseAbove(record.usedMemoryMiB, memoryMiB));

        record.usedShare -= share;
        record.usedMemoryMiB -= memoryMiB;

        emit SliceReleased(device, share, memoryMiB);
        return true;
    }

    /// @inheritdoc IDevices
    function reslice(
        bytes32 device,
        uint16 stint,
        uint16 previousShare,
        uint32 previousMemoryMiB,
        uint16 share,
        uint32 memoryMiB
    ) external {
        Device storage record = _devices[device];
        require(record.pool == msg.sender && record.stint == stint, DevicesNotInPool(device, msg.sender));
        require(!record.isDraining, DevicesDraining(device));
        require(share != 0 && memoryMiB != 0, DevicesEmptySlice());
        (uint256 usedShare, uint256 usedMemory) = (record.usedShare, record.usedMemoryMiB);
        require(previousShare <= usedShare, DevicesReleaseAbove(usedShare, previousShare));
        require(previousMemoryMiB <= usedMemory, DevicesReleaseAbove(usedMemory, previousMemoryMiB));
        uint256 freeShare = WHOLE + previousShare - usedShare;
        require(share <= freeShare, DevicesShareFull(freeShare, share));
        uint256 freeMemory = uint256(record.memoryMiB) + previousMemoryMiB - usedMemory;
        require(memoryMiB <= freeMemory, DevicesMemoryFull(freeMemory, memoryMiB));

        record.usedShare = (usedShare + share - previousShare).toUint16();
        record.usedMemoryMiB = (usedMemory + memoryMiB - previousMemoryMiB).toUint32();

        emit SliceResized(device, previousShare, previousMemoryMiB, share, memoryMiB);
    }

    /* VIEWS */

    /// @inheritdoc IDevices
    function deviceId(address provider, bytes32 uuidHash) public pure returns (bytes32) {
        return keccak256(abi.encode(provider, uuidHash));
    }

    /// @inheritdoc IDevices
    function deviceOf(bytes32 device) external view returns (Device memory) {
        return _known(device);
    }

    /// @inheritdoc IDevices
    function standingOf(bytes32 device) external view returns (Standing memory) {
        Device storage record = _known(device);
        Provider storage provider = _providers[record.provider];
        return Standing({
            provider: record.provider,
            pool: record.pool,
            operator: provider.operator,
            payout: provider.payout,
            offerEpoch: record.offerEpoch,
            stint: record.stint
        });
    }

    /// @inheritdoc IDevices
    function providerOf(address provider) external view returns (Provider memory) {
        return _provider(provider);
    }

    /// @inheritdoc IDevices
    function isOperator(address provider, address key) public view returns (bool) {
        return key != address(0) && _providers[provider].operator == key;
    }

    /* INTERNALS */

    /// @dev Ends a stay that its pool did not, so that what the pool still holds of it can never touch a later ledger.
    function _abandon(bytes32 device, Device storage record) private {
        uint256 freeAt = record.latestEnd + EXIT_MARGIN;
        require(block.timestamp >= freeAt, DevicesInUse(device, record.usedShare, freeAt));
        ++record.stint;
    }

    function _checkKeys(address operator, address payout) private view {
        require(operator != address(0) && payout != address(0), DevicesZeroAddress());
        require(operator != msg.sender && operator != payout, DevicesKeysNotApart(operator));
    }

    function _provider(address provider) private view returns (Provider storage record) {
        record = _providers[provider];
        require(record.operator != address(0), DevicesProviderUnknown(provider));
    }

    function _known(bytes32 device) private view returns (Device storage record) {
        record = _devices[device];
        require(record.provider != address(0), DevicesDeviceUnknown(device));
    }

    function _owned(bytes32 device) private view returns (Device storage record) {
        record = _known(device);
        require(record.provider == msg.sender, DevicesNotOwner(msg.sender, record.provider));
    }
}
