// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

/// @notice The forge cheat codes these tests use; the interface lives in forge itself.
interface Vm {
    struct Log {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    enum CallerMode {
        None,
        Broadcast,
        RecurrentBroadcast,
        Prank,
        RecurrentPrank
    }

    /* CHAIN */

    function warp(uint256 timestamp) external;
    function roll(uint256 blockNumber) external;
    function chainId(uint256 chainId_) external;
    function prevrandao(bytes32 value) external;
    function getBlockTimestamp() external view returns (uint256);
    function getBlockNumber() external view returns (uint256);
    function snapshotState() external returns (uint256 snapshotId);
    function revertToState(uint256 snapshotId) external returns (bool);
    function snapshotGasLastCall(string calldata name) external returns (uint256 gasUsed);

    /* ACCOUNTS */

    function addr(uint256 privateKey) external pure returns (address);
    function deal(address account, uint256 balance) external;
    function etch(address target, bytes calldata code) external;
    function label(address account, string calldata name) external;
    function load(address target, bytes32 slot) external view returns (bytes32);
    function store(address target, bytes32 slot, bytes32 value) external;
    function getNonce(address account) external view returns (uint64);
    function sign(uint256 privateKey, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function prank(address sender) external;
    function prank(address sender, address origin) external;
    function startPrank(address sender) external;
    function stopPrank() external;
    function readCallers() external view returns (CallerMode mode, address sender, address origin);

    /* EXPECTATIONS */

    function assume(bool condition) external pure;
    function assumeNoRevert() external pure;
    function expectRevert() external;
    function expectRevert(bytes4 selector) external;
    function expectRevert(bytes calldata data) external;
    function expectRevert(bytes4 selector, address reverter) external;
    function expectPartialRevert(bytes4 selector) external;
    function expectEmit() external;
    function expectEmit(address emitter) external;
    function expectEmit(bool topic1, bool topic2, bool topic3, bool data) external;
    function expectEmit(bool topic1, bool topic2, bool topic3, bool data, address emitter) external;
    function expectCall(address callee, bytes calldata data) external;
    function expectCall(address callee, bytes calldata data, uint64 count) external;
    function mockCall(address callee, bytes calldata data, bytes calldata returned) external;
    function mockCallRevert(address callee, bytes calldata data, bytes calldata reverted) external;
    function clearMockedCalls() external;
    function recordLogs() external;
    function getRecordedLogs() external returns (Log[] memory logs);
    function record() external;
    function accesses(address target) external view returns (bytes32[] memory reads, bytes32[] memory writes);
    function skip(bool condition) external;
    function skip(bool condition, string calldata reason) external;

    /* ASSERTIONS */

    function assertTrue(bool condition) external pure;
    function assertTrue(bool condition, string calldata reason) external pure;
    function assertFalse(bool condition) external pure;
    function assertFalse(bool condition, string calldata reason) external pure;
    function assertEq(uint256 left, uint256 right) external pure;
    function assertEq(uint256 left, uint256 right, string calldata reason) external pure;
    function assertEq(int256 left, int256 right) external pure;
    function assertEq(address left, address right) external pure;
    function assertEq(address left, address right, string calldata reason) external pure;
    function assertEq(bytes32 left, bytes32 right) external pure;
    function assertEq(bytes32 left, bytes32 right, string calldata reason) external pure;
    function assertEq(bool left, bool right) external pure;
    function assertEq(bool left, bool right, string calldata reason) external pure;
    function assertEq(bytes calldata left, bytes calldata right) external pure;
    function assertEq(bytes calldata left, bytes calldata right, string calldata reason) external pure;
    function assertEq(string calldata left, string calldata right) external pure;
    function assertNotEq(uint256 left, uint256 right) external pure;
    function assertNotEq(address left, address right) external pure;
    function assertNotEq(bytes32 left, bytes32 right) external pure;
    function assertLt(uint256 left, uint256 right) external pure;
    function assertLt(uint256 left, uint256 right, string calldata reason) external pure;
    function assertLe(uint256 left, uint256 right) external pure;
    function assertLe(uint256 left, uint256 right, string calldata reason) external pure;
    function assertGt(uint256 left, uint256 right) external pure;
    function assertGt(uint256 left, uint256 right, string calldata reason) external pure;
    function assertGe(uint256 left, uint256 right) external pure;
    function assertGe(uint256 left, uint256 right, string calldata reason) external pure;
    function assertApproxEqAbs(uint256 left, uint256 right, uint256 maxDelta) external pure;

    /* DATA */

    function toString(uint256 value) external pure returns (string memory);
    function toString(address value) external pure returns (string memory);
    function toString(bytes32 value) external pure returns (string memory);
    function parseJson(string calldata json, string calldata key) external pure returns (bytes memory);
    function parseJsonUint(string calldata json, string calldata key) external pure returns (uint256);
    function parseJsonUintArray(string calldata json, string calldata key) external pure returns (uint256[] memory);
    function parseJsonAddress(string calldata json, string calldata key) external pure returns (address);
    function parseJsonBytes32(string calldata json, string calldata key) external pure returns (bytes32);
    function parseJsonBytes32Array(string calldata json, string calldata key) external pure returns (bytes32[] memory);
    function parseJsonBytes(string calldata json, string calldata key) external pure returns (bytes memory);
    function parseJsonString(string calldata json, string calldata key) external pure returns (string memory);
    function parseJsonBool(string calldata json, string calldata key) external pure returns (bool);
    function keyExistsJson(string calldata json, string calldata key) external view returns (bool);
    function projectRoot() external view returns (string memory);
    function readFile(string calldata path) external view returns (string memory);
    function envOr(string calldata name, uint256 fallback_) external view returns (uint256);
    function envOr(string calldata name, bool fallback_) external view returns (bool);
}

/// @dev The address forge answers cheat codes at: the last 20 bytes of keccak256("hevm cheat code").
Vm constant VM = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

/// @notice Base of every forge test: the cheat codes and the fuzz target filters forge looks for.
abstract contract ForgeTest {
    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    Vm internal constant vm = VM;
    bool public constant IS_TEST = true;

    address[] private _targetContracts;
    address[] private _targetSenders;
    address[] private _excludedSenders;
    FuzzSelector[] private _targetSelectors;

    function targetContracts() external view returns (address[] memory) {
        return _targetContracts;
    }

    function targetSenders() external view returns (address[] memory) {
        return _targetSenders;
    }

    function excludeSenders() external view returns (address[] memory) {
        return _excludedSenders;
    }

    function targetSelectors() external view returns (FuzzSelector[] memory) {
        return _targetSelectors;
    }

    function targetContract(address target) internal {
        _targetContracts.push(target);
    }

    function targetSender(address sender) internal {
        _targetSenders.push(sender);
    }

    function excludeSender(address sender) internal {
        _excludedSenders.push(sender);
    }

    function targetSelector(address target, bytes4[] memory selectors) internal {
        _targetSelectors.push(FuzzSelector(target, selectors));
    }

    /// @dev Wraps `value` into [low, high] so that every fuzz input is a valid one.
    function bound(uint256 value, uint256 low, uint256 high) internal pure returns (uint256) {
        if (value >= low && value <= high) return value;
        uint256 size = high - low + 1;
        return size == 0 ? value : low + (value % size);
    }
}
