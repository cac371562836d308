// SPDX-License-Identifier: Apache-2.0
// Alternatives with other values of rows (transforms, inputs) or other rows (masks, labels).
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/verify/diagnosis/other_computations.h"

namespace lossgrid {
namespace {

using Mask = std::vector<std::uint8_t>;

class Rows {
 public:
  explicit Rows(const AlternativeInput& input) : input_(input), problem_(input.problem) {}

  std::vector<Alternative> take() {
    if (problem_.sampling_mask == nullptr) add_transforms();
    add_masks();
    add_labels();
    add_inputs();
    return std::move(all_);
  }

 private:
  void add(std::string cause, Problem problem) {
    all_.push_back({std::move(cause), false, std::move(problem), input_.objective});
  }

  // Transforms

  /// Replaces the present transform by the transform of problem.spec.
  static void transform_anew(Problem& problem) {
    if (problem.untransformed) problem.logits = std::exchange(problem.untransformed, nullptr);
    if (problem.projection) {
      auto projection = std::make_shared<Projection>(*problem.projection);
      projection->temperature = divisor_of_product(problem.transform());
      problem.projection = projection;
      problem.logits = make_projected_logits(problem.projection);
    }
    apply_transform(problem);
  }

  static void transform_teacher_anew(Problem& problem) {
    if (problem.given_teacher == nullptr) return;
    set_teacher(problem, problem.given_teacher, problem.teacher_dtype);
  }

  template <typename Change>
  void add_transform(const std::string& cause, bool is_of_teacher, Change&& change) {
    Problem other = problem_;
    change(other);
    transform_anew(other);
    const bool has_teacher = is_of_teacher && other.given_teacher != nullptr;
    if (has_teacher) {
      Problem of_both = other;
      transform_teacher_anew(of_both);
      Problem of_teacher = of_both;
      of_teacher.spec = problem_.spec;
      of_teacher.temperatures = problem_.temperatures;
      of_teacher.logits = problem_.logits;
      of_teacher.untransformed = problem_.untransformed;
      of_teacher.projection = problem_.projection;
      add(cause, std::move(of_both));
      add(cause + ", of the teacher alone", std::move(of_teacher));
    }
    add(cause + (has_teacher ? ", of the student alone" : ""), std::move(other));
  }

  void add_transforms() {
    const CaseSpec& spec = problem_.spec;
    if (spec.logit_scale != 1) {
      add_transform("if logit_scale were 1: it is left out?", false,
                    [](Problem& other) { other.spec.logit_scale = 1; });
      add_transform("if logits were divided by logit_scale, not multiplied?", false,
                    [](Problem& other) { other.spec.logit_scale = 1 / other.spec.logit_scale; });
    }
    if (spec.logit_softcap != 0) {
      add_transform("if there were no logit_softcap: it is left out?", false,
                    [](Problem& other) { other.spec.logit_softcap = 0; });
    }
    if (spec.logit_scale != 1 && spec.logit_softcap != 0) {
      add_transform("if logits were scaled behind the soft-cap, not before it?", false,
                    [](Problem& other) { other.spec.logit_softcap *= other.spec.logit_scale; });
      add_transform("if there were neither logit_scale nor logit_softcap: they are left out?",
                    false, [](Problem& other) {
                      other.spec.logit_scale = 1;
                      other.spec.logit_softcap = 0;
                    });
    }
    if (spec.temperature != 1) {
      add_transform("if the temperature were 1: logits are not divided by it?", true,
                    [](Problem& other) { other.spec.temperature = 1; });
      add_transform("if logits were divided by the temperature twice?", true,
                    [](Problem& other) { other.spec.temperature *= other.spec.temperature; });
      add_transform("if logits were multiplied by the temperature, not divided?", true,
                    [](Problem& other) { other.spec.temperature = 1 / other.spec.temperature; });
    }
    if (!problem_.temperatures.empty()) {
      add_transform("if sequences had no temperatures of their own: they are left out?", true,
                    [](Problem& other) {
                      other.temperatures.clear();
                      other.spec.sequence_temperatures = false;
                    });
    }
  }

  // Masks

  /// Adds other masks, unless they equal the masks of the problem or of another cause.
  void add_mask(const std::string& cause, const Mask& token_mask, const Mask& sample_mask) {
    Problem counted = problem_;
    counted.token_mask = token_mask;
    counted.sample_mask = sample_mask;
    Mask valid = counted.row_valid();
    const bool is_known = std::find(masks_.begin(), masks_.end(), valid) != masks_.end();
    if (valid == problem_.row_valid() || is_known) return;
    masks_.push_back(std::move(valid));
    Problem divided = counted;
    divided.spec.global_valid_toks = problem_.denominators.valid_tokens;
    divided.spec.global_valid_seqs = problem_.denominators.valid_sequences;
    add(cause, std::move(divided));
    add(cause + " and counted as valid", std::move(counted));
  }

  /// Returns the mask restricted to tokens with keep(first token of the sequence, token, end).
  template <typename Keep>
  Mask masked(Keep&& keep) const {
    Mask mask = problem_.token_mask;
    for (std::int64_t i = 0; i < problem_.sequences(); ++i) {
      const std::int64_t begin = problem_.cu_seqlens[i];
      const std::int64_t end = problem_.cu_seqlens[i + 1];
      for (std::int64_t t = begin; t < end; ++t) {
        mask[t] = keep(begin, t, end) ? 1 : 0;
      }
    }
    return mask;
  }

  void add_masks() {
    const Mask& token_mask = problem_.token_mask;
    const Mask& sample_mask = problem_.sample_mask;
    const Mask all_tokens(token_mask.size(), 1);
    const Mask all_samples(sample_mask.size(), 1);
    add_mask("if masked rows took part", all_tokens, sample_mask);
    add_mask("if the sequences that sample_mask leaves out took part", token_mask, all_samples);
    add_mask("if masked rows and sequences took part", all_tokens, all_samples);
    const std::vector<std::int32_t>& ids = problem_.input_ids;
    add_mask("if rows whose label is id 0 took no part",
             masked([&](auto, auto t, auto) { return token_mask[t] != 0 && ids[t] != 0; }),
             sample_mask);
    const int ahead = problem_.ahead();
    add_mask("if the last row of every sequence took no part",
             masked([&](auto, auto t, auto end) { return token_mask[t] != 0 && t + 1 < end; }),
             sample_mask);
    add_mask(
        "if the first row of every sequence took no part",
        masked([&](auto begin, auto t, auto) { return token_mask[t] != 0 && t > begin + ahead; }),
        sample_mask);
    add_mask("if the mask were that of the row behind: it is shifted?",
             masked([&](auto, auto t, auto end) { return t + 1 < end && token_mask[t + 1] != 0; }),
             sample_mask);
    add_mask("if the mask were that of the row before: it is not shifted?",
             masked([&](auto begin, auto t, auto) { return t > begin && token_mask[t - 1] != 0; }),
             sample_mask);
  }

  // Labels

  void add_labels() {
    if (problem_.spec.head != Head::lm) return;
    const std::vector<std::int32_t>& ids = problem_.input_ids;
    Problem own = problem_;
    Problem twice = problem_;
    for (std::int64_t i = 0; i < problem_.sequences(); ++i) {
      for (std::int64_t t = problem_.cu_seqlens[i]; t + 1 < problem_.cu_seqlens[i + 1]; ++t) {
        own.input_ids[t + 1] = ids[t];
        if (t + 2 < problem_.cu_seqlens[i + 1]) twice.input_ids[t + 1] = ids[t + 2];
      }
    }
    add_labels_of_rank();
    add("if the label of a row were its own token: labels are not shifted?", std::move(own));
    add("if the label of a row were that of the next one: labels are shifted twice?",
        std::move(twice));
  }

  /// Adds labels that are shifted within the rows of each rank.
  void add_labels_of_rank() {
    Problem rolled = problem_;
    const std::vector<std::int32_t> targets = problem_.row_targets();
    for (std::int64_t t = 0; t < problem_.tokens(); ++t) {
      const std::int64_t next = input_.homes[static_cast<std::size_t>(t)].next;
      if (targets[t] < 0 || next < 0) continue;
      rolled.input_ids[t + 1] = problem_.input_ids[next];
    }
    if (rolled.input_ids == problem_.input_ids) return;
    add("if the label of a row were the token of its rank's next row: labels are shifted after the "
        "split?",
        std::move(rolled));
  }

  // Inputs about tokens

  template <typename Change>
  void add_input(const std::string& cause, std::size_t input, Change&& change) {
    Problem other = problem_;
    change(other.inputs[input]);
    if (other.inputs[input] == problem_.inputs[input]) return;
    add(cause, std::move(other));
    // The formula of the loss reads these inputs too: beside a right loss, a gradient fits by
    // chance only, for example where a clamp cuts it off.
    all_.back().is_whole = true;
  }

  void add_inputs() {
    for (int k = 0; k < kTokenInputs; ++k) {
      const auto input = static_cast<TokenInput>(k);
      const auto at = static_cast<std::size_t>(k);
      if (problem_.inputs[at].empty() || is_whole_number(input)) continue;
      const std::string of = fmt::format("if {}", name(input));
      add_input(of + " were 0: it is left out?", at,
                [](std::vector<float>& values) { std::fill(values.begin(), values.end(), 0.0f); });
      add_input(of + " had the other sign", at, [](std::vector<float>& values) {
        for (float& value : values) value = -value;
      });
      add_input(of + " were that of the next token: it is shifted?", at,
                [](std::vector<float>& values) {
                  std::rotate(values.begin(), values.begin() + 1, values.end());
                });
      add_input(of + " were that of the token before: it is not shifted?", at,
                [](std::vector<float>& values) {
                  std::rotate(values.rbegin(), values.rbegin() + 1, values.rend());
                });
      for (int other = 0; other < kTokenInputs; ++other) {
        const std::vector<float>& values = problem_.inputs[static_cast<std::size_t>(other)];
        const auto with = static_cast<TokenInput>(other);
        if (other == k || values.empty() || is_whole_number(with)) continue;
        add_input(fmt::format("{} were {}", of, name(with)), at,
                  [&](std::vector<float>& own) { own = values; });
      }
    }
  }

  const AlternativeInput& input_;
  const Problem& problem_;
  std::vector<Mask> masks_;  // masks of rows that have a cause already
  std::vector<Alternative> all_;
};

}  // namespace

std::vector<Alternative> other_rows(const AlternativeInput& input) {
  return Rows(input).take();
}

}  // namespace lossgrid
