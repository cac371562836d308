// SPDX-License-Identifier: Apache-2.0
// Places of parts of a trial's results on the grid and in the schedule, and texts that name the
// places.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lossgrid {

struct PartPlace {
  int tp = 0;
  int cp = 0;
  int dp = 0;
  int microbatch = 0;
};

/// One coordinate of a place.
struct PartAxis {
  std::string_view name;  // "tp rank"
  int PartPlace::*at;
};

inline constexpr std::array<PartAxis, 4> kPartAxes{{{"tp rank", &PartPlace::tp},
                                                    {"cp rank", &PartPlace::cp},
                                                    {"dp rank", &PartPlace::dp},
                                                    {"microbatch", &PartPlace::microbatch}}};

/// Returns "1 row", "2 rows"; "1 log-probability", "2 log-probabilities".
std::string counted(std::int64_t count, std::string_view one);

/// Returns "tp rank 1", "tp ranks 1, 2 and 3".
std::string numbered(std::string_view one, const std::vector<int>& numbers);

/// Returns " on tp rank 1 only" if the places `some` share coordinates that no other place of `all`
/// has, else an empty text.
std::string on_some_only(const std::vector<PartPlace>& some, const std::vector<PartPlace>& all);

}  // namespace lossgrid
