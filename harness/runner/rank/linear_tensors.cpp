// SPDX-License-Identifier: Apache-2.0
// Tensors of packs that start from hidden states, weight and bias of the lm_head. The gradient of
// the hidden states is compared with its truth here, those of weight and bias only once all packs
// have added to them; but their invariants are checked after every pack: padding ids are left
// alone, no NaN.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/device/memory/host_view.h"
#include "harness/device/parallel_fingerprint.h"
#include "harness/runner/rank/rank_tensors.h"
#include "harness/runner/rank/weight_gradient.h"
#include "harness/verify/checks/unwritten.h"

namespace lossgrid {
namespace {

const RegisteredInvariant kGradientsFinite{
    {.name = "gradients_finite",
     .condition = "gradients of hidden states, weight and bias are finite wherever they have no "
                  "truth of their own",
     .place = 8}};

/// Returns the rows of the CP rank that this rank holds: with sequence parallelism one of tp equal
/// parts.
std::span<const RowPlace> own_part(const RankPack& pack) {
  const auto count = static_cast<std::size_t>(pack.loss_problem.hidden_rows());
  const bool split = pack.loss_problem.grid.sp;
  return pack.rows.subspan(split ? static_cast<std::size_t>(pack.rank.tp_rank) * count : 0, count);
}

constexpr std::uint64_t kBiasBits = 3;  // place of the bias in a fingerprint of the inputs

/// Elements of the gradients of weight and bias that are wrong whatever the truth is.
struct WeightFaults {
  std::int64_t not_written = 0;      // poison of an output that was added
  std::int64_t not_finite = 0;       // other NaN and infinities
  std::int64_t changed_padding = 0;  // ids beyond the vocabulary
  ElementPlace first;

  std::int64_t all() const { return not_written + not_finite + changed_padding; }
  /// Adds those of later places.
  void add(const WeightFaults& more) {
    if (all() == 0) first = more.first;
    not_written += more.not_written;
    not_finite += more.not_finite;
    changed_padding += more.changed_padding;
  }
};

class LinearTensors final : public RankTensors {
 public:
  explicit LinearTensors(const RankPack& pack)
      : pack_(pack),
        places_(weight_places(pack.problem.spec, pack.loss_problem.grid, pack.rank.tp_rank)),
        rows_(own_part(pack)),
        hidden_(pack.device.allocate(hidden_bytes(), "hidden", MemorySpace::device)),
        weight_(pack.device.allocate(
            static_cast<std::size_t>(places_.elements() * pack.loss_problem.element_bytes()),
            "weight", MemorySpace::device)),
        teacher_(pack),
        mask_(pack) {
    if (places_.has_bias) {
      bias_ = pack.device.allocate(
          static_cast<std::size_t>(places_.bias_elements() * pack.loss_problem.element_bytes()),
          "bias", MemorySpace::device);
    }
    restore_inputs();
  }

  LossInputs inputs() const override {
    LossInputs inputs{.hidden = hidden_.data(),
                      .weight = weight_.data(),
                      .bias = bias_.data(),
                      .kept = mask_.data()};
    teacher_.add_to(inputs);
    return inputs;
  }

  std::uint64_t input_bits() const override {
    const std::uint64_t bias_bits =
        places_.has_bias ? fingerprint(HostView(bias_).bytes(), kBiasBits) : 0;
    return parallel_fingerprint(HostView(hidden_).bytes()) +
           parallel_fingerprint(HostView(weight_).bytes(), 1) + bias_bits + teacher_.bits() +
           mask_.bits();
  }

  std::optional<SkipReason> shift(double /*amount*/) override {
    return SkipReason{"starts from hidden states"};
  }

  void halve() override { lossgrid::halve(hidden_, pack_.problem.spec.dtype); }

  /// Nothing takes the place of hidden states, weight or bias.
  void keep_inputs() override {}

  void restore_inputs() override {
    const Grid& grid = pack_.loss_problem.grid;
    const HostView hidden(hidden_);
    fill_hidden_shard(pack_.problem, grid, pack_.rank.tp_rank, pack_.rank.cp_rank, hidden.data());
    hidden.write_back();
    const HostView weight(weight_);
    fill_weight_shard(pack_.problem, grid, pack_.rank.tp_rank, weight.data());
    weight.write_back();
    if (!places_.has_bias) return;
    const HostView bias(bias_);
    fill_bias_shard(pack_.problem, grid, pack_.rank.tp_rank, bias.data());
    bias.write_back();
  }

  void set_in_place(bool /*in_place*/) override {}

  void allocate_gradients() override {
    grad_hidden_ = pack_.device.allocate(hidden_bytes(), "grad_hidden", MemorySpace::device);
    grad_weight_ = DeviceArray<float>(pack_.device, static_cast<std::size_t>(places_.elements()),
                                      "grad_weight", MemorySpace::device);
    if (places_.has_bias) {
      grad_bias_ =
          DeviceArray<float>(pack_.device, static_cast<std::size_t>(places_.bias_elements()),
                             "grad_bias", MemorySpace::device);
    }
    write_before();
  }

  void restore_gradients() override {
    grad_hidden_.poison();
    write_before();
  }

  void renew_gradients() override {
    grad_hidden_.poison();
    swap_before(grad_weight_, 0);
    if (places_.has_bias) swap_before(grad_bias_, static_cast<std::size_t>(places_.elements()));
  }

  LossGradients gradients() override {
    return {nullptr, grad_hidden_.data(), grad_weight_.data(),
            places_.has_bias ? grad_bias_.data() : nullptr};
  }

  std::map<std::string, std::uint64_t> gradient_bits(const Truth& truth) const override {
    std::map<std::string, std::uint64_t> bits{{"grad_hidden", hidden_bits(truth)},
                                              {"grad_weight", weight_bits()}};
    if (places_.has_bias) bits["grad_bias"] = bias_bits();
    return bits;
  }

  void check(const GradientTruth& truth, PackFindings& findings) const override {
    if (truth.grad_hidden) {
      findings.grad_hidden =
          check_grad_hidden(pack_.problem, truth.truth, rows_, HostView(grad_hidden_).data(),
                            truth.grad_logits, pack_.rank.rank);
    }
    const LinearFindings hidden = findings.grad_hidden.value_or(LinearFindings{});
    const WeightFaults weight = find_weight_faults();
    const ElementPlace& first_unwritten =
        hidden.not_written > 0 ? hidden.first_misplaced : weight.first;
    findings.add_invariant(
        kEveryElementWritten, hidden.not_written + weight.not_written == 0,
        describe_misplaced(hidden.not_written + weight.not_written, first_unwritten));
    findings.add_invariant(kMaskedRowsZero, hidden.nonzero_masked == 0,
                           describe_misplaced(hidden.nonzero_masked, hidden.first_misplaced));
    findings.add_invariant(kPaddedVocabZero, weight.changed_padding == 0,
                           describe_misplaced(weight.changed_padding, weight.first));
    const std::int64_t not_finite = truth.grad_hidden ? hidden_not_finite() : 0;
    findings.add_invariant(kGradientsFinite, not_finite + weight.not_finite == 0,
                           fmt::format("rank {}: {} elements of d hidden and {} of {} are not",
                                       pack_.rank.rank, not_finite, weight.not_finite,
                                       places_.has_bias ? "d weight and d bias" : "d weight"));
  }

  std::vector<InvariantEntry> gradient_invariants() const override {
    return {kEveryElementWritten, kMaskedRowsZero, kPaddedVocabZero, kGradientsFinite};
  }

  std::vector<double> row_gradient() const override {
    return as_doubles(grad_hidden_, pack_.problem.spec.dtype);
  }

  std::pair<std::vector<double>, std::vector<double>> weight_gradients() const override {
    std::vector<double> again = as_doubles(grad_weight_.buffer(), DType::f32);
    if (places_.has_bias) {
      const std::vector<double> bias = as_doubles(grad_bias_.buffer(), DType::f32);
      again.insert(again.end(), bias.begin(), bias.end());
    }
    return {again, std::vector<double>(before().begin(), before().end())};
  }

 private:
  std::size_t hidden_bytes() const {
    return static_cast<std::size_t>(pack_.loss_problem.hidden_bytes());
  }

  /// Returns the gradients of weight and bias before this pack.
  std::span<float> before() const { return pack_.rank.weight_gradient; }
  void write_before() {
    const auto elements = static_cast<std::size_t>(places_.elements());
    const std::span<float> weight = before().first(elements);
    pack_.device.copy(grad_weight_.data(), weight.data(), weight.size_bytes());
    if (!places_.has_bias) return;
    const std::span<float> bias = before().subspan(elements);
    pack_.device.copy(grad_bias_.data(), bias.data(), bias.size_bytes());
  }

  /// Swaps a gradient with the part of before() that begins at `begin`.
  void swap_before(const DeviceArray<float>& gradient, std::size_t begin) {
    const HostView view(gradient.buffer());
    const std::span<float> values = view.as<float>();
    std::swap_ranges(values.begin(), values.end(), before().begin() + begin);
    view.write_back();
  }

  std::uint64_t hidden_bits(const Truth& truth) const {
    const std::size_t stride =
        static_cast<std::size_t>(places_.size) * pack_.loss_problem.element_bytes();
    const HostView hidden(grad_hidden_);
    std::uint64_t bits = 0;
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      const std::int64_t row = rows_[k].row;
      if (row < 0 || !truth.rows[row].valid) continue;
      bits += fingerprint({hidden.data() + k * stride, stride},
                          static_cast<std::uint64_t>(pack_.problem.whole_row(row)));
    }
    return bits;
  }

  /// Returns the number of the part of the vocabulary; ranks that hold the same one have the same.
  std::uint64_t vocab_part() const {
    const bool is_cut = pack_.loss_problem.vocab_ranks() > 1;
    return is_cut ? static_cast<std::uint64_t>(pack_.rank.tp_rank) : 0;
  }

  std::uint64_t weight_bits() const {
    const bool by_id = places_.layout == WeightLayout::vocab_hidden;
    const std::int64_t lines = by_id ? places_.shard.valid() : places_.size;
    const std::int64_t length = by_id ? places_.size : places_.shard.valid();
    const std::int64_t stride = by_id ? places_.size : places_.shard.width;
    const HostView weight(grad_weight_.buffer());
    const std::uint64_t part = vocab_part();
    std::atomic<std::uint64_t> bits = 0;
    parallel_for(lines, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) {
        const std::span<const float> line(weight.as<const float>().data() + k * stride,
                                          static_cast<std::size_t>(length));
        bits += fingerprint(std::as_bytes(line), static_cast<std::uint64_t>(k) * 4096 + part);
      }
    });
    return bits;
  }

  std::uint64_t bias_bits() const {
    const HostView bias(grad_bias_.buffer());
    const std::span<const float> valid(bias.as<const float>().data(),
                                       static_cast<std::size_t>(places_.shard.valid()));
    return fingerprint(std::as_bytes(valid), vocab_part());
  }

  WeightFaults find_weight_faults() const {
    const HostView weight(grad_weight_.buffer());
    std::optional<HostView> bias;
    WeightGradient gradient{weight.as<const float>()};
    if (places_.has_bias) gradient.bias = bias.emplace(grad_bias_.buffer()).as<const float>();
    constexpr std::int64_t kBlock = std::int64_t{1} << 16;
    const std::int64_t blocks = (places_.all_elements() + kBlock - 1) / kBlock;
    std::vector<WeightFaults> of_blocks(static_cast<std::size_t>(blocks));
    parallel_for(blocks, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        find_faults(gradient, block * kBlock,
                    std::min((block + 1) * kBlock, places_.all_elements()),
                    of_blocks[static_cast<std::size_t>(block)]);
      }
    });
    WeightFaults faults;
    for (const WeightFaults& more : of_blocks) faults.add(more);
    faults.first.rank = pack_.rank.rank;
    return faults;
  }

  /// Finds the faults of the places [begin, end).
  void find_faults(const WeightGradient& gradient, std::int64_t begin, std::int64_t end,
                   WeightFaults& faults) const {
    const auto count = [&](std::int64_t& counter, std::int64_t place) {
      if (faults.all() == 0) faults.first.vocab_id = places_.shard.begin + places_.column(place);
      ++counter;
    };
    for (std::int64_t place = begin; place < end; ++place) {
      const float got = gradient.at(place);
      if (places_.column(place) >= places_.shard.valid()) {
        if (!(got == before()[static_cast<std::size_t>(place)])) {
          count(faults.changed_padding, place);
        }
      } else if (is_unwritten(got)) {
        count(faults.not_written, place);
      } else if (!std::isfinite(got)) {
        count(faults.not_finite, place);
      }
    }
  }

  /// Counts elements that are not finite, those that were not written among them.
  std::int64_t hidden_not_finite() const {
    const HostView hidden(grad_hidden_);
    std::int64_t count = 0;
    dispatch_floating(pack_.problem.spec.dtype, [&](auto zero) {
      for (const auto& x : hidden.as<decltype(zero)>()) {
        count += std::isfinite(static_cast<double>(x)) ? 0 : 1;
      }
    });
    return count;
  }

  RankPack pack_;
  WeightPlaces places_;
  std::span<const RowPlace> rows_;
  Buffer hidden_;
  Buffer weight_;
  Buffer bias_;  // as its gradient, where the problem has one
  TeacherTensors teacher_;
  MaskTensor mask_;
  Buffer grad_hidden_;
  DeviceArray<float> grad_weight_;
  DeviceArray<float> grad_bias_;
};

}  // namespace

std::unique_ptr<RankTensors> make_linear_tensors(const RankPack& pack) {
  return std::make_unique<LinearTensors>(pack);
}

}  // namespace lossgrid
