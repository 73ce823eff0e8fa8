// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Devices} from "../../contracts/Devices.sol";
import {Escrow} from "../../contracts/Escrow.sol";
import {Staking} from "../../contracts/Staking.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {IStaking} from "../../contracts/interfaces/IStaking.sol";
import {BlacklistToken} from "../../contracts/mocks/BlacklistToken.sol";
import {CallbackToken} from "../../contracts/mocks/CallbackToken.sol";
import {FeeToken} from "../../contracts/mocks/FeeToken.sol";
import {ReentrantHook} from "../../contracts/mocks/Hooks.sol";
import {MockPool} from "../../contracts/mocks/MockPool.sol";
import {MockToken} from "../../contracts/mocks/MockToken.sol";
import {NoReturnToken} from "../../contracts/mocks/NoReturnToken.sol";
import {Offer, Request} from "../../contracts/types/Signed.sol";
import {Fixture} from "./Fixture.sol";

/// @notice Renter, provider, node, strangers, a hostile controller, slasher and administrators acting at random on the whole
/// system, beside ledgers and clocks of their own. Each action foretells whether it succeeds and what it pays; a wrong forecast is
/// a `breach`. Nothing here reverts, so that every call counts.
contract MoneyHandler is Fixture {
    struct Ghost {
        address controller;
        bytes32 id;
        address payee;
        uint256 price;
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
    mapping(address account => uint256) public freeOf;
    mapping(address account => uint256) public owedOf;
    mapping(address account => uint256) internal noticedOf;
    mapping(address account => uint256) internal readyAtOf;
    uint256 public earmarked;
    uint256 public escrowBurn;
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

    /* TIME AND STRANGERS */

    function act_wait(uint256 seed) external {
        uint256[6] memory steps = [uint256(1), 60, 15 minutes, 1 hours, 1 days, 8 days];
        _skip(seed % steps[(seed >> 8) % 6] + 1);
    }

    function act_gift(uint256 seed) external {
        address target = seed % 2 == 0 ? address(escrow) : address(staking);
        uint256 amount = seed % 1000;
        token.mint(target, amount);
        if (seed % 2 == 0) escrowGifts += amount;
        else stakingGifts += amount;
        ++effective;
    }

    /// @dev A stranger tries everything that belongs to others; nothing may succeed.
    function act_stranger(uint256 seed) external {
        Ghost memory ghost = _pick(seed);
        IStaking.SlashSplit memory split = IStaking.SlashSplit(stranger, 1e18, stranger, 1e18);
        bytes32 offence = offences.length == 0 ? bytes32(seed) : offences[seed % offences.length].id;
        bytes[11] memory tries = [
            abi.encodeCall(IEscrow.withdraw, (address(token), stranger)),
            abi.encodeCall(IEscrow.withdrawOwedTo, (address(token), stranger)),
            abi.encodeCall(IEscrow.stopLease, (ghost.id)),
            abi.encodeCall(IEscrow.settleEarly, (ghost.id)),
            abi.encodeCall(IEscrow.collect, (ghost.controller, ghost.id, type(uint128).max, new bytes(65))),
            abi.encodeCall(IStaking.withdraw, (address(token), 1, stranger)),
            abi.encodeCall(IStaking.completeThaw, (address(pool))),
            abi.encodeCall(IStaking.freeze, (address(pool), provider, bytes32(seed), uint64(block.timestamp), 1)),
            abi.encodeCall(IStaking.slash, (offence, 1, split)),
            abi.encodeCall(IStaking.unfreeze, (offence)),
            abi.encodeCall(IStaking.release, (provider, 1))
        ];
        uint256 which = seed % tries.length;
        vm.prank(stranger);
        (bool isDone,) = (which < 5 ? address(escrow) : address(staking)).call(tries[which]);
        if (isDone) breach = "a stranger succeeded";
        ++effective;
    }

    /* RENTER */

    function act_deposit(uint256 amount) external {
        amount = bound(amount, 1, 1e17);
        if (!tokens.isListed(address(token))) return;
        _fund(renter, amount);
        freeOf[renter] += amount;
        ++effective;
    }

    function act_notice(uint256 amount) external {
        noticedOf[renter] = bound(amount, 1, 1e17);
        readyAtOf[renter] = block.timestamp + 15 minutes;
        vm.prank(renter);
        escrow.noticeWithdrawal(address(token), noticedOf[renter]);
        ++effective;
    }

    function act_withdraw(uint256 seed) external {
        if (seed % 2 == 0 && readyAtOf[renter] > block.timestamp) vm.warp(readyAtOf[renter]);
        uint256 expected = noticedOf[renter] < freeOf[renter] ? noticedOf[renter] : freeOf[renter];
        if (block.timestamp < readyAtOf[renter]) expected = 0;
        vm.prank(renter);
        try escrow.withdraw(address(token), renter) returns (uint256 paid) {
            if (paid != expected || expected == 0) breach = "withdrawal paid too much or too early";
            freeOf[renter] -= paid;
            noticedOf[renter] = 0;
            ++effective;
        } catch {
            if (expected != 0) breach = "withdrawal refused";
        }
    }

    function act_open(uint256 seed) external {
        if (ghosts.length >= MOST_LEASES) return;
        Offer memory offer = _offer();
        Request memory request = _request();
        offer.share = uint16(bound(seed, 1, 400));
        offer.memoryMiB = uint32(bound(seed >> 16, 1, 10_000));
        (request.share, request.memoryMiB) = (offer.share, offer.memoryMiB);
        request.duration = uint32(bound(seed >> 32, 1 hours, 1 days));
        bytes memory offerSignature = _signOffer(offer);
        bytes memory requestSignature = _signRequest(request);
        vm.prank(node);
        try pool.openLease(offer, offerSignature, request, requestSignature) returns (bytes32 lease) {
            usedShare += offer.share;
            usedMemory += offer.memoryMiB;
            exposures[0] += uint256(PRICE) * request.duration;
            _opened(address(pool), lease, payout, PRICE, request.duration, 900, offer.share, offer.memoryMiB);
        } catch {}
    }

    /// @dev A controller of a stranger, which the renter was talked into signing for.
    function act_openHostile(uint256 seed) external {
        if (ghosts.length >= MOST_LEASES) return;
        Request memory request = _request();
        request.controller = address(hostile);
        request.duration = uint32(bound(seed, 1, 1 days));
        IEscrow.LeaseTerms memory terms = IEscrow.LeaseTerms({
            offer: bytes32(seed),
            payee: accomplice,
            pricePerSecond: uint80(bound(seed >> 32, 0, PRICE)),
            duration: request.duration,
            depositSeconds: uint16(bound(seed >> 64, 0, 900)),
            feePpm: uint24(FEE_PPM),
            burnPpm: uint24(BURN_PPM),
            claimWindow: uint24(bound(seed >> 96, 1 days, 10 days)),
            treasury: treasury
        });
        bytes memory signature = _signRequest(request);
        uint256 earmark = uint256(terms.pricePerSecond) * (uint256(terms.duration) + terms.depositSeconds);
        try hostile.openLease(request, signature, terms) returns (bytes32 lease) {
            if (earmark > freeOf[renter]) breach = "earmarked more than was free";
            _opened(
                address(hostile), lease, accomplice, terms.pricePerSecond, terms.duration, terms.depositSeconds, 0, 0
            );
            ghosts[ghosts.length - 1].window = terms.claimWindow;
        } catch {
            if (earmark <= freeOf[renter]) breach = "a signed opening was refused";
        }
    }

    function _opened(
        address controller,
        bytes32 lease,
        address payee,
        uint256 price,
        uint256 duration,
        uint256 depositSeconds,
        uint256 share,
        uint256 memoryMiB
    ) private {
        uint256 deposit = price * depositSeconds;
        freeOf[renter] -= price * duration + deposit;
        earmarked += price * duration + deposit;
        Ghost storage ghost = ghosts.push();
        (ghost.controller, ghost.id, ghost.payee, ghost.price) = (controller, lease, payee, price);
        (ghost.openedAt, ghost.duration, ghost.deposit) = (block.timestamp, duration, deposit);
        (ghost.window, ghost.share, ghost.memoryMiB) = (1 days, share, memoryMiB);
        ++effective;
    }

    /* LEASES */

    function _endOf(Ghost memory ghost) private pure returns (uint256) {
        return ghost.stoppedAt != 0 ? ghost.stoppedAt : ghost.openedAt + ghost.duration;
    }

    function _pick(uint256 seed) private view returns (Ghost memory ghost) {
        if (ghosts.length != 0) ghost = ghosts[seed % ghosts.length];
    }

    function act_collect(uint256 seed) external {
        if (ghosts.length == 0) return;
        Ghost storage ghost = ghosts[seed % ghosts.length];
        uint256 until = block.timestamp < _endOf(ghost) ? block.timestamp : _endOf(ghost);
        uint256 accrued = ghost.price * (until - ghost.openedAt);
        uint256 cumulative = bound(seed >> 16, ghost.collected, accrued + accrued / 4 + 1);
        if (cumulative < ghost.collected) cumulative = ghost.collected;
        uint256 reached = cumulative < accrued ? cumulative : accrued;
        uint256 expected = ghost.isSettled || reached <= ghost.collected ? 0 : reached - ghost.collected;
        bytes memory signature = _signVoucher(ghost.id, uint128(cumulative));
        vm.prank(stranger);
        try escrow.collect(ghost.controller, ghost.id, uint128(cumulative), signature) returns (uint256 paid) {
            if (paid != expected || expected == 0) breach = "collected what was not due";
            _paid(ghost, paid);
        } catch {
            if (expected != 0) breach = "a good voucher was refused";
        }
    }

    function _paid(Ghost storage ghost, uint256 paid) private {
        uint256 next = ghost.collected + paid;
        uint256 fee = next * FEE_PPM / 1e6 - ghost.collected * FEE_PPM / 1e6;
        uint256 burnt = (next - next * FEE_PPM / 1e6) * BURN_PPM / 1e6
            - (ghost.collected - ghost.collected * FEE_PPM / 1e6) * BURN_PPM / 1e6;
        if (ghost.collected == 0) {
            freeOf[renter] += ghost.deposit;
            earmarked -= ghost.deposit;
        }
        ghost.collected = next;
        earmarked -= paid;
        owedOf[ghost.payee] += paid - fee - burnt;
        owedOf[treasury] += fee;
        escrowBurn += burnt;
        ++effective;
    }

    function act_close(uint256 seed) external {
        if (ghosts.length == 0) return;
        Ghost storage ghost = ghosts[seed % ghosts.length];
        uint256 end = ghost.openedAt + ghost.duration;
        if (ghost.controller == address(hostile)) {
            try hostile.stopLease(ghost.id) {
                if (ghost.stoppedAt != 0) breach = "stopped twice";
                ghost.stoppedAt = block.timestamp < end ? block.timestamp : end;
                ++effective;
            } catch {
                if (ghost.stoppedAt == 0) breach = "stop refused";
            }
            return;
        }
        vm.prank(renter);
        try pool.closeLease(ghost.id) {
            if (ghost.isClosed) breach = "closed twice";
            ghost.isClosed = true;
            if (block.timestamp < end) ghost.stoppedAt = block.timestamp;
            usedShare -= ghost.share;
            usedMemory -= ghost.memoryMiB;
            ++effective;
        } catch {
            if (!ghost.isClosed) breach = "the renter could not close";
        }
    }

    function act_settle(uint256 seed) external {
        if (ghosts.length == 0) return;
        Ghost storage ghost = ghosts[seed % ghosts.length];
        bool isDue = block.timestamp >= _endOf(ghost) + ghost.window && !ghost.isSettled;
        vm.prank(stranger);
        try escrow.settle(ghost.controller, ghost.id) {
            if (!isDue) breach = "settled too early or twice";
            _settled(ghost);
        } catch {
            if (isDue) breach = "a due refund was refused";
        }
    }

    /// @dev By the provider of a closed lease, or by the hostile controller.
    function act_settleEarly(uint256 seed) external {
        if (ghosts.length == 0) return;
        Ghost storage ghost = ghosts[seed % ghosts.length];
        bool isDue = block.timestamp >= _endOf(ghost) && !ghost.isSettled;
        if (ghost.controller == address(hostile)) {
            try hostile.settleEarly(ghost.id) {
                if (!isDue) breach = "settled while running or twice";
                _settled(ghost);
            } catch {
                if (isDue) breach = "early settlement refused";
            }
            return;
        }
        bool isOpen = ghost.isClosed && !ghost.isReleased;
        vm.prank(operator);
        try pool.collectFinal(ghost.id, 0, "") {
            if (!isDue || !isOpen) breach = "final word before the close";
            _settled(ghost);
        } catch {
            if (isDue && isOpen) breach = "final word refused";
        }
    }

    function _settled(Ghost storage ghost) private {
        uint256 refund = ghost.price * ghost.duration - ghost.collected;
        ghost.isSettled = true;
        freeOf[renter] += refund;
        earmarked -= refund;
        if (ghost.collected == 0) {
            earmarked -= ghost.deposit;
            escrowBurn += ghost.deposit;
        }
        ++effective;
    }

    function act_release(uint256 seed) external {
        if (ghosts.length == 0) return;
        Ghost storage ghost = ghosts[seed % ghosts.length];
        if (ghost.controller == address(hostile)) return;
        bool isDue = ghost.isClosed && !ghost.isReleased && block.timestamp >= _endOf(ghost) + 3 days;
        vm.prank(stranger);
        try pool.releaseExposure(ghost.id) {
            if (!isDue) breach = "exposure released too early or twice";
            ghost.isReleased = true;
            exposures[0] -= ghost.price * ghost.duration;
            ++effective;
        } catch {
            if (isDue) breach = "exposure not released";
        }
    }

    function act_withdrawOwed(uint256 seed) external {
        address account = seed % 3 == 0 ? payout : seed % 3 == 1 ? treasury : accomplice;
        uint256 expected = owedOf[account];
        vm.prank(stranger);
        try escrow.withdrawOwed(address(token), account) returns (uint256 paid) {
            if (paid != expected) breach = "owed wrongly";
            owedOf[account] = 0;
            ++effective;
        } catch {
            if (expected != 0) breach = "owed money was refused";
        }
    }

    function act_flush(uint256 seed) external {
        if (seed % 2 == 0 && escrowBurn != 0) {
            if (escrow.flushBurn(address(token)) != escrowBurn) breach = "burnt wrongly";
            escrowBurn = 0;
        } else if (stakingBurn != 0) {
            if (staking.flushBurn(address(token)) != stakingBurn) breach = "burnt wrongly";
            stakingBurn = 0;
        }
        ++effective;
    }

    /* PROVIDER */

    function act_provision(uint256 seed) external {
        if (!tokens.isListed(address(token))) return;
        uint256 amount = bound(seed, 1, 1e17);
        uint256 side = seed % 2;
        _provision(pools[side], amount);
        staked += amount;
        added[side].push(Piece(block.timestamp, amount));
        ++effective;
    }

    function _provision(address pool_, uint256 amount) private {
        token.mint(provider, amount);
        vm.startPrank(provider);
        token.approve(address(staking), amount);
        staking.deposit(address(token), amount);
        staking.provision(pool_, amount, address(slasher), uint32(THAW));
        vm.stopPrank();
    }

    function act_thaw(uint256 seed) external {
        uint256 side = seed % 2;
        uint256 most = staking.thawable(pools[side], provider);
        uint256 amount = bound(seed >> 8, 1, most + 1);
        bool isFine = amount <= most && staking.thawEntries(pools[side], provider).length < 8;
        vm.prank(provider);
        try staking.thaw(pools[side], amount) {
            if (!isFine) breach = "thawed what was reserved";
            thaws[side].push(Piece(block.timestamp + THAW, amount));
            ++effective;
        } catch {
            if (isFine) breach = "thaw refused";
        }
    }

    function act_completeThaw(uint256 seed) external {
        uint256 side = seed % 2;
        uint256 matured;
        for (uint256 i = 0; i < thaws[side].length; ++i) {
            if (thaws[side][i].time <= block.timestamp) matured += thaws[side][i].amount;
        }
        vm.prank(provider);
        try staking.completeThaw(pools[side]) returns (uint256 amount) {
            completed[side] += amount;
            if (completed[side] > matured) breach = "stake left before its clock";
            ++effective;
        } catch {}
    }

    function act_retire(uint256 seed) external {
        if (seed % 8 > 1) return;
        vm.prank(provider);
        try staking.retire(pools[seed % 2]) {
            ++effective;
        } catch {}
    }

    function act_withdrawStake(uint256 seed) external {
        uint256 idle = staking.idle(address(token), provider);
        uint256 amount = bound(seed, 1, idle + 1);
        vm.prank(provider);
        try staking.withdraw(address(token), amount, provider) {
            if (amount > idle) breach = "withdrew more than was idle";
            staked -= amount;
            ++effective;
        } catch {
            if (amount <= idle) breach = "idle stake was refused";
        }
    }

    function act_hostileExposure(uint256 seed) external {
        uint256 most = staking.unreserved(address(hostile), provider);
        if (seed % 4 != 0) {
            uint256 amount = bound(seed >> 8, 0, most);
            try hostile.reserve(provider, uint128(amount)) {
                exposures[1] += amount;
                ++effective;
            } catch {}
        } else {
            uint256 amount = bound(seed >> 8, 0, exposures[1]);
            hostile.release(provider, uint128(amount));
            exposures[1] -= amount;
            ++effective;
        }
    }

    /* SLASHER */

    function act_freeze(uint256 seed) external {
        uint256 side = seed % 2;
        IStaking.Provision memory made = staking.provisionOf(pools[side], provider);
        if (made.slasher == address(0)) return;
        uint256 amount = bound(seed >> 8, 0, STAKE);
        uint256 offendedAt = block.timestamp - bound(seed >> 64, 0, 2 days);
        uint256 newer;
        for (uint256 i = added[side].length; i > 0 && added[side][i - 1].time > offendedAt; --i) {
            newer += added[side][i - 1].amount;
        }
        uint256 held = uint256(made.active) + made.thawing;
        uint256 expected = held > newer ? held - newer : 0;
        uint256 cap = ((held + made.frozen) * CAP_PPM + 999_999) / 1e6;
        if (cap < expected) expected = cap;
        if (amount < expected) expected = amount;
        bytes32 id = keccak256(abi.encode(seed, offences.length));
        uint256 frozen = slasher.freeze(pools[side], provider, id, uint64(offendedAt), uint128(amount));
        if (frozen != expected) breach = "froze wrongly";
        offences.push(GhostOffence(id, side, frozen, block.timestamp));
        frozenOf[side] += frozen;
        ++effective;
    }

    function act_slash(uint256 seed) external {
        if (offences.length == 0) return;
        GhostOffence storage offence = offences[seed % offences.length];
        uint256 amount = bound(seed >> 8, 0, offence.frozen * 2);
        uint256 expected = amount < offence.frozen ? amount : offence.frozen;
        IStaking.SlashSplit memory split =
            IStaking.SlashSplit(renter, uint128(bound(seed >> 64, 0, STAKE)), stranger, uint128(STAKE));
        uint256 taken = slasher.slash(offence.id, uint128(amount), split);
        if (taken != expected) breach = "a proved offence cost less";
        (uint256 toRenter,) = staking.payoutOf(address(slasher), offence.id, renter);
        (uint256 toChallenger,) = staking.payoutOf(address(slasher), offence.id, stranger);
        if (taken != 0) {
            if (toChallenger > taken / 4 || toRenter + toChallenger > taken / 2) breach = "slashing paid too well";
            payouts += toRenter + toChallenger;
            stakingBurn += taken - toRenter - toChallenger;
            staked -= taken;
        }
        frozenOf[offence.side] -= offence.frozen;
        offence.frozen = 0;
        ++effective;
    }

    function act_unfreeze(uint256 seed) external {
        if (offences.length == 0) return;
        GhostOffence storage offence = offences[seed % offences.length];
        if (seed % 4 == 0) {
            slasher.unfreeze(offence.id);
        } else {
            bool isDue = block.timestamp >= offence.frozenAt + THAW;
            vm.prank(stranger);
            try staking.unfreezeExpired(address(slasher), offence.id) {
                if (!isDue) breach = "unfrozen too early";
            } catch {
                if (isDue) breach = "a silent slasher holds stake";
                return;
            }
        }
        frozenOf[offence.side] -= offence.frozen;
        offence.frozen = 0;
        ++effective;
    }

    /* ADMINISTRATORS */

    function act_admin(uint256 seed) external {
        if (seed % 4 == 0) {
            if (tokens.isListed(address(token))) tokens.delist(address(token));
            else tokens.list(address(token));
        } else {
            vm.prank(poolOwner);
            if (seed % 4 == 1) {
                try pool.pause() {} catch {}
            } else if (seed % 4 == 2) {
                try pool.unpause() {} catch {}
            } else {
                pool.setMetadata(bytes32(seed), "");
            }
        }
        ++effective;
    }

    /* TOKEN ZOO */

    function act_zoo(uint256 seed) external {
        address coin = zoo[seed % zoo.length];
        uint256 amount = bound(seed >> 8, 2, 1e18);
        if (seed >> 128 & 1 == 0) {
            MockToken(coin).mint(address(hook), amount);
            hook.execute(coin, abi.encodeCall(NoReturnToken.approve, (address(escrow), 0)));
            hook.execute(coin, abi.encodeCall(NoReturnToken.approve, (address(escrow), amount)));
            if (coin == zoo[3]) {
                hook.arm(CallbackToken(coin), address(escrow), abi.encodeCall(IEscrow.deposit, (coin, 1)));
            }
            bytes memory answer = hook.execute(address(escrow), abi.encodeCall(IEscrow.deposit, (coin, amount)));
            zooIn[coin] += abi.decode(answer, (uint256));
        } else if (zooIn[coin] != 0) {
            hook.execute(address(escrow), abi.encodeCall(IEscrow.noticeWithdrawal, (coin, amount)));
            _skip(15 minutes);
            bytes memory answer = hook.execute(address(escrow), abi.encodeCall(IEscrow.withdraw, (coin, address(hook))));
            zooIn[coin] -= abi.decode(answer, (uint256));
        }
        ++effective;
    }

    /* EXIT */

    /// @notice Everybody takes out everything, with no help of pool, slasher or administrator.
    function leaveAll() external {
        _skip(40 days);
        for (uint256 i = 0; i < ghosts.length; ++i) {
            if (!ghosts[i].isSettled) escrow.settle(ghosts[i].controller, ghosts[i].id);
        }
        for (uint256 i = 0; i < offences.length; ++i) {
            staking.unfreezeExpired(address(slasher), offences[i].id);
        }
        _leaveEscrow();
        for (uint256 side = 0; side < 2; ++side) {
            _leaveStaking(pools[side]);
        }
        _takeRest();
    }

    function _leaveEscrow() private {
        vm.prank(renter);
        escrow.noticeWithdrawal(address(token), type(uint256).max);
        _skip(15 minutes);
        if (escrow.free(address(token), renter) != 0) {
            vm.prank(renter);
            escrow.withdraw(address(token), renter);
        }
        address[3] memory owners = [payout, treasury, accomplice];
        for (uint256 i = 0; i < owners.length; ++i) {
            if (escrow.owed(address(token), owners[i]) != 0) escrow.withdrawOwed(address(token), owners[i]);
        }
        if (escrow.burnPending(address(token)) != 0) escrow.flushBurn(address(token));
    }

    function _leaveStaking(address pool_) private {
        IStaking.Provision memory made = staking.provisionOf(pool_, provider);
        if (made.slasher == address(0)) return;
        vm.startPrank(provider);
        if (made.retiredAt == 0) staking.retire(pool_);
        _skip(THAW);
        if (made.thawing != 0) staking.completeThaw(pool_);
        if (made.active != 0) {
            staking.thaw(pool_, made.active);
            _skip(THAW);
            staking.completeThaw(pool_);
        }
        vm.stopPrank();
    }

    function _takeRest() private {
        uint256 idle = staking.idle(address(token), provider);
        if (idle != 0) {
            vm.prank(provider);
            staking.withdraw(address(token), idle, provider);
        }
        address[2] memory payees = [renter, stranger];
        for (uint256 i = 0; i < 2 * offences.length; ++i) {
            bytes32 id = offences[i / 2].id;
            (uint256 amount,) = staking.payoutOf(address(slasher), id, payees[i % 2]);
            if (amount == 0) continue;
            vm.prank(payees[i % 2]);
            staking.withdrawPayout(address(slasher), id, payees[i % 2]);
        }
        if (staking.burnPending(address(token)) != 0) staking.flushBurn(address(token));
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

    function openOffences() external view returns (GhostOffence[] memory) {
        return offences;
    }
}
