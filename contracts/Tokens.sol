// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";

import {ITokens} from "./interfaces/ITokens.sol";

/// @notice Lists tokens; the manual is `ITokens`.
contract Tokens is ITokens, Ownable2Step {
    struct Entry {
        uint16 id;
        bool isListed;
    }

    uint16 private _count;
    mapping(address token => Entry) private _entries;
    mapping(uint16 id => address token) private _tokens;

    constructor(address owner) Ownable(owner) {}

    /* LISTING */

    /// @inheritdoc ITokens
    function list(address token) external onlyOwner returns (uint16 id) {
        Entry storage entry = _entries[token];
        require(!entry.isListed, TokensAlreadyListed(token, entry.id));
        require(token.code.length > 0, TokensNotAToken(token));

        id = entry.id;
        if (id == 0) {
            id = ++_count;
            entry.id = id;
            _tokens[id] = token;
        }
        entry.isListed = true;

        emit TokenListed(token, id);
    }

    /// @inheritdoc ITokens
    function delist(address token) external onlyOwner {
        Entry storage entry = _entries[token];
        require(entry.isListed, TokensNotListed(token));

        entry.isListed = false;

        emit TokenDelisted(token, entry.id);
    }

    /* VIEWS */

    /// @inheritdoc ITokens
    function idOf(address token) external view returns (uint16 id) {
        id = _entries[token].id;
        require(id != 0, TokensNotListed(token));
    }

    /// @inheritdoc ITokens
    function tokenOf(uint16 id) external view returns (address) {
        return _tokens[id];
    }

    /// @inheritdoc ITokens
    function isListed(address token) external view returns (bool) {
        return _entries[token].isListed;
    }
}
