// SPDX-License-Identifier: Apache-2.0
// Results that some program computed for a batch, in the form that `replay --out` writes: of the
// whole batch, or of the shard of one rank. A file may hold only some of them. Every rule of the
// format is checked here but the values, which are judged by whoever plays them back.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/problem/bundle/bundle_tensors.h"

namespace lossgrid {

class RecordedResults {
 public:
  /// Throws bad_input with one line that names file, tensor or key, and rule: also for a file that
  /// holds nothing that can be judged.
  static RecordedResults read(const std::string& path);

  const std::string& path() const { return tensors_.file().path(); }
  bool has(std::string_view name) const { return tensors_.has(name); }
  bool has_gradients() const;
  /// Names of the tensors of the format that are there, sorted.
  const std::vector<std::string>& names() const { return names_; }

  std::optional<double> loss() const;
  /// Those that are there; null: a metric without a value.
  const std::map<std::string, std::optional<double>>& metrics() const { return metrics_; }

  /// Throws bad_input unless the tensor is F64, F32 or BF16 of this shape; `meaning`: "[T, V]".
  void require_shape(std::string_view name, const std::vector<std::int64_t>& shape,
                     std::string_view meaning) const;
  /// out := the elements from `begin` on.
  void read(std::string_view name, std::int64_t begin, std::span<double> out) const;

 private:
  explicit RecordedResults(SafetensorsFile file) : tensors_(std::move(file)) {}

  BundleTensors tensors_;
  std::vector<std::string> names_;
  std::map<std::string, std::optional<double>> metrics_;
};

}  // namespace lossgrid
