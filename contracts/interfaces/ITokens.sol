// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title Allow-list of the ERC-20 tokens that Escrow and Staking accept.
/// @notice Listing gives a token a short id for good. Delisting blocks deposits only; no function here moves money.
interface ITokens {
    event TokenListed(address indexed token, uint16 indexed id);
    event TokenDelisted(address indexed token, uint16 indexed id);

    error TokensAlreadyListed(address token, uint16 id);
    error TokensNotListed(address token);
    error TokensNotAToken(address token);

    /// @notice Lists `token`, or lists it again under its old id. Owner only.
    function list(address token) external returns (uint16 id);

    /// @notice Blocks further deposits of `token`. Owner only.
    function delist(address token) external;

    /// @notice Id of a token that was ever listed, from 1; reverts for any other.
    function idOf(address token) external view returns (uint16);

    /// @notice Token of an id; the zero address for an unknown id.
    function tokenOf(uint16 id) external view returns (address);

    /// @notice Whether deposits of `token` are accepted now.
    function isListed(address token) external view returns (bool);
}
