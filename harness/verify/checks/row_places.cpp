// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/row_places.h"

#include <algorithm>

namespace lossgrid {

std::vector<RowPlace> place_rows(const Problem& problem, std::span<const std::int64_t> cu_padded,
                                 std::span<const std::int64_t> positions) {
  std::vector<RowPlace> places;
  places.reserve(positions.size());
  for (const std::int64_t position : positions) {
    const auto after = std::upper_bound(cu_padded.begin(), cu_padded.end(), position);
    const std::int64_t sequence = after - cu_padded.begin() - 1;
    RowPlace place;
    place.sequence = problem.whole_sequence(sequence);
    place.offset = position - cu_padded[sequence];
    if (place.offset < problem.lengths[sequence]) {
      place.row = problem.cu_seqlens[sequence] + place.offset;
    }
    places.push_back(place);
  }
  return places;
}

}  // namespace lossgrid
