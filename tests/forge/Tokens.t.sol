// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Tokens} from "../../contracts/Tokens.sol";
import {ITokens} from "../../contracts/interfaces/ITokens.sol";
import {MockToken} from "../../contracts/mocks/MockToken.sol";
import {ForgeTest} from "./Vm.sol";
import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

contract TokensTest is ForgeTest {
    address internal constant HEIR = address(0x4E12);

    Tokens internal tokens;
    MockToken internal first;
    MockToken internal second;

    function setUp() public {
        tokens = new Tokens(address(this));
        first = new MockToken("First", "ONE", 6);
        second = new MockToken("Second", "TWO", 18);
    }

    function test_list_givesIdsFromOne() external {
        vm.expectEmit(address(tokens));
        emit ITokens.TokenListed(address(first), 1);
        vm.assertEq(tokens.list(address(first)), 1);
        vm.assertEq(tokens.list(address(second)), 2);
        vm.assertEq(tokens.idOf(address(second)), 2);
        vm.assertEq(tokens.tokenOf(1), address(first));
        vm.assertEq(tokens.tokenOf(2), address(second));
        vm.assertEq(tokens.tokenOf(3), address(0));
        vm.assertTrue(tokens.isListed(address(first)));
    }

    function test_list_twice_reverts() external {
        tokens.list(address(first));
        vm.expectRevert(abi.encodeWithSelector(ITokens.TokensAlreadyListed.selector, address(first), 1));
        tokens.list(address(first));
    }

    function test_list_withoutCode_reverts() external {
        vm.expectRevert(abi.encodeWithSelector(ITokens.TokensNotAToken.selector, HEIR));
        tokens.list(HEIR);
    }

    function test_list_again_keepsId() external {
        tokens.list(address(first));
        tokens.list(address(second));
        tokens.delist(address(first));
        vm.assertEq(tokens.list(address(first)), 1);
        vm.assertTrue(tokens.isListed(address(first)));
    }

    function test_delist_keepsIdAndTellsIt() external {
        tokens.list(address(first));
        vm.expectEmit(address(tokens));
        emit ITokens.TokenDelisted(address(first), 1);
        tokens.delist(address(first));
        vm.assertFalse(tokens.isListed(address(first)));
        vm.assertEq(tokens.idOf(address(first)), 1);
        vm.assertEq(tokens.tokenOf(1), address(first));
    }

    function test_delist_unlisted_reverts() external {
        vm.expectRevert(abi.encodeWithSelector(ITokens.TokensNotListed.selector, address(first)));
        tokens.delist(address(first));
    }

    function test_idOf_unknown_reverts() external {
        vm.expectRevert(abi.encodeWithSelector(ITokens.TokensNotListed.selector, address(first)));
        tokens.idOf(address(first));
    }

    function test_C39_list_byOther_reverts() external {
        vm.startPrank(HEIR);
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, HEIR));
        tokens.list(address(first));
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, HEIR));
        tokens.delist(address(first));
        vm.stopPrank();
    }

    function test_C39_ownership_movesInTwoSteps() external {
        tokens.transferOwnership(HEIR);
        tokens.list(address(first));
        vm.prank(HEIR);
        tokens.acceptOwnership();
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, address(this)));
        tokens.list(address(second));
        vm.prank(HEIR);
        tokens.list(address(second));
    }
}
