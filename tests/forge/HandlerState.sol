// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Devices} from "../../contracts/Devices.sol";
import {Escrow} from "../../contracts/Escrow.sol";
import {Staking} from "../../contracts/Staking.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {BlacklistToken} from "../../contracts/mocks/BlacklistToken.sol";
import {CallbackToken} from "../../contracts/mocks/CallbackToken.sol";
import {FeeToken} from "../../contracts/mocks/FeeToken.sol";
import {ReentrantHook} from "../../contracts/mocks/Hooks.sol";
import {MockPool} from "../../contracts/mocks/MockPool.sol";
import {MockToken} from "../../contracts/mocks/MockToken.sol";
import {NoReturnToken} from "../../contracts/mocks/NoReturnToken.sol";
import {Request} from "../../contracts/types/Signed.sol";
import {Fixture} from "./Fixture.sol";

/// @notice Parties, ledgers and clocks of the all-in-one invariant.
abstract contract HandlerState is Fixture {
    struct Ghost {
        address controller;
        bytes32 id;
        address payee;
        uint256 price;
        uint256 folded;
        uint256 since;
        uint256 openedAt;
        uint256 duration;
        uint256 window;
        uint256 deposit;
        uint256 stoppedAt;
        uint256 collected;
        bool isSettled;
        bool isClosed;
        bool isReleased;
        uint256 share;
        uint256 memoryMiB;
        bytes32 group;
    }

    struct GhostOffence {
        bytes32 id;
        uint256 side;
        uint256 frozen;
        uint256 frozenAt;
    }

    struct Piece {
        uint256 time;
        uint256 amount;
    }

    uint256 internal constant FEE_PPM = 20_000;
    uint256 internal constant BURN_PPM = 5000;
    uint256 internal constant THAW = 21 days;
    uint256 internal constant CAP_PPM = 500_000;
    uint256 internal constant MOST_LEASES = 40;

    string public breach;
    uint256 public effective;

    address internal accomplice = makeAddress("accomplice");
    MockPool internal hostile;
    address[2] internal pools;
    ReentrantHook internal hook;
    address[4] internal zoo;

    Ghost[] internal ghosts;
    GhostOffence[] internal offences;
    Request[] internal groupRequests;
    mapping(address account => uint256) public freeOf;
    mapping(address account => uint256) public owedOf;
    mapping(address account => uint256) internal noticedOf;
    mapping(address account => uint256) internal readyAtOf;
    uint256 public earmarked;
    uint256 public escrowBurn;
    IEscrow.PoolTerms internal hostileTerms;
    mapping(address controller => uint256) public feesOf;
    mapping(address controller => uint256) public burnsOf;
    uint256 public escrowGifts;
    uint256 public usedShare;
    uint256 public usedMemory;

    uint256 public staked;
    uint256 public stakingBurn;
    uint256 public stakingGifts;
    uint256 public payouts;
    uint256[2] public exposures;
    uint256[2] public frozenOf;
    uint256[2] internal completed;
    Piece[][2] internal added;
    Piece[][2] internal thaws;
    mapping(address coin => uint256) public zooIn;

    function setUp() public override {
        super.setUp();
        hostile = new MockPool(escrow, staking);
        hostile.setTerms(address(token), address(slasher), uint32(THAW), uint24(CAP_PPM));
        pools = [address(pool), address(hostile)];
        freeOf[renter] = FUNDS;
        staked = STAKE;
        added[0].push(Piece(block.timestamp, STAKE));
        hook = new ReentrantHook();
        zoo = [
            address(new FeeToken()),
            address(new NoReturnToken()),
            address(new BlacklistToken()),
            address(new CallbackToken())
        ];
        for (uint256 i = 0; i < zoo.length; ++i) {
            tokens.list(zoo[i]);
        }
    }

    function _endOf(Ghost memory ghost) internal pure returns (uint256) {
        return ghost.stoppedAt != 0 ? ghost.stoppedAt : ghost.openedAt + ghost.duration;
    }

    function _accruedBy(Ghost memory ghost, uint256 time) internal pure returns (uint256) {
        return ghost.folded + ghost.price * (time - ghost.since);
    }

    function _rentOf(Ghost memory ghost) internal pure returns (uint256) {
        return _accruedBy(ghost, ghost.openedAt + ghost.duration);
    }

    /// @notice What the leases of one request with replacements hold and have cost.
    function heldBy(bytes32 group) external view returns (uint256 held) {
        for (uint256 i = 0; i < ghosts.length; ++i) {
            Ghost memory ghost = ghosts[i];
            if (ghost.group != group) continue;
            held += ghost.isSettled ? ghost.collected : _rentOf(ghost);
            if (ghost.collected == 0) held += ghost.deposit;
        }
    }

    function _pick(uint256 seed) internal view returns (Ghost memory ghost) {
        if (ghosts.length != 0) ghost = ghosts[seed % ghosts.length];
    }

    /* VIEWS FOR THE INVARIANTS */

    function addresses() external view returns (MockToken, Escrow, Staking, Devices, address, address[2] memory) {
        return (token, escrow, staking, devices, provider, pools);
    }

    function parties() external view returns (address[4] memory) {
        return [renter, payout, treasury, accomplice];
    }

    function coins() external view returns (address[4] memory, address) {
        return (zoo, address(hook));
    }

    function deviceUse() external view returns (bytes32, uint256, uint256) {
        return (device, usedShare, usedMemory);
    }

    function slashingContract() external view returns (address) {
        return address(slasher);
    }

    function leases() external view returns (Ghost[] memory) {
        return ghosts;
    }

    function groups() external view returns (Request[] memory) {
        return groupRequests;
    }

    function openOffences() external view returns (GhostOffence[] memory) {
        return offences;
    }
}
