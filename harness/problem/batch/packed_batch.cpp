// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/packed_batch.h"

#include "harness/core/error.h"
#include "harness/problem/batch/padding.h"
#include "harness/problem/batch/sharding.h"

namespace lossgrid {
namespace {

// Padded positions and token counts are int32 on the wire and in kernels.
constexpr std::int64_t kMaxPaddedTokens = 2'147'483'647;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  const std::int64_t rest = value % multiple;
  if (rest == 0) return value;
  const std::int64_t fill = multiple - rest;
  if (value > kMaxPaddedTokens || fill > kMaxPaddedTokens - value) {
    throw_bad_input("{} tokens padded to a multiple of {} exceed {}", value, multiple,
                    kMaxPaddedTokens);
  }
  return value + fill;
}

}  // namespace

std::string_view name(TokenInput input) {
  switch (input) {
    case TokenInput::advantages:
      return "advantages";
    case TokenInput::prev_logprobs:
      return "prev_logprobs";
    case TokenInput::generation_logprobs:
      return "generation_logprobs";
    case TokenInput::reference_policy_logprobs:
      return "reference_policy_logprobs";
    case TokenInput::teacher_logprobs:
      return "teacher_logprobs";
    case TokenInput::returns:
      return "returns";
    case TokenInput::old_values:
      return "old_values";
    default:
      return "versions";
  }
}

PackedLayout make_layout(const std::vector<std::int64_t>& lengths, std::int64_t pad_multiple,
                         std::int64_t bin_multiple, const Grid& grid) {
  if (grid.cp < 1) throw_bad_input("cp = {} is not positive", grid.cp);
  if (pad_multiple < 1) throw_bad_input("pad_multiple = {} is not positive", pad_multiple);
  if (bin_multiple < 1) throw_bad_input("bin_multiple = {} is not positive", bin_multiple);
  const std::int64_t of_grid = cp_chunks(grid.cp_layout, grid.cp) * grid.row_parts();
  const bool pads_end = rules_of(grid.cp_layout).pads_end;
  const std::int64_t multiple = checked_lcm(pad_multiple, pads_end ? 1 : of_grid,
                                            "lcm of pad_multiple and what the grid needs");
  const std::int64_t of_pack = checked_lcm(
      checked_lcm(bin_multiple, multiple, "lcm of bin_multiple and the padding of a sequence"),
      of_grid, "lcm of the multiple of a pack and what the grid needs");

  PackedLayout layout;
  layout.lengths = lengths;
  layout.cu.assign(1, 0);
  layout.cu_padded.assign(1, 0);
  for (const std::int64_t length : lengths) {
    if (length < 0) throw_bad_input("sequence {} has length {}", layout.cu.size() - 1, length);
    const std::int64_t padded = round_up(length, multiple);
    if (padded > kMaxPaddedTokens - layout.cu_padded.back()) {
      throw_bad_input("the padded lengths add up to more than {} tokens", kMaxPaddedTokens);
    }
    layout.cu.push_back(layout.cu.back() + length);
    layout.cu_padded.push_back(layout.cu_padded.back() + padded);
  }
  layout.cu_padded.back() = round_up(layout.cu_padded.back(), of_pack);
  return layout;
}

}  // namespace lossgrid
