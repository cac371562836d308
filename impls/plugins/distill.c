/* SPDX-License-Identifier: Apache-2.0
 *
 * Distillation: the mean over the trained tokens of KL(teacher || student), from logits of the
 * student, and of the teacher its logits or hidden states and weight. Forward: one all-reduce over
 * TP for the maxima of both, one for their sums, one over CP for the loss. */
#include <stdlib.h>

#include "elements.h"

/* State of a pack on a rank. Arrays of rows have the student's, then the teacher's part. */
typedef struct {
  const lossgrid_context* context;
  int64_t rows;
  double* max;    /* [2 rows] */
  double* sums;   /* [3 rows]: of exp(z - max) of both, then of the teacher's times (y - z) */
  void* hidden;   /* [rows, N] of the teacher with sequence parallelism, else null */
  double* logits; /* [2 own ids] of one row: z of the student, y of the teacher */
} distill_state;

static double temperature_of(const distill_state* state, int64_t row) {
  const lossgrid_context* context = state->context;
  if (!context->problem->sequence_temperatures) return context->problem->temperature;
  const int64_t* sequence = context->array(context, "sequence")->data;
  const float* temperatures = context->array(context, "temperatures")->data;
  const int64_t position = ((const int64_t*)context->positions->data)[row];
  return context->problem->temperature * temperatures[sequence[position]];
}

static double teacher_logit(const distill_state* state, const lossgrid_inputs* inputs, int64_t row,
                            int64_t column) {
  if (inputs->teacher_logits != NULL) return load(inputs->teacher_logits, row, column);
  DLTensor hidden = *inputs->teacher_hidden;
  if (state->hidden != NULL) hidden.data = state->hidden; /* of all rows */
  double sum = 0;
  for (int64_t n = 0; n < hidden.shape[1]; ++n) {
    sum += load(&hidden, row, n) * load(inputs->teacher_weight, column, n);
  }
  return sum;
}

/* Writes z and y of a row; both are -inf for ids that a teacher with a top k does not send. */
static void read_row(distill_state* state, const lossgrid_inputs* inputs, int64_t row) {
  const lossgrid_problem* problem = state->context->problem;
  const int64_t ids = inputs->logits->shape[1];
  const double temperature = temperature_of(state, row);
  const double cap = problem->logit_softcap;
  for (int64_t c = 0; c < ids; ++c) {
    const double x = problem->logit_scale * load(inputs->logits, row, c);
    const double y = teacher_logit(state, inputs, row, c);
    const int is_sent = !problem->teacher_topk || y != -INFINITY;
    const double capped = cap > 0 && !isinf(x) ? cap * tanh(x / cap) : x;
    state->logits[c] = is_sent ? capped / temperature : -INFINITY;
    state->logits[ids + c] = y / temperature;
  }
}

static int is_trained_on(const distill_state* state, int64_t row) {
  return ((const uint8_t*)state->context->valid->data)[row];
}

/* Gathers the teacher's hidden states over TP where its ranks have parts of them. */
static int gather_hidden(distill_state* state, const lossgrid_inputs* inputs) {
  const DLTensor* own = inputs->teacher_hidden;
  if (state->hidden == NULL || own == NULL) return LOSSGRID_OK;
  const lossgrid_communicator* tp = state->context->tp;
  const int dtype = own->dtype.code == kDLBfloat ? LOSSGRID_BF16 : LOSSGRID_F32;
  return tp->all_gather(tp, own->data, state->hidden, (size_t)(own->shape[0] * own->shape[1]),
                        dtype);
}

static int forward(void* plan, const lossgrid_inputs* inputs, lossgrid_outputs* outputs,
                   int needs_gradient, lossgrid_error* error) {
  distill_state* state = plan;
  const lossgrid_context* context = state->context;
  const int64_t rows = state->rows;
  const int64_t ids = inputs->logits->shape[1];
  const double* z = state->logits;
  const double* y = state->logits + ids;
  (void)needs_gradient;
  int code = gather_hidden(state, inputs);
  if (code != LOSSGRID_OK) return code;
  for (int64_t row = 0; row < rows; ++row) {
    double* max = state->max + row;
    max[0] = max[rows] = -INFINITY;
    if (!is_trained_on(state, row)) continue;
    read_row(state, inputs, row);
    for (int64_t c = 0; c < ids; ++c) {
      max[0] = fmax(max[0], z[c]);
      max[rows] = fmax(max[rows], y[c]);
    }
  }
  code = reduce(context->tp, state->max, 2 * rows, LOSSGRID_MAX, error);
  if (code != LOSSGRID_OK) return code;
  for (int64_t row = 0; row < rows; ++row) {
    const double* max = state->max + row;
    double* sums = state->sums + row;
    sums[0] = sums[rows] = sums[2 * rows] = 0;
    if (!is_trained_on(state, row)) continue;
    read_row(state, inputs, row);
    for (int64_t c = 0; c < ids; ++c) {
      const double q = exp(y[c] - max[rows]);
      sums[0] += exp(z[c] - max[0]);
      sums[rows] += q;
      if (q > 0) sums[2 * rows] += q * (y[c] - max[rows] - z[c] + max[0]);
    }
  }
  code = reduce(context->tp, state->sums, 3 * rows, LOSSGRID_SUM, error);
  if (code != LOSSGRID_OK) return code;
  double loss = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const double* sums = state->sums + row;
    if (!is_trained_on(state, row)) continue;
    loss += sums[2 * rows] / sums[rows] + log(sums[0] / sums[rows]);
  }
  code = reduce(context->cp, &loss, 1, LOSSGRID_SUM, error);
  outputs->loss = loss / fmax(1, (double)context->problem->global_valid_tokens);
  return code;
}

/* d loss / d logit = (p - q) dz / d logit / N. */
static int backward(void* plan, const lossgrid_inputs* inputs, const lossgrid_upstream* upstream,
                    const lossgrid_gradients* gradients, lossgrid_error* error) {
  distill_state* state = plan;
  const lossgrid_problem* problem = state->context->problem;
  const int64_t ids = inputs->logits->shape[1];
  (void)error;
  for (int64_t row = 0; row < state->rows; ++row) {
    const double* max = state->max + row;
    const double* sums = state->sums + row;
    const int is_trained = is_trained_on(state, row);
    const double temperature = temperature_of(state, row);
    const double cap = problem->logit_softcap;
    const double share = upstream->loss / (double)problem->global_valid_tokens;
    if (is_trained) read_row(state, inputs, row);
    for (int64_t c = 0; c < ids; ++c) {
      double gradient = 0;
      const double z = state->logits[c];
      if (is_trained && !isinf(z)) {
        const double p = exp(z - max[0]) / sums[0];
        const double q = exp(state->logits[ids + c] - max[state->rows]) / sums[state->rows];
        const double bend = cap > 0 ? 1 - pow(z * temperature / cap, 2) : 1;
        gradient = share * (p - q) * problem->logit_scale / temperature * bend;
      }
      store(gradients->logits, row, c, gradient);
    }
  }
  return LOSSGRID_OK;
}

static void destroy(void* plan) {
  distill_state* state = plan;
  const lossgrid_context* context = state->context;
  void* const memory[] = {state->max, state->sums, state->hidden, state->logits};
  for (size_t k = 0; k < sizeof(memory) / sizeof(*memory); ++k) {
    context->release(context, memory[k]);
  }
  free(state);
}

static int make_plan(void* user, const lossgrid_context* context, void** plan,
                     lossgrid_error* error) {
  (void)user;
  distill_state* state = calloc(1, sizeof(distill_state));
  if (state == NULL) return LOSSGRID_OUT_OF_MEMORY;
  const lossgrid_problem* problem = context->problem;
  const size_t rows = (size_t)problem->own_rows;
  const size_t ids = (size_t)(problem->vocab_end - problem->vocab_start);
  const int is_gathered = problem->sequence_parallel && problem->teacher_hidden > 0;
  state->context = context;
  state->rows = problem->own_rows;
  state->max = context->allocate(context, 2 * rows * sizeof(double), "row_max");
  state->sums = context->allocate(context, 3 * rows * sizeof(double), "row_sums");
  state->logits = context->allocate(context, 2 * ids * sizeof(double), "row_of_logits");
  if (is_gathered) {
    state->hidden = context->allocate(
        context, rows * (size_t)(problem->teacher_hidden * problem->teacher_dtype.bits / 8),
        "gathered_hidden");
  }
  if (state->max == NULL || state->sums == NULL || state->logits == NULL ||
      (is_gathered && state->hidden == NULL)) {
    destroy(state);
    fail(error, "no memory for the rows");
    return LOSSGRID_OUT_OF_MEMORY;
  }
  *plan = state;
  return LOSSGRID_OK;
}

static int supports(void* user, const lossgrid_problem* problem, char* reason, size_t size,
                    lossgrid_error* error) {
  (void)user;
  (void)error;
  static const char* const needed[] = {"\"kind\":\"distill\"", "\"kl_type\":\"forward\"",
                                       "\"zero_outside_topk\":false", "\"loss_mode\":null",
                                       "\"distillation_add_tail\":false"};
  for (size_t k = 0; k < sizeof(needed) / sizeof(*needed); ++k) {
    if (strstr(problem->objective, needed[k]) != NULL) continue;
    snprintf(reason, size, "is distill with %s alone", needed[k]);
    return LOSSGRID_OK;
  }
  if (problem->dtype.bits == 64) snprintf(reason, size, "float64 is not written");
  if (problem->device.device_type != kDLCPU) snprintf(reason, size, "runs on processors");
  return LOSSGRID_OK;
}

static const lossgrid_description* describe(void* user) {
  static const lossgrid_description description = {
      .struct_size = sizeof(lossgrid_description),
      .name = "c_distill",
      .summary = "the mean KL from a teacher's logits, or its hidden states and weight",
      .returns = "loss",
      .takes = "transforms,sequence_temperatures,teacher,teacher_hidden,layouts"};
  (void)user;
  return &description;
}

LOSSGRID_EXPORT const lossgrid_plugin* lossgrid_plugin_entry(void) {
  static const lossgrid_implementation distill = {.struct_size = sizeof(distill),
                                                  .describe = describe,
                                                  .supports = supports,
                                                  .plan = make_plan,
                                                  .forward = forward,
                                                  .backward = backward,
                                                  .destroy = destroy};
  static const lossgrid_implementation* const all[] = {&distill};
  static const lossgrid_plugin plugin = {LOSSGRID_PLUGIN_ABI_VERSION, sizeof(lossgrid_plugin), all,
                                         1};
  return &plugin;
}
