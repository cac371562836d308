// SPDX-License-Identifier: Apache-2.0
// Alternatives with other sums over rows or other upstream gradients.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "harness/verify/diagnosis/other_computations.h"
#include "harness/verify/truth/truth_of.h"

namespace lossgrid {
namespace {

using Mask = std::vector<std::uint8_t>;

class Sums {
 public:
  explicit Sums(const AlternativeInput& input) : input_(input), problem_(input.problem) {}

  std::vector<Alternative> take() {
    if (input_.has_upstream) add_upstreams();
    add_single_ranks();
    if (input_.tp > 1 && problem_.projection && problem_.transform().is_identity()) {
      // The results come from the last TP rank.
      add("if d hidden were that of the own vocabulary shard: its all-reduce over TP is missing?",
          problem_, input_.objective);
      all_.back().hidden_of = vocab_shard(problem_.spec.vocab, input_.tp, input_.tp - 1);
    }
    if (problem_.spec.objective.kind == "orpo") add_other_sft();
    if (!input_.objective->needs().has_groups()) add_parts();
    return std::move(all_);
  }

 private:
  void add(std::string cause, Problem problem, std::shared_ptr<const Objective> objective) {
    all_.push_back({std::move(cause), false, std::move(problem), std::move(objective)});
  }

  // Upstream gradients

  void add_upstreams() {
    const auto homes = input_.homes;
    Problem trained = problem_;  // a wrong gradient reaches masked rows too
    trained.token_mask.assign(trained.token_mask.size(), 1);
    const auto of_first = [homes](ObjectiveTruth& truth) {
      std::map<std::tuple<int, int, int>, Enclosure> first;
      for (std::size_t t = 0; t < homes.size(); ++t) {
        if (!homes[t].is_first) continue;
        first[{homes[t].dp, homes[t].microbatch, homes[t].cp}] = truth.grad_logprob[t];
      }
      for (std::size_t t = 0; t < homes.size(); ++t) {
        truth.grad_logprob[t] = first[{homes[t].dp, homes[t].microbatch, homes[t].cp}];
      }
      truth.grad_sides.clear();
    };
    const auto constant = [](double gradient) {
      return [gradient](ObjectiveTruth& truth) {
        std::fill(truth.grad_logprob.begin(), truth.grad_logprob.end(), Enclosure(gradient));
        truth.grad_sides.clear();
      };
    };
    const auto add_changed = [&](const std::string& cause, const auto& change) {
      for (const Problem* problem : {&problem_, &std::as_const(trained)}) {
        add(cause, *problem, with_changed_gradient(input_.objective, problem_.token_mask, change));
      }
    };
    add_changed("if the upstream gradient of a rank's first row were that of all its rows",
                of_first);
    add_changed("if upstream gradients were not multiplied in", constant(-1));
    add_changed("if upstream gradients were not multiplied in", constant(1));
  }

  /// Adds sums without the sums of other ranks.
  void add_single_ranks() {
    const int ahead = problem_.ahead();
    const auto add_place = [&](const char* axis, int RowHome::*at, int most) {
      for (const int chosen : {0, most}) {
        if (most == 0) continue;
        Problem alone = problem_;
        for (std::int64_t t = 0; t + ahead < problem_.tokens(); ++t) {
          const RowHome& home = input_.homes[static_cast<std::size_t>(t)];
          if (home.*at != chosen) alone.token_mask[t + ahead] = 0;
        }
        alone.spec.global_valid_toks = problem_.denominators.valid_tokens;
        alone.spec.global_valid_seqs = problem_.denominators.valid_sequences;
        add(fmt::format("if the rows of {} {} alone took part: a sum over {}s is missing?", axis,
                        chosen == 0 ? "0" : "the last", axis),
            std::move(alone), input_.objective);
      }
    };
    RowHome most;
    for (const RowHome& home : input_.homes) {
      most.cp = std::max(most.cp, home.cp);
      most.dp = std::max(most.dp, home.dp);
      most.microbatch = std::max(most.microbatch, home.microbatch);
    }
    if (input_.objective->needs().sequences_per_unit == 1) {
      add_place("cp rank", &RowHome::cp, most.cp);
    }
    add_place("dp rank", &RowHome::dp, most.dp);
    add_place("microbatch", &RowHome::microbatch, most.microbatch);
  }

  /// Adds ORPO in which the means of the chosen sequences have other weights than 1 / pairs.
  void add_other_sft() {
    const double tokens = static_cast<double>(chosen_tokens());
    add_sft("if the SFT loss were divided by the length of its sequence twice",
            [](double length, double pairs) { return 1 / (length * pairs); });
    add_sft("if the SFT loss were a mean over all tokens of the chosen sequences",
            [tokens](double length, double /*pairs*/) { return length / tokens; });
  }

  std::int64_t chosen_tokens() const {
    const std::vector<std::uint8_t> valid = problem_.row_valid();
    std::int64_t tokens = 0;
    for (std::int64_t i = 0; i < problem_.sequences(); i += 2) {
      tokens += std::count(valid.begin() + problem_.cu_seqlens[i],
                           valid.begin() + problem_.cu_seqlens[i + 1], 1);
    }
    return tokens;
  }

  /// `weight(length, pairs)` is the weight of the mean over a chosen sequence of `length` tokens.
  template <typename Weight>
  void add_sft(const std::string& cause, Weight&& weight) {
    const std::vector<std::uint8_t> valid = problem_.row_valid();
    const double pairs = static_cast<double>(problem_.denominators.valid_sequences) / 2;
    std::vector<WeighedPart> chosen;
    for (std::int64_t i = 0; i < problem_.sequences(); i += 2) {
      const std::int64_t begin = problem_.cu_seqlens[i];
      const std::int64_t end = problem_.cu_seqlens[i + 1];
      Mask mask(problem_.token_mask.size(), 0);
      std::fill(mask.begin() + begin, mask.begin() + end, std::uint8_t{1});
      const auto length =
          static_cast<double>(std::count(valid.begin() + begin, valid.begin() + end, 1));
      if (length > 0) chosen.push_back({std::move(mask), weight(length, pairs) - 1 / pairs});
    }
    add(cause, problem_,
        sum_of(input_.objective, sum_of_parts(input_.make({"nll", {}}), std::move(chosen))));
  }

  // Parts

  /// Returns the tokens of each part; of(row, home) names the part of a row.
  template <typename Of>
  std::vector<Mask> split(Of&& of) const {
    using Name = decltype(of(std::int64_t{0}, RowHome()));
    std::map<Name, Mask> parts;
    const int ahead = problem_.ahead();
    for (std::int64_t i = 0; i < problem_.sequences(); ++i) {
      for (std::int64_t t = problem_.cu_seqlens[i]; t + ahead < problem_.cu_seqlens[i + 1]; ++t) {
        Mask& part = parts[of(i, input_.homes[static_cast<std::size_t>(t)])];
        part.resize(problem_.token_mask.size(), 0);
        part[static_cast<std::size_t>(t + ahead)] = 1;
      }
    }
    std::vector<Mask> masks;
    for (auto& [name, mask] : parts) masks.push_back(std::move(mask));
    return masks;
  }

  void add_sum(const std::string& cause, std::vector<WeighedPart> parts) {
    add(cause, problem_, sum_of_parts(input_.objective, std::move(parts)));
  }

  /// Adds the sum over parts, and the mean over parts, of the loss of each part.
  template <typename Of>
  void add_own(const std::string& part_name, Of&& of) {
    const std::vector<Mask> masks = split(of);
    const bool is_known = std::find(splits_.begin(), splits_.end(), masks) != splits_.end();
    if (masks.size() < 2 || is_known) return;
    splits_.push_back(masks);
    std::vector<WeighedPart> sum;
    for (const Mask& mask : masks) sum.push_back({mask, 1.0});
    std::vector<WeighedPart> mean = sum;
    for (WeighedPart& part : mean) part.weight = 1 / static_cast<double>(masks.size());
    add_sum(fmt::format("as a mean over {} of the losses of each alone", part_name), mean);
    add_sum(fmt::format("as a sum over {} of the losses of each alone", part_name), sum);
  }

  /// Adds the mean over packs of the mean over the units of each pack.
  void add_units_of_packs(std::int64_t unit, const std::string& unit_name) {
    std::map<std::pair<int, int>, std::set<std::int64_t>> of_packs;
    std::map<std::int64_t, std::pair<int, int>> pack_of;
    for (std::int64_t i = 0; i < problem_.sequences(); ++i) {
      const RowHome& home = input_.homes[static_cast<std::size_t>(problem_.cu_seqlens[i])];
      of_packs[{home.dp, home.microbatch}].insert(i / unit);
      pack_of[i / unit] = {home.dp, home.microbatch};
    }
    if (of_packs.size() < 2) return;
    std::vector<WeighedPart> parts;
    for (const auto& [of, pack] : pack_of) {
      Mask mask(problem_.token_mask.size(), 0);
      std::fill(mask.begin() + problem_.cu_seqlens[of * unit],
                mask.begin() + problem_.cu_seqlens[(of + 1) * unit], std::uint8_t{1});
      const auto units = static_cast<double>(of_packs[pack].size());
      parts.push_back({std::move(mask), 1 / units / static_cast<double>(of_packs.size())});
    }
    add_sum(fmt::format("as a mean over microbatches of a mean over the {} of each", unit_name),
            std::move(parts));
  }

  void add_parts() {
    const std::int64_t unit = input_.objective->needs().sequences_per_unit;
    add_own("microbatches", [](auto, const RowHome& home) { return home.microbatch; });
    add_own("dp ranks", [](auto, const RowHome& home) { return home.dp; });
    add_own("microbatches of each dp rank",
            [](auto, const RowHome& home) { return std::pair(home.dp, home.microbatch); });
    if (unit == 1) {
      add_own("cp ranks", [](auto, const RowHome& home) { return home.cp; });
      add_own("ranks", [](auto, const RowHome& home) { return std::pair(home.dp, home.cp); });
      add_own("the rows of each rank in each microbatch", [](auto, const RowHome& home) {
        return std::tuple(home.dp, home.microbatch, home.cp);
      });
    }
    const std::string unit_name = unit == 1 ? "sequences" : "pairs";
    add_own(unit_name, [&](std::int64_t sequence, const RowHome&) { return sequence / unit; });
    add_units_of_packs(unit, unit_name);
  }

  const AlternativeInput& input_;
  const Problem& problem_;
  std::vector<std::vector<Mask>> splits_;  // splits that have a cause already
  std::vector<Alternative> all_;
};

}  // namespace

std::vector<Alternative> other_sums(const AlternativeInput& input) {
  return Sums(input).take();
}

}  // namespace lossgrid
