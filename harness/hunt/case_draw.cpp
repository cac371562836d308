// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/case_draw.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "harness/core/text.h"
#include "harness/hunt/option_draw.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/case_rules.h"
#include "harness/problem/case/case_keys.h"

namespace lossgrid {
namespace {

void set(CaseSpec& spec, std::string_view key, const std::string& value) {
  find_case_key(key)->set(spec, value);
}

/// Sets a key, unless that breaks a rule of cases.
void try_set(CaseSpec& spec, const CaseKey& key, const std::string& value) {
  const std::string before = key.get(spec);
  key.set(spec, value);
  if (first_refusal(spec)) key.set(spec, before);
}

/// Returns a kind of objective: one with many options comes oftener.
std::string draw_kind(Dice& dice, const DrawLimits& limits) {
  if (!limits.objectives.empty()) return dice.pick(limits.objectives);
  std::vector<std::string> kinds;
  for (const ObjectiveEntry* entry : objectives()) {
    const std::size_t weight = 1 + option_draw(entry->kind).values().size() / 8;
    kinds.insert(kinds.end(), weight, entry->kind);
  }
  return dice.pick(kinds);
}

/// Draws the number of settings of one sort: few in most cases.
std::size_t draw_count(Dice& dice) {
  static const std::vector<std::size_t> kCounts{0, 1, 1, 2, 2, 2, 3, 3, 4, 6};
  return dice.pick(kCounts);
}

/// Draws lengths of sequences, whose number is a multiple of `unit`. Empty ones, those of one token
/// and those around multiples of chunks are frequent.
std::vector<std::int64_t> draw_lengths(Dice& dice, std::int64_t unit) {
  const std::int64_t units = dice.between(1, unit == 1 ? 6 : 4);
  std::vector<std::int64_t> lengths;
  for (std::int64_t k = 0; k < units * unit; ++k) {
    static const std::vector<std::int64_t> kEdges{0, 1, 1, 2, 3, 4, 8, 16, 17};
    lengths.push_back(dice.one_in(3) ? dice.pick(kEdges) : dice.between(2, 20));
  }
  return lengths;
}

std::string joined(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> texts;
  for (const std::int64_t number : numbers) texts.push_back(std::to_string(number));
  return join(texts, "+");
}

/// Draws a mask by bits, with runs of zeros and ones.
std::string draw_bits(Dice& dice, const std::vector<std::int64_t>& lengths) {
  std::vector<std::string> parts;
  for (const std::int64_t length : lengths) {
    std::string bits;
    char bit = dice.one_in(2) ? '1' : '0';
    for (std::int64_t k = 0; k < length; ++k) {
      if (dice.one_in(3)) bit = bit == '1' ? '0' : '1';
      bits += bit;
    }
    parts.push_back(bits);
  }
  return join(parts, "+");
}

std::string draw_sample_bits(Dice& dice, std::size_t sequences, std::int64_t unit) {
  std::string bits;
  while (bits.size() < sequences) {
    bits.append(static_cast<std::size_t>(unit), dice.one_in(3) ? '0' : '1');
  }
  return bits.substr(0, sequences);
}

/// Draws a pack of more than 8,192 rows: it has several chunks by default, and its totals more
/// parts than a block of a GPU adds up at once.
void draw_long_pack(Dice& dice, CaseSpec& spec) {
  spec.vocab = std::min<std::int64_t>(spec.vocab, 3);
  spec.lens = joined({dice.between(8193, 8700), dice.between(0, 20)});
  spec.mask = "all";
}

void draw_sequences(Dice& dice, const ObjectiveNeeds& needs, CaseSpec& spec) {
  const std::int64_t unit = needs.sequences_per_unit;
  // The truth of a selection takes time with the square of the rows.
  if (unit == 1 && !needs.selects && spec.hidden == 0 && dice.one_in(250)) {
    draw_long_pack(dice, spec);
    return;
  }
  if (dice.one_in(12)) {
    static const std::vector<std::string> kDistributions{"uniform", "lognormal", "upstream"};
    spec.lens = dice.pick(kDistributions);
    spec.seqs = unit * dice.between(1, 4);
    spec.seq_len = dice.between(4, 32);
    return;
  }
  const std::vector<std::int64_t> lengths = draw_lengths(dice, unit);
  spec.lens = joined(lengths);
  const bool has_empty_parts = std::find(lengths.begin(), lengths.end(), 0) != lengths.end();
  if (dice.one_in(4) && !(has_empty_parts && lengths.size() == 1)) {
    spec.mask = draw_bits(dice, lengths);
  }
  if (dice.one_in(5)) spec.sample_mask = draw_sample_bits(dice, lengths.size(), unit);
}

/// Draws the vocabulary and, for some cases, the size of hidden states.
void draw_sizes(Dice& dice, const DrawLimits& limits, CaseSpec& spec) {
  if (limits.from_hidden && (!limits.from_logits || dice.one_in(3))) {
    set(spec, "hidden", dice.pick(find_case_key("hidden")->draws));
  }
  if (spec.head != Head::lm) return;
  // Rows of more than 2,048 columns, and past the caches, take code of their own.
  spec.vocab = dice.one_in(30)  ? dice.between(2040, 2700)
               : dice.one_in(2) ? dice.between(6, 120)
                                : std::stoll(dice.pick(find_case_key("vocab")->draws));
}

/// True for a key that follows from others, or is drawn before them.
bool is_drawn_apart(const CaseKey& key) {
  constexpr auto kApart =
      std::to_array<std::string_view>({"lens", "seqs", "seq_len", "vocab", "hidden", "head", "seed",
                                       "values", "dtype", "statistics"});
  return key.draws.empty() || std::find(kApart.begin(), kApart.end(), key.name) != kApart.end();
}

bool draws_around_logprobs(const ObjectiveNeeds& needs) {
  return std::any_of(needs.inputs.begin(), needs.inputs.end(), [](bool needed) { return needed; });
}

/// True for keys that change logits. Between log-probabilities of -1e30 that are no float32 numbers
/// a ratio may be any number, infinity too.
bool transforms(const CaseKey& key) {
  constexpr auto kTransforms = std::to_array<std::string_view>(
      {"logit_scale", "logit_softcap", "temperature", "sequence_temperatures"});
  return std::find(kTransforms.begin(), kTransforms.end(), key.name) != kTransforms.end();
}

/// Returns the keys that a case of this objective may set.
std::vector<const CaseKey*> keys_to_draw(const CaseSpec& spec, const ObjectiveNeeds& needs) {
  const bool has_teacher = needs.terms.divergence.is_any();
  std::vector<const CaseKey*> keys;
  for (const CaseKey& key : case_keys()) {
    const bool is_of_teacher = key.name.starts_with("teacher_");
    const bool is_of_sampler = key.name == "top_k" || key.name == "top_p";
    const bool has_bits = key.name == "mask" && spec.mask.find('0') != std::string::npos;
    const bool splits_units = key.name == "sample_mask" && needs.sequences_per_unit > 1;
    const bool is_buried = spec.values == Values::buried_target && draws_around_logprobs(needs);
    if (is_drawn_apart(key) || has_bits || splits_units) continue;
    if (is_buried && transforms(key)) continue;
    if (is_of_teacher ? !has_teacher : is_of_sampler && has_teacher) continue;
    keys.push_back(&key);
  }
  return keys;
}

/// Draws values and dtype of the logits, and statistics: without them, as in training, strategies
/// take shorter paths, from which every other key may have to keep them.
void draw_values(Dice& dice, const ObjectiveNeeds& needs, CaseSpec& spec) {
  const CaseKey& values = *find_case_key("values");
  if (dice.one_in(2)) try_set(spec, values, dice.pick(values.draws));
  if (spec.values == Values::impossible_target && draws_around_logprobs(needs)) {
    spec.values = Values::buried_target;
  }
  const CaseKey& dtype = *find_case_key("dtype");
  if (dice.one_in(2)) try_set(spec, dtype, dice.pick(dtype.draws));
  if (dice.one_in(3)) try_set(spec, *find_case_key("statistics"), "false");
}

void draw_keys(Dice& dice, const ObjectiveNeeds& needs, CaseSpec& spec) {
  const Divergence& divergence = needs.terms.divergence;
  const CaseKey& topk = *find_case_key("teacher_topk");
  if (divergence.takes_logprobs()) {
    spec.teacher_topk =
        std::min(std::stoll(dice.pick(topk.draws)), static_cast<long long>(spec.vocab));
  }
  const std::vector<const CaseKey*> keys = keys_to_draw(spec, needs);
  for (std::size_t left = draw_count(dice); left > 0; --left) {
    const CaseKey& key = *dice.pick(keys);
    if (&key != &topk || spec.teacher_topk == 0) try_set(spec, key, dice.pick(key.draws));
  }
}

/// Returns the number of ranks over an axis: 1 in most grids, and no more than are left.
int draw_axis(Dice& dice, std::vector<int> sizes, int most) {
  std::erase_if(sizes, [most](int size) { return size > most; });
  return dice.pick(sizes);
}

}  // namespace

CaseSpec draw_case(Dice& dice, const DrawLimits& limits) {
  CaseSpec spec;
  spec.objective.kind = draw_kind(dice, limits);
  spec.objective.options = option_draw(spec.objective.kind).draw(dice, draw_count(dice));
  const ObjectiveNeeds needs =
      find_objective(spec.objective.kind).make(spec.objective.options)->needs();
  spec.head = needs.head;
  if (spec.head != Head::lm) spec.vocab = 1;
  draw_sizes(dice, limits, spec);
  draw_sequences(dice, needs, spec);
  draw_values(dice, needs, spec);
  draw_keys(dice, needs, spec);
  spec.seed = 1 + dice.below(1'000'000);
  return spec;
}

Grid draw_grid(Dice& dice, const CaseSpec& spec, const DrawLimits& limits) {
  Grid grid;
  const bool has_vocabulary = spec.head == Head::lm;
  const auto ids = static_cast<int>(std::min<std::int64_t>(spec.vocab, limits.max_ranks));
  grid.tp = draw_axis(dice, {1, 1, 2, 2, 3, 4, 8}, has_vocabulary ? ids : limits.max_ranks);
  grid.cp = draw_axis(dice, {1, 1, 2, 2, 3, 4, 5, 8}, limits.max_ranks / grid.tp);
  grid.dp = draw_axis(dice, {1, 1, 1, 2, 3}, limits.max_ranks / (grid.tp * grid.cp));
  grid.pp = draw_axis(dice, {1, 1, 1, 1, 2}, limits.max_ranks / (grid.tp * grid.cp * grid.dp));
  grid.sp = grid.tp > 1 && spec.hidden > 0 && dice.one_in(3);
  if (grid.line() > 1 && dice.one_in(2)) {
    grid.cp_layout = kCpLayouts[dice.below(kCpLayouts.size())].layout;
  }
  return grid;
}

}  // namespace lossgrid
