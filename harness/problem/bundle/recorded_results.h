// SPDX-License-Identifier: Apache-2.0
// `RecordedResults`: results of a program for a batch, in the format of `replay --out`, for the
// whole batch or for the shard of one rank. A file may hold only some of the results. Every rule of
// the format is checked here, but values are judged by the implementation `results`.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/problem/bundle/bundle_tensors.h"

namespace lossgrid {

/// Results of one file.
class RecordedResults {
 public:
  /// Reads and checks a file. Throws bad_input with one line that names file, tensor or key, and
  /// rule; also for a file without any result to judge.
  static RecordedResults read(const std::string& path);

  const std::string& path() const { return tensors_.file().path(); }
  bool has(std::string_view name) const { return tensors_.has(name); }
  bool has_gradients() const;
  /// Returns the sorted names of the file's tensors that belong to the format.
  const std::vector<std::string>& names() const { return names_; }

  std::optional<double> loss() const;
  /// Returns the metrics of the file; nullopt for a metric without a value.
  const std::map<std::string, std::optional<double>>& metrics() const { return metrics_; }

  /// Throws bad_input unless the tensor is F64, F32 or BF16 of this shape; `meaning` explains the
  /// shape ("[T, V]").
  void require_shape(std::string_view name, const std::vector<std::int64_t>& shape,
                     std::string_view meaning) const;
  /// Reads the elements from `begin` on into `out`.
  void read(std::string_view name, std::int64_t begin, std::span<double> out) const;

 private:
  explicit RecordedResults(SafetensorsFile file) : tensors_(std::move(file)) {}

  BundleTensors tensors_;
  std::vector<std::string> names_;
  std::map<std::string, std::optional<double>> metrics_;
};

}  // namespace lossgrid
