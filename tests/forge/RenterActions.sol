// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {Offer, Request, Resize, Signed} from "../../contracts/types/Signed.sol";
import {HandlerState} from "./HandlerState.sol";

/// @notice What a renter, its session key, a hostile controller and anyone do to leases and to what they pay.
abstract contract RenterActions is HandlerState {
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
        if (seed % 3 == 0) {
            request.deadline = uint64(block.timestamp + 20 days);
            (request.replacements, request.spendCap) = (3, uint128(bound(seed >> 64, 1e15, 3e17)));
            groupRequests.push(request);
        }
        _tryOpen(offer, request);
    }

    /// @dev Another lease of a request with replacements, lost or not.
    function act_replace(uint256 seed) external {
        if (ghosts.length >= MOST_LEASES || groupRequests.length == 0) return;
        Request memory request = groupRequests[seed % groupRequests.length];
        Offer memory offer = _offer();
        (offer.share, offer.memoryMiB) = (request.share, request.memoryMiB);
        offer.notice = uint32(bound(seed >> 8, 1, 10_000));
        (, uint256 opened,) = escrow.groupOf(Signed.hash(request));
        if (!_tryOpen(offer, request)) return;
        if (opened > request.replacements || block.timestamp >= request.deadline) {
            breach = "replaced too often or late";
        }
        if (this.heldBy(Signed.hash(request)) > request.spendCap) breach = "replacements above the spending cap";
    }

    function act_endRequest(uint256 seed) external {
        if (groupRequests.length == 0 || seed % 8 != 0) return;
        vm.prank(renter);
        try escrow.endRequest(Signed.hash(groupRequests[(seed >> 8) % groupRequests.length])) {
            ++effective;
        } catch {}
    }

    function _tryOpen(Offer memory offer, Request memory request) private returns (bool isOpen) {
        bytes memory offerSignature = _signOffer(offer);
        bytes memory requestSignature = _signRequest(request);
        vm.prank(node);
        try pool.openLease(offer, offerSignature, request, requestSignature) returns (bytes32 lease) {
            usedShare += offer.share;
            usedMemory += offer.memoryMiB;
            exposures[0] += uint256(PRICE) * request.duration;
            _opened(address(pool), lease, payout, PRICE, request.duration, 900, offer.share, offer.memoryMiB);
            if (request.replacements != 0) ghosts[ghosts.length - 1].group = Signed.hash(request);
            return true;
        } catch {}
    }

    /// @dev The renter signs whatever the provider, or the hostile controller, asks for.
    function act_resize(uint256 seed) external {
        if (ghosts.length == 0) return;
        Ghost storage ghost = ghosts[seed % ghosts.length];
        Resize memory wanted = Resize({
            lease: ghost.id,
            share: uint16(bound(seed >> 16, 1, 400)),
            memoryMiB: uint32(bound(seed >> 32, 1, 10_000)),
            pricePerSecond: uint80(bound(seed >> 64, 0, 2 * uint256(PRICE))),
            sequence: uint32(escrow.resizesOf(ghost.controller, ghost.id)),
            deadline: uint64(block.timestamp + 1)
        });
        bytes memory signature = _sign(RENTER_KEY, escrow.resizeDigest(wanted));
        uint256 rent = _rentOf(ghost);
        if (ghost.controller == address(hostile)) {
            try hostile.resizeLease(wanted, signature) {
                _resized(ghost, wanted, rent);
            } catch {}
            return;
        }
        vm.prank(operator);
        try pool.resizeLease(wanted, signature) {
            usedShare = usedShare - ghost.share + wanted.share;
            usedMemory = usedMemory - ghost.memoryMiB + wanted.memoryMiB;
            exposures[0] = exposures[0] - ghost.price * ghost.duration + wanted.pricePerSecond * ghost.duration;
            (ghost.share, ghost.memoryMiB) = (wanted.share, wanted.memoryMiB);
            if (ghost.isClosed) breach = "a closed lease was resized";
            _resized(ghost, wanted, rent);
        } catch {}
    }

    function _resized(Ghost storage ghost, Resize memory wanted, uint256 previous) private {
        if (ghost.isSettled || block.timestamp >= _endOf(ghost)) breach = "an ended lease was resized";
        (ghost.folded, ghost.since) = (_accruedBy(ghost, block.timestamp), block.timestamp);
        ghost.price = wanted.pricePerSecond;
        uint256 rent = _rentOf(ghost);
        if (ghost.group != 0 && rent > previous) breach = "a lease of a capped request got dearer";
        freeOf[renter] = freeOf[renter] + previous - rent;
        earmarked = earmarked + rent - previous;
        ++effective;
    }

    /// @dev The provider takes its device back and pays the renter for the missing notice.
    function act_reclaim(uint256 seed) external {
        if (ghosts.length == 0) return;
        Ghost storage ghost = ghosts[seed % ghosts.length];
        if (ghost.controller == address(hostile) || seed % 4 != 0) return;
        uint256 end = ghost.openedAt + ghost.duration;
        uint256 missing = block.timestamp >= end ? 0 : _least(pool.leaseOf(ghost.id).notice, end - block.timestamp);
        uint256 compensation = missing * ghost.price;
        token.mint(operator, compensation);
        vm.startPrank(operator);
        token.approve(address(pool), compensation);
        try pool.reclaimLease(ghost.id, compensation) {
            if (ghost.isClosed) breach = "closed twice";
            freeOf[renter] += compensation;
            ghost.isClosed = true;
            if (block.timestamp < end) ghost.stoppedAt = block.timestamp;
            usedShare -= ghost.share;
            usedMemory -= ghost.memoryMiB;
            ++effective;
        } catch {
            if (!ghost.isClosed && tokens.isListed(address(token))) breach = "the provider could not reclaim";
        }
        vm.stopPrank();
    }

    function _least(uint256 a, uint256 b) private pure returns (uint256) {
        return a < b ? a : b;
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
            duration: request.duration
        });
        bytes memory signature = _signRequest(request);
        _changeMind(seed);
        IEscrow.PoolTerms memory fixed_ = hostileTerms;
        uint256 earmark = uint256(terms.pricePerSecond) * (uint256(terms.duration) + fixed_.depositSeconds);
        try hostile.openLease(request, signature, terms) returns (bytes32 lease) {
            if (earmark > freeOf[renter]) breach = "earmarked more than was free";
            _opened(
                address(hostile), lease, accomplice, terms.pricePerSecond, terms.duration, fixed_.depositSeconds, 0, 0
            );
            ghosts[ghosts.length - 1].window = fixed_.claimWindow;
        } catch {
            if (earmark <= freeOf[renter]) breach = "a signed opening was refused";
        }
    }

    /// @dev The hostile pool's terms count once, at its first lease; later ones must change nothing.
    function _changeMind(uint256 seed) private {
        IEscrow.PoolTerms memory terms = IEscrow.PoolTerms({
            treasury: treasury,
            feePpm: uint24(bound(seed >> 112, 0, 250_000)),
            burnPpm: uint24(bound(seed >> 136, 0, 100_000)),
            claimWindow: uint24(bound(seed >> 96, 1 days, 10 days)),
            depositSeconds: uint16(bound(seed >> 64, 0, 900))
        });
        hostile.setPoolTerms(terms);
        if (escrow.termsOf(address(hostile)).treasury == address(0)) hostileTerms = terms;
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
        ghost.since = block.timestamp;
        (ghost.window, ghost.share, ghost.memoryMiB) = (1 days, share, memoryMiB);
        ++effective;
    }

    /* LEASES */

    function act_collect(uint256 seed) external {
        if (ghosts.length == 0) return;
        Ghost storage ghost = ghosts[seed % ghosts.length];
        uint256 until = block.timestamp < _endOf(ghost) ? block.timestamp : _endOf(ghost);
        uint256 accrued = _accruedBy(ghost, until);
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
        (uint256 fee, uint256 burnt) = _shares(ghost.controller, next);
        (uint256 feeBefore, uint256 burntBefore) = _shares(ghost.controller, ghost.collected);
        (fee, burnt) = (fee - feeBefore, burnt - burntBefore);
        if (ghost.collected == 0) {
            freeOf[renter] += ghost.deposit;
            earmarked -= ghost.deposit;
        }
        ghost.collected = next;
        earmarked -= paid;
        owedOf[ghost.payee] += paid - fee - burnt;
        feesOf[ghost.controller] += fee;
        burnsOf[ghost.controller] += burnt;
        ++effective;
    }

    /// @dev Fee and burn of the first `cumulative` that a lease of `controller` pays.
    function _shares(address controller, uint256 cumulative) private view returns (uint256 fee, uint256 burnt) {
        bool isOurs = controller == address(pool);
        fee = cumulative * (isOurs ? FEE_PPM : hostileTerms.feePpm) / 1e6;
        burnt = (cumulative - fee) * (isOurs ? BURN_PPM : hostileTerms.burnPpm) / 1e6;
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
        uint256 refund = _rentOf(ghost) - ghost.collected;
        ghost.isSettled = true;
        freeOf[renter] += refund;
        earmarked -= refund;
        if (ghost.collected == 0) {
            earmarked -= ghost.deposit;
            burnsOf[ghost.controller] += ghost.deposit;
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

    function act_sweep(uint256 seed) external {
        address controller = pools[seed % 2];
        (uint256 fees, uint256 burnt) = (feesOf[controller], burnsOf[controller]);
        vm.prank(stranger);
        try escrow.sweep(controller, address(token)) returns (uint256 fees_, uint256 burnt_) {
            if (fees_ != fees || burnt_ != burnt) breach = "swept wrongly";
            owedOf[treasury] += fees;
            escrowBurn += burnt;
            (feesOf[controller], burnsOf[controller]) = (0, 0);
            ++effective;
        } catch {
            if (fees + burnt != 0) breach = "takings not swept";
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
}
