// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/consensus.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "harness/core/error.h"
#include "harness/core/hash.h"

namespace lossgrid {

std::vector<std::string> gather_texts(Communicator& comm, const std::string& text) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto own_length = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> lengths(ranks);
  comm.all_gather(std::span<const std::int64_t>(&own_length, 1), std::span(lengths));

  // all_gather wants one count on all ranks: pad to the longest.
  const auto longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::vector<std::uint8_t> own(longest);
  std::copy(text.begin(), text.end(), own.begin());
  std::vector<std::uint8_t> all(longest * ranks);
  comm.all_gather(std::span<const std::uint8_t>(own), std::span(all));

  std::vector<std::string> texts(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r * longest);
    texts[r].assign(begin, begin + lengths[r]);
  }
  return texts;
}

void require_same_text(Communicator& comm, const std::string& text, const std::string& what) {
  // Texts are gathered only where their fingerprints differ, and those are not gathered at all: one
  // number of each of n ranks on each of n ranks is n^2. ~x falls as x rises, so the second maximum
  // is the complement of the least fingerprint.
  const auto own = static_cast<std::int64_t>(fingerprint(std::as_bytes(std::span(text))));
  std::array<std::int64_t, 2> most{own, ~own};
  comm.all_reduce(std::span<std::int64_t>(most), ReduceOp::max);
  if (most[0] == ~most[1]) return;

  const std::vector<std::string> texts = gather_texts(comm, text);
  for (std::size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] == texts[0]) continue;
    const auto differs =
        std::mismatch(texts[0].begin(), texts[0].end(), texts[r].begin(), texts[r].end());
    throw_bad_input("{} is not the same on all ranks: rank {} differs from rank 0 at byte {}", what,
                    r, differs.first - texts[0].begin());
  }
}

}  // namespace lossgrid
