// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/process_grid.h"

#include <algorithm>
#include <array>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kMaxAxis = 4096;
constexpr std::int64_t kMaxRanks = 2'147'483'647;  // a rank is an int

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

CpLayout parse_layout(std::string_view layout, std::string_view grid) {
  std::string known;
  for (const CpLayoutRules& rules : kCpLayouts) {
    if (layout == rules.name) return rules.layout;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", rules.name);
  }
  throw_bad_input("grid '{}' has CP layout '{}', which is none of {}", grid, layout, known);
}

}  // namespace

Grid Grid::with_cp(int size) const {
  Grid grid = *this;
  grid.cp = size;
  grid.dp = line() / size;
  if (is_dynamic()) grid.cp_layout = CpLayout::zigzag;
  return grid;
}

std::vector<int> Grid::cp_sizes() const {
  if (!is_dynamic()) return {cp};
  std::vector<int> sizes;
  for (int size = 1; size <= line(); ++size) {
    if (line() % size == 0) sizes.push_back(size);
  }
  return sizes;
}

std::string format_grid(const Grid& grid) {
  std::string text = fmt::format("tp{}cp{}", grid.tp, grid.cp);
  if (grid.dp > 1) text += fmt::format("dp{}", grid.dp);
  if (grid.pp > 1) text += fmt::format("pp{}", grid.pp);
  if (grid.sp) text += "sp";
  if (grid.cp_layout != CpLayout::zigzag) text += fmt::format(":{}", name(grid.cp_layout));
  return text;
}

Grid parse_grid(std::string_view text) {
  struct Axis {
    std::string_view name;
    int Grid::*extent;
    bool seen = false;
  };
  std::array<Axis, 4> axes{
      {{"tp", &Grid::tp}, {"cp", &Grid::cp}, {"dp", &Grid::dp}, {"pp", &Grid::pp}}};
  Grid grid;
  std::int64_t ranks = 1;
  std::string_view rest = text;
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    grid.cp_layout = parse_layout(text.substr(colon + 1), text);
    rest = text.substr(0, colon);
  }
  do {
    if (rest.starts_with("sp")) {
      if (grid.sp) throw_bad_input("grid '{}' has axis 'sp' twice", text);
      grid.sp = true;
      rest.remove_prefix(2);
      continue;
    }
    const std::string_view name = take_while(rest, [](char c) { return !is_digit(c); });
    const std::string_view digits = take_while(rest, is_digit);
    const auto axis = std::find_if(axes.begin(), axes.end(),
                                   [name](const Axis& known) { return known.name == name; });
    if (axis == axes.end()) {
      throw_bad_input("grid '{}' is not of the form tp2cp4dp2pp2sp: unknown axis '{}'", text, name);
    }
    if (axis->seen) throw_bad_input("grid '{}' has axis '{}' twice", text, name);
    axis->seen = true;
    const std::int64_t extent =
        parse_integer(digits, fmt::format("{} of grid '{}'", name, text), 1, kMaxAxis);
    grid.*(axis->extent) = static_cast<int>(extent);
    ranks *= extent;
  } while (!rest.empty());
  if (ranks > kMaxRanks) {
    throw_bad_input("grid '{}' has {} ranks, more than {}", text, ranks, kMaxRanks);
  }
  return grid;
}

std::unique_ptr<Communicator> split_cp(Communicator& world, const Grid& grid) {
  // The colour of a group is the rank of its first member.
  const int rank = world.rank();
  const int first = grid.rank_of(grid.tp_rank(rank), 0, grid.dp_rank(rank), grid.pp_rank(rank));
  return world.split(first, grid.cp_rank(rank), "cp");
}

ProcessGrid make_process_grid(Communicator& world, const Grid& grid) {
  if (world.size() != grid.ranks()) {
    throw_bad_input("grid {} needs {} ranks, '{}' has {}", format_grid(grid), grid.ranks(),
                    world.name(), world.size());
  }
  const int rank = world.rank();
  const int tp_rank = grid.tp_rank(rank);
  const int cp_rank = grid.cp_rank(rank);
  const int dp_rank = grid.dp_rank(rank);
  const int pp_rank = grid.pp_rank(rank);
  ProcessGrid out{.grid = grid, .world = &world, .tp = {}, .cp = {}, .dp = {}, .pp = {}};
  out.tp = world.split(grid.rank_of(0, cp_rank, dp_rank, pp_rank), tp_rank, "tp");
  out.cp = split_cp(world, grid);
  out.dp = world.split(grid.rank_of(tp_rank, cp_rank, 0, pp_rank), dp_rank, "dp");
  out.pp = world.split(grid.rank_of(tp_rank, cp_rank, dp_rank, 0), pp_rank, "pp");
  return out;
}

}  // namespace lossgrid
