// SPDX-License-Identifier: Apache-2.0
// The list of the invariants of a trial: properties that need no truth to be judged by. Findings of
// ranks, reports, `lossgrid list invariants` and docs/verification.md take them from here.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace lossgrid {

enum class InvariantId {
  logprobs_nonpositive,
  entropy_in_range,
  every_element_written,
  guard_bands_intact,
  inputs_unmodified,
  masked_rows_zero,
  padded_vocab_zero,
  gradients_finite,
  gradient_rows_sum_to_zero,
  shift_invariance,
  same_bits_on_all_ranks,
  owned_labels_sum_to_valid_tokens,
  same_gradient_on_replicas,
  same_loss_on_replicas,
  gradient_slices_cover,
  one_microbatch_in_memory,
  microbatches_in_flight,
  evaluation_as_training,
  plan_frees_its_memory,
  memory_from_device,
  scale_identity,
};

struct InvariantEntry {
  InvariantId id;
  const char* name;       // in reports
  const char* condition;  // that holds, for a reader
};

/// In the order of InvariantId.
inline constexpr auto kInvariants = std::to_array<InvariantEntry>({
    {InvariantId::logprobs_nonpositive, "logprobs_nonpositive",
     "log-probabilities are at most 0; not run for heads without a vocabulary"},
    {InvariantId::entropy_in_range, "entropy_in_range",
     "entropies are in [0, ln V]; not run for heads without a vocabulary"},
    {InvariantId::every_element_written, "every_element_written", "outputs are written completely"},
    {InvariantId::guard_bands_intact, "guard_bands_intact",
     "nothing is written outside of the buffers"},
    {InvariantId::inputs_unmodified, "inputs_unmodified",
     "inputs keep their bits, unless the implementation declares that it overwrites them"},
    {InvariantId::masked_rows_zero, "masked_rows_zero",
     "the gradient is exactly 0 in rows that are not trained on"},
    {InvariantId::padded_vocab_zero, "padded_vocab_zero",
     "the gradient is exactly 0 in padding columns"},
    {InvariantId::gradients_finite, "gradients_finite",
     "gradients of hidden states, weight and bias are finite wherever they have no truth of their "
     "own"},
    {InvariantId::gradient_rows_sum_to_zero, "gradient_rows_sum_to_zero",
     "softmax gradients of a row add up to 0"},
    {InvariantId::shift_invariance, "shift_invariance",
     "a constant that is added to all logits changes nothing; not run for heads without a "
     "vocabulary"},
    {InvariantId::same_bits_on_all_ranks, "same_bits_on_all_ranks",
     "all ranks return the same loss and metrics, and those of the same rows the same numbers by "
     "token, bit by bit"},
    {InvariantId::owned_labels_sum_to_valid_tokens, "owned_labels_sum_to_valid_tokens",
     "each valid target is owned by exactly one TP rank"},
    {InvariantId::same_gradient_on_replicas, "same_gradient_on_replicas",
     "train step (engine): ranks that hold an element of the gradient hold the same bits of the "
     "element"},
    {InvariantId::same_loss_on_replicas, "same_loss_on_replicas",
     "train step (engine): all ranks report the same loss, and ranks that report a metric the same "
     "one"},
    {InvariantId::gradient_slices_cover, "gradient_slices_cover",
     "train step that leaves slices: every element is held, each by the same number of ranks, and "
     "not by all ranks"},
    {InvariantId::one_microbatch_in_memory, "one_microbatch_in_memory",
     "buffers of a microbatch are gone before the next one"},
    {InvariantId::microbatches_in_flight, "microbatches_in_flight",
     "the gradient stays if another microbatch has its forward in front of this one's backward"},
    {InvariantId::evaluation_as_training, "evaluation_as_training",
     "loaded code: a forward pass without gradients returns what one with gradients does"},
    {InvariantId::plan_frees_its_memory, "plan_frees_its_memory",
     "plugin: the end of a plan frees all that it has allocated"},
    {InvariantId::memory_from_device, "memory_from_device",
     "plan, forward and backward take no row or more from the heap, where no device accounts for "
     "it"},
    {InvariantId::scale_identity, "scale_identity",
     "case with a framework: the factors of an implementation's own scale give the framework's "
     "loss"},
});

inline std::string name(InvariantId id) {
  return kInvariants[static_cast<std::size_t>(id)].name;
}

/// True if every entry stands at its own place.
constexpr bool are_in_order(const auto& entries) {
  for (std::size_t k = 0; k < entries.size(); ++k) {
    if (entries[k].id != static_cast<InvariantId>(k)) return false;
  }
  return true;
}
static_assert(are_in_order(kInvariants));

}  // namespace lossgrid
