// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/vocab_shards.h"

#include <algorithm>

namespace lossgrid {

VocabShard vocab_shard(std::int64_t vocab, int tp, int tp_rank) {
  if (vocab_ranks(vocab, tp) == 1) return {0, vocab, vocab};
  VocabShard shard;
  shard.width = vocab / tp + (vocab % tp == 0 ? 0 : 1);
  shard.begin = std::min(vocab, shard.width * tp_rank);
  shard.end = std::min(vocab, shard.begin + shard.width);
  return shard;
}

std::vector<std::int32_t> shard_edge_ids(std::int64_t vocab) {
  std::vector<std::int32_t> ids{0, static_cast<std::int32_t>(vocab - 1)};
  for (const int tp : {2, 4, 8}) {
    for (int rank = 0; rank < tp; ++rank) {
      const VocabShard shard = vocab_shard(vocab, tp, rank);
      if (shard.valid() == 0) continue;
      ids.push_back(static_cast<std::int32_t>(shard.begin));
      ids.push_back(static_cast<std::int32_t>(shard.end - 1));
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace lossgrid
