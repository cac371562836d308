// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/pipeline.h"

#include <array>
#include <span>
#include <string>

#include "harness/core/error.h"
#include "harness/runner/rank/rank_archive.h"

namespace lossgrid {
namespace {

using ShapeNumbers = std::array<std::int64_t, 3>;

ShapeNumbers numbers_of(const PackShape& shape) {
  return {shape.padded_tokens, shape.sequences, shape.dummy ? 1 : 0};
}

std::string describe(const ShapeNumbers& shape) {
  return fmt::format("{} rows of {} sequences{}", shape[0], shape[1],
                     shape[2] != 0 ? ", a dummy" : "");
}

}  // namespace

PackShape shape_of(const Problem& part, const Grid& grid) {
  return {layout_of(part, grid).padded_tokens(), part.sequences(), part.microbatch.dummy};
}

void announce_shape(const PackShape& own, std::int64_t index, Communicator& pp) {
  if (pp.size() == 1) return;
  const ShapeNumbers here = numbers_of(own);
  ShapeNumbers announced = here;
  pp.broadcast(std::span<std::int64_t>(announced), 0);
  if (announced == here) return;
  throw Error(ErrorCode::internal,
              fmt::format("microbatch {}: the first stage announces {}, stage {} has {}", index,
                          describe(announced), pp.rank(), describe(here)));
}

void share_result(ObjectiveResult& result, Communicator& pp) {
  if (pp.size() == 1) return;
  const int last = pp.size() - 1;
  std::string bytes = pp.rank() == last ? to_bytes(result) : std::string();
  std::int64_t size = static_cast<std::int64_t>(bytes.size());
  pp.broadcast(std::span<std::int64_t>(&size, 1), last);
  bytes.resize(static_cast<std::size_t>(size));
  pp.broadcast(bytes.data(), bytes.size(), DType::u8, last);
  result = from_bytes<ObjectiveResult>(bytes);
}

CollectiveCounts pipeline_cost(std::int64_t microbatches, const ObjectiveResult& result) {
  constexpr std::int64_t kNumberBytes = 8;
  const auto shape_bytes =
      kNumberBytes * static_cast<std::int64_t>(std::tuple_size_v<ShapeNumbers>);
  CollectiveCounts cost;
  cost.add(Collective::broadcast, microbatches, microbatches * shape_bytes);
  cost.add(Collective::broadcast, 1, kNumberBytes);
  cost.add(Collective::broadcast, 1, static_cast<std::int64_t>(to_bytes(result).size()));
  return cost;
}

}  // namespace lossgrid
