// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/process_grid.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kMaxAxis = 4096;

/// Cuts the longest prefix of `text` whose characters satisfy `belongs`.
template <typename Predicate>
std::string_view take_while(std::string_view& text, Predicate belongs) {
  const auto end = std::find_if_not(text.begin(), text.end(), belongs);
  const std::string_view prefix = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(prefix.size());
  return prefix;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::string format_grid(const Grid& grid) {
  return fmt::format("tp{}cp{}", grid.tp, grid.cp);
}

Grid parse_grid(std::string_view text) {
  Grid grid;
  bool has_tp = false;
  bool has_cp = false;
  std::string_view rest = text;
  do {
    const std::string_view axis = take_while(rest, [](char c) { return !is_digit(c); });
    const std::string_view extent = take_while(rest, is_digit);
    if (axis != "tp" && axis != "cp") {
      throw_bad_input("grid '{}' is not of the form tp2cp4: unknown axis '{}'", text, axis);
    }
    bool& seen = axis == "tp" ? has_tp : has_cp;
    if (seen) throw_bad_input("grid '{}' has axis '{}' twice", text, axis);
    seen = true;
    (axis == "tp" ? grid.tp : grid.cp) = static_cast<int>(
        parse_integer(extent, fmt::format("{} of grid '{}'", axis, text), 1, kMaxAxis));
  } while (!rest.empty());
  return grid;
}

ProcessGrid make_process_grid(Communicator& world, const Grid& grid) {
  if (world.size() != grid.ranks()) {
    throw_bad_input("grid {} needs {} ranks, '{}' has {}", format_grid(grid), grid.ranks(),
                    world.name(), world.size());
  }
  const int tp_rank = grid.tp_rank(world.rank());
  const int cp_rank = grid.cp_rank(world.rank());
  ProcessGrid out{grid, &world, nullptr, nullptr};
  out.tp = world.split(cp_rank, tp_rank, "tp");
  out.cp = world.split(tp_rank, cp_rank, "cp");
  return out;
}

}  // namespace lossgrid
