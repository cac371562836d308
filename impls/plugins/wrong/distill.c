/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrong twins of distill.c: each makes one mistake with the teacher. */
#define lossgrid_plugin_entry right_entry
#include "../distill.c"
#undef lossgrid_plugin_entry

#define FORWARD_ARGUMENTS                                                                   \
  void *plan, const lossgrid_inputs *inputs, lossgrid_outputs *outputs, int needs_gradient, \
      lossgrid_error *error
#define BACKWARD_ARGUMENTS                                                      \
  void *plan, const lossgrid_inputs *inputs, const lossgrid_upstream *upstream, \
      const lossgrid_gradients *gradients, lossgrid_error *error

/* Every row has the teacher of the first one. */
static DLTensor first_row(const DLTensor* tensor, int64_t* strides) {
  DLTensor first = *tensor;
  strides[0] = 0;
  strides[1] = tensor->strides[1];
  first.strides = strides;
  return first;
}
static int teacher_of_first_row(FORWARD_ARGUMENTS) {
  int64_t strides[2];
  lossgrid_inputs other = *inputs;
  const int is_made = inputs->teacher_hidden != NULL;
  const DLTensor first =
      first_row(is_made ? inputs->teacher_hidden : inputs->teacher_logits, strides);
  if (is_made) {
    other.teacher_hidden = &first;
  } else {
    other.teacher_logits = &first;
  }
  return forward(plan, &other, outputs, needs_gradient, error);
}

/* The teacher's sums are those of the own ids. */
static int own_part(const lossgrid_communicator* self, void* data, size_t count, int dtype,
                    int op) {
  const lossgrid_communicator* tp = self->host;
  const size_t rows = count / 3;
  if (op == LOSSGRID_MAX) return tp->all_reduce(tp, data, count, dtype, op);
  return tp->all_reduce(tp, data, rows, dtype, op);
}
static int teacher_of_own_ids(FORWARD_ARGUMENTS) {
  distill_state* state = plan;
  const lossgrid_context* right = state->context;
  lossgrid_communicator tp = *right->tp;
  lossgrid_context context = *right;
  tp.all_reduce = own_part;
  tp.host = (void*)right->tp;
  context.tp = &tp;
  state->context = &context;
  const int code = forward(plan, inputs, outputs, needs_gradient, error);
  state->context = right;
  return code;
}

/* The gradient is that of the student's part alone, without -q. */
static int forgets_teacher(BACKWARD_ARGUMENTS) {
  distill_state* state = plan;
  double* sums = state->sums + state->rows;
  for (int64_t row = 0; row < state->rows; ++row) sums[row] = INFINITY;
  return backward(plan, inputs, upstream, gradients, error);
}

static int changes_teacher(BACKWARD_ARGUMENTS) {
  const DLTensor* teacher =
      inputs->teacher_weight != NULL ? inputs->teacher_weight : inputs->teacher_logits;
  const int code = backward(plan, inputs, upstream, gradients, error);
  if (teacher->shape[0] * teacher->shape[1] > 0) store(teacher, 0, 0, 7);
  return code;
}

#define TWIN(twin, ...)                                                                \
  static const lossgrid_description* describe_##twin(void* user) {                     \
    static lossgrid_description description;                                           \
    (void)user;                                                                        \
    description.struct_size = sizeof(description);                                     \
    description.name = "twin_" #twin;                                                  \
    description.returns = "loss";                                                      \
    description.takes = "transforms,sequence_temperatures,teacher,teacher_hidden";     \
    return &description;                                                               \
  }                                                                                    \
  static const lossgrid_implementation twin_##twin = {sizeof(lossgrid_implementation), \
                                                      NULL,                            \
                                                      describe_##twin,                 \
                                                      supports,                        \
                                                      NULL,                            \
                                                      make_plan,                       \
                                                      __VA_ARGS__,                     \
                                                      destroy}

TWIN(teacher_of_first_row, teacher_of_first_row, backward);
TWIN(teacher_of_own_ids, teacher_of_own_ids, backward);
TWIN(forgets_teacher, forward, forgets_teacher);
TWIN(changes_teacher, forward, changes_teacher);

LOSSGRID_EXPORT const lossgrid_plugin* lossgrid_plugin_entry(void) {
  static const lossgrid_implementation* const all[] = {
      &twin_teacher_of_first_row, &twin_teacher_of_own_ids, &twin_forgets_teacher,
      &twin_changes_teacher};
  static const lossgrid_plugin plugin = {LOSSGRID_PLUGIN_ABI_VERSION, sizeof(lossgrid_plugin), all,
                                         sizeof(all) / sizeof(*all)};
  return &plugin;
}
