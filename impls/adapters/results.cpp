// SPDX-License-Identifier: Apache-2.0
// results:file=R.safetensors: plays back the results of another program, to judge code that runs
// elsewhere. The file holds the results of the whole batch, and every rank takes its part. With
// "{r}" in its name, which stands for the rank of the grid, there is one file per rank with the
// rank's results: rows [T_c] of the padded pack in its order, and its vocabulary shard [V_t],
// padding columns included.
#include <algorithm>
#include <limits>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/device/memory/host_view.h"
#include "harness/loss/registry.h"
#include "harness/problem/bundle/recorded_results.h"
#include "impls/adapters/file_part.h"
#include "impls/kernels/rows.h"

namespace lossgrid {
namespace {

constexpr std::string_view kRank = "{r}";

bool is_by_rank(const std::string& file) {
  return file.find(kRank) != std::string::npos;
}

std::string file_of_rank(std::string file, int rank) {
  for (std::size_t at = file.find(kRank); at != std::string::npos; at = file.find(kRank)) {
    file.replace(at, kRank.size(), std::to_string(rank));
  }
  return file;
}

/// Returns the objective's metrics of an empty batch: their names and reductions.
Metrics empty_metrics(const LossProblem& problem) {
  const ObjectiveSizes sizes = problem.objective.sizes();
  const std::int64_t sequences = problem.batch.sequences();
  const auto zeros = [](std::int64_t count) {
    return std::vector<double>(static_cast<std::size_t>(count), 0.0);
  };
  const std::vector<double> sums = zeros(sequences * sizes.sequence_sums);
  const std::vector<double> coefficients = zeros(sequences * sizes.coefficients);
  const std::vector<double> totals = zeros(sizes.sums);
  const std::vector<double> maxima(static_cast<std::size_t>(sizes.maxima),
                                   -std::numeric_limits<double>::infinity());
  const auto table = [&](const std::vector<double>& values, int columns) {
    return SequenceTable<const double>(values.data(), sequences, columns, columns);
  };
  Metrics metrics = problem.objective
                        .finish(problem.batch, table(sums, sizes.sequence_sums),
                                table(coefficients, sizes.coefficients), {totals, maxima})
                        .metrics;
  problem.objective.add_derived(metrics);
  return metrics;
}

class ResultsPlan final : public LossPlan {
 public:
  ResultsPlan(const LossProblem& problem, RankContext context, RecordedResults results,
              FilePart part)
      : problem_(problem),
        device_(context.device),
        results_(std::move(results)),
        part_(std::move(part)) {}

  void forward(const LossInputs& /*inputs*/, LossOutputs& outputs) override {
    write_column("logprobs", outputs.tokens.logprobs);
    write_column("entropy", outputs.tokens.terms[RowTerm::entropy]);
    outputs.owned_labels = 0;
    outputs.result.loss = results_.loss().value_or(0);
    outputs.result.metrics.clear();
    const Metrics known = empty_metrics(problem_);
    for (const auto& [name, value] : results_.metrics()) {
      Metric metric = known.at(name);
      metric.amount = value.value_or(0);
      metric.count = value ? 1 : 0;
      outputs.result.metrics[name] = metric;
    }
  }

  void backward(const LossInputs& /*inputs*/, LossGradients& gradients) override {
    if (!results_.has_gradients()) return;
    if (!problem_.from_hidden()) {
      return write_rows("grad_logits", part_.rows, {part_.vocab, part_.first_column, part_.columns},
                        problem_.width(), gradients.logits);
    }
    const std::int64_t size = problem_.head.hidden;
    write_rows("grad_hidden", part_.hidden, {size, 0, size}, size, gradients.hidden);
    if (part_.has_weight) add_weight(gradients.weight);
    if (part_.has_weight && problem_.head.has_bias) add_bias(gradients.bias);
  }

 private:
  /// Returns the columns of a tensor of the file.
  struct Columns {
    std::int64_t all;
    std::int64_t first;
    std::int64_t count;
  };

  void write_column(const char* name, std::span<float> out) const {
    if (!results_.has(name)) return;
    for (std::size_t k = 0; k < out.size(); ++k) {
      double value = 0;
      if (part_.about[k] >= 0) results_.read(name, part_.about[k], std::span(&value, 1));
      out[k] = static_cast<float>(value);
    }
  }

  /// Reads a part. Pads, and columns that the file does not have, become zero.
  void write_rows(const char* name, const std::vector<std::int64_t>& rows, const Columns& columns,
                  std::int64_t width, void* out) const {
    std::vector<double> row(static_cast<std::size_t>(width));
    const auto taken = std::span(row).first(static_cast<std::size_t>(columns.count));
    dispatch_floating(problem_.dtype, [&](auto element) {
      using T = decltype(element);
      const HostView view(device_, out, rows.size() * row.size() * sizeof(T));
      T* next = view.as<T>().data();
      for (const std::int64_t k : rows) {
        std::fill(row.begin(), row.end(), 0.0);
        if (k >= 0) results_.read(name, k * columns.all + columns.first, taken);
        next = std::transform(row.begin(), row.end(), next, [&](double value) {
          return static_cast<T>(round_to(problem_.dtype, value));
        });
      }
      view.write_back();
    });
  }

  void add_weight(float* out) const {
    const std::int64_t size = problem_.head.hidden;
    const std::int64_t width = problem_.width();
    const bool by_id = problem_.head.layout == WeightLayout::vocab_hidden;
    const HostView view(device_, out,
                        static_cast<std::size_t>(problem_.weight_elements()) * sizeof(float));
    const std::span<float> gradient = view.as<float>();
    std::vector<double> row(static_cast<std::size_t>(size));
    for (std::int64_t column = 0; column < part_.columns; ++column) {
      results_.read("grad_weight", (part_.first_column + column) * size, row);
      for (std::int64_t h = 0; h < size; ++h) {
        const std::int64_t at = by_id ? column * size + h : h * width + column;
        gradient[static_cast<std::size_t>(at)] +=
            static_cast<float>(row[static_cast<std::size_t>(h)]);
      }
    }
    view.write_back();
  }

  void add_bias(float* out) const {
    const HostView view(device_, out,
                        static_cast<std::size_t>(problem_.bias_elements()) * sizeof(float));
    std::vector<double> values(static_cast<std::size_t>(part_.columns));
    results_.read("grad_bias", part_.first_column, values);
    for (std::size_t k = 0; k < values.size(); ++k) {
      view.as<float>()[k] += static_cast<float>(values[k]);
    }
    view.write_back();
  }

  const LossProblem& problem_;
  Device& device_;
  const RecordedResults results_;
  const FilePart part_;
};

class Results final : public LossImplementation {
 public:
  explicit Results(const ImplementationOptions& options)
      : file_(file_in(options)), first_(read(0)) {}

  ImplementationTraits describe() const override {
    ImplementationTraits traits{"results", kSummary, LogprobScope::shard, kStatisticsSerialAdds};
    traits.claims_run_to_run = traits.claims_packing = false;
    traits.inputs = inputs();
    traits.plays_back = true;
    Outputs& outputs = traits.outputs;
    outputs.logprobs = first_.has("logprobs");
    outputs.entropy = first_.has("entropy");
    outputs.vocab_range = false;
    outputs.terms = false;
    outputs.loss = first_.has("loss");
    outputs.owned_labels = false;
    outputs.gradients = first_.has_gradients();
    outputs.metrics.emplace();
    for (const auto& [name, value] : first_.metrics()) outputs.metrics->insert(name);
    return traits;
  }

  std::optional<SkipReason> unsupported(const LossProblem& problem) const override {
    if (problem.grid.dp > 1 || problem.batch.microbatch.count > 1) {
      return SkipReason{"plays back a batch as a whole: one dp rank, one microbatch"};
    }
    if (is_by_rank(file_) && problem.grid.pp > 1) {
      return SkipReason{"plays back files of ranks of one pipeline stage"};
    }
    return std::nullopt;
  }

  void require_fits(const LossProblem& problem) const override {
    if (unsupported(problem)) return;
    const int files = is_by_rank(file_) ? problem.grid.tp * problem.grid.cp : 1;
    for (int rank = 0; rank < files; ++rank) require_file_fits(problem, read(rank));
  }

  Cost cost(const LossProblem& /*problem*/) const override { return {}; }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    const int tp_rank = context.tp.rank();
    const int cp_rank = context.cp.rank();
    if (!is_by_rank(file_)) {
      return std::make_unique<ResultsPlan>(problem, context, first_,
                                           part_of_whole_file(problem, tp_rank, cp_rank));
    }
    const int rank = cp_rank * problem.grid.tp + tp_rank;
    return std::make_unique<ResultsPlan>(problem, context, read(rank), part_of_rank_file(problem));
  }

  static constexpr const char* kSummary =
      "plays back results of another program: results:file=R.safetensors, or one file a rank, "
      "results:file=R.rank{r}.safetensors";

 private:
  static std::string file_in(const ImplementationOptions& options) {
    require_known_options(options, {"file"}, "results");
    const auto file = options.find("file");
    if (file == options.end() || file->second.empty()) {
      throw_bad_input("results: the file is missing: results:file=R.safetensors");
    }
    return file->second;
  }

  RecordedResults read(int rank) const { return RecordedResults::read(file_of_rank(file_, rank)); }

  /// Without a gradient in the file, both kinds of inputs are supported.
  InputKind inputs() const {
    if (!first_.has_gradients()) return InputKind::either;
    return first_.has("grad_logits") ? InputKind::logits : InputKind::hidden;
  }

  void require_file_fits(const LossProblem& problem, const RecordedResults& file) const {
    const bool by_rank = is_by_rank(file_);
    if (file.names() != first_.names()) {
      throw_bad_input("{}: it holds {}, must hold what {} does: {}", file.path(),
                      join(file.names(), ", "), first_.path(), join(first_.names(), ", "));
    }
    const FilePart part = by_rank ? part_of_rank_file(problem) : part_of_whole_file(problem, 0, 0);
    const std::int64_t hidden = problem.head.hidden;
    const auto require = [&](const char* name, const std::vector<std::int64_t>& shape,
                             const char* whole, const char* of_rank) {
      if (file.has(name)) file.require_shape(name, shape, by_rank ? of_rank : whole);
    };
    require("logprobs", {part.tokens}, "[T]", "[T_c]");
    require("entropy", {part.tokens}, "[T]", "[T_c]");
    require("grad_logits", {part.tokens, part.vocab}, "[T, V]", "[T_c, V_t]");
    require("grad_hidden", {part.hidden_rows, hidden}, "[T, H]", "[hidden rows, H]");
    require("grad_weight", {part.vocab, hidden}, "[V, H]", "[V_t, H]");
    require("grad_bias", {part.vocab}, "[V]", "[V_t]");
    std::vector<std::pair<const char*, const char*>> together{{"grad_hidden", "grad_weight"},
                                                              {"grad_weight", "grad_hidden"},
                                                              {"grad_bias", "grad_weight"}};
    if (problem.head.has_bias) together.emplace_back("grad_weight", "grad_bias");
    for (const auto& [here, other] : together) {
      if (file.has(here) && !file.has(other)) {
        throw_bad_input("{}: tensor \"{}\" is missing, must be there beside \"{}\"", file.path(),
                        other, here);
      }
    }
    if (file.has("grad_bias") && !problem.head.has_bias) {
      throw_bad_input("{}: it holds grad_bias, and the LM head has no bias", file.path());
    }
    require_known_metrics(problem, file);
  }

  void require_known_metrics(const LossProblem& problem, const RecordedResults& file) const {
    std::vector<std::string> known;
    for (const auto& [name, metric] : empty_metrics(problem)) known.push_back(name);
    for (const auto& [name, value] : file.metrics()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      throw_bad_input("{}: __metadata__.metrics: {}", file.path(),
                      unknown_name_message("metric", name, known));
    }
  }

  std::string file_;
  RecordedResults first_;  // results of the whole batch, or of rank 0
};

const Registered registered_results{ImplementationEntry{
    "results", ImplementationKind::recorded, "", Results::kSummary,
    [](const ImplementationOptions& options) { return std::make_unique<Results>(options); }}};

}  // namespace
}  // namespace lossgrid
