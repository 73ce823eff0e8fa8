// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../../contracts/interfaces/IController.sol";
import {IPoolFactory} from "../../contracts/interfaces/IPoolFactory.sol";
import {PoolArgs} from "../../contracts/libraries/PoolArgs.sol";
import {Fixture} from "./Fixture.sol";
import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";

contract PoolFactoryTest is Fixture {
    function test_createPool_byAnyone_keepsFounderLabelNodeAndParams() public {
        vm.prank(stranger);
        IController made = IController(factory.createPool("mine", node, _params()));

        vm.assertEq(made.founder(), stranger);
        vm.assertEq(made.owner(), stranger);
        vm.assertEq(made.label(), bytes32("mine"));
        vm.assertEq(made.node(), node);
        vm.assertEq(abi.encode(made.params()), abi.encode(_params()));
        vm.assertEq(address(made.escrow()), address(escrow));
        vm.assertEq(address(made.staking()), address(staking));
        vm.assertEq(address(made.devices()), address(devices));
        vm.assertEq(factory.implementation(), address(implementation));
    }

    function test_createPool_any_emitsPoolCreated() public {
        address expected = factory.predict(stranger, "mine", _params());
        vm.expectEmit(address(factory));
        emit IPoolFactory.PoolCreated(expected, stranger, "mine", node, _params());
        vm.prank(stranger);
        vm.assertEq(factory.createPool("mine", node, _params()), expected);
    }

    function test_C34_predict_otherOwnerLabelOrParam_otherAddress() public view {
        address mine = factory.predict(stranger, "a", _params());
        IController.PoolParams memory dearer = _params();
        dearer.feePpm += 1;
        vm.assertNotEq(mine, factory.predict(provider, "a", _params()));
        vm.assertNotEq(mine, factory.predict(stranger, "b", _params()));
        vm.assertNotEq(mine, factory.predict(stranger, "a", dearer));
    }

    function test_createPool_twiceAlike_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IPoolFactory.PoolFactoryExists.selector, address(pool)));
        vm.prank(poolOwner);
        factory.createPool("main", stranger, _params());
    }

    function test_isPool_ownCloneOnly_true() public {
        vm.assertTrue(factory.isPool(address(pool)));
        vm.assertFalse(factory.isPool(stranger));
        vm.assertFalse(factory.isPool(address(implementation)));
        bytes memory args = PoolArgs.pack(poolOwner, "main", _params());
        vm.assertFalse(factory.isPool(Clones.cloneWithImmutableArgs(address(implementation), args)));
    }

    function test_pools_pages_inOrderOfCreation() public {
        address second = address(_createPool("second"));
        address third = address(_createPool("third"));

        vm.assertEq(factory.poolCount(), 3);
        vm.assertEq(abi.encode(factory.pools(0, 2)), abi.encode(_two(address(pool), second)));
        vm.assertEq(abi.encode(factory.pools(1, 99)), abi.encode(_two(second, third)));
        vm.assertEq(factory.pools(3, 5).length, 0);
        vm.assertEq(factory.pools(type(uint256).max, type(uint256).max).length, 0);
    }

    function test_createPool_tokenNotListed_reverts() public {
        IController.PoolParams memory params = _params();
        params.token = stranger;
        vm.expectRevert(abi.encodeWithSelector(IPoolFactory.PoolFactoryTokenNotListed.selector, stranger));
        factory.createPool("x", node, params);
    }

    function test_createPool_zeroSlasherOrTreasury_reverts() public {
        IController.PoolParams memory params = _params();
        params.slasher = address(0);
        vm.expectRevert(IPoolFactory.PoolFactoryZeroAddress.selector);
        factory.createPool("x", node, params);

        params = _params();
        params.treasury = address(0);
        vm.expectRevert(IPoolFactory.PoolFactoryZeroAddress.selector);
        factory.createPool("x", node, params);
    }

    function test_createPool_moneyOutside_reverts() public {
        IController.PoolParams memory params = _params();
        params.feePpm = 250_001;
        _refuseParams(params, "feePpm", 250_001, 250_000);
        params = _params();
        params.burnPpm = 100_001;
        _refuseParams(params, "burnPpm", 100_001, 100_000);
        params = _params();
        params.exposurePpm = 10_000_001;
        _refuseParams(params, "exposurePpm", 10_000_001, 10_000_000);
        params = _params();
        params.slashCapPpm = 0;
        _refuseParams(params, "slashCapPpm", 0, 1);
        params.slashCapPpm = 1_000_001;
        _refuseParams(params, "slashCapPpm", 1_000_001, 1_000_000);
        params = _params();
        params.depositSeconds = 59;
        _refuseParams(params, "depositSeconds", 59, 60);
    }

    function test_createPool_windowsOutside_reverts() public {
        IController.PoolParams memory params = _params();
        params.claimWindow = 1 days - 1;
        _refuseParams(params, "claimWindow", 1 days - 1, 1 days);
        params.claimWindow = 30 days + 1;
        _refuseParams(params, "claimWindow", 30 days + 1, 30 days);
        params = _params();
        params.disputeWindow = 1 days - 1;
        _refuseParams(params, "disputeWindow", 1 days - 1, 1 days);
        params.disputeWindow = 30 days + 1;
        _refuseParams(params, "disputeWindow", 30 days + 1, 30 days);
    }

    function test_createPool_timesOutside_reverts() public {
        IController.PoolParams memory params = _params();
        params.maxDuration = 59;
        _refuseParams(params, "maxDuration", 59, 60);
        params.maxDuration = 90 days + 1;
        _refuseParams(params, "maxDuration", 90 days + 1, 90 days);
        params = _params();
        params.grace = 59;
        _refuseParams(params, "grace", 59, 60);
        params.grace = 841;
        _refuseParams(params, "grace", 841, 840);
    }

    function test_C46_createPool_thawOutside_reverts() public {
        IController.PoolParams memory params = _params();
        uint32 least = 7 days + 1 days + 2 days + 7 days + 48 hours;
        params.thawPeriod = least - 1;
        _refuseParams(params, "thawPeriod", least - 1, least);
        params.thawPeriod = 120 days + 1;
        _refuseParams(params, "thawPeriod", 120 days + 1, 120 days);
        params.thawPeriod = least;
        factory.createPool("x", node, params);
    }

    /// @dev Packing keeps every field, whatever its neighbours hold.
    function testFuzz_args_packUnpack_same(address founder, bytes32 label, IController.PoolParams memory params)
        public
        pure
    {
        bytes memory packed = PoolArgs.pack(founder, label, params);
        PoolArgs.Args memory args = PoolArgs.unpack(packed);
        vm.assertEq(packed.length, PoolArgs.LENGTH);
        vm.assertEq(args.founder, founder);
        vm.assertEq(args.label, label);
        vm.assertEq(abi.encode(args.params), abi.encode(params));
    }

    function _refuseParams(IController.PoolParams memory params, bytes32 param, uint256 value, uint256 limit) private {
        vm.expectRevert(abi.encodeWithSelector(IPoolFactory.PoolFactoryParamOutside.selector, param, value, limit));
        factory.createPool("x", node, params);
    }

    function _two(address first, address second) private pure returns (address[] memory list) {
        list = new address[](2);
        (list[0], list[1]) = (first, second);
    }
}
