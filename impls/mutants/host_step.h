// SPDX-License-Identifier: Apache-2.0
// Adapters that run a wrong step, written for host memory, on tensors of a GPU: on copies, with the
// CPU kernels for the part of the step that stays right.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "harness/core/process/heap_watch.h"
#include "harness/device/memory/host_view.h"
#include "harness/problem/values/sampling_mask.h"
#include "impls/kernels/rows.h"

namespace lossgrid {

/// `HostRows`: logits that the host can read, the given ones or a copy. A step that works on them
/// may take rows from the heap: it is plain code, and memory is not its mistake.
class HostRows {
 public:
  explicit HostRows(const LogitsRows& rows) : rows_(rows) {
    if (rows.device == nullptr || rows.device->host_reads(rows.data)) return;
    view_.emplace(*rows.device, rows.data, bytes());
    rows_.data = view_->data();
    if (rows.kept != nullptr) {
      kept_.emplace(*rows.device, rows.kept, kept_bytes());
      rows_.kept = kept_->as<const std::uint64_t>().data();
    }
    rows_.device = nullptr;
  }

  const LogitsRows& rows() const { return rows_; }

  /// Calls f(void* out) with host memory [rows, width]. It begins with the contents of `out`, which
  /// may be the logits, and is written back to it.
  template <typename F>
  void with_output(Device* device, void* out, bool in_place, F&& f) const {
    if (!view_) return f(out);
    const HostView written = HostView(*device, out, bytes());
    f(in_place ? view_->data() : written.data());
    if (in_place) std::copy_n(view_->data(), bytes(), written.data());
    written.write_back();
  }

 private:
  std::size_t bytes() const {
    return static_cast<std::size_t>(rows_.rows * rows_.shard.width) * size_of(rows_.dtype);
  }

  std::size_t kept_bytes() const {
    return static_cast<std::size_t>(rows_.rows * mask_words(rows_.shard.width)) * 8;
  }

  HeapWatchScope unwatched_{nullptr};
  LogitsRows rows_;
  std::optional<HostView> view_;
  std::optional<HostView> kept_;
};

/// Steps::statistics, run on the host.
template <auto kStep>
std::int64_t statistics_on_host(const LogitsRows& rows, const RowStatistics& out) {
  return kStep(HostRows(rows).rows(), out);
}

template <auto kStep>
void gradient_on_host(const LogitsRows& rows, const RowSoftmax& softmax,
                      const RowGradients& gradients, void* out) {
  const HostRows host(rows);
  host.with_output(rows.device, out, out == rows.data,
                   [&](void* to) { kStep(host.rows(), softmax, gradients, to); });
}

template <auto kStep>
std::int64_t sweep_on_host(const LogitsRows& rows, const float* grad, std::span<float> scratch,
                           const RowStatistics& out, void* gradient) {
  const HostRows host(rows);
  const bool in_place = gradient == rows.data;
  std::vector<float> own;
  if (host.rows().device != rows.device) {
    own.resize(static_cast<std::size_t>(
        forward_backward_scratch_floats(rows.dtype, rows.shard, in_place)));
    scratch = own;
  }
  std::int64_t owned = 0;
  host.with_output(rows.device, gradient, in_place,
                   [&](void* to) { owned = kStep(host.rows(), grad, scratch, out, to); });
  return owned;
}

}  // namespace lossgrid
