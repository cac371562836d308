// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/reductions.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/hunt/setting.h"
#include "harness/problem/batch/case_rules.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/case/case_keys.h"

namespace lossgrid {
namespace {

/// `Smaller`: the list of smaller trials while it is made.
class Smaller {
 public:
  explicit Smaller(const FailingTrial& trial) : trial_(trial) {}

  /// Adds the trial that `change` makes, if it differs and breaks no rule.
  void add(const std::function<void(FailingTrial&)>& change) {
    FailingTrial smaller = trial_;
    change(smaller);
    const bool is_same = smaller.spec == trial_.spec && smaller.grids == trial_.grids &&
                         smaller.implementation == trial_.implementation;
    if (!is_same && !first_refusal(smaller.spec)) trials_.push_back(std::move(smaller));
  }

  std::vector<FailingTrial> take() { return std::move(trials_); }

 private:
  const FailingTrial& trial_;
  std::vector<FailingTrial> trials_;
};

void add_smaller_grids(const FailingTrial& trial, Smaller& smaller) {
  if (trial.grids.size() > 1) {
    smaller.add([](FailingTrial& t) { t.grids = {t.grids.back()}; });
    smaller.add([](FailingTrial& t) { t.grids = {t.grids.front(), t.grids.back()}; });
  }
  for (std::size_t k = 0; k < trial.grids.size(); ++k) {
    smaller.add([k](FailingTrial& t) { t.grids[k] = Grid(); });
    for (int Grid::*axis : {&Grid::pp, &Grid::dp, &Grid::cp, &Grid::tp}) {
      smaller.add([k, axis](FailingTrial& t) { t.grids[k].*axis = 1; });
      smaller.add([k, axis](FailingTrial& t) { t.grids[k].*axis = std::min(t.grids[k].*axis, 2); });
    }
    smaller.add([k](FailingTrial& t) { t.grids[k].sp = false; });
    smaller.add([k](FailingTrial& t) { t.grids[k].cp_layout = CpLayout::zigzag; });
  }
}

void add_fewer_settings(const FailingTrial& trial, Smaller& smaller) {
  smaller.add([](FailingTrial& t) {
    t.implementation = t.implementation.substr(0, t.implementation.find(':'));
  });
  smaller.add([](FailingTrial& t) {
    if (t.spec.head != Head::lm) t.spec.vocab = 8;
    t.spec.head = Head::lm;
    t.spec.objective = ObjectiveSpec();
    t.spec.teacher_topk = 0;
    t.spec.teacher_hidden = 0;
  });
  smaller.add([](FailingTrial& t) { t.spec.objective.options.clear(); });
  for (const Setting& setting : settings_of(trial.spec, Grid())) {
    // A mask of all tokens is smaller than the default, which masks some.
    if (setting.kind == SettingKind::objective || setting.key == "mask") continue;
    smaller.add([&setting](FailingTrial& t) { t.spec = without(t.spec, setting); });
  }
}

/// Lengths and bits of a case with explicit ones.
struct Sequences {
  std::vector<std::int64_t> lengths;
  std::vector<std::string> bits;  // empty unless the mask is one of bits
  std::string sample_bits;        // empty unless the sample mask is one of bits

  explicit Sequences(const CaseSpec& spec) : lengths(parse_lengths(spec.lens)) {
    const auto is_of_bits = [](const std::string& text) {
      return text.find_first_not_of("01+") == std::string::npos;
    };
    if (is_of_bits(spec.mask)) bits = split(spec.mask, '+');
    if (is_of_bits(spec.sample_mask)) sample_bits = spec.sample_mask;
  }

  void erase(std::size_t begin, std::size_t count) {
    const auto cut = [&](auto& list) {
      if (list.empty()) return;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(begin),
                 list.begin() + static_cast<std::ptrdiff_t>(begin + count));
    };
    cut(lengths);
    cut(bits);
    cut(sample_bits);
  }

  void shorten(std::size_t k, std::int64_t length) {
    lengths[k] = length;
    if (!bits.empty()) bits[k].resize(static_cast<std::size_t>(length));
  }

  void store(CaseSpec& spec) const {
    std::vector<std::string> texts;
    for (const std::int64_t length : lengths) texts.push_back(std::to_string(length));
    spec.lens = join(texts, "+");
    if (!bits.empty()) spec.mask = join(bits, "+");
    if (!sample_bits.empty()) spec.sample_mask = sample_bits;
  }
};

void add_fewer_sequences(const Sequences& sequences, Smaller& smaller) {
  const std::size_t count = sequences.lengths.size();
  for (const std::size_t some : {count / 2, std::size_t{2}, std::size_t{1}}) {
    if (some == 0 || some >= count) continue;
    for (std::size_t begin = 0; begin + some <= count; begin += some) {
      smaller.add([&sequences, begin, some](FailingTrial& t) {
        Sequences fewer = sequences;
        fewer.erase(begin, some);
        fewer.store(t.spec);
      });
    }
  }
}

void add_shorter_sequences(const Sequences& sequences, Smaller& smaller) {
  for (std::size_t k = 0; k < sequences.lengths.size(); ++k) {
    const std::int64_t length = sequences.lengths[k];
    for (const std::int64_t shorter : {std::int64_t{1}, std::int64_t{2}, length / 2, length - 1}) {
      if (shorter < 1 || shorter >= length) continue;
      smaller.add([&sequences, k, shorter](FailingTrial& t) {
        Sequences changed = sequences;
        changed.shorten(k, shorter);
        changed.store(t.spec);
      });
    }
  }
}

void add_smaller_sizes(const FailingTrial& trial, Smaller& smaller) {
  const auto add_smaller = [&](std::int64_t CaseSpec::*member, std::int64_t least) {
    const std::int64_t size = trial.spec.*member;
    for (const std::int64_t other : {least, std::int64_t{2}, std::int64_t{4}, size / 2, size - 1}) {
      if (other < least || other >= size) continue;
      smaller.add([member, other](FailingTrial& t) { t.spec.*member = other; });
    }
  };
  add_smaller(&CaseSpec::vocab, 1);
  add_smaller(&CaseSpec::hidden, 1);
  add_smaller(&CaseSpec::microbatches, 1);
}

}  // namespace

std::vector<FailingTrial> smaller_trials(const FailingTrial& trial) {
  Smaller smaller(trial);
  add_smaller_grids(trial, smaller);
  add_fewer_settings(trial, smaller);
  if (!has_explicit_lengths(trial.spec)) {
    smaller.add([](FailingTrial& t) {
      std::vector<std::string> texts;
      for (const std::int64_t length : case_lengths(t.spec))
        texts.push_back(std::to_string(length));
      t.spec.lens = join(texts, "+");
      t.spec.seqs = CaseSpec().seqs;
      t.spec.seq_len = CaseSpec().seq_len;
    });
  } else {
    const Sequences sequences(trial.spec);
    add_fewer_sequences(sequences, smaller);
    add_shorter_sequences(sequences, smaller);
  }
  add_smaller_sizes(trial, smaller);
  smaller.add([](FailingTrial& t) { t.spec.mask = "all"; });
  smaller.add([](FailingTrial& t) { t.spec.seed = CaseSpec().seed; });
  return smaller.take();
}

}  // namespace lossgrid
