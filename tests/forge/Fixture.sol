// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Attestations} from "../../contracts/Attestations.sol";
import {Controller} from "../../contracts/Controller.sol";
import {Devices} from "../../contracts/Devices.sol";
import {Escrow} from "../../contracts/Escrow.sol";
import {PoolFactory} from "../../contracts/PoolFactory.sol";
import {Staking} from "../../contracts/Staking.sol";
import {Tokens} from "../../contracts/Tokens.sol";
import {IController} from "../../contracts/interfaces/IController.sol";
import {MockToken} from "../../contracts/mocks/MockToken.sol";
import {TestSlasher} from "../../contracts/mocks/TestSlasher.sol";
import {Offer, Request} from "../../contracts/types/Signed.sol";
import {ForgeTest} from "./Vm.sol";

/// @notice The whole system: one pool, one staked provider with one device, one funded renter, and their signatures.
abstract contract Fixture is ForgeTest {
    uint256 internal constant START = 1_800_000_000;
    uint256 internal constant PROVIDER_KEY = 0xA11CE;
    uint256 internal constant OPERATOR_KEY = 0xB0B;
    uint256 internal constant RENTER_KEY = 0xCAFE;
    uint256 internal constant SESSION_KEY = 0x5E55;

    uint80 internal constant PRICE = 1e12;
    uint32 internal constant DURATION = 2 hours;
    uint32 internal constant MEMORY = 24_576;
    uint256 internal constant STAKE = 1e18;
    uint256 internal constant FUNDS = 1e18;
    uint96 internal constant MIN_PROVISION = 1e15;

    address internal poolOwner = makeAddress("pool owner");
    address internal node = makeAddress("node");
    address internal treasury = makeAddress("treasury");
    address internal payout = makeAddress("payout");
    address internal stranger = makeAddress("stranger");
    address internal burnSink = makeAddress("burn sink");
    address internal provider = vm.addr(PROVIDER_KEY);
    address internal operator = vm.addr(OPERATOR_KEY);
    address internal renter = vm.addr(RENTER_KEY);
    address internal session = vm.addr(SESSION_KEY);

    MockToken internal token;
    Tokens internal tokens;
    Escrow internal escrow;
    Staking internal staking;
    Devices internal devices;
    Attestations internal attestations;
    Controller internal implementation;
    PoolFactory internal factory;
    TestSlasher internal slasher;
    IController internal pool;
    bytes32 internal device;

    uint256 private _nonce;

    function setUp() public virtual {
        vm.warp(START);
        _deploy();
        pool = _createPool("main");
        _stake(pool, STAKE);
        device = _registerDevice("gpu-0");
        _join(device, pool);
        _fund(renter, FUNDS);
    }

    /* SYSTEM */

    function _deploy() private {
        token = new MockToken("Mock", "MOCK", 18);
        tokens = new Tokens(address(this));
        tokens.list(address(token));
        escrow = new Escrow(tokens, burnSink);
        staking = new Staking(tokens, burnSink);
        devices = new Devices();
        attestations = new Attestations(7 days);
        implementation = new Controller(escrow, staking, devices);
        factory = new PoolFactory(address(implementation), tokens);
        slasher = new TestSlasher(staking);
    }

    function _params() internal view returns (IController.PoolParams memory) {
        return IController.PoolParams({
            token: address(token),
            slasher: address(slasher),
            treasury: treasury,
            feePpm: 20_000,
            burnPpm: 5000,
            exposurePpm: 1_000_000,
            slashCapPpm: 500_000,
            claimWindow: 1 days,
            disputeWindow: 2 days,
            maxDuration: 7 days,
            thawPeriod: 21 days,
            depositSeconds: 900,
            grace: 2 minutes,
            minProvision: MIN_PROVISION
        });
    }

    function _createPool(bytes32 label) internal returns (IController) {
        vm.prank(poolOwner);
        return IController(factory.createPool(label, node, _params()));
    }

    function _stake(IController pool_, uint256 amount) internal {
        token.mint(provider, amount);
        vm.startPrank(provider);
        token.approve(address(staking), amount);
        staking.deposit(address(token), amount);
        staking.provision(address(pool_), amount, address(slasher), 21 days);
        vm.stopPrank();
    }

    function _registerDevice(string memory uuid) internal returns (bytes32 id) {
        vm.startPrank(provider);
        if (!devices.isOperator(provider, operator)) devices.registerProvider(operator, payout);
        id = devices.registerDevice(keccak256(bytes(uuid)), 1, MEMORY, keccak256("H200"));
        vm.stopPrank();
    }

    function _join(bytes32 device_, IController pool_) internal {
        vm.prank(provider);
        devices.join(device_, address(pool_));
    }

    function _fund(address account, uint256 amount) internal {
        token.mint(account, amount);
        vm.startPrank(account);
        token.approve(address(escrow), amount);
        escrow.deposit(address(token), amount);
        vm.stopPrank();
    }

    /* WHAT PARTIES SIGN */

    function _offer() internal view returns (Offer memory) {
        return Offer({
            controller: address(pool),
            device: device,
            epoch: devices.deviceOf(device).offerEpoch,
            mode: 1,
            isolation: 1,
            share: 250,
            memoryMiB: 4096,
            cpuMilli: 2000,
            ramMiB: 8192,
            diskMiB: 16_384,
            bandwidthMbit: 0,
            pricePerSecond: PRICE,
            tick: 60,
            notice: 600,
            determinism: 0,
            maxDuration: 1 days,
            capPerRenter: 0,
            deadline: uint64(block.timestamp + 30 minutes)
        });
    }

    /// @dev A fresh request that leaves the choice of the offer to the node.
    function _request() internal returns (Request memory) {
        return Request({
            renter: renter,
            controller: address(pool),
            token: address(token),
            offer: 0,
            submitter: node,
            isolation: 1,
            share: 250,
            memoryMiB: 4096,
            cpuMilli: 1000,
            ramMiB: 1024,
            diskMiB: 1024,
            maxPricePerSecond: PRICE,
            duration: DURATION,
            depositSeconds: 900,
            voucherSigner: session,
            verification: 0,
            data: 0,
            deadline: uint64(block.timestamp + 30 minutes),
            nonce: _nonce++,
            replacements: 0,
            spendCap: 0
        });
    }

    function _sign(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function _signOffer(Offer memory offer) internal view returns (bytes memory) {
        return _sign(OPERATOR_KEY, IController(offer.controller).offerDigest(offer));
    }

    function _signRequest(Request memory request) internal view returns (bytes memory) {
        return _sign(RENTER_KEY, escrow.requestDigest(request));
    }

    function _signVoucher(bytes32 lease, uint128 cumulative) internal view returns (bytes memory) {
        return _sign(SESSION_KEY, escrow.voucherDigest(lease, cumulative));
    }

    /* LEASES */

    function _open(Offer memory offer, Request memory request) internal returns (bytes32 lease) {
        bytes memory offerSignature = _signOffer(offer);
        bytes memory requestSignature = _signRequest(request);
        vm.prank(request.submitter);
        return pool.openLease(offer, offerSignature, request, requestSignature);
    }

    function _open() internal returns (bytes32) {
        return _open(_offer(), _request());
    }

    /// @dev Expects `error` from opening a lease in `from`'s name, both parties having signed.
    function _refuse(Offer memory offer, Request memory request, bytes memory error, address from) internal {
        bytes memory offerSignature = _sign(OPERATOR_KEY, pool.offerDigest(offer));
        bytes memory requestSignature = _signRequest(request);
        vm.expectRevert(error);
        vm.prank(from);
        pool.openLease(offer, offerSignature, request, requestSignature);
    }

    function _refuse(Offer memory offer, Request memory request, bytes memory error) internal {
        _refuse(offer, request, error, request.submitter);
    }

    function _collect(bytes32 lease, uint128 cumulative) internal {
        escrow.collect(address(pool), lease, cumulative, _signVoucher(lease, cumulative));
    }

    function _close(bytes32 lease) internal {
        vm.prank(renter);
        pool.closeLease(lease);
    }

    /* SMALL */

    function makeAddress(string memory name) internal pure returns (address) {
        return address(uint160(uint256(keccak256(bytes(name)))));
    }

    function _skip(uint256 elapsed) internal {
        vm.warp(block.timestamp + elapsed);
    }
}
