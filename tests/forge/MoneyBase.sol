// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Escrow} from "../../contracts/Escrow.sol";
import {Staking} from "../../contracts/Staking.sol";
import {Tokens} from "../../contracts/Tokens.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {IStaking} from "../../contracts/interfaces/IStaking.sol";
import {MockPool} from "../../contracts/mocks/MockPool.sol";
import {MockToken} from "../../contracts/mocks/MockToken.sol";
import {TestSlasher} from "../../contracts/mocks/TestSlasher.sol";
import {Request} from "../../contracts/types/Signed.sol";
import {ForgeTest} from "./Vm.sol";

/// @notice The money contracts beside one mock pool, a renter with a session key and a provider.
abstract contract MoneyBase is ForgeTest {
    uint256 internal constant RENTER_KEY = 0xA11CE;
    uint256 internal constant SESSION_KEY = 0x5E55;
    uint256 internal constant START = 1_800_000_000;
    bytes32 internal constant OFFER = keccak256("offer");
    bytes32 internal constant OFFENCE = keccak256("offence");

    address internal constant SINK = address(0xdead);
    address internal constant STRANGER = address(0x57A6);
    address internal constant PAYEE = address(0x9A1EE);
    address internal constant TREASURY = address(0x72EA);
    address internal constant PROVIDER = address(0x9207);
    address internal constant CHALLENGER = address(0xC4A1);

    uint80 internal constant PRICE = 100;
    uint32 internal constant DURATION = 1 hours;
    uint16 internal constant DEPOSIT_SECONDS = 60;
    uint24 internal constant CLAIM_WINDOW = 1 days;
    uint24 internal constant FEE_PPM = 20_000;
    uint24 internal constant BURN_PPM = 10_000;
    uint32 internal constant THAW = 10 days;
    uint24 internal constant CAP_PPM = 500_000;
    uint256 internal constant FUNDS = 1_000_000;

    Tokens internal tokens;
    MockToken internal token;
    Escrow internal escrow;
    Staking internal staking;
    MockPool internal pool;
    TestSlasher internal slasher;
    address internal renter;
    address internal session;

    function setUp() public virtual {
        vm.warp(START);
        renter = vm.addr(RENTER_KEY);
        session = vm.addr(SESSION_KEY);
        tokens = new Tokens(address(this));
        token = new MockToken("Mock", "MOCK", 18);
        tokens.list(address(token));
        escrow = new Escrow(tokens, SINK);
        staking = new Staking(tokens, SINK);
        pool = new MockPool(escrow, staking);
        slasher = new TestSlasher(staking);
        pool.setTerms(address(token), address(slasher), THAW, CAP_PPM);
        pool.setPoolTerms(newPoolTerms());
    }

    /* RENTER */

    function fund(address account, uint256 amount) internal {
        token.mint(account, amount);
        vm.startPrank(account);
        token.approve(address(escrow), amount);
        escrow.deposit(address(token), amount);
        vm.stopPrank();
    }

    function newRequest(uint256 nonce) internal view returns (Request memory request) {
        request.renter = renter;
        request.controller = address(pool);
        request.token = address(token);
        request.maxPricePerSecond = PRICE;
        request.duration = DURATION;
        request.depositSeconds = DEPOSIT_SECONDS;
        request.voucherSigner = session;
        request.deadline = uint64(block.timestamp + 1 hours);
        request.nonce = nonce;
    }

    function newTerms() internal pure returns (IEscrow.LeaseTerms memory) {
        return IEscrow.LeaseTerms({offer: OFFER, payee: PAYEE, pricePerSecond: PRICE, duration: DURATION});
    }

    function newPoolTerms() internal pure returns (IEscrow.PoolTerms memory) {
        return IEscrow.PoolTerms({
            treasury: TREASURY,
            feePpm: FEE_PPM,
            burnPpm: BURN_PPM,
            claimWindow: CLAIM_WINDOW,
            depositSeconds: DEPOSIT_SECONDS
        });
    }

    /// @dev Goes on with a fresh pool of these terms.
    function usePool(IEscrow.PoolTerms memory terms) internal {
        pool = new MockPool(escrow, staking);
        pool.setTerms(address(token), address(slasher), THAW, CAP_PPM);
        pool.setPoolTerms(terms);
    }

    function sign(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function signed(Request memory request) internal view returns (bytes memory) {
        return sign(RENTER_KEY, escrow.requestDigest(request));
    }

    function open(uint256 nonce) internal returns (bytes32) {
        return open(newRequest(nonce), newTerms());
    }

    function open(Request memory request, IEscrow.LeaseTerms memory terms) internal returns (bytes32) {
        return pool.openLease(request, signed(request), terms);
    }

    function expectOpenReverts(bytes memory reason, Request memory request, IEscrow.LeaseTerms memory terms) internal {
        bytes memory signature = signed(request);
        vm.expectRevert(reason);
        pool.openLease(request, signature, terms);
    }

    function voucher(bytes32 lease, uint128 cumulative) internal view returns (bytes memory) {
        return sign(SESSION_KEY, escrow.voucherDigest(lease, cumulative));
    }

    function collect(bytes32 lease, uint128 cumulative) internal returns (uint256) {
        return escrow.collect(address(pool), lease, cumulative, voucher(lease, cumulative));
    }

    function leaseOf(bytes32 lease) internal view returns (IEscrow.LeaseAccount memory) {
        return escrow.leaseAccount(address(pool), lease);
    }

    function freeOf(address account) internal view returns (uint256) {
        return escrow.free(address(token), account);
    }

    /// @dev Fees and burns of the pool's leases that wait for a sweep.
    function taken() internal view returns (uint256 fees, uint256 burnt) {
        return escrow.takings(address(pool), address(token));
    }

    function owedTo(address account) internal view returns (uint256) {
        return escrow.owed(address(token), account);
    }

    /* PROVIDER */

    function stake(address account, uint256 amount) internal {
        token.mint(account, amount);
        vm.startPrank(account);
        token.approve(address(staking), amount);
        staking.deposit(address(token), amount);
        vm.stopPrank();
    }

    function provision(uint256 amount) internal {
        vm.prank(PROVIDER);
        staking.provision(address(pool), amount, address(slasher), THAW);
    }

    function stakeAndProvision(uint256 amount) internal {
        stake(PROVIDER, amount);
        provision(amount);
    }

    function thaw(uint256 amount) internal {
        vm.prank(PROVIDER);
        staking.thaw(address(pool), amount);
    }

    function freeze(bytes32 offence, uint128 amount) internal returns (uint256) {
        return slasher.freeze(address(pool), PROVIDER, offence, uint64(block.timestamp), amount);
    }

    function provisionOf() internal view returns (IStaking.Provision memory) {
        return staking.provisionOf(address(pool), PROVIDER);
    }

    function idleOf(address account) internal view returns (uint256) {
        return staking.idle(address(token), account);
    }

    /// @dev A split that pays `renterAmount` and `challengerAmount`, each clamped by Staking.
    function splitOf(uint128 renterAmount, uint128 challengerAmount)
        internal
        view
        returns (IStaking.SlashSplit memory)
    {
        return IStaking.SlashSplit(renter, renterAmount, CHALLENGER, challengerAmount);
    }
}
