// SPDX-License-Identifier: Apache-2.0
#include "impls/toolkit/objective_pass.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lossgrid {
namespace {

std::int64_t number_count(const LossProblem& problem) {
  const ObjectiveSizes sizes = problem.objective.sizes();
  return problem.batch.sequences() * (sizes.sequence_sums + sizes.coefficients) + sizes.sums +
         sizes.maxima;
}

/// Returns the number of rows by which tokens are selected.
std::int64_t selection_rows(const LossProblem& problem) {
  return problem.objective.needs().selects ? problem.rows() : 0;
}

std::int64_t selection_number_count(const LossProblem& problem) {
  return selection_rows(problem) * problem.objective.sizes().selection_numbers;
}

/// Returns the number of partial totals of the kernels' blocks.
std::int64_t partial_total_count(const LossProblem& problem) {
  if (problem.objective.kernels(problem.backend, problem.batch) == nullptr) return 0;
  const ObjectiveSizes sizes = problem.objective.sizes();
  return partial_total_blocks(problem.rows()) * (sizes.sums + sizes.maxima);
}

void add_reduction(std::int64_t numbers, CollectiveCounts& cp) {
  if (numbers == 0) return;
  cp.add(Collective::all_reduce, 1, numbers * static_cast<std::int64_t>(sizeof(double)));
}

}  // namespace

ObjectivePass::ObjectivePass(Device& device, const LossProblem& problem, const Steps& steps)
    : device_(device),
      problem_(problem),
      steps_(steps),
      kernels_(problem.objective.kernels(problem.backend, problem.batch)),
      launches_token_terms_(kernels_ != nullptr && steps.token_terms == Steps().token_terms),
      partial_totals_(device, static_cast<std::size_t>(partial_total_count(problem)),
                      "objective_sums", MemorySpace::device),
      numbers_(device, static_cast<std::size_t>(number_count(problem)), "objective_sums"),
      selection_numbers_(device, static_cast<std::size_t>(selection_number_count(problem)),
                         "selection"),
      selected_(device, static_cast<std::size_t>(selection_rows(problem)), "selection") {
  const ObjectiveSizes sizes = problem.objective.sizes();
  const std::int64_t sequences = problem.batch.sequences();
  double* next = numbers_.data();
  sums_ = {next, sequences, sizes.sequence_sums, sizes.sequence_sums};
  next += sequences * sizes.sequence_sums;
  coefficients_ = {next, sequences, sizes.coefficients, sizes.coefficients};
  next += sequences * sizes.coefficients;
  totals_.sums = {next, static_cast<std::size_t>(sizes.sums)};
  next += sizes.sums;
  totals_.maxima = {next, static_cast<std::size_t>(sizes.maxima)};
}

std::int64_t ObjectivePass::bytes(const LossProblem& problem) {
  return (number_count(problem) + partial_total_count(problem) + selection_number_count(problem)) *
             static_cast<std::int64_t>(sizeof(double)) +
         selection_rows(problem);
}

ObjectiveResult ObjectivePass::run(const ObjectiveTokens& tokens, const TokenGradients& gradients) {
  begin();
  add_sequences(tokens);
  make_coefficients();
  add_tokens(tokens, gradients);
  return result();
}

ObjectiveResult ObjectivePass::run_local(Communicator& cp, const ObjectiveTokens& tokens,
                                         const TokenGradients& gradients) {
  gradient_alone(cp, tokens, gradients);
  if (problem_.grid.cp > 1) reduce_totals(cp);
  return result();
}

void ObjectivePass::gradient_alone(Communicator& cp, const ObjectiveTokens& tokens,
                                   const TokenGradients& gradients) {
  begin();
  add_sequences(tokens);
  if (problem_.grid.cp > 1) reduce_sequences(cp);
  make_coefficients();
  add_tokens(tokens, gradients);
}

void ObjectivePass::wait() {
  if (std::exchange(launched_, false)) device_.synchronise();
}

void ObjectivePass::begin() {
  wait();
  std::fill(numbers_.begin(), numbers_.end(), 0.0);
  std::fill(selection_numbers_.begin(), selection_numbers_.end(), 0.0);
  std::fill(totals_.maxima.begin(), totals_.maxima.end(), -std::numeric_limits<double>::infinity());
}

void ObjectivePass::add_sequences(const ObjectiveTokens& tokens) {
  if (selection_numbers_.size() > 0) {
    device_.synchronise();
    problem_.objective.selection_numbers(tokens,
                                         {selection_numbers_.data(), selection_numbers_.size()});
  }
  if (sums_.columns == 0) return;
  if (kernels_ != nullptr) {
    kernels_->sequence_sums(device_, tokens, sums_);
    launched_ = true;
  } else {
    device_.synchronise();
    problem_.objective.sequence_sums(tokens, problem_.batch, sums_);
  }
}

void ObjectivePass::reduce_sequences(Communicator& cp) {
  wait();
  steps_.reduce_sequence_sums(cp, sums_);
  if (selection_numbers_.size() > 0) {
    steps_.reduce_selection(cp, {selection_numbers_.data(), selection_numbers_.size()});
  }
  launched_ = true;  // if the transport is a GPU's
}

void ObjectivePass::make_coefficients() {
  if (selected_.size() > 0) {
    wait();
    problem_.objective.select(problem_.batch,
                              {selection_numbers_.data(), selection_numbers_.size()},
                              {selected_.data(), selected_.size()});
  }
  if (coefficients_.columns == 0) return;
  wait();
  problem_.objective.coefficients(problem_.batch, sums_, coefficients_);
}

void ObjectivePass::add_tokens(const ObjectiveTokens& rows, const TokenGradients& gradients) {
  ObjectiveTokens tokens = rows;
  tokens.selected = {selected_.data(), selected_.size()};
  if (launches_token_terms_) {
    kernels_->token_terms(device_, tokens, coefficients_, totals_, gradients,
                          partial_totals_.data());
    launched_ = true;
    return;
  }
  device_.synchronise();
  for (const std::span<float> column : gradients.columns()) {
    std::fill(column.begin(), column.end(), 0.0f);
  }
  steps_.token_terms(problem_.objective, tokens, problem_.batch, problem_.grid.cp, coefficients_,
                     totals_, gradients);
}

void ObjectivePass::reduce_totals(Communicator& cp) {
  wait();
  steps_.reduce_totals(cp, totals_);
  launched_ = true;  // if the transport is a GPU's
}

ObjectiveResult ObjectivePass::result() {
  wait();
  return steps_.finish(problem_.objective, problem_.batch, problem_.grid.cp, sums_, coefficients_,
                       {totals_.sums, totals_.maxima});
}

void ObjectivePass::add_sequence_reduction(const LossProblem& problem, CollectiveCounts& cp) {
  add_reduction(problem.batch.sequences() * problem.objective.sizes().sequence_sums, cp);
  add_reduction(selection_number_count(problem), cp);
}

void ObjectivePass::add_reductions(const LossProblem& problem, CollectiveCounts& cp) {
  const ObjectiveSizes sizes = problem.objective.sizes();
  add_sequence_reduction(problem, cp);
  add_reduction(sizes.sums, cp);
  add_reduction(sizes.maxima, cp);
}

}  // namespace lossgrid
