// SPDX-License-Identifier: Apache-2.0
// Versions of the policy that sampled the tokens of a case, drawn around that of the current one:
// the one before it, older ones, itself, a later one, and none (-1), as tokens of a prompt have.
#pragma once

#include <cstdint>

namespace lossgrid {

/// Draws the version of token t.
double drawn_version(std::uint64_t seed, std::int64_t current, std::int64_t t);

/// Returns how many times as far the policy of this version is from the current one as the version
/// before the current one, where that is taken to lie between both by their numbers.
double steps_behind(double version, std::int64_t current);

}  // namespace lossgrid
