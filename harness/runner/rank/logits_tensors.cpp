// SPDX-License-Identifier: Apache-2.0
// Tensors of packs that start from logits: a shard [T_c, V_t] and a gradient of the same shape,
// every element of which has a truth.
#include <atomic>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/device/memory/host_view.h"
#include "harness/device/parallel_fingerprint.h"
#include "harness/runner/rank/rank_tensors.h"

namespace lossgrid {
namespace {

class LogitsTensors final : public RankTensors {
 public:
  explicit LogitsTensors(const RankPack& pack)
      : pack_(pack),
        shard_(vocab_shard(pack.problem.spec.vocab, pack.loss_problem.grid.tp, pack.rank.tp_rank)),
        logits_(pack.device.allocate(bytes(), "logits", MemorySpace::device)),
        teacher_(pack),
        mask_(pack) {
    fill();
  }

  LossInputs inputs() const override {
    LossInputs inputs{.logits = logits_.data(), .kept = mask_.data()};
    teacher_.add_to(inputs);
    return inputs;
  }

  std::uint64_t input_bits() const override {
    return parallel_fingerprint(HostView(logits_).bytes()) + teacher_.bits() + mask_.bits();
  }

  std::optional<SkipReason> shift(double amount) override {
    // Small problems only: it costs another forward pass.
    constexpr std::int64_t kLimitElements = std::int64_t{1} << 20;
    const Problem& problem = pack_.problem;
    if (problem.spec.dtype == DType::bf16) return SkipReason{"bf16 rounds the shift away"};
    if (problem.tokens() * problem.spec.vocab > kLimitElements) {
      return SkipReason{"more than 2^20 logits"};
    }
    const HostView logits(logits_);
    dispatch_floating(problem.spec.dtype, [&](auto zero) {
      for (auto& x : logits.as<decltype(zero)>()) {
        x = static_cast<decltype(zero)>(static_cast<double>(x) + amount);
      }
    });
    logits.write_back();
    return std::nullopt;
  }

  void halve() override { lossgrid::halve(logits_, pack_.problem.spec.dtype); }

  void keep_inputs() override {
    kept_ = pack_.device.allocate(bytes(), "logits_copy", MemorySpace::device);
    pack_.device.copy(kept_.data(), logits_.data(), bytes());
  }

  void restore_inputs() override {
    if (kept_.data() == nullptr) return fill();
    pack_.device.copy(logits_.data(), kept_.data(), bytes());
  }

  void set_in_place(bool in_place) override { in_place_ = in_place; }

  void allocate_gradients() override {
    if (!in_place_) {
      grad_ = pack_.device.allocate(bytes(), "grad_logits", MemorySpace::device);
    }
  }

  /// In place there is nothing to poison: the inputs stand there.
  void restore_gradients() override {
    if (!in_place_) grad_.poison();
  }

  void renew_gradients() override { restore_gradients(); }

  LossGradients gradients() override {
    return {in_place_ ? logits_.data() : grad_.data(), nullptr, nullptr};
  }

  std::map<std::string, std::uint64_t> gradient_bits(const Truth& truth) const override {
    const std::size_t element = size_of(pack_.problem.spec.dtype);
    const std::size_t stride = static_cast<std::size_t>(shard_.width) * element;
    const std::size_t valid_bytes = static_cast<std::size_t>(shard_.valid()) * element;
    const HostView gradients(gradient());
    std::atomic<std::uint64_t> bits = 0;
    const auto add_row = [&](std::size_t k) {
      // Only rows that take part: a dummy holds rows of another pack.
      const std::int64_t row = pack_.rows[k].row;
      if (row < 0 || !truth.rows[row].valid) return;
      const auto place = static_cast<std::uint64_t>(pack_.problem.whole_row(row)) * 4096 +
                         static_cast<std::uint64_t>(pack_.rank.tp_rank);
      bits += fingerprint({gradients.data() + k * stride, valid_bytes}, place);
    };
    parallel_for(static_cast<std::int64_t>(pack_.rows.size()),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t k = begin; k < end; ++k) add_row(static_cast<std::size_t>(k));
                 });
    return {{"grad_logits", bits}};
  }

  void check(const GradientTruth& truth, PackFindings& findings) const override {
    findings.grad_logits =
        check_gradient(pack_.problem, truth.truth, pack_.rows, shard_, HostView(gradient()).data(),
                       truth.serial_adds, pack_.rank.rank);
    const GradientFindings& found = *findings.grad_logits;
    const auto where = [&](std::int64_t count) {
      return describe_misplaced(count, found.first_misplaced);
    };
    findings.add_invariant(kEveryElementWritten, found.not_written == 0, where(found.not_written));
    findings.add_invariant(kMaskedRowsZero, found.nonzero_masked == 0, where(found.nonzero_masked));
    findings.add_invariant(kPaddedVocabZero, found.nonzero_padding == 0,
                           where(found.nonzero_padding));
  }

  std::vector<InvariantEntry> gradient_invariants() const override {
    return {kEveryElementWritten, kMaskedRowsZero, kPaddedVocabZero};
  }

  std::vector<double> row_gradient() const override {
    return as_doubles(gradient(), pack_.problem.spec.dtype);
  }

  std::pair<std::vector<double>, std::vector<double>> weight_gradients() const override {
    return {};
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(pack_.loss_problem.logits_bytes()); }

  const Buffer& gradient() const { return in_place_ ? logits_ : grad_; }

  void fill() {
    const HostView logits(logits_);
    fill_logits_shard(pack_.problem, pack_.loss_problem.grid, pack_.rank.tp_rank,
                      pack_.rank.cp_rank, logits.data());
    logits.write_back();
  }

  RankPack pack_;
  VocabShard shard_;
  Buffer logits_;
  TeacherTensors teacher_;
  MaskTensor mask_;
  Buffer kept_;
  Buffer grad_;
  bool in_place_ = false;
};

}  // namespace

std::unique_ptr<RankTensors> make_logits_tensors(const RankPack& pack) {
  return std::make_unique<LogitsTensors>(pack);
}

}  // namespace lossgrid
