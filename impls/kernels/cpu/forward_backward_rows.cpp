// SPDX-License-Identifier: Apache-2.0
// Block i of the previous row becomes a gradient just before block i of this row is read, or at the
// same time: then the previous row and the scratch row are in the second cache, and one scratch row
// is enough for both rows. A block whose exponentials are relative to a shift other than the final
// shift has its own factor.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "impls/kernels/cpu/forward_backward_rows.cpp"
#include <hwy/foreach_target.h>  // compiles this file for every instruction set
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "impls/kernels/cpu/flush_denormals.h"
#include "impls/kernels/cpu/forward_backward_rows.h"
#include "impls/kernels/cpu/memory_streams.h"
#include "impls/kernels/cpu/plain_rows.h"
#include "impls/kernels/cpu/row_parts.h"
#include "impls/kernels/cpu/row_statistics-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

// Used on every processor, because hardware does not prefetch alternating streams. Rows that are
// written in place have shorter blocks and are prefetched for writing, so that reads and writes of
// memory overlap.
inline constexpr std::int64_t kFusedPrefetchBytes = 4096;
inline constexpr std::int64_t kInPlaceBlockSize = kBlockSize / 2;
inline constexpr std::int64_t kLeastSideBySideBytes = 32768;

/// Block of the previous row, whose gradient is e times factor.
template <typename T>
struct FinishedBlock {
  const float* e;
  float factor;
  T* to;
};

/// Blocks of one row that are computed side by side, and the blocks of the previous row at the same
/// places.
template <std::size_t kPlaces, typename T>
struct SweptBlocks {
  const T* x[kPlaces];
  const T* ahead[kPlaces];  // addresses to prefetch
  float* e[kPlaces];        // exponentials; may be x, or e of `previous`
  FinishedBlock<T> previous[kPlaces];
};

/// Sets e to 2^t for `count` elements, a multiple of kLanes, and `sums` to their sums. If
/// kHasPrevious, writes the gradients of `previous`. Steps of all blocks and of both rows
/// alternate, so that the processor follows several streams of memory, and reads, computes and
/// writes at the same time.
template <bool kFused, bool kInPlace, bool kStream, bool kHasPrevious, std::size_t kPlaces,
          typename T>
HWY_INLINE void sweep_blocks(const SweptBlocks<kPlaces, T>& blocks, std::int64_t count, float by,
                             float (&sums)[kPlaces]) {
  const Floats d;
  const FloatVector shift = hn::Set(d, by);
  FloatVector lanes[kPlaces][kVectors];
  each_index<kPlaces>([&](auto p) LOSSGRID_INLINED {
    each_vector([&](auto k) LOSSGRID_INLINED { lanes[p][k] = hn::Zero(d); });
  });
  for (std::int64_t i = 0; i < count; i += kLanes) {
    each_index<kPlaces>([&](auto p) LOSSGRID_INLINED {
      const FinishedBlock<T>& previous = blocks.previous[p];
      FloatVector finished[kVectors];
      FloatVector values[kVectors];
      prefetch_lanes<kInPlace>(blocks.ahead[p] + i, 0);
      if constexpr (kHasPrevious) load_lanes(previous.e + i, finished);
      load_lanes(blocks.x[p] + i, values);
      each_vector([&](auto k) LOSSGRID_INLINED {
        if constexpr (kHasPrevious) finished[k] = hn::Mul(finished[k], hn::Set(d, previous.factor));
        values[k] = add_exp2(distance<kFused>(values[k], shift), lanes[p][k]);
      });
      if constexpr (kHasPrevious) store_lanes<kStream>(finished, previous.to + i);
      store_lanes<false>(values, blocks.e[p] + i);
    });
  }
  each_index<kPlaces>([&](auto p) LOSSGRID_INLINED { sums[p] = tree_sum(lanes[p]); });
}

template <bool kInPlace, bool kStream, bool kHasPrevious, std::size_t kPlaces, typename T>
HWY_INLINE void sweep(const SweptBlocks<kPlaces, T>& blocks, std::int64_t count,
                      const Exponent& exponent, float (&sums)[kPlaces]) {
  if (exponent.fused) {
    sweep_blocks<true, kInPlace, kStream, kHasPrevious>(blocks, count, exponent.scaled, sums);
  } else {
    sweep_blocks<false, kInPlace, kStream, kHasPrevious>(blocks, count, exponent.shift, sums);
  }
}

/// Sets e to 2^t for `count` elements, a multiple of kLanes; e may be x. Returns their sum.
template <typename T>
HWY_INLINE float exp_block(const T* x, std::int64_t count, const Exponent& exponent, float* e) {
  float sum[1];
  sweep<false, false, false, 1, T>({{x}, {x}, {e}, {}}, count, exponent, sum);
  return sum[0];
}

/// Writes the gradient of `count` elements, a multiple of kLanes.
template <bool kStream, typename T>
HWY_INLINE void finish_lanes(std::int64_t count, const FinishedBlock<T>& block) {
  const Floats d;
  const FloatVector scale = hn::Set(d, block.factor);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    FloatVector values[kVectors];
    load_lanes(block.e + i, values);
    for (FloatVector& value : values) value = hn::Mul(value, scale);
    store_lanes<kStream>(values, block.to + i);
  }
}

/// Fused forward-backward of a thread's rows. The tail of a row is the elements after its last
/// whole lanes.
template <typename T, bool kInPlace>
class ForwardBackward {
 public:
  // False: exponentials overwrite the logits.
  static constexpr bool kKeepsLogits = !kInPlace || sizeof(T) != sizeof(float);
  static constexpr std::int64_t kSize = kKeepsLogits ? kBlockSize : kInPlaceBlockSize;
  static constexpr std::size_t kPlaces = HWY_TARGET <= HWY_AVX3 ? 2 : 1;  // by registers

  ForwardBackward(const LogitsRows& rows, const float* grad, float* scratch,
                  const RowStatistics& out, T* gradient, bool stream)
      : rows_(rows),
        grad_(grad),
        out_(out),
        gradient_(gradient),
        columns_(rows.shard.valid()),
        whole_(columns_ / kLanes * kLanes),
        side_by_side_(
            are_read_side_by_side(columns_ * std::int64_t{sizeof(T)}, kLeastSideBySideBytes)),
        place_(side_by_side_ ? whole_ / (std::int64_t{kPlaces} * kSize) * kSize : 0),
        stream_(stream),
        scratch_(scratch),
        shifts_(scratch + (kKeepsLogits ? whole_ : 0)),
        ahead_(kFusedPrefetchBytes / static_cast<std::int64_t>(sizeof(T))) {}

  void row(std::int64_t r) {
    T* to = gradient_ + r * rows_.shard.width;
    if (rows_.targets[r] < 0) {
      write_nothing(out_, r);
      std::fill_n(to, rows_.shard.width, T(0));
      return;
    }
    const T* x = static_cast<const T*>(rows_.data) + r * rows_.shard.width;
    const std::int64_t y = rows_.targets[r] - rows_.shard.begin;
    const bool owns = rows_.shard.owns(rows_.targets[r]);
    const float logit = owns ? static_cast<float>(x[y]) : 0.0f;
    if (grad_[r] == 0) {
      write_statistics(r, sums_of_row(x, columns_, ahead_), owns, logit);
      std::fill_n(to, rows_.shard.width, T(0));
      return;
    }
    RunningSums running{Exponent(first_shift(x, columns_))};
    float* e = kKeepsLogits ? scratch_ : reinterpret_cast<float*>(to);
    float* shifts = shifts_ + (odd_ ? blocks() : 0);
    for (std::int64_t begin = 0; begin < place_; begin += kSize) {
      run_blocks<kPlaces>(x, begin, kSize, running, e, shifts);
    }
    for (std::int64_t begin = std::int64_t{kPlaces} * place_; begin < whole_; begin += kSize) {
      run_blocks<1>(x, begin, std::min(kSize, whole_ - begin), running, e, shifts);
    }
    finish_tail();
    run_tail(x, running);
    const RowSums sums = finish_row(running, 0);
    write_statistics(r, sums, owns, logit);
    previous_ = {to,
                 e,
                 shifts,
                 running.exponent.offset(),
                 -static_cast<double>(grad_[r]) / running.sum,
                 owns ? y : -1,
                 owns ? grad_[r] * (1.0f - std::exp(logit - sums.shift) / sums.sum) : 0.0f};
    odd_ = !odd_;
  }

  /// Writes the gradient of the last row.
  void finish() {
    for (std::int64_t begin = 0; begin < whole_; begin += kSize) {
      finish_block(begin, std::min(kSize, whole_ - begin));
    }
    finish_tail();
    if (stream_) hwy::FlushStream();
  }

 private:
  /// Row whose exponentials are complete and whose gradient is not written yet.
  struct PreviousRow {
    T* to = nullptr;  // null: no previous row
    const float* e = nullptr;
    const float* shifts = nullptr;  // [blocks]
    double offset = 0;              // offset of its final shift
    double factor = 0;              // - g / s relative to the final shift
    std::int64_t target = -1;       // column, -1: another shard owns it
    float target_gradient = 0;
  };

  std::int64_t blocks() const { return (whole_ + kSize - 1) / kSize; }

  void write_statistics(std::int64_t r, const RowSums& sums, bool owns, float logit) {
    out_.shift[r] = sums.shift;
    out_.sum[r] = sums.sum;
    out_.target[r] = owns ? distance_to(logit, sums.shift) : 0.0f;
  }

  /// Raises the shift if it is too low or not known yet. Called before exponentials overwrite
  /// logits, after which a repetition is impossible.
  static void raise_shift(float largest, RunningSums& running) {
    constexpr float kLargestDistance = 8.0f;
    if (largest == -kInfinity) return;
    const bool too_low = largest > running.exponent.shift + kLargestDistance;
    if (too_low || running.knows_nothing()) running.move(largest);
  }

  /// Computes the exponentials of a block at every place, `begin` elements after the start of the
  /// place, and writes the gradients of these blocks of the previous row.
  template <std::size_t kBlocks>
  void run_blocks(const T* x, std::int64_t begin, std::int64_t count, RunningSums& running,
                  float* e, float* shifts) {
    SweptBlocks<kBlocks, T> blocks;
    for (std::size_t p = 0; p < kBlocks; ++p) {
      const std::int64_t at = begin + static_cast<std::int64_t>(p) * place_;
      // After the end of a place follows its start in the next row.
      const bool within = kBlocks == 1 || begin + ahead_ < place_;
      const std::int64_t ahead = within ? ahead_ : ahead_ + rows_.shard.width - place_;
      blocks.x[p] = x + at;
      blocks.ahead[p] = blocks.x[p] + ahead;
      blocks.e[p] = e + at;
      // First, because its latency passes while the previous row is finished.
      if (!kKeepsLogits || running.knows_nothing()) {
        raise_shift(largest_of(blocks.x[p], count, kKeepsLogits ? 0 : ahead), running);
      }
      if (previous_.to != nullptr) {
        if (side_by_side_) {
          blocks.previous[p] = block_of_previous(at);
        } else {
          finish_block(at, count);
        }
      }
    }
    float sums[kBlocks];
    if (previous_.to == nullptr || !side_by_side_) {
      sweep<kInPlace, false, false>(blocks, count, running.exponent, sums);
    } else if (stream_) {
      sweep<kInPlace, true, true>(blocks, count, running.exponent, sums);
    } else {
      sweep<kInPlace, false, true>(blocks, count, running.exponent, sums);
    }
    bool moved = false;
    for (std::size_t p = 0; p < kBlocks; ++p) {
      if (HWY_UNLIKELY(moved)) {
        sums[p] = exp_block(blocks.x[p], count, running.exponent, blocks.e[p]);
      }
      if (HWY_UNLIKELY(kKeepsLogits && is_too_large(sums[p]))) {
        running.move(largest_of(blocks.x[p], count, 0));
        sums[p] = exp_block(blocks.x[p], count, running.exponent, blocks.e[p]);
        moved = true;
      }
      running.sum += sums[p];
      shifts[(begin + static_cast<std::int64_t>(p) * place_) / kSize] = running.exponent.shift;
    }
  }

  void run_tail(const T* x, RunningSums& running) {
    if (whole_ == columns_) return;
    const Tail<T> tail(x + whole_, columns_ - whole_);
    raise_shift(largest_of(tail.elements, kLanes, 0), running);
    running.sum += exp_block(tail.elements, kLanes, running.exponent, tail_);
  }

  float shift_factor(float shift) const {
    const double offset = Exponent(shift).offset();
    const double to_last_shift =
        offset == previous_.offset ? 1 : std::exp2(offset - previous_.offset);
    return static_cast<float>(previous_.factor * to_last_shift);
  }

  FinishedBlock<T> block_of_previous(std::int64_t begin) const {
    return {previous_.e + begin, shift_factor(previous_.shifts[begin / kSize]),
            previous_.to + begin};
  }

  void finish_block(std::int64_t begin, std::int64_t count) {
    if (previous_.to == nullptr) return;
    if (stream_) {
      finish_lanes<true>(count, block_of_previous(begin));
    } else {
      finish_lanes<false>(count, block_of_previous(begin));
    }
  }

  /// Finishes the previous row after its last block: tail, target, padding.
  void finish_tail() {
    if (previous_.to == nullptr) return;
    T* to = previous_.to;
    if (whole_ < columns_) {
      alignas(64) T scaled[kLanes];
      finish_lanes<false, T>(kLanes, {tail_, static_cast<float>(previous_.factor), scaled});
      std::copy_n(scaled, columns_ - whole_, to + whole_);
    }
    if (previous_.target >= 0) to[previous_.target] = static_cast<T>(previous_.target_gradient);
    std::fill(to + columns_, to + rows_.shard.width, T(0));
    previous_.to = nullptr;
  }

  const LogitsRows& rows_;
  const float* grad_;
  const RowStatistics& out_;
  T* gradient_;
  const std::int64_t columns_;
  const std::int64_t whole_;
  const bool side_by_side_;
  const std::int64_t place_;  // elements of each of kPlaces parts of a row; 0: one block at a time
  const bool stream_;
  float* scratch_;
  float* shifts_;  // [2, blocks]
  const std::int64_t ahead_;
  PreviousRow previous_;
  bool odd_ = false;
  alignas(64) float tail_[kLanes];
};

template <typename T, bool kInPlace>
void fused_in(const LogitsRows& rows, const float* grad, float* scratch, const RowStatistics& out,
              void* gradient, bool stream, const RowPart& part) {
  const FlushDenormals flush;
  ForwardBackward<T, kInPlace> fused(rows, grad, scratch, out, static_cast<T*>(gradient), stream);
  for (std::int64_t r = part.first(); r < rows.rows; r = part.next(r)) fused.row(r);
  fused.finish();
}

template <typename T>
void fused_part(const LogitsRows& rows, const float* grad, float* scratch, const RowStatistics& out,
                void* gradient, bool stream, const RowPart& part) {
  if (gradient == rows.data) {
    fused_in<T, true>(rows, grad, scratch, out, gradient, stream, part);
  } else {
    fused_in<T, false>(rows, grad, scratch, out, gradient, stream, part);
  }
}

void fused_f32(const LogitsRows& rows, const float* grad, float* scratch, const RowStatistics& out,
               void* gradient, bool stream, const RowPart& part) {
  fused_part<float>(rows, grad, scratch, out, gradient, stream, part);
}
void fused_bf16(const LogitsRows& rows, const float* grad, float* scratch, const RowStatistics& out,
                void* gradient, bool stream, const RowPart& part) {
  fused_part<bf16>(rows, grad, scratch, out, gradient, stream, part);
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lossgrid {
namespace {

constexpr std::int64_t kLine = 16;  // floats in 64 bytes

/// Returns the scratch of a thread, rounded up to whole cache lines, so that threads do not share
/// one.
std::int64_t scratch_of_thread(DType dtype, std::int64_t columns, bool in_place) {
  const std::int64_t blocks = columns / HWY_NAMESPACE::kInPlaceBlockSize + 1;  // at most
  const bool keeps_logits = dtype != DType::f32 || !in_place;
  const std::int64_t floats = (keeps_logits ? columns : 0) + 2 * blocks;
  return (floats + kLine - 1) / kLine * kLine + kLine;
}

}  // namespace

HWY_EXPORT(fused_f32);
HWY_EXPORT(fused_bf16);

std::int64_t forward_backward_scratch_floats(DType dtype, const VocabShard& shard, bool in_place) {
  return rank_threads() * scratch_of_thread(dtype, shard.valid(), in_place);
}

void cpu_forward_backward(const LogitsRows& rows, const float* grad, std::span<float> scratch,
                          const RowStatistics& out, void* gradient) {
  const bool in_place = gradient == rows.data;
  const std::int64_t of_thread = scratch_of_thread(rows.dtype, rows.shard.valid(), in_place);
  // Only if rows are whole lines, since each row must start at a line.
  const std::int64_t bytes = rows.shard.width * static_cast<std::int64_t>(size_of(rows.dtype));
  const bool stream = rows.streams(gradient) && bytes % 64 == 0 &&
                      reinterpret_cast<std::uintptr_t>(gradient) % 64 == 0;
  for_each_part(rows.rows, [&](const RowPart& part) {
    float* own = scratch.data() + part.part * of_thread;
    if (rows.dtype == DType::bf16) {
      HWY_DYNAMIC_DISPATCH(fused_bf16)(rows, grad, own, out, gradient, stream, part);
    } else {
      HWY_DYNAMIC_DISPATCH(fused_f32)(rows, grad, own, out, gradient, stream, part);
    }
  });
}

}  // namespace lossgrid
#endif
