// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/case_data.h"

#include <algorithm>
#include <cmath>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "harness/problem/case/case_keys.h"
#include "harness/problem/values/random_streams.h"

namespace lossgrid {
namespace {

std::int64_t drawn_length(const CaseSpec& spec, const RandomStream& random, std::int64_t i) {
  const std::int64_t most = spec.seq_len;
  if (most == 0) return 0;
  const auto index = static_cast<std::uint64_t>(i);
  if (spec.lens == "uniform") {
    return 1 + static_cast<std::int64_t>(random.uniform(index) * static_cast<double>(most));
  }
  if (spec.lens == "lognormal") {
    const double median = static_cast<double>(most) / 4;
    const double drawn = median * std::exp(0.8 * static_cast<double>(random.normal(index)));
    return std::clamp<std::int64_t>(std::llround(std::min(drawn, 1e15)), 1, most);
  }
  switch (i % 4) {  // upstream
    case 0:
      return most / 4;
    case 1:
      return most / 2;
    case 2:
      return most / 3;
    default:
      return most * 3 / 4;
  }
}

/// Draws the mask "ragged" of one sequence, [first, last).
void fill_ragged(const RandomStream& random, std::vector<std::uint8_t>& mask, std::int64_t first,
                 std::int64_t last) {
  for (std::int64_t t = first; t < last; ++t) {
    mask[t] = random.uniform(static_cast<std::uint64_t>(t)) < 0.7 ? 1 : 0;
  }
  // A prefix of ones hides a mask that is shifted or counted by length, so chance may not make one.
  if (last - first >= 3 &&
      std::is_sorted(mask.begin() + first + 1, mask.begin() + last, std::greater<>())) {
    mask[first + 1] = 0;
    mask[last - 1] = 1;
  }
}

void fill_sparse(const CaseSpec& spec, const std::vector<std::int64_t>& cu,
                 const std::vector<std::uint8_t>& sample_mask, std::vector<std::uint8_t>& mask) {
  const RandomStream random = random_stream(spec.seed, Stream::token_mask);
  for (std::size_t t = 0; t < mask.size(); ++t) mask[t] = random.uniform(t) < 0.05 ? 1 : 0;
  std::int64_t chosen = -1;
  for (std::size_t i = 0; i + 1 < cu.size(); ++i) {
    if (cu[i + 1] - cu[i] < 2 || sample_mask[i] == 0) continue;
    if (chosen < 0) chosen = static_cast<std::int64_t>(i);
    if (std::any_of(mask.begin() + cu[i] + 1, mask.begin() + cu[i + 1],
                    [](std::uint8_t bit) { return bit != 0; })) {
      return;
    }
  }
  if (chosen < 0) return;
  const auto targets = static_cast<std::uint32_t>(cu[chosen + 1] - cu[chosen] - 1);
  mask[cu[chosen] + 1 + random_stream(spec.seed, Stream::sparse_pick).below(targets, 0)] = 1;
}

void fill_bits(const CaseSpec& spec, const std::vector<std::int64_t>& cu,
               std::vector<std::uint8_t>& mask) {
  const std::size_t sequences = cu.size() - 1;
  const std::vector<std::string> parts = split(spec.mask, '+');
  if (parts.size() != sequences) {
    throw_bad_input("mask = {} has bits for {} sequences, not for {}", spec.mask, parts.size(),
                    sequences);
  }
  for (std::size_t i = 0; i < sequences; ++i) {
    const std::int64_t length = cu[i + 1] - cu[i];
    if (static_cast<std::int64_t>(parts[i].size()) != length) {
      throw_bad_input("mask: '{}' has {} bits for sequence {} of length {}", parts[i],
                      parts[i].size(), i, length);
    }
    std::transform(parts[i].begin(), parts[i].end(), mask.begin() + cu[i],
                   [](char bit) { return static_cast<std::uint8_t>(bit == '1'); });
  }
}

}  // namespace

std::vector<std::int64_t> case_lengths(const CaseSpec& spec) {
  std::vector<std::int64_t> lengths;
  if (has_explicit_lengths(spec)) {
    lengths = parse_lengths(spec.lens);
  } else {
    const RandomStream random = random_stream(spec.seed, Stream::lengths);
    for (std::int64_t i = 0; i < spec.seqs; ++i) lengths.push_back(drawn_length(spec, random, i));
  }
  std::int64_t tokens = 0;
  for (const std::int64_t length : lengths) {
    if (length > kMaxTokens - tokens) {
      throw_bad_input("lens = {} makes more than {} tokens", spec.lens, kMaxTokens);
    }
    tokens += length;
  }
  return lengths;
}

std::vector<std::uint8_t> case_sample_mask(const CaseSpec& spec, std::int64_t sequences) {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(sequences), 1);
  if (spec.sample_mask == "ones") return mask;
  if (spec.sample_mask != "alternate" && spec.sample_mask.size() != mask.size()) {
    throw_bad_input("sample_mask = {} has {} bits for {} sequences", spec.sample_mask,
                    spec.sample_mask.size(), sequences);
  }
  for (std::size_t i = 0; i < mask.size(); ++i) {
    mask[i] = spec.sample_mask == "alternate" ? i % 2 == 0 : spec.sample_mask[i] == '1';
  }
  return mask;
}

std::vector<std::uint8_t> case_token_mask(const CaseSpec& spec,
                                          const std::vector<std::int64_t>& cu_seqlens,
                                          const std::vector<std::uint8_t>& sample_mask) {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(cu_seqlens.back()), 0);
  if (spec.mask == "all") {
    std::fill(mask.begin(), mask.end(), std::uint8_t{1});
  } else if (spec.mask == "sparse") {
    fill_sparse(spec, cu_seqlens, sample_mask, mask);
  } else if (spec.mask == "ragged" || spec.mask == "response") {
    const RandomStream random = random_stream(spec.seed, Stream::token_mask);
    for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
      const std::int64_t first = cu_seqlens[i];
      const std::int64_t last = cu_seqlens[i + 1];
      if (spec.mask == "ragged") {
        fill_ragged(random, mask, first, last);
      } else {  // 60 % of the sequence, rounded up
        std::fill(mask.begin() + last - ((last - first) * 3 + 4) / 5, mask.begin() + last,
                  std::uint8_t{1});
      }
    }
  } else if (spec.mask.starts_with(kPromptMask)) {
    const std::int64_t prompt = parse_integer(
        std::string_view(spec.mask).substr(kPromptMask.size()), "mask", 0, kMaxTokens);
    for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
      const std::int64_t first = std::min(cu_seqlens[i] + prompt, cu_seqlens[i + 1]);
      std::fill(mask.begin() + first, mask.begin() + cu_seqlens[i + 1], std::uint8_t{1});
    }
  } else {
    fill_bits(spec, cu_seqlens, mask);
  }
  return mask;
}

void keep_last_tokens(const std::vector<std::int64_t>& cu_seqlens,
                      std::vector<std::uint8_t>& mask) {
  for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    std::int64_t t = cu_seqlens[i + 1] - 1;
    while (t >= cu_seqlens[i] && mask[static_cast<std::size_t>(t)] == 0) --t;
    if (t >= cu_seqlens[i]) std::fill(mask.begin() + cu_seqlens[i], mask.begin() + t, 0);
  }
}

std::vector<std::int32_t> case_input_ids(const CaseSpec& spec, std::int64_t tokens) {
  const RandomStream random = random_stream(spec.seed, Stream::input_ids);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
  if (spec.targets == "shard_edges") {
    // In turn, from a drawn start: a pack of more tokens than edges has every edge.
    const std::vector<std::int32_t> edges = shard_edge_ids(spec.vocab);
    const std::size_t start = random.below(static_cast<std::uint32_t>(edges.size()), 0);
    for (std::size_t t = 0; t < ids.size(); ++t) ids[t] = edges[(start + t) % edges.size()];
  } else {
    const auto vocab = static_cast<std::uint32_t>(spec.vocab);
    for (std::size_t t = 0; t < ids.size(); ++t) {
      ids[t] = static_cast<std::int32_t>(random.below(vocab, t));
    }
  }
  return ids;
}

void draw_kept_targets(const CaseSpec& spec, const std::vector<std::int64_t>& cu_seqlens,
                       const SamplingMask& mask, std::vector<std::int32_t>& ids) {
  if (spec.targets == "shard_edges" || spec.hidden_values == HiddenValues::one_hot) return;
  const RandomStream random = random_stream(spec.seed, Stream::kept_targets);
  std::vector<std::int32_t> kept;
  for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    for (std::int64_t row = cu_seqlens[i]; row + 1 < cu_seqlens[i + 1]; ++row) {
      const auto place = 2 * static_cast<std::uint64_t>(row);
      if (mask.keeps(row, ids[row + 1]) || random.below(4, place) == 0) continue;
      kept.clear();
      for (std::int32_t id = 0; id < spec.vocab; ++id) {
        if (mask.keeps(row, id)) kept.push_back(id);
      }
      ids[row + 1] = kept[random.below(static_cast<std::uint32_t>(kept.size()), place + 1)];
    }
  }
}

Denominators case_denominators(const CaseSpec& spec, const std::vector<std::int64_t>& cu_seqlens,
                               const std::vector<std::uint8_t>& token_mask,
                               const std::vector<std::uint8_t>& sample_mask) {
  Denominators counted;
  for (std::size_t i = 0; i < sample_mask.size(); ++i) {
    if (sample_mask[i] == 0) continue;
    ++counted.valid_sequences;
    // A first token is never a target.
    for (std::int64_t t = cu_seqlens[i] + tokens_ahead(spec.head); t < cu_seqlens[i + 1]; ++t) {
      counted.valid_tokens += token_mask[t] != 0;
    }
  }
  const auto of_global_batch = [](const char* key, std::int64_t given, std::int64_t here) {
    if (given != 0 && given < here) {
      throw_bad_input("{} = {} is less than the {} of this batch alone", key, given, here);
    }
    return given != 0 ? given : here;
  };
  return {of_global_batch("global_valid_toks", spec.global_valid_toks, counted.valid_tokens),
          of_global_batch("global_valid_seqs", spec.global_valid_seqs, counted.valid_sequences)};
}

std::vector<float> case_temperatures(const CaseSpec& spec, std::int64_t sequences) {
  std::vector<float> temperatures;
  if (!spec.sequence_temperatures) return temperatures;
  const RandomStream random = random_stream(spec.seed, Stream::temperatures);
  for (std::int64_t i = 0; i < sequences; ++i) {
    const double drawn = 0.5 * std::exp2(2 * random.uniform(static_cast<std::uint64_t>(i)));
    temperatures.push_back(i == 0 ? 1.0f : static_cast<float>(drawn));
  }
  return temperatures;
}

}  // namespace lossgrid
