// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Devices} from "../../contracts/Devices.sol";
import {Escrow} from "../../contracts/Escrow.sol";
import {Staking} from "../../contracts/Staking.sol";
import {IDevices} from "../../contracts/interfaces/IDevices.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {IStaking} from "../../contracts/interfaces/IStaking.sol";
import {MockToken} from "../../contracts/mocks/MockToken.sol";
import {Request, Signed} from "../../contracts/types/Signed.sol";
import {HandlerState} from "./HandlerState.sol";
import {MoneyHandler} from "./MoneyHandler.sol";
import {ProviderActions} from "./ProviderActions.sol";
import {RenterActions} from "./RenterActions.sol";
import {ForgeTest} from "./Vm.sol";

/// @notice What holds after any sequence of the handler's actions, and that everybody can then leave.
contract InvariantTest is ForgeTest {
    MoneyHandler internal handler;
    MockToken internal token;
    Escrow internal escrow;
    Staking internal staking;
    Devices internal devices;
    address internal provider;
    address[2] internal pools;

    function setUp() public {
        handler = new MoneyHandler();
        handler.setUp();
        (token, escrow, staking, devices, provider, pools) = handler.addresses();
        targetContract(address(handler));
        targetSelector(address(handler), actions());
    }

    function actions() private pure returns (bytes4[] memory chosen) {
        bytes4[35] memory all = [
            MoneyHandler.act_wait.selector,
            MoneyHandler.act_wait.selector,
            MoneyHandler.act_gift.selector,
            MoneyHandler.act_stranger.selector,
            RenterActions.act_deposit.selector,
            RenterActions.act_notice.selector,
            RenterActions.act_withdraw.selector,
            RenterActions.act_open.selector,
            RenterActions.act_open.selector,
            RenterActions.act_openHostile.selector,
            RenterActions.act_collect.selector,
            RenterActions.act_collect.selector,
            RenterActions.act_close.selector,
            RenterActions.act_settle.selector,
            RenterActions.act_settleEarly.selector,
            RenterActions.act_release.selector,
            RenterActions.act_withdrawOwed.selector,
            RenterActions.act_flush.selector,
            RenterActions.act_sweep.selector,
            RenterActions.act_replace.selector,
            RenterActions.act_endRequest.selector,
            RenterActions.act_resize.selector,
            RenterActions.act_reclaim.selector,
            ProviderActions.act_provision.selector,
            ProviderActions.act_thaw.selector,
            ProviderActions.act_completeThaw.selector,
            ProviderActions.act_retire.selector,
            ProviderActions.act_withdrawStake.selector,
            ProviderActions.act_hostileExposure.selector,
            ProviderActions.act_freeze.selector,
            ProviderActions.act_slash.selector,
            ProviderActions.act_unfreeze.selector,
            MoneyHandler.act_admin.selector,
            MoneyHandler.act_zoo.selector,
            MoneyHandler.act_zoo.selector
        ];
        chosen = new bytes4[](all.length);
        for (uint256 i = 0; i < all.length; ++i) {
            chosen[i] = all[i];
        }
    }

    /// @dev A breach and a wrong ledger stay wrong, so looking every 20th call misses nothing and is five times as fast.
    /// forge-config: default.invariant.check_interval = 20
    function invariant_everythingHolds() external view {
        vm.assertEq(handler.breach(), "");
        _escrowHolds();
        _stakingHolds();
        _zooHolds();
        _sliceLedgerHolds();
    }

    /// @dev Totals and each party's own ledger.
    function _escrowHolds() private view {
        address[4] memory parties = handler.parties();
        uint256 sum = handler.earmarked() + handler.escrowBurn();
        for (uint256 i = 0; i < parties.length; ++i) {
            vm.assertEq(escrow.free(address(token), parties[i]), handler.freeOf(parties[i]));
            vm.assertEq(escrow.owed(address(token), parties[i]), handler.owedOf(parties[i]));
            sum += handler.freeOf(parties[i]) + handler.owedOf(parties[i]);
        }
        for (uint256 side = 0; side < 2; ++side) {
            (uint256 fees, uint256 burnt) = escrow.takings(pools[side], address(token));
            vm.assertEq(fees, handler.feesOf(pools[side]));
            vm.assertEq(burnt, handler.burnsOf(pools[side]));
            sum += fees + burnt;
        }
        vm.assertEq(escrow.burnPending(address(token)), handler.escrowBurn());
        vm.assertEq(token.balanceOf(address(escrow)), sum + handler.escrowGifts());
    }

    function _stakingHolds() private view {
        uint256 held = staking.idle(address(token), provider);
        for (uint256 side = 0; side < 2; ++side) {
            IStaking.Provision memory made = staking.provisionOf(pools[side], provider);
            held += uint256(made.active) + made.thawing + made.frozen;
            vm.assertEq(made.frozen, handler.frozenOf(side));
            vm.assertEq(made.exposure, handler.exposures(side));
            uint256 thawing;
            IStaking.ThawEntry[] memory entries = staking.thawEntries(pools[side], provider);
            for (uint256 i = 0; i < entries.length; ++i) {
                thawing += entries[i].amount;
                vm.assertTrue(i == 0 || entries[i].maturesAt >= entries[i - 1].maturesAt);
            }
            vm.assertEq(made.thawing, thawing);
        }
        vm.assertEq(held, handler.staked());
        vm.assertEq(staking.burnPending(address(token)), handler.stakingBurn());
        uint256 sum = held + handler.stakingBurn() + handler.payouts() + handler.stakingGifts();
        vm.assertEq(token.balanceOf(address(staking)), sum);
    }

    function _zooHolds() private view {
        (address[4] memory zoo, address owner) = handler.coins();
        for (uint256 i = 0; i < zoo.length; ++i) {
            vm.assertEq(escrow.free(zoo[i], owner), handler.zooIn(zoo[i]));
            vm.assertEq(MockToken(zoo[i]).balanceOf(address(escrow)), handler.zooIn(zoo[i]));
        }
    }

    function _sliceLedgerHolds() private view {
        (bytes32 device, uint256 share, uint256 memoryMiB) = handler.deviceUse();
        IDevices.Device memory record = devices.deviceOf(device);
        vm.assertEq(record.usedShare, share);
        vm.assertEq(record.usedMemoryMiB, memoryMiB);
        vm.assertLe(share, 1000);
        vm.assertLe(memoryMiB, record.memoryMiB);
    }

    /// @dev What the ledgers say of single leases and offences, then exit by T: only gifts stay behind.
    function afterInvariant() external {
        HandlerState.Ghost[] memory ghosts = handler.leases();
        for (uint256 i = 0; i < ghosts.length; ++i) {
            IEscrow.LeaseAccount memory account = escrow.leaseAccount(ghosts[i].controller, ghosts[i].id);
            vm.assertEq(account.collected, ghosts[i].collected);
            vm.assertEq(account.isSettled, ghosts[i].isSettled);
            vm.assertLe(account.collected, account.accrued);
        }
        Request[] memory groups = handler.groups();
        for (uint256 i = 0; i < groups.length; ++i) {
            (, uint256 opened, uint256 held) = escrow.groupOf(Signed.hash(groups[i]));
            vm.assertEq(held, handler.heldBy(Signed.hash(groups[i])));
            vm.assertTrue(held <= groups[i].spendCap && (opened <= 4 || opened == 255));
        }
        HandlerState.GhostOffence[] memory offences = handler.openOffences();
        for (uint256 i = 0; i < offences.length; ++i) {
            vm.assertEq(staking.offenceOf(handler.slashingContract(), offences[i].id).frozen, offences[i].frozen);
        }
        handler.leaveAll();
        vm.assertEq(token.balanceOf(address(escrow)), handler.escrowGifts());
        vm.assertEq(token.balanceOf(address(staking)), handler.stakingGifts());
    }
}
