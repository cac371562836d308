// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/bundle/recorded_results.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/problem/bundle/bundle_metadata.h"
#include "harness/problem/case/checked_json.h"

namespace lossgrid {
namespace {

constexpr const char* kResultsFormat = "lossgrid.results/1";

const std::vector<std::string>& result_tensors() {
  static const std::vector<std::string> names{
      "entropy", "grad_bias", "grad_hidden", "grad_logits", "grad_weight", "logprobs", "loss"};
  return names;
}

const std::vector<std::string>& floating_dtypes() {
  static const std::vector<std::string> dtypes{"F64", "F32", "BF16"};
  return dtypes;
}

/// True for gradients other than the gradient of a bias.
bool is_matrix(const std::string& name) {
  return name.starts_with("grad_") && name != "grad_bias";
}

/// Checks metadata if present, as other programs need not write it.
void check_metadata(const SafetensorsFile& file) {
  for (const auto& [key, value] : file.metadata()) {
    refuse_misspelt(file.path() + ": __metadata__", key, {"format", "metrics"});
  }
  const auto format = file.metadata().find("format");
  if (format != file.metadata().end() && format->second != kResultsFormat) {
    throw_bad_input("{}: __metadata__.format is {}, must be '{}' or left out", file.path(),
                    printable(format->second), kResultsFormat);
  }
}

std::map<std::string, std::optional<double>> metrics_in(const SafetensorsFile& file) {
  std::map<std::string, std::optional<double>> metrics;
  const auto at = file.metadata().find("metrics");
  if (at == file.metadata().end()) return metrics;
  const std::string what = file.path() + ": __metadata__.metrics";
  const nlohmann::ordered_json json = parse_json_object(at->second, what, 8);
  for (const auto& [key, value] : json.items()) {
    if (!value.is_null() && !value.is_number()) {
      throw_bad_input("{}: {} is neither a number nor null", what, printable(key));
    }
    metrics[key] = value.is_null() ? std::nullopt : std::optional(value.get<double>());
  }
  return metrics;
}

}  // namespace

RecordedResults RecordedResults::read(const std::string& path) {
  RecordedResults results(SafetensorsFile::read(path));
  const SafetensorsFile& file = results.tensors_.file();
  check_metadata(file);
  for (const std::string& name : file.names()) {
    refuse_misspelt(path + ": tensors", name, result_tensors());
  }
  for (const std::string& name : result_tensors()) {
    if (!file.has(name)) continue;
    results.names_.push_back(name);
    results.tensors_.require(name, floating_dtypes(), is_matrix(name) ? 2 : 1);
  }
  results.metrics_ = metrics_in(file);
  if (results.names_.empty() && results.metrics_.empty()) {
    throw_bad_input("{}: it holds no results; tensors {} or __metadata__.metrics must be there",
                    path, join(result_tensors(), ", "));
  }
  if (file.has("loss")) results.require_shape("loss", {1}, "[1]");
  return results;
}

bool RecordedResults::has_gradients() const {
  return std::any_of(names_.begin(), names_.end(),
                     [](const std::string& name) { return name.starts_with("grad_"); });
}

std::optional<double> RecordedResults::loss() const {
  if (!has("loss")) return std::nullopt;
  double loss = 0;
  read("loss", 0, std::span(&loss, 1));
  return loss;
}

void RecordedResults::require_shape(std::string_view name, const std::vector<std::int64_t>& shape,
                                    std::string_view meaning) const {
  tensors_.require(name, floating_dtypes(), shape, meaning);
}

void RecordedResults::read(std::string_view name, std::int64_t begin, std::span<double> out) const {
  const TensorView& view = tensors_.file().tensor(name);
  dispatch_floating(dtype_of_tensor(view.dtype), [&](auto element) {
    using T = decltype(element);
    for (std::size_t k = 0; k < out.size(); ++k) {
      out[k] = static_cast<double>(view.at<T>(begin + static_cast<std::int64_t>(k)));
    }
  });
}

}  // namespace lossgrid
